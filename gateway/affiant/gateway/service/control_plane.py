"""Everything that is not inference: evidence, admission, a session's records, receipts, health.

Bodies are read as bytes, because proofs and records cover bytes. Two faces: the public one on TLS, where a
session proves itself, and the operator's, on a Unix socket only its owner can open, which hands out what is
sealed to others anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.erasure.request_file import MAX_REQUEST, parse_request
from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.statements.evidence import ADMISSION_NONCE
from affiant.attestation.tlog.errors import TileMalformed
from affiant.errors import AffiantError, MalformedError, NotAuthenticError, StateError
from affiant.gateway.admission.child_starts import MAX_ANNOUNCED
from affiant.gateway.admission.draining import MAX_DRAIN_S
from affiant.gateway.approvals.approval_routes import add_approvers
from affiant.gateway.service.openapi import INFERENCE_PATHS, openapi_document
from affiant.gateway.service.service import Service
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.recorder import for_agent
from affiant.gateway.sessions.sessions import Session, SessionState
from affiant.gateway.store.journal import DURABLE_WITHIN_S, durable
from affiant.gateway.wire.bodies import MAX_ADMISSION, Body, Share
from affiant.gateway.wire.connections import peer_of, prove
from affiant.gateway.wire.errors import BundleTooLarge, Busy, Crowded, JournalUnavailable, RequestMalformed
from affiant.gateway.wire.http_request import (
    ClientGone,
    header,
    proof_head,
    require_media_type,
)
from affiant.gateway.wire.routes import (
    FORM_STATUS,
    Application,
    Request,
    Response,
    Routes,
    application,
    error_response,
    form_error,
    json_response,
)
from affiant.policy.approvals.action import MAX_ACTION

__all__ = ["control_plane", "operator_plane"]

ADMISSION_TYPE: Final = "application/vnd.affiant.admission+cmw"
RECEIPT_TYPE: Final = "application/vnd.affiant.receipt"
PROOF_TYPE: Final = "text/plain; charset=utf-8"
_OCTETS: Final = "application/octet-stream"
LOG_PREFIX: Final = "/log"
OPENINGS_HEADER: Final = "Affiant-Openings"
ON_BEHALF_HEADER: Final = "Affiant-On-Behalf"
RECEIPT_ID_HEADER: Final = "Affiant-Receipt-Id"

_SENT_AGAIN: Final = frozenset({Crowded.code, "gateway.memory"})
"""Codes of a request of which nothing was done. Its caller sends it again, so it gets the code without a record too."""
_JSON: Final = "application/json"
_MAX_SMALL: Final = 4096
_MAX_RECORD: Final = 64 << 10

_ATTEST: Final[Mapping[str, Any]] = {
    "type": "object",
    "title": "Attest",
    "description": "A request for fresh evidence.",
    "additionalProperties": False,
    "required": ["nonce"],
    "properties": {
        "nonce": {
            "type": "string",
            "title": "Nonce",
            "description": "32 random bytes of the caller, base64url: 43 characters",
        }
    },
}

_CHILD: Final[Mapping[str, Any]] = {
    "type": "object",
    "title": "Child",
    "description": "A session that the session's agent starts.",
    "additionalProperties": False,
    "required": ["session", "agent", "policy"],
    "properties": {
        "session": {"type": "string", "title": "Session", "description": "Its id: 22 characters"},
        "agent": {
            "type": "string",
            "title": "Agent",
            "description": "Its agent, which the session's profile may start",
        },
        "policy": {"type": "string", "title": "Policy", "description": "The digest of its profile"},
    },
}

_DECISIONS: Final[Mapping[str, Any]] = {
    "type": "object",
    "title": "Decisions",
    "description": "Which of the session's decisions are asked for.",
    "additionalProperties": False,
    "properties": {
        "after": {
            "type": ["integer", "null"],
            "title": "After",
            "description": "Number of the first line that is wanted, from 0 on; null: no lines",
        }
    },
}


_DRAIN: Final[Mapping[str, Any]] = {
    "type": "object",
    "title": "Drain",
    "description": "Options for draining the gateway.",
    "additionalProperties": False,
    "required": ["within"],
    "properties": {
        "within": {
            "type": "integer",
            "title": "Within",
            "description": "Seconds that open sessions have to end by themselves, from 0 on",
        }
    },
}


def control_plane(service: Service, decisions: GatewayDecisions) -> Application:
    """The public face; ``decisions``: what was decided of each session."""
    app = Routes()
    _add_identity(app, service)
    _add_admission(app, service)
    _add_session(app, service)
    _add_decisions(app, service, decisions)
    _add_receipts(app, service)
    _add_models(app, service)
    add_approvers(
        app,
        service.approvals,
        service.readers,
        lambda request, limit: _stranger(service, request, limit=limit),
    )
    _add_log(app, service)
    _add_health(app, service)
    return application(app, lambda: openapi_document("affiant gateway", app.listed, INFERENCE_PATHS))


def operator_plane(service: Service) -> Application:
    """The face on the operator's Unix socket: no proof, and nothing that is not sealed."""
    app = Routes()
    _add_log(app, service)
    _add_health(app, service)

    @app.get("/v1/sessions")
    async def sessions(_: Request) -> Response:
        return json_response(await service.overview())

    @app.get("/v1/sessions/{session}/bundle")
    async def bundle(_: Request, session: str) -> Response:
        return json_response(await service.bundles.of_session(session))

    @app.get("/v1/tools")
    async def tools(_: Request) -> Response:
        """What the tool servers serve now, for authors of profiles."""
        if service.tools is None:
            raise StateError(
                "this gateway has no tool servers",
                hint="affiant gateway serve --mcp-servers FILE",
                code="not_found",
            )
        return json_response(await service.tools.overview())

    @app.post("/v1/orders")
    async def orders(request: Request) -> Response:
        """Erase, hold, end a hold: what an authority has signed."""
        async with _stranger(service, request, limit=MAX_REQUEST) as body:
            taken = await service.erasing.take(parse_request(body))
        return json_response({"orders": list(taken)})

    @app.get("/v1/drain")
    async def draining(_: Request) -> Response:
        """How far the gateway is drained."""
        return json_response(service.drain.report())

    @app.post("/v1/drain", body={_JSON: {"schema": _DRAIN}})
    async def drain(request: Request) -> Response:
        """Take no new sessions, and end those that are open; again, with another bound."""
        async with _stranger(service, request, limit=_MAX_SMALL) as body:
            service.drain.begin(within_s=_within(body))
        return json_response(service.drain.report())

    return application(app, lambda: openapi_document("affiant gateway, operator's socket", app.listed, {}))


