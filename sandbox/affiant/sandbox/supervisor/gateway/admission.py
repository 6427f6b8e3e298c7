"""Asking for admission: this session's evidence, over the gateway's nonce, and what came of it.

The session key is made here and never leaves. The statement names it, the chain, the manifest, the activation and
the keyset of the gateway that was appraised; REPORTDATA of the quote is over exactly that statement. What the
gateway answers is verified as its record before it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.evidence import (
    ADMISSION_NONCE,
    Admission,
    Evidence,
    evidence_digest,
    wrap_admission,
    wrap_evidence,
)
from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.attestation.statements.statement import (
    KeysetStatement,
    parse_statement,
    report_data,
    session_statement,
)
from affiant.attestation.tdx.event_log.eventlog import EventLog
from affiant.errors import NotAuthenticError, UnreachableError
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.supervisor.gateway.appraise_gateway import AppraisedGateway
from affiant.sandbox.supervisor.gateway.gateway_client import GatewayClient, GatewayReply
from affiant.sandbox.supervisor.launch.errors import AdmissionError
from affiant.sandbox.supervisor.launch.launch_check import Launch

__all__ = [
    "ADMISSION_TYPE",
    "EPOCH_S",
    "SessionIdentity",
    "admit",
    "fetch_nonce",
    "gateway_refusal",
    "make_evidence",
    "make_identity",
]

EPOCH_S: Final = 60
"""How often this session's chain has an epoch record, also when nothing happens."""

_MAX_ANSWER: Final = 1 << 20
_JSON: Final = (b"Content-Type", b"application/json")
ADMISSION_TYPE: Final = (b"Content-Type", b"application/vnd.affiant.admission+cmw")


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """This session's key and the evidence for it."""

    signer: Signer = field(repr=False)
    chn: str
    statement: KeysetStatement
    evidence: bytes = field(repr=False)

    @property
    def evd(self) -> str:
        """Digest of the evidence record (43 characters)."""
        return evidence_digest(self.evidence)


async def fetch_nonce(client: GatewayClient) -> str:
    """The gateway's single-use nonce (43 characters).

    Raises:
        GatewayUnreachable, AdmissionError: none was given.
    """
    members = _members(*await client.post("/v1/sessions/nonce", (_JSON,), b"{}", limit=_MAX_ANSWER))
    nonce = members.get("nonce")
    if not isinstance(nonce, str):
        raise GatewayUnreachable("the gateway gives no nonce", expected="a member 'nonce'")
    return nonce


def make_identity(
    td: QuoteSource,
    launch: Launch,
    log: EventLog,
    gateway: AppraisedGateway,
    *,
    signer: Signer,
    chn: str,
    nonce: str,
) -> SessionIdentity:
    """Evidence that binds the key over the gateway's ``nonce``. Blocks on the platform.

    Args:
        signer: this session's key, made for it alone.
    """
    evidence = make_evidence(td, launch, log, signer, gks=gateway.keyset_digest, chn=chn, nonce=nonce)
    return SessionIdentity(signer, chn, parse_statement(evidence.statement), wrap_evidence(evidence))


def make_evidence(
    td: QuoteSource, launch: Launch, log: EventLog, signer: Signer, *, gks: str, chn: str, nonce: str
) -> Evidence:
    """Evidence of this session as its TD is now, for the same key each time. Blocks on the platform.

    Args:
        gks: digest of the gateway's keyset. chn: the session's chain. nonce: the gateway's.
    """
    statement = session_statement(
        session=launch.activation.session,
        cls=launch.manifest.cls,
        chn=chn,
        key=signer.public_key,
        man=launch.manifest.digest,
        act=launch.activation.digest,
        gks=gks,
        epoch_s=EPOCH_S,
        not_after=launch.activation.expires,
        nonce=nonce,
    )
    return Evidence(
        quote=td.quote(report_data(statement)),
        eventlog=log.to_bytes(),
        statement=statement,
        manifest=launch.manifest.raw,
        activation=launch.activation.raw,
    )


