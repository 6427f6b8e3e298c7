"""Shows a session's input through an overlay: a stored tree below, which stays as it is, and the changes above.

The overlay is mounted in the session's folder by its launcher, before any other process of the session is there. So
supervisor, runner and launcher see an ordinary folder. What the agent writes goes into ``upper``, beside the note of
the tree in the store's folder, which only its owner can enter. The kernel never writes into the lower layer, and a link
to one of its files is a link to a copy.

Files are kept by leaving both layers where they are: nothing is copied, and they can be shown again at any time.

Only root can mount it, and only under gVisor does the stored tree belong to the right user. Elsewhere, and where the
file system gives no overlay, the input is copied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from affiant.sandbox.base.privileges import Owner, is_root
from affiant.sandbox.isolation.plan.linux import (
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    mount,
    mount_table,
    unmount,
)
from affiant.sandbox.processes.home import Home
from affiant.sandbox.workspace.input_store import InputStore

__all__ = [
    "can_share",
    "changes_of",
    "input_store",
    "release_input",
    "show_shared",
    "shown_again",
    "stored_input",
    "unmount_input",
]

_UPPER: Final = "upper"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def input_store(home: Home) -> InputStore:
    """The state folder's store of inputs."""
    return InputStore(home.inputs)


def can_share(home: Home, session: str) -> bool:
    """Whether an overlay can be mounted for the session; makes its layers."""
    if not is_root():
        return False
    layers = input_store(home).layers(session)
    try:
        layers.mkdir(mode=0o700, parents=True)
        for name in (_UPPER, "work", "lower", "probe"):
            (layers / name).mkdir(mode=0o755)
        with _opened(layers / "lower") as lower:
            _mount(layers, lower, layers / "probe")
        unmount(str(layers / "probe"))
    except OSError:
        return False
    return True


def show_shared(home: Home, session: str, source: str, owner: Owner) -> None:
    """Mount the tree that the session uses at ``source`` below its folder, writable for ``owner``.

    Raises:
        OSError: the kernel refuses, or the tree is not there.
    """
    layers, place = input_store(home).layers(session), home.session(session) / source
    place.mkdir(mode=0o755, parents=True)
    os.chown(layers / _UPPER, owner.uid, owner.gid)
    with input_store(home).opened(session) as lower:
        _mount(layers, lower, place)


def stored_input(home: Home, session: str) -> Path | None:
    """The stored tree that the session uses; None: it has its own copy."""
    return input_store(home).used_by(session)


def changes_of(home: Home, session: str) -> Path | None:
    """Where the changes to the stored tree are; None: the session has its own copy."""
    return None if stored_input(home, session) is None else input_store(home).layers(session) / _UPPER


@contextmanager
def shown_again(home: Home, session: str) -> Iterator[Path]:
    """The session's files as they were left, read-only, wherever its overlay was mounted before.

    Raises:
        OSError: the kernel refuses, or the tree is not there.
    """
    layers = input_store(home).layers(session)
    with ExitStack() as opened:
        lower = opened.enter_context(input_store(home).opened(session))
        upper = opened.enter_context(_opened(layers / _UPPER))
        place = mkdtemp(prefix="shown.", dir=layers)
        opened.callback(os.rmdir, place)
        _overlay(place, f"lowerdir=/proc/self/fd/{upper}:/proc/self/fd/{lower}", MS_RDONLY)
        opened.callback(unmount, place)
        yield Path(place)


def unmount_input(home: Home, session: str) -> None:
    """Unmount what is mounted below the session's folder, or below that of its layers. Idempotent."""
    if is_root():
        folders = [
            Path(os.path.realpath(path.parent), session)  # as the table of mounts names it
            for path in (home.session(session), input_store(home).layers(session))
        ]
        for mounted in [each.at for each in mount_table()][::-1]:
            if any(Path(mounted).is_relative_to(folder) for folder in folders):
                with suppress(OSError):
                    unmount(mounted)


def release_input(home: Home, session: str) -> None:
    """Unmount the session's input, and remove its changes to it. Idempotent."""
    unmount_input(home, session)
    input_store(home).release(session)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, _DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mount(layers: Path, lower: int, place: Path) -> None:
    with _opened(layers / _UPPER) as upper, _opened(layers / "work") as work:
        layered = {"lowerdir": lower, "upperdir": upper, "workdir": work}
        _overlay(place, ",".join(f"{name}=/proc/self/fd/{each}" for name, each in layered.items()))


def _overlay(place: Path | str, layers: str, flags: int = 0) -> None:
    """The layers are given as descriptors: their paths may hold characters that end an option."""
    options = f"{layers},redirect_dir=on,index=off"
    mount("affiant", str(place), "overlay", MS_NOSUID | MS_NODEV | flags, options)
