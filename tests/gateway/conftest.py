"""The real platform process and the real gateway process, on a folder of the test's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.session_client import Gateway, SessionClient

from affiant.attestation.release.manifest import write_release
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.socket_path import platform_socket

_READY_S = 30


def _read_line(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.readline()


@contextmanager
def process(arguments: list[str], **more: object) -> Iterator[tuple[subprocess.Popen[bytes], dict]]:
    """A process with --ready-fd, and what it said there; ended with SIGTERM."""
    near, far = os.pipe()
    try:
        child = subprocess.Popen(
            [*arguments, "--ready-fd", str(far)], pass_fds=[far], stderr=subprocess.PIPE, **more
        )
    finally:
        os.close(far)
    with child:
        line = _read_line(near)
        try:
            if not line:
                raise AssertionError(f"did not start: {child.stderr.read().decode()}")
            yield child, json.loads(line)
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(_READY_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    raise


_PLATFORM = """
import functools
from affiant.attestation.simulated.served import serve_command as serving
serving.installed_image = functools.cache(serving.installed_image)
from affiant.__main__ import main
main()
"""
"""``affiant``, but the files are measured once: some thousand TDs are made here, and the tree stays as it is."""


@contextmanager
def serving_platform(home: Path, *options: str) -> Iterator[PlatformClient]:
    with process([sys.executable, "-c", _PLATFORM, "platform", "serve", "--home", str(home), *options]):
        yield PlatformClient(platform_socket(home))


@dataclass
class Running:
    """A gateway process and how to talk to it."""

    gateway: Gateway
    child: subprocess.Popen[bytes]
    home: Path
    ready: dict

    def kill(self) -> None:
        os.kill(self.ready["pid"], signal.SIGKILL)
        self.child.wait(_READY_S)

    def stop(self) -> int:
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(_READY_S)


@contextmanager
def serving_gateway(
    home: Path, platform_home: Path, *arguments: str, python: str | Path = sys.executable
) -> Iterator[Running]:
    command = [str(python), "-m", "affiant", "gateway", "serve", "--home", str(home)]
    command += ["--platform", str(platform_socket(platform_home)), *arguments]
    with process(command) as (child, ready):
        yield Running(Gateway(ready["url"], ready["spki"]), child, home, ready)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def release() -> None:
    """The release manifest of this very tree: what the platform will measure."""
    write_release()


@pytest.fixture(scope="session")
def platform_home(tmp_path_factory: pytest.TempPathFactory, release: None) -> Path:
    return tmp_path_factory.mktemp("platform-home")


@pytest.fixture(scope="session")
def platform(platform_home: Path) -> Iterator[PlatformClient]:
    with serving_platform(platform_home) as client:
        yield client


@pytest.fixture(scope="session")
def running(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: Path
) -> Iterator[Running]:
    """One gateway for all tests that leave it as they found it."""
    with serving_gateway(tmp_path_factory.mktemp("gateway-home"), platform_home) as started:
        yield started


@pytest.fixture
def gateway(running: Running) -> Gateway:
    return running.gateway


@pytest.fixture
def openings() -> X25519PrivateKey:
    return X25519PrivateKey.generate()


@pytest.fixture
def session(gateway: Gateway, platform: PlatformClient, openings: X25519PrivateKey) -> SessionClient:
    return SessionClient.start(gateway, platform, openings=openings)