class Granted(NamedTuple):
    """An admission: the gateway's head for the session, and when it closes the session, in seconds since 1970.

    That is the activation's end, or earlier: the gateway's longest session, or the end of what the evidence rests on.
    """

    head: Head
    expires: int


async def admit(
    client: GatewayClient, launch: Launch, identity: SessionIdentity, gateway: AppraisedGateway
) -> Granted:
    """Ask for admission; what the gateway says once it is granted.

    Raises:
        AdmissionError: the gateway refuses; with its code.
        ``session.admission_mismatch``: it answers with something that is not its record of this admission.
        GatewayUnreachable: no answer.
    """
    body = wrap_admission(Admission(identity.evidence, launch.policy.normal_form, launch.signature))
    nonce = (ADMISSION_NONCE.encode("ascii"), str(identity.statement.nonce).encode("ascii"))
    members = _members(*await client.post("/v1/sessions", (ADMISSION_TYPE, nonce), body, limit=_MAX_ANSWER))
    start, expires = members.get("start"), members.get("expires")
    if members.get("ksd") != gateway.keyset_digest or not isinstance(start, str):
        raise NotAuthenticError(
            "the admission is not by the keyset that was appraised", code="session.admission_mismatch"
        )
    record = verify_receipt(parse_receipt(start), gateway.statement)
    _check_start(record, launch, identity)
    if not isinstance(expires, int) or expires <= record.iat:
        raise NotAuthenticError(
            "the admission lacks the session's end time", code="session.admission_mismatch"
        )
    return Granted(Head(record.chn, record.seq, record.rh), min(expires, launch.activation.expires))


def _check_start(record: VerifiedReceipt, launch: Launch, identity: SessionIdentity) -> None:
    task = launch.activation.task
    facts: tuple[tuple[str, object, object], ...] = (
        ("kind", "session-start", record.kind),
        ("session", launch.activation.session, record.member("agt", "ses")),
        ("evidence", identity.evd, record.member("agt", "evd")),
        ("session key", identity.signer.kid, record.member("agt", "key")),
        ("policy", launch.manifest.profile_digest, record.member("pol", "dig")),
        ("manifest", launch.manifest.digest, record.member("man", "man")),
        ("activation", launch.activation.digest, record.member("man", "act")),
        ("release of the isolation", launch.activation.release, record.member("rel")),
        ("task label", None if task is None else list(task), record.member("tsk", "_sd")),
    )
    for what, expected, found in facts:
        if expected != found:
            raise NotAuthenticError(
                f"the admission names another {what}",
                expected=expected,
                found=str(found),
                code="session.admission_mismatch",
            )


def _members(reply: GatewayReply, data: bytes) -> Mapping[str, object]:
    """The members of a JSON answer; a refusal of the gateway's is raised as one."""
    try:
        members = parse_object(data, strict_form=False)
    except JSONError as error:
        raise GatewayUnreachable(
            "the gateway's answer is not JSON", found=f"status {reply.status}"
        ) from error
    if reply.status in {200, 201}:
        return members
    refusal = gateway_refusal(members, reply.status)
    if refusal.gateway_code == "gateway.draining":
        raise UnreachableError(
            "the gateway takes no new sessions: it is about to be stopped",
            hint="Run the command again after the gateway has restarted, or name another one with --gateway",
            code="gateway.draining",
        )
    raise refusal


def gateway_refusal(members: Mapping[str, object], status: int) -> AdmissionError:
    """The gateway's error body as a refusal."""
    error = members.get("error")
    shown = error if isinstance(error, Mapping) else {}
    code, message = shown.get("code"), shown.get("message")
    return AdmissionError(
        f"the gateway refuses: {str(message)[:300]}"
        if message
        else f"the gateway refuses with status {status}",
        gateway_code=str(code)[:80] if code else f"http.{status}",
    )
