"""Gathers who started, signed, approved and erased from records as they come, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from affiant.attestation.encoding.binary_text import EncodingError, from_b64u
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.actors import DID, Named, People
from affiant.attestation.verdict.summary import is_commitment
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.case.signer import Signer, signer_of

__all__ = ["MAX_EACH", "Met", "PeopleMet", "met_in", "people_of"]

MAX_EACH: Final = 100
"""Different people of one kind that are kept."""
_MAX_TEXT: Final = 255


class Met(NamedTuple):
    """Somebody, as one record tells of them: what they did, and what is known."""

    did: str
    facts: Mapping[str, str]


def met_in(record: VerifiedReceipt) -> Iterator[Met]:
    """Of whom one authentic record tells; the texts are bounded, and hostile."""
    if record.kind == "session-start":
        facts = {"iss": _text(record.member("ini", "iss")), "method": _text(record.member("ini", "method"))}
        subject = record.disclosed.text("ini.sub")
        named = subject is not None and not is_commitment(subject)  # else each session has another digest
        yield Met("started", facts | ({"sub": _text(subject)} if named else {}))
    approval = record.member("apr")
    if isinstance(approval, dict):
        how = "identity" if _text(approval.get("sig")).startswith("sha256:") else "key"
        yield Met("approved", {how: _text(approval.get("kid")), "via": _text(approval.get("via"))})
    if record.kind in ("erasure", "hold"):
        key = _signer_of(_text(record.member("aut"), limit=2048))
        yield Met("erased", {"did": record.kind, "key": key})


class PeopleMet:
    """Those that were met so far."""

    def __init__(self) -> None:
        self._met: dict[str, dict[tuple[tuple[str, str], ...], Named]] = {name: {} for name in DID}
        self._more: dict[str, int] = {}

    def signer(self, signer: Signer, receipt: str | None, count: int, *, appraised: bool) -> None:
        """A keyset of which ``count`` records are here, the first with the id ``receipt``; whether its quote was
        ``appraised``."""
        facts = {
            "role": signer.role,
            "iss": signer.iss,
            "key": signer.kid,
            "keyset": signer.keyset,
            "class": signer.cls,
            "quote": "appraised" if appraised else "not appraised",
        }
        log = {} if signer.log is None else {"log": signer.log.origin}
        self.meet(Met("signed", facts | log), receipt, count)

    def record(self, record: VerifiedReceipt) -> None:
        """What one authentic record says of people."""
        for met in met_in(record):
            self.meet(met, record.jti)

    def meet(self, one: Met, receipt: str | None, count: int = 1) -> None:
        """One of them; ``receipt``: the id of the record that tells of them, ``count``: how often they did it."""
        met, key = self._met[one.did], tuple(one.facts.items())
        if (known := met.get(key)) is not None:
            met[key] = replace(known, count=known.count + count)
        elif len(met) < MAX_EACH:
            met[key] = Named(one.facts, count, receipt)
        else:
            self._more[one.did] = self._more.get(one.did, 0) + 1

    def people(self) -> People:
        """All that were met."""
        started, signed, approved, erased = (tuple(self._met[did].values()) for did in DID)
        return People(started=started, signed=signed, approved=approved, erased=erased, more=dict(self._more))


def people_of(case: Case | None) -> People:
    """Those of a case whose receipts are authentic; else nobody is known."""
    if case is None or "sig.receipts" not in case.established:
        return People()
    met = PeopleMet()
    for party in sorted(case.parties, key=lambda each: (each.role, each.statement.keyset_digest)):
        first = party.records[0].jti if party.records else None
        met.signer(signer_of(party.statement), first, len(party.records), appraised=party.appraised)
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
