"""A platform whose keys come from a fixed seed and whose clock stands still: nothing here can rot."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.attestation.release_of_files import launched

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.simulated.served.host import PlatformHost
from affiant.attestation.simulated.served.server import PlatformServer, listen

MRCONFIGID = b"c" * 48
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


@contextmanager
def served(host: PlatformHost, socket_path: Path) -> Iterator[None]:
    stop, tell = socket.socketpair()
    with stop, tell, listen(socket_path) as listener:
        thread = threading.Thread(target=PlatformServer(listener, host, stop=stop).serve)
        thread.start()
        try:
            yield
        finally:
            tell.send(b".")
            thread.join(5)
        assert not thread.is_alive()


@pytest.fixture
def path(platform: SimulatedPlatform, tmp_path: Path) -> Iterator[Path]:
    """A platform that is being served; it must stop when told to, whatever was done to it."""
    socket_path = tmp_path / "platform.sock"
    host = PlatformHost(
        platform,
        measure=lambda _: launched(b"m" * 48),
        clock=lambda: NOW,
        random_bytes=counting_bytes("server"),
        max_tds=4,
    )
    with served(host, socket_path):
        yield socket_path


@pytest.fixture
def client(path: Path) -> PlatformClient:
    return PlatformClient(path, random_bytes=counting_bytes("client"), timeout_s=5)


@pytest.fixture
def td(client: PlatformClient) -> Iterator[SimulatedTD]:
    with SimulatedTD(client.create_td(image=Image.SESSION, mrconfigid=MRCONFIGID), timeout_s=5) as one:
        yield one
