"""The gateway's approval queue, as the supervisor's proxy uses it: actions go out, approvers' statements come in.

Every request carries the session's proof. What comes back is believed in nothing: the proxy judges each statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.signatures.approvers.identities import MAX_SIGNED
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.approvals import Left
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway

__all__ = ["GatewayApprovalQueue"]

_MAX_ANSWER: Final = 1 << 20
_MAX_LEFT: Final = 16
"""Statements about one action: as many as a profile may name approvers."""
_RECORD: Final = re.compile(r"[A-Za-z0-9_-]{22}\Z")
_JSON_BODY: Final = ((b"Content-Type", b"application/json"),)


class GatewayApprovalQueue:
    """One session's side of the queue (``RemoteApprovalQueue``)."""

    def __init__(self, gateway: SessionGateway, *, session: str) -> None:
        self._gateway = gateway
        self._target = f"/v1/sessions/{session}/approvals"

    async def post(self, action: bytes) -> None:
        """Show an action to its approvers; again is the same.

        Raises:
            GatewayUnreachable: it is not known whether it is there, or it is not taken.
        """
        await self._asked("POST", self._target, action)

    async def fetch(self, name: str) -> Sequence[Left]:
        """What approvers left for the action with this SHA-256 name; what is of no form is passed over.

        Raises:
            GatewayUnreachable: it cannot be read now.
        """
        body = await self._asked("GET", f"{self._target}/{name.removeprefix('sha256:')}", b"")
        try:
            said = parse_object(body, limit=_MAX_ANSWER, strict_form=False).get("statements")
        except JSONError as error:
            raise GatewayUnreachable("the gateway's answer about an approval is none") from error
        found = []
        for each in said[:_MAX_LEFT] if isinstance(said, list) else ():
            match each:
                case {"statement": str(text), "record": str(record)} if len(
                    text
                ) <= MAX_SIGNED and _RECORD.match(record):
                    found.append(Left(text, record))
        return tuple(found)

    async def _asked(self, method: str, target: str, body: bytes) -> bytes:
        headers = _JSON_BODY if body else ()
        reply = await self._gateway.send(method, target, headers, body, cseq=None)
        try:
            data = await reply.body(_MAX_ANSWER)
        finally:
            await reply.close()
        if reply.status != 200:
            raise GatewayUnreachable(
                "the gateway does not take it", where=method, found=f"status {reply.status}"
            )
        return data
