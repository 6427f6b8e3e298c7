"""Keeps the platform's folder: its one secret, its public root certificate, and the locks.

``$AFFIANT_HOME/platform/``, mode 0700, holds

- ``keys.json``, 0600: ``{"typ":"affiant-simulated-platform/1","created":<Unix s>,"seed":<base64url, 32 bytes>}``;
- ``root.pem``: the root certificate. Public; whoever needs the root key alone never opens ``keys.json``;
- ``state.lock``: held for the moment in which the two are read or made;
- ``serve.lock``: held by the serving process for as long as it lives;
- ``platform.sock``.

The files are reached through a descriptor of the folder, so a link put in its place later changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.simulated.platform.keys import SEED_SIZE
from affiant.attestation.simulated.served.socket_path import platform_folder
from affiant.errors import MalformedError, StateError

if TYPE_CHECKING:
    from affiant.attestation.simulated.platform.platform import SimulatedPlatform

__all__ = ["PlatformStore", "open_store"]

_TYP: Final = "affiant-simulated-platform/1"
_KEYS: Final = "keys.json"
_ROOT: Final = "root.pem"
_STATE_LOCK: Final = "state.lock"
_SERVE_LOCK: Final = "serve.lock"
_LIMIT: Final = 1 << 14
_OTHERS: Final = 0o077


@contextmanager
def open_store(home: Path) -> Iterator[PlatformStore]:
    """The platform's folder in ``home``, made where it is missing.

    Raises:
        ``platform.store``: it is a link, belongs to another user, or others may enter it.
    """
    path = platform_folder(home)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise MalformedError(
            "the platform's folder cannot be used", where=str(path), code="platform.store"
        ) from error
    try:
        _demand_private(os.fstat(folder), str(path))
        yield PlatformStore(path, folder)
    finally:
        os.close(folder)


class PlatformStore:
    """The open folder. Made by :func:`open_store`, and good until its block ends."""

    __slots__ = ("_folder", "path")

    def __init__(self, path: Path, folder: int) -> None:
        self.path = path
        self._folder = folder

    def load_or_create(self, *, now: datetime, random_bytes: Callable[[int], bytes]) -> SimulatedPlatform:
        """The platform of this folder; a new one, stored durably, where there is none yet.

        Raises:
            ``platform.store``: what is stored was not written by this program, or others can read it.
        """
        from affiant.attestation.simulated.platform.pki import pem_chain  # noqa: PLC0415 - who needs the root alone

        with self._lock(_STATE_LOCK):
            stored = self._read(_KEYS)
            if stored is None:
                platform = _platform().create(now=now, random_bytes=random_bytes)
                self._write(_KEYS, _encode(platform))
            else:
                _demand_private(os.stat(_KEYS, dir_fd=self._folder), str(self.path / _KEYS))
                platform = _decode(stored, str(self.path / _KEYS))
            root = pem_chain((platform.certificates.root,))
            if self._read(_ROOT) != root:
                self._write(_ROOT, root)
            return platform

    def root_spki(self, *, now: datetime, random_bytes: Callable[[int], bytes]) -> bytes:
        """The root's public key (DER SubjectPublicKeyInfo), without opening the secret where it exists."""
        if self._read(_ROOT) is None or not self._exists(_KEYS):
            self.load_or_create(now=now, random_bytes=random_bytes)
        pem = self._read(_ROOT)
        if pem is None:
            raise MalformedError(
                "the root certificate is gone", where=str(self.path / _ROOT), code="platform.store"
            )
        try:
            key = x509.load_pem_x509_certificate(pem).public_key()
        except ValueError as error:
            raise MalformedError(
                "not a certificate", where=str(self.path / _ROOT), code="platform.store"
            ) from error
        return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    def kept(self, name: str, *, limit: int) -> bytes | None:
        """The bytes of ``name``, which can be made again; None where there are none."""
        try:
            with open(self._open(name, os.O_RDONLY), "rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None

    def keep(self, name: str, data: bytes) -> None:
        """Keep ``data`` as ``name``, whole or not at all."""
        self._write(name, data)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Be the one process that serves from this folder.

        Raises:
            ``store.locked``: another one is.
        """
        with self._lock(_SERVE_LOCK, wait=False):
            yield

    def give_to(self, user: int) -> None:
        """Make the folder and what is in it the property of user id ``user``; root only."""
        for name in os.listdir(self._folder):
            os.chown(name, user, user, dir_fd=self._folder, follow_symlinks=False)
        os.fchown(self._folder, user, user)

    def remove(self, name: str) -> None:
        """Remove the file ``name``, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._folder)

    @contextmanager
    def _lock(self, name: str, *, wait: bool = True) -> Iterator[None]:
        lock = self._open(name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise StateError(
                "a simulated platform already serves from this folder",
                where=str(self.path),
                hint="Use that one, stop it, or give --home another folder",
                code="store.locked",
            ) from error
        try:
            yield
        finally:
            os.close(lock)

    def _open(self, name: str, flags: int) -> int:
        try:
            return os.open(
                name, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=self._folder
            )
        except FileNotFoundError:
            raise
        except OSError as error:
            raise MalformedError(
                "a file cannot be opened", where=str(self.path / name), code="platform.store"
            ) from error

    def _exists(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _read(self, name: str) -> bytes | None:
        try:
            descriptor = self._open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise MalformedError("not a regular file", where=str(self.path / name), code="platform.store")
            return file.read(_LIMIT)

    def _write(self, name: str, data: bytes) -> None:
        """Whole or not at all, and durable before the return."""
        unfinished = f"{name}.new"
        self.remove(unfinished)
        with open(self._open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        os.fsync(self._folder)


def _encode(platform: SimulatedPlatform) -> bytes:
    return canonical({"typ": _TYP, "created": int(platform.created.timestamp()), "seed": b64u(platform.seed)})


def _platform() -> type[SimulatedPlatform]:
    from affiant.attestation.simulated.platform.platform import SimulatedPlatform  # noqa: PLC0415 - as above

    return SimulatedPlatform


def _decode(data: bytes, where: str) -> SimulatedPlatform:
    match parse_object(data, limit=_LIMIT):
        case {
            "typ": "affiant-simulated-platform/1",
            "created": int() as created,
            "seed": str() as seed,
            **rest,
        } if not rest and 0 <= created < 1 << 34:
            opened = from_b64u(seed, size=SEED_SIZE)
            return _platform().from_seed(opened, created=datetime.fromtimestamp(created, UTC))
        case _:
            raise MalformedError(
                "not the keys of a simulated platform", where=where, expected=_TYP, code="platform.store"
            )


def _demand_private(status: os.stat_result, where: str) -> None:
    """Refuse what belongs to somebody else (root may serve any owner) or what others may reach."""
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise MalformedError(
            "belongs to another user", where=where, found=f"user {status.st_uid}", code="platform.store"
        )
    if status.st_mode & _OTHERS:
        raise MalformedError(
            "other users can reach it",
            where=where,
            found=f"mode {stat.S_IMODE(status.st_mode):04o}",
            hint="Take their access away: chmod go= on it",
            code="platform.store",
        )