@asynccontextmanager
async def _stranger(service: Service, request: Request, *, limit: int) -> AsyncIterator[bytes]:
    """The body of an unknown caller; its memory is held until the block ends."""
    with service.bodies.strangers.share(peer_of(request.scope)) as share:
        yield (await _read(service, request, share, limit=limit)).require(limit)


@asynccontextmanager
async def _authenticated(
    service: Service, request: Request, session: str | None, *, limit: int
) -> AsyncIterator[tuple[Session, bytes]]:
    """The session whose proof covers this request, and its body; another session's path looks like no path."""
    proof = header(request.scope, PROOF_HEADER)
    found = service.authenticator.session_of(proof)
    if proof is None:
        raise NotAuthenticError("no proof of possession", code="proof.missing")
    held = service.authenticator.verify(found, proof, proof_head(request.scope), counted=False)
    prove(request.scope, found.id)
    with service.bodies.memory.share() as share:
        read = await _read(service, request, share, limit=limit)
        held.covering(read.sha256)
        if session is not None and found.id != session:
            raise StateError("there is no such session", code="not_found")
        yield found, read.require(limit)


async def _reader(service: Service, request: Request, session: str | None = None) -> Session:
    """The session whose proof covers a request that reads something."""
    async with _authenticated(service, request, session, limit=_MAX_SMALL) as (found, _):
        return found


