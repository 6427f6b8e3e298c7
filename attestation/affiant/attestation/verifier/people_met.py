"""Gathers who started, signed, approved and erased from records as they come, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from affiant.attestation.encoding import EncodingError, from_b64u
from affiant.attestation.receipt import VerifiedReceipt
from affiant.attestation.verifier.case import Case, Party
from affiant.attestation.verifier.people import DID, Named, People

__all__ = ["MAX_EACH", "PeopleMet", "people_of"]

MAX_EACH: Final = 100
"""Different people of one kind that are kept."""
_MAX_TEXT: Final = 255


class PeopleMet:
    """Those that were met so far."""

    def __init__(self) -> None:
        self._met: dict[str, dict[tuple[tuple[str, str], ...], Named]] = {name: {} for name in DID}
        self._more: dict[str, int] = {}

    def signer(self, party: Party) -> None:
        """A keyset whose records are here."""
        statement = party.statement
        facts = {
            "role": statement.role,
            "iss": statement.iss,
            "key": statement.receipt_kid,
            "keyset": statement.keyset_digest,
            "class": statement.cls,
            "quote": "not appraised" if party.appraisal is None else "appraised",
        }
        if statement.log is not None:
            facts["log"] = statement.log.origin
        first = party.records[0].jti if party.records else None
        self._meet("signed", facts, first, len(party.records))

    def record(self, record: VerifiedReceipt) -> None:
        """What one authentic record says of people."""
        if record.kind == "session-start":
            facts = {
                "iss": _text(record.member("ini", "iss")),
                "method": _text(record.member("ini", "method")),
            }
            subject = record.disclosed.text("ini.sub")
            self._meet("started", facts | ({} if subject is None else {"sub": _text(subject)}), record.jti)
        approval = record.member("apr")
        if isinstance(approval, dict):
            facts = {"key": _text(approval.get("kid")), "via": _text(approval.get("via"))}
            self._meet("approved", facts, record.jti)
        if record.kind in ("erasure", "hold"):
            facts = {"did": record.kind, "key": _signer_of(_text(record.member("aut"), limit=2048))}
            self._meet("erased", facts, record.jti)

    def people(self) -> People:
        """All that were met."""
        started, signed, approved, erased = (tuple(self._met[did].values()) for did in DID)
        return People(started=started, signed=signed, approved=approved, erased=erased, more=dict(self._more))

    def _meet(self, did: str, facts: Mapping[str, str], receipt: str | None, count: int = 1) -> None:
        met, key = self._met[did], tuple(facts.items())
        if (known := met.get(key)) is not None:
            met[key] = replace(known, count=known.count + count)
        elif len(met) < MAX_EACH:
            met[key] = Named(facts, count, receipt)
        else:
            self._more[did] = self._more.get(did, 0) + 1


def people_of(case: Case | None) -> People:
    """Those of a case whose receipts are authentic; else nobody is known."""
    if case is None or "sig.receipts" not in case.established:
        return People()
    met = PeopleMet()
    for party in sorted(case.parties, key=lambda each: (each.role, each.statement.keyset_digest)):
        met.signer(party)
    for record in case.records:
        met.record(record)
    return met.people()


def _text(value: object, *, limit: int = _MAX_TEXT) -> str:
    return value[:limit] if isinstance(value, str) else ""


def _signer_of(order: str) -> str:
    """The key that an order's header names, if it is a compact JWS; nothing is verified here."""
    try:
        header = json.loads(from_b64u(order.partition(".")[0]))
    except (EncodingError, ValueError, RecursionError):
        return ""
    return _text(header.get("kid")) if isinstance(header, dict) else ""
