"""Shows a session's input through an overlay: a stored tree below, which stays as it is, and the changes above.

The overlay is mounted in the session's folder by its launcher, before any other process of the session is there. So
supervisor, runner and launcher see an ordinary folder. What the agent writes goes into ``layer/upper``. The kernel
never writes into the lower layer, and a link to one of its files is a link to a copy.

Only root can mount it, and only under gVisor does the stored tree belong to the right user. Elsewhere, and where the
file system gives no overlay, the input is copied.
"""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from affiant.sandbox.base.privileges import Owner, is_root
from affiant.sandbox.isolation.plan.linux import MS_NODEV, MS_NOSUID, mount, mount_table, unmount
from affiant.sandbox.processes.home import Home
from affiant.sandbox.workspace.input_store import InputStore
from affiant.sandbox.workspace.walk import descended, open_directory

__all__ = [
    "LAYER",
    "can_share",
    "input_store",
    "mark_use",
    "materialise",
    "show_shared",
    "stored_input",
    "unmount_input",
]

LAYER: Final = "layer"
_OF: Final = "of"
_AT: Final = "at"
_MERGED: Final = "merged"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def input_store(home: Home) -> InputStore:
    """The state folder's store of inputs."""
    return InputStore(home.path / "inputs", lambda: _in_use(home))


def _in_use(home: Home) -> frozenset[str]:
    found = set()
    for note in home.sessions.glob(f"*/{LAYER}/{_OF}"):
        with suppress(OSError, UnicodeDecodeError):
            found.add(note.read_text(encoding="ascii"))
    return frozenset(found)


def can_share(folder: Path) -> bool:
    """Whether an overlay can be mounted in the session's ``folder``; makes the folder of its layers."""
    if not is_root():
        return False
    layer = folder / LAYER
    layer.mkdir(mode=0o700)
    for name in ("upper", "work", "lower", "probe"):
        (layer / name).mkdir(mode=0o755)
    try:
        _mount(layer / "lower", layer, layer / "probe")
    except OSError:
        _remove(layer)
        return False
    unmount(str(layer / "probe"))
    return True


def mark_use(folder: Path, digest: str) -> None:
    """Note which stored tree the session uses."""
    (folder / LAYER / _OF).write_text(digest, encoding="ascii")


def show_shared(home: Home, folder: Path, source: str, owner: Owner) -> None:
    """Mount the noted tree at ``source`` below the session's ``folder``, writable for ``owner``.

    Raises:
        OSError: the kernel refuses.
    """
    layer, place = folder / LAYER, folder / source
    place.mkdir(mode=0o755, parents=True)
    os.chown(layer / "upper", owner.uid, owner.gid)
    (layer / _AT).write_text(source, encoding="utf-8")
    _mount(_stored(home, folder), layer, place)


def stored_input(home: Home, folder: Path) -> Path | None:
    """The stored tree that the session's ``folder`` uses; None: it has its own copy."""
    return _stored(home, folder) if _has_layer(folder) else None


def _has_layer(folder: Path) -> bool:
    """Whether the session's ``folder``, which was its supervisor's, holds the layers that its launcher made."""
    try:
        facts = os.lstat(folder / LAYER)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and (folder / LAYER / _AT).is_file()


def _stored(home: Home, folder: Path) -> Path:
    return input_store(home).place((folder / LAYER / _OF).read_text(encoding="ascii"))


def _mount(lower: Path, layer: Path, place: Path) -> None:
    """The layers are given as descriptors: their paths may hold characters that end an option."""
    with ExitStack() as opened:
        places = {"lowerdir": lower, "upperdir": layer / "upper", "workdir": layer / "work"}
        options = []
        for name, path in places.items():
            descriptor = os.open(path, _DIRECTORY)
            opened.callback(os.close, descriptor)
            options.append(f"{name}=/proc/self/fd/{descriptor}")
        mount(
            "affiant",
            str(place),
            "overlay",
            MS_NOSUID | MS_NODEV,
            ",".join([*options, "redirect_dir=on", "index=off"]),
        )


def unmount_input(folder: Path) -> None:
    """Unmount what is mounted below the session's ``folder``. Idempotent."""
    if is_root() and (folder / LAYER).exists():
        for mounted in [each.at for each in mount_table() if Path(each.at).is_relative_to(folder)]:
            with suppress(OSError):
                unmount(mounted)


def materialise(home: Home, folder: Path) -> None:
    """Make an ordinary folder of the overlay, so that it can be kept without the stored tree. Idempotent.

    Raises:
        OSError: it cannot be copied; the overlay's layers are still there.
    """
    if not _has_layer(folder):
        return
    above, _, name = (folder / LAYER / _AT).read_text(encoding="utf-8").rpartition("/")
    with ExitStack() as opened:  # no name in the folder is followed: it was the supervisor's
        base = opened.enter_context(open_directory(folder))
        parent = opened.enter_context(descended(base, above.split("/"), _enter))
        if os.stat(name, dir_fd=parent, follow_symlinks=False).st_dev == os.fstat(parent).st_dev:
            empty = _enter(parent, name)
            opened.callback(os.close, empty)
            _mount(_stored(home, folder), folder / LAYER, Path(f"/proc/self/fd/{empty}"))
        _remove(folder / _MERGED)
        place = f"/proc/self/fd/{parent}/{name}"
        command = ["cp", "-a", "--", place, str(folder / _MERGED)]
        done = subprocess.run(command, check=False, stderr=subprocess.DEVNULL, pass_fds=[parent])
        if done.returncode != 0:
            raise OSError(errno.EIO, "the agent's files cannot be copied")
        unmount_input(folder)
        os.rmdir(name, dir_fd=parent)
        os.rename(_MERGED, name, src_dir_fd=base, dst_dir_fd=parent)
    _remove(folder / LAYER)


def _enter(parent: int, name: str) -> int:
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _remove(path: Path) -> None:
    subprocess.run(
        ["rm", "-rf", "--one-file-system", "--", str(path)], check=False, stderr=subprocess.DEVNULL
    )
