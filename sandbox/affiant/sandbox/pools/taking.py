"""Takes a supervisor from a pool: one that waits for a session of exactly this kind.

A pool (``affiant session pool``) holds supervisors that have a TD, their runner and broker, a key, and a gateway that
they have appraised. None has anything of a session. A launcher that needs one asks the pool of its kind::

    launcher -> take
    pool     -> offer with the supervisor's descriptors, or empty
    launcher -> taken, once it has recorded the supervisor as its own

The pool never offers a supervisor twice: one that was offered and not taken is ended. The kind (:func:`pool_key`) is
part of the socket's name, so that a launcher finds only the pool of its own manifest, isolation and gateway. Only
processes of one user meet there. A supervisor that appraised another start of the gateway is not taken.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol, TypeVar

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.statements.manifest import Manifest
from affiant.errors import AffiantError, StateError
from affiant.sandbox.base.template_order import peer_process
from affiant.sandbox.base.user_socket import connect_user_socket
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import POOLED, Launch
from affiant.sandbox.processes.surroundings import give_callers, require_same_confinement
from affiant.sandbox.session_state.session_folder import remove_files
from affiant.sandbox.supervisor.launch.control import ControlChannel

__all__ = ["EMPTY", "OFFER", "TAKE", "TAKEN", "pool_key", "pool_socket", "take_pooled"]

TAKE: Final = {"op": "take"}
TAKEN: Final = {"op": "taken"}
OFFER: Final = "offer"
EMPTY: Final = {"event": "empty"}
_ANSWERS_WITHIN_S: Final = 1.0
_PARTS: Final = frozenset({"control", "process", "status", "errors"})
_POOLED: Final = re.compile(POOLED + r"[0-9a-f]{16}\Z")


class Link(Protocol):
    """A supervisor, as the one that took it drives it."""

    async def kill(self) -> None:
        """End it at once."""
        ...


LinkT = TypeVar("LinkT", bound=Link)


def pool_key(
    manifest: Manifest, *, isolation: str, gateway: str, runtime: Path | None, rootfs: Path | None
) -> str:
    """Names everything that a supervisor was started for (64 hexadecimal digits).

    Args:
        gateway: its address. runtime, rootfs: where the trees that the manifest names lie.
    """
    kind = {
        "manifest": manifest.digest,
        "isolation": isolation,
        "gateway": gateway,
        "runtime": None if runtime is None else str(runtime.resolve()),
        "rootfs": None if rootfs is None else str(rootfs),
    }
    return hashlib.sha256(canonical(kind)).hexdigest()


def pool_socket(home: Home, key: str) -> Path:
    """Where the pool of this kind listens, if there is one."""
    return home.path / "pools" / f"{key}.sock"


async def take_pooled(
    home: Home,
    key: str,
    *,
    spki: str | None,
    launch: Launch,
    adopt: Callable[[int, Mapping[str, int]], LinkT],
) -> LinkT | None:
    """A supervisor from the pool of this kind, with its folder as the session's; None: there is none.

    Args:
        spki: the TLS key of the gateway that must have been appraised; None: it is not known here.
        launch: the session's record, which names the supervisor from now on.
        adopt: makes the link from process id and descriptors, which it owns, and sees that it is stopped one day.
    """
    path = pool_socket(home, key)
    if not path.exists():
        return None
    try:
        connection = await connect_user_socket(path)
    except StateError:
        return None
    pool, channel = peer_process(connection)[0], ControlChannel(connection)
    try:
        if (found := await _offer(channel, pool, spki)) is None:
            return None
        pid, slot, descriptors = found
        link = adopt(pid, descriptors)
        try:
            for process in _of_session(pid):
                give_callers(process, starter=pool)
            launch.add(home, pid)
            os.rename(home.session(slot), home.session(launch.session))
            Launch(slot, launch.launcher).remove(home)
            await channel.send(TAKEN)
        except (AffiantError, OSError, ValueError):
            await link.kill()  # the pool ends it, and gives up its folder if that is still its own
            remove_files(home, launch.session)
            return None
        return link
    finally:
        channel.close()


async def _offer(
    channel: ControlChannel, pool: int, spki: str | None
) -> tuple[int, str, Mapping[str, int]] | None:
    """Process id, folder and descriptors of what the process ``pool`` offers; None: nothing that can be taken."""
    try:
        require_same_confinement(Path("/proc/self"), Path(f"/proc/{pool}"))
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            await channel.send(TAKE)
            offer = await channel.receive()
    except (AffiantError, OSError, ValueError, TimeoutError):
        return None
    if offer is None:
        return None
    match offer.members:
        case {"event": str(event), "pid": int(pid), "slot": str(slot), "spki": str(appraised)} if (
            event == OFFER
            and offer.descriptors.keys() == _PARTS
            and _POOLED.match(slot) is not None
            and spki in {None, appraised}
        ):
            return pid, slot, offer.descriptors
    offer.close()
    return None


def _of_session(supervisor: int) -> tuple[int, ...]:
    """The supervisor, its runner and its broker: all processes in its own view of the file system.

    Raises:
        OSError: it has ended.
    """
    view = os.readlink(f"/proc/{supervisor}/ns/mnt")
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            if os.readlink(f"/proc/{name}/ns/mnt") == view:
                found.append(int(name))
    return tuple(found)