async def _gone(request: Request) -> None:
    """Return when the client's connection has ended; the request must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _read(service: Service, request: Request, share: Share, *, limit: int) -> Body:
    try:
        return await service.bodies.read(request.scope, request.receive, share, limit=limit)
    except ClientGone as error:
        raise RequestMalformed("the body ended early") from error


def _add_identity(app: Routes, service: Service) -> None:
    @app.post("/.well-known/affiant/attest", body={_JSON: {"schema": _ATTEST}})
    async def attest(request: Request) -> Response:
        """Fresh evidence of this gateway over the caller's nonce."""
        async with _stranger(service, request, limit=_MAX_SMALL) as body:
            nonce, wrong = _wanted_nonce(body)
        if nonce is None:
            return error_response(form_error(wrong), status=FORM_STATUS)
        async with service.quoting.turn(request.scope):
            return json_response({"evidence": b64u(await service.attest(nonce))})

    @app.get("/.well-known/affiant/keyset")
    async def keyset(_: Request) -> Response:
        """The keyset statement without a nonce, as exact bytes."""
        return json_response(service.keyset.statement.raw)

    @app.get("/.well-known/affiant/config")
    async def config(_: Request) -> Response:
        """The configuration document, as exact bytes."""
        return json_response(service.config.raw)


def _add_admission(app: Routes, service: Service) -> None:
    @app.post("/v1/sessions/nonce")
    async def nonce(_: Request) -> Response:
        """A nonce for one admission."""
        service.require_serving()
        return json_response({"nonce": service.admissions.nonce()})

    @app.post("/v1/sessions", body=_bytes(ADMISSION_TYPE), status=201)
    async def admit(request: Request) -> Response:
        """Admit a session by its evidence, over the nonce in ``Affiant-Admission-Nonce``. A refusal is receipted."""
        body = b""
        try:
            require_media_type(request.scope, ADMISSION_TYPE)
            nonce = service.admissions.require_nonce(header(request.scope, ADMISSION_NONCE))
            async with (
                _stranger(service, request, limit=MAX_ADMISSION) as body,
                service.appraising.turn(request.scope),
            ):
                return json_response(await service.admit(body, nonce), 201)
        except JournalUnavailable as error:
            return error_response(error)
        except AffiantError as error:
            try:
                # what it raises is reported as it is
                recorded = service.record_refusal(error, path="/v1/sessions", body=body)
            except Busy:
                if error.code not in _SENT_AGAIN:
                    raise
                return error_response(error)
            await recorded.durable
            return error_response(error, headers={RECEIPT_ID_HEADER: recorded.jti})

    @app.post("/v1/sessions/{session}/proof-key")
    async def proof_key(request: Request, session: str) -> Response:
        """A key of 32 bytes for the session's proofs by MAC, once; it ends with the session and is stored nowhere."""
        async with _authenticated(service, request, session, limit=_MAX_SMALL) as (found, _):
            key = service.authenticator.give_mac_key(found)
        return json_response({"key": b64u(key)}, headers={"cache-control": "no-store"})


