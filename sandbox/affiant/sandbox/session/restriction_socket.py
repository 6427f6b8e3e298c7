"""The socket at which a running session is asked to restrict its profile: ``sessions/ID/narrow.sock``, 0600.

The launcher listens while the session is open. A connection carries messages of the supervisor's control socket
(``control``), without descriptors: ``show`` is answered with the profile in force, ``narrow`` is passed
on to the supervisor, which decides. Nothing here is decided, and nothing is believed but that both ends are processes
of one user: under root the folder is the supervisor's user's, who could put a socket of its own in this place.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import AffiantError, MalformedError, StateError
from affiant.sandbox.base.errors import SessionBusy
from affiant.sandbox.base.user_socket import Connections, connect_user_socket, listening_user_socket
from affiant.sandbox.session.supervisor_link import Progress, SupervisorLink
from affiant.sandbox.supervisor.launch.control import ControlChannel, refusal_members, sent_error

__all__ = ["InForce", "RestrictionServer", "connected", "restriction_members"]

_CONNECTIONS: Final = 4
_IDLE_S: Final = 60.0
_BUSY_S: Final = 2.0
"""So long a client that is one too many may take to ask."""
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
        self.in_force = in_force
        """The profile that the session has now."""
        self._progress = progress
        self._connections = Connections(self._serve, most=_CONNECTIONS)

    @asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Listen at ``path`` for the length of the block; where no socket can be made, requests are not heard."""
        with listening_user_socket(path) as listener:
            if listener is None:
                yield
                return
            accepting = asyncio.create_task(self._connections.accept(listener))
            try:
                yield
            finally:
                await self._stop(accepting)

    async def _stop(self, accepting: asyncio.Task[None]) -> None:
        """Answer what waits, then close every connection."""
        self._link.abandon(
            StateError("the session is being closed", expected="one that is open", code="session.not_open")
        )
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        await self._connections.close(within_s=0.2)

    async def _serve(self, connection: socket.socket, busy: bool) -> None:  # noqa: FBT001
        channel = ControlChannel(connection)
        try:
            while True:
                async with asyncio.timeout(_BUSY_S if busy else _IDLE_S):
                    message = await channel.receive()
                if message is None:
                    return
                message.close()
                if busy:
                    error = SessionBusy("too many clients ask for this", expected=f"at most {_CONNECTIONS}")
                    await channel.send({"refused": refusal_members(error)})
                    return
                await channel.send(await self._answer(message.members))
        except (AffiantError, OSError, TimeoutError):
            return  # it speaks another protocol, or is gone: no answer would be read
        finally:
            channel.close()

    async def _answer(self, members: Mapping[str, object]) -> Mapping[str, object]:
        try:
            match members:
                case {"op": "show", **rest} if not rest:
                    return self.in_force.to_json()
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
            self.in_force = InForce(self.in_force.agent, form, epoch)
            self._progress("narrowed", {"epoch": epoch, "digest": str(answer.get("digest"))})
        return {"narrowed": {"epoch": epoch, "digest": answer.get("digest"), "changed": changed}}


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[ControlChannel]:
    """A connection to the session that listens at ``path``.

    Raises:
        ``session.not_open``: no process listens there, or another user's does. SessionBusy: too many wait there.
    """
    channel = ControlChannel(await connect_user_socket(path))
    try:
        yield channel
    finally:
        with suppress(OSError):
            channel.close()
