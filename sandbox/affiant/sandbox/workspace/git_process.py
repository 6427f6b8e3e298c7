"""Runs git without any configuration and with a time limit, and compares objects that it reads with their names.

git opens what is in a repository, which may be another user's: a pipe in place of a file would hold it for good. So
every call has a time limit. One that reads an input also ends when the session's start is interrupted.

git itself does not compare an object that it prints with the object's name. A name here is SHA-1 over kind, length and
content (gitformat-loose).
"""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypedDict

from affiant.sandbox.workspace.tree import TreeTooLarge, TreeUnreadable
from affiant.sandbox.workspace.walk import WHOLE, Limits, escaped

__all__ = ["SEARCHED", "GitObjects", "Writer", "asked_git", "git_process"]

_ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LC_ALL": "C",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
SEARCHED: Final = _ENVIRONMENT["PATH"]
"""Where git is looked for."""
_ASKED_WITHIN_S: Final = 60.0
_ENDED_WITHIN_S: Final = 1800.0
_STEP_S: Final = 0.2
_CHUNK: Final = 1 << 20

Writer = tuple[int, int] | None
"""The user and group as whom root runs git; None: as this process."""


def asked_git(git: Path, *arguments: str, writer: Writer = None) -> str | None:
    """What git printed, without the space around it; None: it failed, or took longer than 60 seconds.

    Args:
        git: a private repository.
    """
    try:
        done = subprocess.run(
            _command(git, arguments),
            env=_ENVIRONMENT,
            cwd=git,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_ASKED_WITHIN_S,
            **_as(writer),
        )
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode("utf-8", "surrogateescape").strip() if done.returncode == 0 else None


@contextmanager
def git_process(
    git: Path,
    *arguments: str,
    writer: Writer = None,
    proceed: Callable[[], None] = WHOLE.proceed,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
) -> Iterator[subprocess.Popen[bytes]]:
    """A git that runs for the length of the block and then to its end, at most 30 minutes.

    Args:
        git: a private repository.
        proceed: asked now and then; git is killed once it raises.
    """
    ended = threading.Event()
    try:
        with subprocess.Popen(
            _command(git, arguments),
            env=_ENVIRONMENT,
            cwd=git,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            **_as(writer),
        ) as process:
            threading.Thread(target=_watch, args=(process, ended, proceed), daemon=True).start()
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        ended.set()


def _watch(process: subprocess.Popen[bytes], ended: threading.Event, proceed: Callable[[], None]) -> None:
    until = time.monotonic() + _ENDED_WITHIN_S
    while not ended.wait(_STEP_S):
        try:
            proceed()
        except BaseException:  # noqa: BLE001 - git's end reaches its reader, which asks ``proceed`` too
            process.kill()
            return
        if time.monotonic() > until:
            process.kill()
            return


def _command(git: Path, arguments: tuple[str, ...]) -> list[str]:
    return ["git", f"--git-dir={git}", "--no-pager", *arguments]


class _User(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[str | int]


def _as(writer: Writer) -> _User:
    return {} if writer is None else {"user": writer[0], "group": writer[1], "extra_groups": []}


class GitObjects:
    """The objects of a repository, each checked against its name (``git cat-file --batch``: names in, contents out)."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self._process, self._limits = process, limits

    @classmethod
    @contextmanager
    def of(cls, git: Path, limits: Limits) -> Iterator[GitObjects]:
        """Those of the private repository ``git``, for the length of the block."""
        arguments = ("cat-file", "--batch")
        with git_process(git, *arguments, proceed=limits.proceed, stdin=subprocess.PIPE) as process:
            try:
                yield cls(process, limits)
            finally:
                process.kill()

    def read(self, name: str, kind: str, *, where: str, at_most: int) -> Iterator[bytes]:
        """The content of the object ``name``, in pieces; it is compared with the name after the last one.

        Args:
            kind: ``blob``, ``tree`` or ``commit``. where: what an error names.

        Raises:
            TreeUnreadable: it is missing, of another kind, or its content does not have this name.
            TreeTooLarge: more than ``at_most`` bytes.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(name.encode("ascii") + b"\n")
        stdin.flush()
        header = stdout.readline().split()
        if len(header) != 3 or header[1] != kind.encode("ascii"):
            raise TreeUnreadable("the repository lacks an object of the commit", where=escaped(where))
        left = int(header[2])
        if left > at_most:
            raise TreeTooLarge("too many bytes", where=escaped(where))
        digest = hashlib.sha1(f"{kind} {left}\0".encode("ascii"), usedforsecurity=False)
        while left:
            self._limits.proceed()
            chunk = stdout.read(min(left, _CHUNK))
            if not chunk:
                raise TreeUnreadable("git ended early", where=escaped(where))
            left -= len(chunk)
            digest.update(chunk)
            yield chunk
        stdout.read(1)  # the newline behind each object
        if digest.hexdigest() != name:
            raise TreeUnreadable(
                "an object of the repository is damaged",
                where=escaped(where),
                expected=name,
                found=digest.hexdigest(),
            )
