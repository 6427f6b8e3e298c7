"""One bundle as the rows of the store: its verdict, its signers with their evidence, its records. Pure.

Only what is searched for is kept: no digest of content, no target, no user. A hidden value is kept where the bundle
discloses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from affiant.attestation.audit.receipts.evidence_facts import EvidenceFacts, evidence_facts
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.verdict import State, Verdict
from affiant.attestation.verifier.case.case import Case, Party
from affiant.attestation.verifier.case.epochs import epochs_of
from affiant.errors import NotAuthenticError

__all__ = ["BundleRow", "PartyRow", "ReceiptRow", "Rows", "rows_of"]


@dataclass(frozen=True, slots=True)
class BundleRow:
    """A bundle and its verdict when it was indexed."""

    digest: str
    trust: str
    name: str
    at: str
    build: str
    tier: str
    level: str | None
    simulated: bool
    exit_code: int
    refused: str
    """Reason codes of refused checks, separated by spaces."""


@dataclass(frozen=True, slots=True)
class PartyRow:
    """A signer, or a session whose keyset is not in the bundle (``keyset`` None)."""

    role: str
    kid: str
    keyset: str | None
    facts: EvidenceFacts


@dataclass(frozen=True, slots=True)
class ReceiptRow:
    """A record. ``gateway`` and ``session_key``: key thumbprints of those that it rests on."""

    receipt: str
    rh: str
    kind: str
    role: str
    at: int
    session: str | None
    profile: str | None
    profile_id: str | None
    model: str | None
    gateway: str | None
    session_key: str | None


@dataclass(frozen=True, slots=True)
class Rows:
    """All of one bundle."""

    bundle: BundleRow
    parties: Sequence[PartyRow]
    receipts: Sequence[ReceiptRow]


def rows_of(verdict: Verdict, case: Case | None, *, name: str) -> Rows:
    """The rows of an examined bundle.

    Raises:
        ``receipt_store.unverified``: it cannot be read, or one of its receipts is not authentic.
    """
    held = {check.code for check in verdict.checks if check.state is State.HELD}
    if case is None or "sig.receipts" not in case.established & held:
        refused = next((check for check in verdict.checks if check.state is State.REFUSED), None)
        raise NotAuthenticError(
            "not indexed: its receipts are not authentic" if case is not None else "not indexed: no bundle",
            found=None if refused is None else f"[{refused.reason}] by {refused.code}",
            code="receipt_store.unverified",
        )
    parties = {
        party.statement.receipt_kid: PartyRow(
            party.role,
            party.statement.receipt_kid,
            party.statement.keyset_digest,
            evidence_facts(case, party),
        )
        for party in case.parties
    }
    receipts = tuple(_receipts(case))
    for receipt in receipts:
        if receipt.session_key is not None and receipt.session_key not in parties:
            parties[receipt.session_key] = PartyRow("session", receipt.session_key, None, EvidenceFacts())
    return Rows(_bundle(verdict, name), tuple(parties.values()), receipts)


def _bundle(verdict: Verdict, name: str) -> BundleRow:
    return BundleRow(
        digest=verdict.bundle,
        trust=verdict.trust,
        name=name,
        at=verdict.at,
        build=verdict.build,
        tier=str(verdict.tier),
        level=verdict.level,
        simulated=verdict.simulated,
        exit_code=verdict.exit_code,
        refused=" ".join(sorted({check.reason for check in verdict.checks if check.reason is not None})),
    )


def _receipts(case: Case) -> Iterator[ReceiptRow]:
    gateways = {party.statement.keyset_digest: party.statement.receipt_kid for party in case.gateways}
    profiles = {
        (session.id, quoted.evd): epoch.profile_digest
        for session in case.sessions
        if session.manifest is not None
        for quoted, epoch in zip(session.supervisor.quoted, epochs_of(session), strict=False)
    }
    for party in case.parties:
        for record in party.records:
            yield _receipt(record, party, gateways, profiles)


def _receipt(
    record: VerifiedReceipt,
    party: Party,
    gateways: Mapping[str, str],
    profiles: Mapping[tuple[str, str], str],
) -> ReceiptRow:
    own = party.statement.receipt_kid
    gateway: str | None
    session_key: str | None
    session, evd = _text(record.member("agt", "ses")), _text(record.member("agt", "evd"))
    if party.role == "session":
        session, evd = party.statement.iss.rpartition(":")[2], _text(record.member("evd"))
        gateway, session_key = gateways.get(str(party.statement.gks)), own
    else:
        gateway, session_key = own, _text(record.member("agt", "key"))
    return ReceiptRow(
        receipt=record.jti,
        rh=record.rh,
        kind=record.kind,
        role=record.role,
        at=record.iat,
        session=session,
        profile=_text(record.member("pol", "dig")) or profiles.get((session or "", evd or "")),
        profile_id=record.disclosed.text("pol.id"),
        model=_text(record.member("mdl", "id")),
        gateway=gateway,
        session_key=session_key,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
