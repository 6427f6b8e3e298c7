"""A simulated platform makes the quotes that the fakes hand out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from affiant.attestation.evidence_source import TDRegisters
from affiant.attestation.simulated.boot import Image
from affiant.attestation.simulated.platform import SimulatedPlatform

from .kernel import FakeTDX
from .software_tpm import SoftwareTPM, missing

REPORT_DATA = hashlib.sha512(b"a statement").digest()


def random_bytes(size: int) -> bytes:
    return hashlib.shake_256(b"names").digest(size)


def launch(machine: SimulatedPlatform) -> TDRegisters:
    return machine.launch(Image.SESSION, mrconfigid=b"\x01" * 48, mrtd=b"\x02" * 48, td_id=bytes(32))


@pytest.fixture(scope="session")
def machine() -> SimulatedPlatform:
    return SimulatedPlatform.create(now=datetime(2026, 5, 4, tzinfo=UTC), random_bytes=random_bytes)


@pytest.fixture(scope="session")
def quoting(machine: SimulatedPlatform) -> Callable[[bytes], bytes]:
    """Report data -> quote of one TD."""
    registers = launch(machine)
    return lambda data: machine.quote(registers, data.ljust(64, b"\0"))


@pytest.fixture
def tdx(machine: SimulatedPlatform) -> FakeTDX:
    """The kernel of a TD on ``machine``."""
    return FakeTDX(launch(machine), machine.quote)


@pytest.fixture(scope="session")
def software_tpm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftwareTPM]:
    """A real TPM 2.0 in software."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    running = SoftwareTPM(tmp_path_factory.mktemp("swtpm"))
    yield running
    running.close()
