"""The HTTP interface of approvals.

For a session, with its proof of possession: ``POST /v1/sessions/{id}/approvals`` (an action's exact bytes) and ``GET
/v1/sessions/{id}/approvals/{action}`` (what approvers said of it). For approvers, with ``Affiant-Approver``: ``GET
/v1/approvals``, ``GET /v1/approvals/{action}`` and ``POST /v1/approvals/{action}`` (a statement); for those who approve
by identity, ``POST /v1/approvers`` before (a bundle that says which key reads for them). An action is named by the 64
hexadecimal digits of its SHA-256.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.signatures.approvers.identities import BUNDLE_TYPE, MAX_SIGNED
from affiant.gateway.approvals.queue import GatewayApprovals, Post
from affiant.gateway.approvals.readers import Readers
from affiant.gateway.wire.http_request import require_media_type
from affiant.gateway.wire.routes import Request, Response, Routes, json_response

__all__ = ["add_approvers", "described"]

JOSE: Final = "application/jose"


def add_approvers(app: Routes, approvals: GatewayApprovals, readers: Readers, read: Any) -> None:
    """Add what approvers use.

    Args:
        read: the body of a request of an unknown caller, in bounds: an asynchronous context manager.
    """

    @app.post("/v1/approvers", body=_BUNDLE)
    async def introduce(request: Request) -> Response:
        """Whose the key of this request's proof is, on the word of an identity that profiles name."""
        async with read(request, MAX_SIGNED) as body:
            require_media_type(request.scope, BUNDLE_TYPE)
            return _json({"until": await readers.introduce(request.scope, body)})

    @app.get("/v1/approvals")
    async def listed(request: Request) -> Response:
        """What the approver's key may approve, or could have, in the sessions of this gateway."""
        who = readers.require(request.scope, b"")
        return _json({"approvals": [described(post) for post in approvals.listed(who)]})

    @app.get("/v1/approvals/{action}")
    async def one(request: Request, action: str) -> Response:
        """One action with its exact bytes."""
        who = readers.require(request.scope, b"")
        post = approvals.shown(who, f"sha256:{action}")
        return _json({**described(post), "bytes": b64u(post.waiting.action.raw)})

    @app.post("/v1/approvals/{action}", body=_STATEMENT)
    async def decide(request: Request, action: str) -> Response:
        """An approver's statement about one action; it counts once it is recorded."""
        async with read(request, MAX_SIGNED) as body:
            who = readers.require(request.scope, body)
            require_media_type(request.scope, BUNDLE_TYPE if body.startswith(b"{") else JOSE)
            return _json(await approvals.decide(who, f"sha256:{action}", body.decode("utf-8", "replace")))


def described(post: Post) -> Mapping[str, object]:
    """An action in a list: what it is, its state, and who has decided."""
    action = post.waiting.action
    return {
        "action": action.name,
        "session": action.session,
        "agent": action.members["agent"],
        "plane": action.plane,
        "state": post.waiting.phase.value,
        "made": action.made,
        "not_after": action.not_after,
        "quorum": post.quorum,
        "approved": sorted(each.kid for each in post.waiting.statements if each.approves),
        "denied": sorted(each.kid for each in post.waiting.statements if not each.approves),
    }


def _json(members: Mapping[str, object]) -> Response:
    return json_response(members, headers={"cache-control": "no-store"})


_BYTES: Final = {"schema": {"type": "string", "format": "binary"}}
_STATEMENT: Final[Mapping[str, Any]] = {JOSE: _BYTES, BUNDLE_TYPE: _BYTES}
_BUNDLE: Final[Mapping[str, Any]] = {BUNDLE_TYPE: _BYTES}