def _add_session(app: Routes, service: Service) -> None:
    @app.post("/v1/sessions/{session}/records", body=_bytes("application/jose"))
    async def records(request: Request, session: str) -> Response:
        """Take the next record of the session's own chain."""
        async with _authenticated(service, request, session, limit=_MAX_RECORD) as (found, body):
            require_media_type(request.scope, "application/jose")
            sealed, text = request.headers.get(OPENINGS_HEADER, ""), body.decode("ascii", "replace")
            return json_response(await service.submissions.take(found, text, sealed=sealed))

    @app.post("/v1/sessions/{session}/narrow", body=_bytes(ADMISSION_TYPE))
    async def narrow(request: Request, session: str) -> Response:
        """Narrow the session's profile by fresh evidence. A refusal is receipted."""
        async with _authenticated(service, request, session, limit=MAX_ADMISSION) as (found, body):
            try:
                require_media_type(request.scope, ADMISSION_TYPE)
                return json_response(await service.restrict(found, body))
            except JournalUnavailable as error:
                return error_response(error)
            except AffiantError as error:
                path = str(request.scope["path"])
                recorded = service.record_rejected_restriction(found, error, path=path, body=body)
                if recorded is None:
                    return error_response(error)
                await durable(recorded.durable, within_s=DURABLE_WITHIN_S)  # else reported as it is
                return error_response(error, headers={RECEIPT_ID_HEADER: recorded.jti})

    @app.post("/v1/sessions/{session}/children", body={_JSON: {"schema": _CHILD}})
    async def child(request: Request, session: str) -> Response:
        """Announce a session that the session's agent starts; it is admitted as its child."""
        async with _authenticated(service, request, session, limit=MAX_ANNOUNCED) as (found, body):
            require_media_type(request.scope, _JSON)
            now = service.clock().timestamp()
            return json_response(service.admissions.starts.announce(found, body, now=now))

    @app.get("/v1/sessions/{session}/children/{child}")
    async def admitted_child(request: Request, session: str, child: str) -> Response:
        """Whether an announced session was admitted as this one's child."""
        found = await _reader(service, request, session)
        return json_response({"admitted": service.admissions.starts.is_admitted(found, child)})

    @app.post("/v1/sessions/{session}/close", body=_bytes("application/json"))
    async def close(request: Request, session: str) -> Response:
        """Close the session; again, the same answer."""
        async with _authenticated(service, request, session, limit=_MAX_SMALL) as (found, body):
            why = _why(body)
        return json_response(await service.closing.close(found, why))

    @app.post("/v1/sessions/{session}/approvals", body=_bytes("application/json"))
    async def ask(request: Request, session: str) -> Response:
        """An action that the session's supervisor holds until it is approved; again, the same answer."""
        async with _authenticated(service, request, session, limit=MAX_ACTION) as (found, body):
            require_media_type(request.scope, "application/json")
            waiting = service.approvals.post(found, body)
        return json_response({"action": waiting.action.name, "state": waiting.phase.value})

    @app.get("/v1/sessions/{session}/approvals/{action}")
    async def said(request: Request, session: str, action: str) -> Response:
        """What approvers said of one action of the session, as far as it is recorded."""
        found = await _reader(service, request, session)
        return json_response(service.approvals.statements(found, f"sha256:{action}"))

    @app.get("/v1/sessions/{session}/bundle")
    async def bundle(request: Request, session: str) -> Response:
        """The session's bundle, and the sealed openings of its records."""
        found = await _reader(service, request, session)
        closed = found.state is SessionState.CLOSED  # while it is read, the session may be closed
        try:
            made = await service.bundles.of_session(found.id)
        except BundleTooLarge:
            found.bundle_given |= closed  # its archive is read from the store
            raise
        found.bundle_given |= closed
        return json_response(made)

    @app.get("/v1/sessions/{session}/draining")
    async def draining(request: Request, session: str) -> Response:
        """Whether the session is to be closed because the gateway will stop; held until it is, or for half a minute."""
        found = await _reader(service, request, session)
        return json_response({"close": await service.drain.is_to_close(found, _gone(request))})


def _add_decisions(app: Routes, service: Service, decisions: GatewayDecisions) -> None:
    @app.post("/v1/sessions/{session}/decisions", body={_JSON: {"schema": _DECISIONS}})
    async def decided(request: Request, session: str) -> Response:
        """What was denied to the session, and its decisions from a number on; those before are kept no longer."""
        async with _authenticated(service, request, session, limit=_MAX_SMALL) as (found, body):
            after = _after(body)
        return json_response(decisions.follow(found, after))


def _add_receipts(app: Routes, service: Service) -> None:
    async def receipt_of(receipt: str, request: Request) -> tuple[Session, str]:
        """The receipt with its disclosures, for the session it belongs to; for its agent, without user and tenant."""
        found = await _reader(service, request)
        text = found.receipt(receipt)
        if text is None:
            raise StateError("there is no such receipt", code="not_found")
        on_behalf = request.headers.get(ON_BEHALF_HEADER) is not None
        return found, for_agent(text) if on_behalf else text

    @app.get("/v1/receipts/{receipt}", media=RECEIPT_TYPE)
    async def receipt(request: Request, receipt: str) -> Response:
        """One receipt; another session's looks like none."""
        _, text = await receipt_of(receipt, request)
        return Response(text, media_type=RECEIPT_TYPE)

    @app.get("/v1/receipts/{receipt}/proof", media=PROOF_TYPE)
    async def receipt_proof(request: Request, receipt: str) -> Response:
        """That the receipt is in the transparency log: C2SP tlog-proof."""
        _, text = await receipt_of(receipt, request)
        return Response(await service.bundles.proof_of(text), media_type=PROOF_TYPE)

    @app.get("/v1/receipts/{receipt}/bundle")
    async def receipt_bundle(request: Request, receipt: str) -> Response:
        """One receipt and what is needed to check it."""
        found, text = await receipt_of(receipt, request)
        return json_response(await service.bundles.of_receipt(found.id, text))


