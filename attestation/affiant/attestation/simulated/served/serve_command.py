"""Implements ``affiant platform serve``, from the lock to the last TD.

The order matters. Folder, lock and socket come first, while the process may still be root; then it becomes the
user it shall be and closes itself to inspection. A child then compiles the images, and only after that it reads the
keys.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Final

from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import installed_image
from affiant.attestation.release.measured_files import held_portions
from affiant.attestation.release.memory import LaunchedImage, launch_image
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.served.confinement import (
    become_user,
    end_with_parent,
    forbid_inspection,
)
from affiant.attestation.simulated.served.host import PlatformHost
from affiant.attestation.simulated.served.messages import (
    CreateTD,
    GetCollateral,
    Quote,
    encode_request,
    parse_platform_request,
)
from affiant.attestation.simulated.served.server import PlatformServer, listen
from affiant.attestation.simulated.served.socket_path import SOCKET_NAME
from affiant.attestation.simulated.served.store import PlatformStore, open_store
from affiant.attestation.statements.evidence_source import REGISTER_SIZE
from affiant.errors import AffiantError

_MAX_MEMORY: Final = 1 << 26

__all__ = ["ServeSettings", "serve_platform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What ``affiant platform serve`` was told.

    Args:
        home: the folder that holds ``platform/``.
        user: the user id to go on as, if started as root.
        dangerous_revoke_pck: publish this platform's own PCK certificate as revoked, so that every verifier
            refuses its quotes.
        dangerous_revoke_session_pck: run session TDs on a second machine whose PCK certificate is revoked, and
            gateways on the first, which is not.
    """

    home: Path
    user: int | None = None
    dangerous_revoke_pck: bool = False
    dangerous_revoke_session_pck: bool = False


def serve_platform(
    settings: ServeSettings,
    *,
    clock: Callable[[], datetime],
    random_bytes: Callable[[int], bytes],
    announce: Callable[[Path], None],
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        announce: called once with the socket's path, when everything is ready to serve.

    Raises:
        ``store.locked``: another platform serves from this folder.
        ``platform.store``, ConfinementError: as named.
        InstalledFileError: what is installed cannot be measured, perhaps not read by this user.
    """
    with ExitStack() as stack:
        store = stack.enter_context(open_store(settings.home))
        stack.enter_context(store.serving())
        listener, stop = stack.enter_context(_listening(store)), stack.enter_context(_stop())
        portions = held_portions()  # what is measured may lie where only root can enter
        if settings.user is not None:
            _rehearse(clock(), random_bytes)
            store.give_to(settings.user)
            become_user(settings.user)
        forbid_inspection()
        measure = stack.enter_context(_measured_ahead(_Measuring(store, portions)))  # before there is a key
        platform = store.load_or_create(now=clock(), random_bytes=random_bytes)
        if settings.dangerous_revoke_pck:
            platform = replace(platform, revoked=frozenset({CertificateRole.PCK}))
        sessions_on = None
        if settings.dangerous_revoke_session_pck:
            sessions_on = platform.sibling()
            platform = replace(platform, also_revoked=(sessions_on.certificates.pck,))
        for image in Image:
            installed_image(image, portions)  # as this user: better refused now than at the first launch
        host = PlatformHost(
            platform,
            measure=measure,
            clock=clock,
            random_bytes=random_bytes,
            sessions_on=sessions_on,
        )
        announce(store.path / SOCKET_NAME)
        PlatformServer(listener, host, stop=stop).serve()


@contextmanager
def _listening(store: PlatformStore) -> Iterator[socket.socket]:
    path = store.path / SOCKET_NAME
    with listen(path) as listener:
        try:
            yield listener
        finally:
            store.remove(SOCKET_NAME)


@contextmanager
def _stop() -> Iterator[socket.socket]:
    """A socket that becomes readable with the first SIGTERM or SIGINT."""
    reading, writing = socket.socketpair()

    def told(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
        with suppress(OSError):
            writing.send(b".", socket.MSG_DONTWAIT)

    earlier = {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with reading, writing:
            yield reading
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _rehearse(now: datetime, random_bytes: Callable[[int], bytes]) -> None:
    """Everything once, on a platform that is thrown away.

    Python imports some things (codecs, for one) when they are first needed, and the interpreter may live where
    the user that this process is about to become may not read.
    """
    platform = SimulatedPlatform.create(now=now, random_bytes=random_bytes)
    host = PlatformHost(platform, measure=_empty, clock=lambda: now, random_bytes=random_bytes)
    host.answer(GetCollateral())
    request = CreateTD(Image.SESSION, bytes(REGISTER_SIZE))
    parse_platform_request(encode_request(request, "rehearsal"))
    host.create_td(request).answer(Quote(bytes(64)))


def _empty(image: Image) -> LaunchedImage:
    return launch_image(image, {})


@contextmanager
def _measured_ahead(measuring: _Measuring) -> Iterator[Callable[[Image], LaunchedImage]]:
    """Measure and compile every image in a child, while this process goes on; what measures an image for a TD.

    The child keeps each in the store, and ends. It has no key. A caller that needs an image earlier waits for it.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent()
            for image in Image:
                measuring(image)
                os.write(writing, image.value.encode("ascii") + b"\n")
        finally:
            os._exit(0)
    os.close(writing)
    done = open(reading, "rb")  # noqa: SIM115 - closed below

    def measure(image: Image) -> LaunchedImage:
        while image not in known and (line := done.readline()):
            known.add(Image(line.decode("ascii").strip()))
        return measuring(image)

    known: set[Image] = set()
    try:
        yield measure
    finally:
        done.close()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class _Measuring:
    """Measures the installed files of an image; compiles them where that has not been done for the same bytes."""

    def __init__(self, store: PlatformStore, portions: Sequence[Path]) -> None:
        self._store = store
        self._portions = portions
        self._known: dict[Image, bytes] = {}

    def __call__(self, image: Image) -> LaunchedImage:
        return launch_image(image, installed_image(image, self._portions), (self._read, self._write))

    def _read(self, image: Image) -> bytes | None:
        if image not in self._known:
            try:
                kept = self._store.kept(f"memory-{image.value}.bin", limit=_MAX_MEMORY)
            except (OSError, AffiantError):  # it can be made again
                kept = None
            if kept is None:
                return None
            self._known[image] = kept
        return self._known[image]

    def _write(self, image: Image, kept: bytes) -> None:
        self._known[image] = kept
        name = f"memory-{image.value}.bin"
        try:
            self._store.keep(name, kept)
        except (
            OSError,
            AffiantError,
        ):  # a full disk costs the next platform half a second, and nobody a session
            with suppress(OSError):
                self._store.remove(f"{name}.new")
