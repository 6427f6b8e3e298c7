"""The socket at which a running session is asked to restrict its profile: ``sessions/ID/narrow.sock``, 0600.

The launcher listens while the session is open. A connection carries messages of the supervisor's control socket
(``control``), without descriptors: ``show`` is answered with the profile in force, ``narrow`` is passed
on to the supervisor, which decides. Nothing here is decided, and nothing is believed but that both ends are processes
of one user: under root the folder is the supervisor's user's, who could put a socket of its own in this place.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import AffiantError, MalformedError, StateError
from affiant.sandbox.base.template_order import peer_process
from affiant.sandbox.session.supervisor_link import Progress, SupervisorLink
from affiant.sandbox.supervisor.launch.control import ControlChannel, refusal_members, sent_error
from affiant.socket_address import reachable_address

__all__ = ["InForce", "RestrictionServer", "bound", "connected", "peer_user", "restriction_members"]

_CONNECTIONS: Final = 4
_IDLE_S: Final = 60.0
_MAX_POLICY: Final = 700_000
_MAX_SIGNATURE: Final = 200_000
"""Characters: a request of both is a message that the supervisor takes. A larger one would end the session there."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The profile in force: its normal form, and how often it was restricted. ``agent``: whose."""

    agent: str
    policy: bytes
    epoch: int

    def to_json(self) -> Mapping[str, object]:
        """As ``show`` is answered."""
        return {"agent": self.agent, "policy": b64u(self.policy), "epoch": self.epoch}

    @classmethod
    def from_json(cls, members: Mapping[str, object]) -> InForce:
        """Read strictly.

        Raises:
            ``session.control``: another form. EncodingError: not base64url.
        """
        match members:
            case {"agent": str(agent), "policy": str(policy), "epoch": int(epoch), **rest} if not rest:
                return cls(agent, from_b64u(policy), epoch)
        raise MalformedError("not an answer about the profile in force", where="show", code="session.control")


def restriction_members(policy: bytes, file_digest: str, signature: bytes | None) -> Mapping[str, object]:
    """The members of a request, as ``parse_restriction_request`` reads them."""
    return {
        "policy": b64u(policy),
        "file": file_digest,
        "signature": None if signature is None else b64u(signature),
    }


class RestrictionServer:
    """Listens for one session.

    Args:
        progress: called with each restriction.
    """

    def __init__(self, link: SupervisorLink, in_force: InForce, progress: Progress) -> None:
        self._link = link
        self._in_force = in_force
        self._progress = progress
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Listen at ``path`` for the length of the block; where no socket can be made, requests are not heard."""
        with bound(path) as listener:
            if listener is None:
                yield
                return
            accepting = asyncio.create_task(self._accept(listener))
            try:
                yield
            finally:
                await self._stop(accepting)

    async def _stop(self, accepting: asyncio.Task[None]) -> None:
        """Answer what waits, then close every connection."""
        self._link.abandon(
            StateError("the session is being closed", expected="one that is open", code="session.not_open")
        )
        tasks = [accepting, *self._connections]
        await asyncio.sleep(0)
        if self._connections:
            await asyncio.wait(self._connections, timeout=0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(listener)
            if len(self._connections) >= _CONNECTIONS or peer_user(connection) != os.geteuid():
                connection.close()
                continue
            task = asyncio.create_task(self._serve(ControlChannel(connection)))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, channel: ControlChannel) -> None:
        try:
            while True:
                async with asyncio.timeout(_IDLE_S):
                    message = await channel.receive()
                if message is None:
                    return
                message.close()
                await channel.send(await self._answer(message.members))
        except (AffiantError, OSError, TimeoutError):
            return  # it speaks another protocol, or is gone: no answer would be read
        finally:
            channel.close()

    async def _answer(self, members: Mapping[str, object]) -> Mapping[str, object]:
        try:
            match members:
                case {"op": "show", **rest} if not rest:
                    return self._in_force.to_json()
                case {
                    "op": "narrow",
                    "policy": str(policy),
                    "file": str(file),
                    "signature": signature,
                    **rest,
                } if not rest:
                    return await self._restricted(policy, file, signature)
            raise MalformedError(
                "not a request of this socket", expected="show or narrow", code="session.control"
            )
        except AffiantError as refusal:
            return {"refused": refusal_members(refusal)}

    async def _restricted(self, policy: str, file: str, signature: object) -> Mapping[str, object]:
        if len(policy) > _MAX_POLICY or (isinstance(signature, str) and len(signature) > _MAX_SIGNATURE):
            raise MalformedError(
                "the profile or its signature is too large", where="narrow", code="session.control"
            )
        if len(file) > 100 or not isinstance(signature, (str, type(None))):
            raise MalformedError("not a request of this socket", where="narrow", code="session.control")
        form = from_b64u(policy)
        if signature is not None:  # other characters are longer in the message than they are many
            from_b64u(signature)
        answer = await self._link.ask(
            {"op": "narrow", "policy": policy, "file": file, "signature": signature}
        )
        if answer.get("event") != "narrowed":
            raise sent_error(answer)
        epoch, changed = answer.get("epoch"), answer.get("changed") is True
        if changed and isinstance(epoch, int):
            self._in_force = InForce(self._in_force.agent, form, epoch)
            self._progress("narrowed", {"epoch": epoch, "digest": str(answer.get("digest"))})
        return {"narrowed": {"epoch": epoch, "digest": answer.get("digest"), "changed": changed}}


@contextmanager
def bound(path: Path) -> Iterator[socket.socket | None]:
    """A socket that only its owner can open, gone with the block; None: it cannot be made, as on a full disk."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            os.fchmod(listener.fileno(), 0o600)
            with reachable_address(path) as address:
                listener.bind(address)
            listener.listen(_CONNECTIONS)
            listener.setblocking(False)  # noqa: FBT003 - the socket module's own signature
        except OSError:  # the session is not worth less for that
            yield None
            return
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[ControlChannel]:
    """A connection to the session that listens at ``path``.

    Raises:
        ``session.not_open``: no process listens there, or another user's does.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with reachable_address(path) as address:
            connection.connect(address)
        if peer_user(connection) != os.geteuid():
            raise StateError(
                "another user listens in the session's place", where=str(path), code="session.not_open"
            )
    except OSError as error:
        connection.close()
        raise StateError(
            "the session takes no requests",
            expected="one that is open",
            found=error.strerror,
            code="session.not_open",
        ) from error
    except BaseException:
        connection.close()
        raise
    channel = ControlChannel(connection)
    try:
        yield channel
    finally:
        with suppress(OSError):
            channel.close()


def peer_user(connection: socket.socket) -> int:
    """The user at the other end (unix(7), SO_PEERCRED)."""
    return peer_process(connection)[1]