def _add_models(app: Routes, service: Service) -> None:
    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        """The models that the upstreams list and the session's profile allows."""
        return json_response({"object": "list", "data": [_model(name) for name in await listed(request)]})

    @app.get("/v1/models/{model:path}")
    async def model(request: Request, model: str) -> Response:
        """One of these models."""
        if model not in await listed(request):
            raise StateError("no such model", found=model[:64], code="model.not_found")
        return json_response(_model(model))

    async def listed(request: Request) -> Sequence[str]:
        session = await _reader(service, request)
        session.require_open(now=service.clock().timestamp())
        policy = session.admitted.policy
        return [name for name in await service.upstreams.models() if policy.decide_model(name).allowed]


def _model(name: str) -> Mapping[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "upstream"}


def _add_log(app: Routes, service: Service) -> None:
    @app.get(LOG_PREFIX + "/checkpoint", media=PROOF_TYPE)
    async def checkpoint(_: Request) -> Response:
        """The log's last checkpoint (C2SP tlog-tiles)."""
        return Response(
            service.log.head.note.to_bytes(),
            headers={"cache-control": "no-cache"},
            media_type=PROOF_TYPE,
        )

    @app.get(LOG_PREFIX + "/tile/{path:path}", media=_OCTETS)
    async def tile(_: Request, path: str) -> Response:
        """A tile or an entry bundle that the last checkpoint implies. Public: leaves tell nothing of content."""
        try:
            data = await asyncio.to_thread(service.log.read, f"tile/{path}")
        except TileMalformed as error:
            raise StateError("there is no such file in the log", code="not_found") from error
        if data is None:
            raise StateError("there is no such file in the log", code="not_found")
        forever = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(data, headers=forever, media_type=_OCTETS)


def _add_health(app: Routes, service: Service) -> None:
    @app.get("/healthz")
    async def healthz(_: Request) -> Response:
        """Whether the process answers."""
        return json_response({"status": "ok"})

    @app.get("/readyz", also=(503,))
    async def readyz(_: Request) -> Response:
        """Whether new sessions and requests are taken."""
        return json_response({"ready": service.ready}, 200 if service.ready else 503)


def _why(body: bytes) -> str:
    """Why a session is to be closed."""
    why = parse_object(body, limit=_MAX_SMALL, strict_form=False).get("why")
    if why not in ("done", "killed", "policy"):
        raise RequestMalformed("not a reason to close", expected="done, killed or policy", where="why")
    return str(why)


def _within(body: bytes) -> int:
    """The seconds that open sessions have to end by themselves."""
    within = parse_object(body, limit=_MAX_SMALL, strict_form=False).get("within")
    if not (type(within) is int and 0 <= within <= MAX_DRAIN_S):
        raise RequestMalformed("not a time", expected=f"seconds, 0 to {MAX_DRAIN_S}", where="within")
    return within


def _after(body: bytes) -> int | None:
    """The number of the first line that is wanted; None: none are."""
    after = parse_object(body, limit=_MAX_SMALL, strict_form=False).get("after")
    if after is not None and not (type(after) is int and after >= 0):
        raise RequestMalformed("not a line's number", expected="a number from 0 on, or null", where="after")
    return after


def _wanted_nonce(body: bytes) -> tuple[str | None, list[str]]:
    """The nonce of a request for evidence; None, and what is wrong, where it is no such request."""
    try:
        members = parse_object(body, limit=_MAX_SMALL, strict_form=False)
    except MalformedError:
        return None, []
    nonce = members.get("nonce")
    wrong = [name for name in members if name != "nonce"]
    if not isinstance(nonce, str):
        return None, ["nonce", *wrong]
    return None if wrong else nonce, wrong


def _bytes(media_type: str) -> Mapping[str, Any]:
    return {media_type: {"schema": {"type": "string", "format": "binary"}}}
