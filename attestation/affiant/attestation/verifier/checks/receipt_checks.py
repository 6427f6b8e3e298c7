"""L0: receipts are authentic under the keys that the bundle names."""

from __future__ import annotations

from typing import Final

from affiant.attestation.records.receipt import ReceiptText, VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.statement import KeysetStatement, parse_statement
from affiant.attestation.verdict.errors import ChainBroken, NotMade
from affiant.attestation.verdict.verdict import Finding
from affiant.attestation.verifier.case.case import Case, Party, Session
from affiant.errors import AffiantError, NotAuthenticError

__all__ = ["DistinctKeysets", "KeyUnknown", "check_keysets", "check_kinds", "check_receipts"]


class KeyUnknown(NotAuthenticError):
    """A receipt is signed by a key that no keyset in the bundle names."""

    code = "sig.unknown_key"


_UNJUDGED: Final = frozenset({"snapshot", "fork", "handoff"})
"""Kinds whose meaning (lineage) is not checked yet."""


def check_keysets(case: Case) -> Finding:
    """``fmt.keysets``: every keyset statement is in its closed form, and no two claim one key, chain or session.

    A second keyset of one session would be a signer beside the one that is judged: nobody would ask for its quote.
    """
    if not case.bundle.keysets:
        raise NotMade("the bundle has no keyset")
    keysets = DistinctKeysets()
    for digest, raw in sorted(case.bundle.keysets.items()):
        case.parties.append(Party(keysets.take(digest, raw)))
    return Finding(f"{len(case.parties)} keysets in their closed form")


class DistinctKeysets:
    """Statements in their closed form, no two of which claim one key, chain or session."""

    __slots__ = ("_chains", "_kids", "_sessions")

    def __init__(self) -> None:
        self._kids: set[str] = set()
        self._chains: set[str] = set()
        self._sessions: set[str] = set()

    def take(self, digest: str, raw: bytes) -> KeysetStatement:
        """The statement in ``raw``.

        Raises:
            MalformedError: another form. ChainBroken: it claims what another claims.
        """
        try:
            statement = parse_statement(raw)
        except AffiantError as error:
            error.where = f"keysets.{digest}"
            raise
        if statement.receipt_kid in self._kids or statement.chn & self._chains:
            raise ChainBroken("two keysets claim one key or chain", where=f"keysets.{digest}")
        if statement.role == "session":
            if statement.iss in self._sessions:
                raise ChainBroken("two keysets claim one session", where=f"keysets.{digest}")
            self._sessions.add(statement.iss)
        self._kids.add(statement.receipt_kid)
        self._chains |= statement.chn
        return statement


def check_receipts(case: Case) -> Finding:
    """``sig.receipts``: header, signature, canonical form, closed profile, role, disclosures of every receipt."""
    case.need("fmt.keysets")
    parties = {party.statement.receipt_kid: party for party in case.parties}
    for index, text in enumerate(case.bundle.receipts):
        try:
            receipt = parse_receipt(text)
            party = _party(parties, receipt)
            record = verify_receipt(receipt, party.statement)
        except AffiantError as error:
            error.where = f"receipts[{index}]" if error.where is None else f"receipts[{index}].{error.where}"
            raise
        party.records.append(record)
        case.records.append(record)
    _find_sessions(case)
    return Finding(f"{len(case.records)} signatures hold, each in its closed form")


def check_kinds(case: Case) -> Finding:
    """``kinds.judged``: every record is of a kind that this verifier can judge."""
    case.need("sig.receipts")
    unjudged = sorted({record.kind for record in case.records} & _UNJUDGED)
    if unjudged:
        raise NotMade(f"records that this version does not judge: {', '.join(unjudged)}")
    return Finding("every record is of a kind that is judged here")


def _party(parties: dict[str, Party], receipt: ReceiptText) -> Party:
    party = parties.get(receipt.split.kid)
    if party is None:
        raise KeyUnknown("signed by a key that no keyset here names", found=receipt.split.kid)
    return party


def _find_sessions(case: Case) -> None:
    """Put each session whose supervisor's keyset is here into focus; the others are foreign."""
    gateway: dict[str, list[VerifiedReceipt]] = {}
    supervisors: dict[str, Party] = {}
    for party in case.parties:
        for record in sorted(party.records, key=lambda record: record.seq):
            session = record.member("agt", "ses")
            if isinstance(session, str) and party.role == "gateway":
                gateway.setdefault(session, []).append(record)
        if party.role == "session":
            supervisors[party.statement.iss.rpartition(":")[2]] = party
    wanted = set(supervisors) if case.asked.session is None else {case.asked.session} & set(supervisors)
    case.sessions = [Session(name, gateway.get(name, []), supervisors[name]) for name in sorted(wanted)]
    case.foreign = frozenset(gateway) - wanted
