"""The state folder of a development machine: ``$AFFIANT_HOME``, by default ``affiant`` in the XDG state folder.

| path | mode | who |
|---|---|---|
| ``platform/`` | 0700 | the simulated platform: its keys, its socket |
| ``gateway/`` | 0700 | the gateway: journal, index, ``gateway.json`` |
| ``witness/`` | 0700 | the gateway's own witness: its key, what it has cosigned |
| ``secrets/`` | 0700 | the encrypted local store and its key file |
| ``sessions/ID/`` | 0700 | one session: its records, its bundle, a note, the agent's files while it runs |
| ``inputs/`` | 0700 | input trees by their digest, which sessions share, and each session's changes to them |
| ``template/`` | 0700 | the template process: its socket (``template_service``) |
| ``template.lock`` | 0600 | held by the template process: there is one |
| ``launches/ID.json`` | 0600 | which processes belong to a running session (``launch_records``) |
| ``trust.json`` | 0600 | what this machine's owner accepts |
| ``openings.key`` | 0600 | opens the hidden values of the sessions started from here |

The folder is private to its owner; one that others can enter is refused, not repaired. Where root starts
services under users of their own, each gets its own folder and no other.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affiant.attestation.log.witness.embedded import own_witness_folder
from affiant.attestation.records.sealed_disclosures_key import (
    DisclosureKeyMalformed,
    disclosure_key_file,
    read_disclosure_key,
)
from affiant.errors import ConfigurationError, MalformedError, StateError
from affiant.files import write_whole

__all__ = ["OPENINGS_KEY", "Home", "give_folder", "lock", "open_home", "open_lock", "write_file"]

OPENINGS_KEY: Final = "openings.key"
_FOLDERS: Final = ("platform", "gateway", "secrets", "sessions", "launches")


@dataclass(frozen=True, slots=True)
class Home:
    """An opened state folder; :func:`open_home` has checked it."""

    path: Path

    @property
    def platform(self) -> Path:
        """The simulated platform's folder."""
        return self.path / "platform"

    @property
    def gateway(self) -> Path:
        """The gateway's folder."""
        return self.path / "gateway"

    @property
    def witness(self) -> Path:
        """The folder of the gateway's own witness; made with the first trust file or gateway."""
        return own_witness_folder(self.path)

    @property
    def secrets(self) -> Path:
        """The folder of the encrypted local store."""
        return self.path / "secrets"

    @property
    def sessions(self) -> Path:
        """The folder with one folder for each session."""
        return self.path / "sessions"

    @property
    def inputs(self) -> Path:
        """The folder with the stored inputs, and the sessions' changes to them; made with the first."""
        return self.path / "inputs"

    @property
    def launches(self) -> Path:
        """The folder with one record for each session that runs."""
        return self.path / "launches"

    @property
    def trust_file(self) -> Path:
        """What this machine's owner accepts; it may not exist."""
        return self.path / "trust.json"

    def session(self, session: str) -> Path:
        """The folder of one session."""
        return self.sessions / session

    def openings_key(self, *, random_bytes: Callable[[int], bytes]) -> X25519PrivateKey:
        """The key to which disclosures are sealed; made with the first session.

        Raises:
            ``home.file``: the file is not in its form, or others can read it.
        """
        path = self.path / OPENINGS_KEY
        if not path.exists():
            document = disclosure_key_file(random_bytes(32))
            with suppress(FileExistsError):  # another command has just made one: that one counts
                write_file(path, document, replace=False)
        return _read_openings_key(path)


def open_home(path: Path) -> Home:
    """The state folder at ``path``, made where it is missing.

    Raises:
        ``home.refused``: it is a link or no folder, belongs to another user, or others can enter it.
    """
    absolute = Path(os.path.abspath(path))
    try:
        absolute.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = absolute.lstat()
    except OSError as error:
        raise ConfigurationError(
            "the state folder cannot be made", where=str(absolute), found=error.strerror, code="home.refused"
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError("the state folder is no folder", where=str(absolute), code="home.refused")
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            "the state folder belongs to another user",
            where=str(absolute),
            expected=f"user {os.geteuid()}",
            found=f"user {status.st_uid}",
            hint="Give --home a folder of your own",
            code="home.refused",
        )
    if status.st_mode & 0o077:
        raise ConfigurationError(
            "other users can enter the state folder",
            where=str(absolute),
            found=f"mode {stat.S_IMODE(status.st_mode):04o}",
            hint=f"Take their access away: chmod go= {absolute}",
            code="home.refused",
        )
    for name in _FOLDERS:
        (absolute / name).mkdir(mode=0o700, exist_ok=True)
    return Home(absolute)


def give_folder(path: Path, user: int) -> None:
    """Make ``path`` and everything in it that is ours the property of ``user``. Root only.

    Its earlier owner may have put anything there: no link is followed, and a file that has a second
    name somewhere (link(2)) is refused, because it would be given away there too.

    Raises:
        ``home.refused``: such a file, or one of a third user.
    """
    waiting = [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)]
    try:
        while waiting:
            folder = waiting.pop()
            try:
                waiting += _give_entries(folder, user, str(path))
                os.fchown(folder, user, user)
            finally:
                os.close(folder)
    finally:
        for folder in waiting:
            os.close(folder)


def _give_entries(folder: int, user: int, where: str) -> list[int]:
    """Give the files in ``folder``; descriptors of the folders in it."""
    below = []
    for name in os.listdir(folder):
        entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            facts = os.fstat(entry)
            if stat.S_ISDIR(facts.st_mode):
                below.append(
                    os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                )
            elif facts.st_uid not in {os.geteuid(), user} or facts.st_nlink > 1:
                raise ConfigurationError(
                    "a file that cannot be given to a service",
                    where=where,
                    found=ascii(name),
                    code="home.refused",
                )
            elif facts.st_uid != user and not stat.S_ISLNK(facts.st_mode):
                os.chown(f"/proc/self/fd/{entry}", user, user)
        finally:
            os.close(entry)
    return below


def open_lock(path: Path) -> int:
    """A descriptor of the lock file ``path``, made where it is missing; not locked yet."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextmanager
def lock(path: Path, *, wait: bool = True, shared: bool = False) -> Iterator[None]:
    """Hold ``path`` (made where it is missing) for the length of the block (flock(2)).

    Raises:
        ``store.locked``: another process holds it, and ``wait`` is false.
    """
    descriptor = open_lock(path)
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise StateError("another process holds this", where=str(path), code="store.locked") from error
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes, *, mode: int = 0o600, replace: bool = True) -> None:
    """Write ``data`` durably and whole or not at all, beside and then in place of ``path``.

    Raises:
        FileExistsError: something is there, and ``replace`` is false.
    """
    write_whole(path, data, mode=mode, exact=True, replace=replace)


def _read_openings_key(path: Path) -> X25519PrivateKey:
    try:
        return read_disclosure_key(path)
    except DisclosureKeyMalformed as error:
        raise MalformedError(
            error.message,
            where=error.where,
            expected=error.expected,
            found=error.found,
            hint=error.hint,
            code="home.file",
        ) from error
