"""A simulated platform makes the quotes that the fakes hand out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from affiant.attestation.simulated.boot import Image
from affiant.attestation.simulated.platform import SimulatedPlatform

REPORT_DATA = hashlib.sha512(b"a statement").digest()


def random_bytes(size: int) -> bytes:
    return hashlib.shake_256(b"names").digest(size)


@pytest.fixture(scope="session")
def quoting() -> Callable[[bytes], bytes]:
    """Report data -> quote of one TD."""
    platform = SimulatedPlatform.create(now=datetime(2026, 5, 4, tzinfo=UTC), random_bytes=random_bytes)
    registers = platform.launch(Image.SESSION, mrconfigid=b"\x01" * 48, mrtd=b"\x02" * 48, td_id=bytes(32))
    return lambda data: platform.quote(registers, data.ljust(64, b"\0"))
