"""Which evidence a signer's records name, from which record on.

A gateway's never changes. A session's changes at its ``policy`` records and nowhere else, each time to one that was not
named before: the same keys, manifest and activation, over a nonce of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.statements.evidence import Evidence, parse_evidence
from affiant.attestation.statements.restriction import MAX_NARROWINGS
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.verdict.errors import EvidenceUnbound, NotMade
from affiant.attestation.verifier.case.case import Case, Party, Session
from affiant.attestation.verifier.case.signer_evidence import Quoted
from affiant.errors import AffiantError, NotAllowedError

__all__ = ["evidence_of", "object_named", "quoted_beyond", "quoted_by"]


def object_named(objects: Mapping[str, bytes], link: object, what: str) -> bytes:
    """The object that a 43-character ``link`` names.

    Raises:
        NotMade: the bundle does not carry it.
    """
    name = "sha256:" + from_b64u(str(link), size=32).hex()
    if name not in objects:
        raise NotMade(f"the bundle does not carry the {what} {name[:23]}...")
    return objects[name]


def quoted_by(case: Case, party: Party) -> list[Quoted]:
    """The evidence that the records of ``party`` name, in their order; nothing in it is appraised.

    Raises:
        NotMade: no record, or an evidence that the bundle does not carry.
        ``narrowing.event``: more than a session may have.
        EvidenceUnbound: another keyset, role, manifest or activation, one that changes without a narrowing or comes
            back, or a narrowing without one of its own.
    """
    if not party.records:
        raise NotMade(f"a {party.role} keyset without a record")
    found: list[Quoted] = []
    for record in sorted(party.records, key=lambda each: (each.chn, each.seq)):
        evd = str(record.member("evd"))
        if not found:
            found.append(Quoted(evd, _read(case, party, evd, (), where=record.jti)))
            continue
        if (evd != found[-1].evd) != (record.kind == "policy"):
            text = "a restriction without an evidence of its own" if evd == found[-1].evd else _CHANGED
            raise EvidenceUnbound(text, where=record.jti)
        if record.kind != "policy":
            continue
        if len(found) > MAX_NARROWINGS:
            text = "more restrictions than a session may have"
            raise NotAllowedError(
                text, expected=f"at most {MAX_NARROWINGS}", where=record.jti, code="narrowing.event"
            )
        if any(evd == each.evd for each in found):
            raise EvidenceUnbound("a restriction names evidence from before", where=record.jti)
        found.append(Quoted(evd, _read(case, party, evd, found, where=record.jti), epoch=len(found)))
    return found


_CHANGED = "records of one key name different evidence, and no restriction between them"


def quoted_beyond(case: Case, session: Session) -> Quoted | None:
    """The evidence of a last narrowing that the gateway acted on and the session's supervisor did not come to record.

    It died in between, or did not get the gateway's answer and ended the session.

    None where there is no such thing; what the gateway's records then name is for ``peer.bound`` to refuse. Only the
    session's own TD could have been quoted so, for its own keys: nobody else makes it an epoch more.
    """
    party = session.supervisor
    for record in session.gateway:
        evd = str(record.member("agt", "evd"))
        if all(evd != each.evd for each in party.quoted):
            try:
                evidence = _read(case, party, evd, party.quoted, where=record.jti)
            except AffiantError:
                return None
            return Quoted(evd, evidence, epoch=len(party.quoted), recorded=False)
    return None


def _read(case: Case, party: Party, evd: str, before: Sequence[Quoted], *, where: str) -> Evidence:
    evidence = parse_evidence(object_named(case.bundle.evidence, evd, "evidence"))
    if parse_statement(evidence.statement).keyset_digest != party.statement.keyset_digest:
        raise EvidenceUnbound("the evidence holds another keyset", where=where)
    if (evidence.manifest is None) != (party.role == "gateway"):
        raise EvidenceUnbound("the evidence is not of this role", where=where)
    for each in before:
        if (evidence.manifest, evidence.activation) != (each.evidence.manifest, each.evidence.activation):
            raise EvidenceUnbound("a restriction with another manifest or activation", where=where)
        if evidence.statement == each.evidence.statement:
            raise EvidenceUnbound("a restriction's quote over a nonce from before", where=where)
    return evidence


def evidence_of(session: Session, evd: object) -> Quoted | None:
    """The evidence of ``session`` that ``agt.evd`` of a record names; None: none of this session's."""
    for each in session.supervisor.quoted:
        if each.evd == evd:
            return each
    return None
