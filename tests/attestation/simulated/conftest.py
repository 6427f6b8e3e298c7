"""A platform whose keys come from a fixed seed and whose clock stands still: nothing here can rot."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from affiant.attestation.simulated.platform import SimulatedPlatform

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


def counting_bytes(label: str) -> Callable[[int], bytes]:
    """A source of bytes that is the same in every run, and never gives the same bytes twice."""
    drawn = 0

    def draw(size: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return hashlib.shake_256(f"{label} {drawn}".encode()).digest(size)

    return draw


@pytest.fixture(scope="session")
def now() -> datetime:
    return NOW


@pytest.fixture(scope="session")
def platform() -> SimulatedPlatform:
    return SimulatedPlatform.create(now=NOW, random_bytes=counting_bytes("platform"))


@pytest.fixture(scope="session")
def other_platform() -> SimulatedPlatform:
    """The same names, other keys."""
    return SimulatedPlatform.create(now=NOW, random_bytes=counting_bytes("another platform"))
