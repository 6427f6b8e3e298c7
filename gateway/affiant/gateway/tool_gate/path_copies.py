"""Copies of what approvers were shown, for the servers that are commands: only the gateway can change them.

The file that an agent named may be another by now. So a call that was approved with a path in it gets a path to a copy,
made from the bytes that were shown: the file and its folder belong to the gateway's user, or to root, and the server
has a user of its own (``stdio_users``). Its name cannot be guessed and the folders above it cannot be listed, so no
other session's server finds it, as long as its own does not pass the name on. It is there for the length of one call.
Without root a server has our own user, and could change what it is given: then there are no copies, and what would need
one is not approved.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.errors import ConfigurationError, NotAuthenticError
from affiant.policy.approvals.action import BoundPath

__all__ = ["PathChanged", "PathCopies", "folder_of_copies"]

_COPIES: Final = Path("/run/affiant-tool-paths")
_SEARCHED: Final = 0o711
"""What is in it is found by its name alone."""


class PathChanged(NotAuthenticError):
    """The copy that a server would get is not what approvers were shown, or cannot be made."""

    code = "approval.path_changed"


class PathCopies:
    """Makes copies.

    Args:
        folder: of this gateway alone; as :func:`folder_of_copies` makes it.
        random_bytes: the operating system's generator.
    """

    def __init__(self, folder: Path, *, random_bytes: Callable[[int], bytes]) -> None:
        self._folder = folder
        self._random_bytes = random_bytes

    @contextmanager
    def made(self, paths: Sequence[BoundPath]) -> Iterator[Mapping[str, str]]:
        """Path -> its copy, for the length of the block.

        Raises:
            PathChanged: a copy cannot be made.
        """
        with ExitStack() as made:
            yield {each.path: made.enter_context(self._copy(each)) for each in paths}

    @contextmanager
    def _copy(self, bound: BoundPath) -> Iterator[str]:
        folder = self._folder / b64u(self._random_bytes(16))
        try:
            yield _written(folder, bound)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def require_same(copies: Mapping[str, str], paths: Sequence[Mapping[str, object]]) -> None:
        """Return if each copy is still what was approved.

        Args:
            paths: those of the action that approvers signed.

        Raises:
            PathChanged: one is not.
        """
        for path in paths:
            try:
                with open(copies[str(path["path"])], "rb", opener=_no_link) as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
            except (KeyError, OSError) as error:
                raise PathChanged("a copy for the server cannot be read") from error
            if f"sha256:{found}" != path["sha256"]:
                raise PathChanged("a copy for the server is not what was approved", expected=path["sha256"])


def _written(folder: Path, bound: BoundPath) -> str:
    place = folder / bound.path.rpartition("/")[2]
    try:
        folder.mkdir(mode=0o700)
        with open(place, "xb", opener=_no_link) as file:
            file.write(bound.content)
            os.fchmod(file.fileno(), 0o444)
        folder.chmod(_SEARCHED)
    except OSError as error:
        raise PathChanged("a copy for the server cannot be made", found=error.strerror) from error
    return str(place)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)


@contextmanager
def folder_of_copies(*, user: int | None, random_bytes: Callable[[int], bytes]) -> Iterator[Path | None]:
    """A folder for one gateway's copies, for the length of the block; those that killed launchers left are removed.

    Args:
        user: whose the gateway's process is; None: root's.

    Returns:
        None without root: see the module.

    Raises:
        ``gateway.settings``: it cannot be made, or other users could write to it.
    """
    if os.geteuid() != 0:
        yield None
        return
    with ExitStack() as held:
        try:
            folder = _made(held, user, b64u(random_bytes(16)))
        except OSError as error:
            raise ConfigurationError(
                "no folder for what tool servers may read",
                where=str(_COPIES),
                found=error.strerror,
                code="gateway.settings",
            ) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _made(held: ExitStack, user: int | None, name: str) -> Path:
    _COPIES.mkdir(mode=0o700, exist_ok=True)
    status = _COPIES.lstat()
    if (
        status.st_uid != os.geteuid()
        or status.st_mode & 0o022
        or not _COPIES.is_dir()
        or _COPIES.is_symlink()
    ):
        raise ConfigurationError(
            "others can write to the folder of copies", where=str(_COPIES), code="gateway.settings"
        )
    _COPIES.chmod(_SEARCHED)
    with ExitStack() as alone:
        _lock(alone, _COPIES, wait=True)
        for left in _COPIES.iterdir():
            with ExitStack() as ours, suppress(OSError):
                _lock(ours, left, wait=False)  # fails while its launcher lives
                shutil.rmtree(left, ignore_errors=True)
        folder = _COPIES / name
        folder.mkdir(mode=0o700)
        _lock(held, folder, wait=False)
        if user is not None:
            os.chown(folder, user, user)
        folder.chmod(_SEARCHED)
    return folder


def _lock(held: ExitStack, folder: Path, *, wait: bool) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    held.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
