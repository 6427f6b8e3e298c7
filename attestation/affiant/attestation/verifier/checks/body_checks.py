"""L5: content that the reader holds is what a receipt commits to; of a request and a response, one receipt to both."""

from __future__ import annotations

from collections.abc import Sequence

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.errors import BodyMismatch, NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case

__all__ = ["check_request", "check_response"]


def _exchanges(case: Case) -> Sequence[VerifiedReceipt]:
    """The records that commit to bodies; of signers that are judged, since a key without an appraised quote proves
    nothing."""
    records = [record for party in case.judged for record in party.records]
    return [record for record in records if record.kind in ("inference", "refusal")]


def _commit_to(body: bytes, member: str, records: Sequence[VerifiedReceipt]) -> Sequence[VerifiedReceipt]:
    """Those of ``records`` that disclose ``member`` and commit to ``body`` there."""
    digest = sha256_name(body)
    return [record for record in records if record.disclosed.text(member) == digest]


def _erased(case: Case) -> Sequence[str]:
    """Ids of the orders under which content is erased that might have been the reader's."""
    here = {(record.chn, record.seq): record for record in case.records}
    chains = {chn for party in case.judged for chn in party.statement.chn}
    found = set()
    for place, each in case.erased.items():
        record = here.get(place)
        bare = record is not None and not record.disclosed.values
        if each.chn in chains and (bare or (record is None and each.level == 2)):
            found.add(each.order)
    return sorted(found)


def _matched(case: Case, body: bytes, member: str, what: str, records: Sequence[VerifiedReceipt]) -> Finding:
    matching = _commit_to(body, member, records)
    if not matching and (orders := _erased(case)):
        text = f"no receipt here commits to this {what}; content was erased by order, and may have been it"
        return Finding(text, Tier.WARNING, tuple(orders))
    if not any(record.disclosed.text(member) is not None for record in records):
        raise NotMade(f"no receipt here discloses the digest of a {what}")
    if not matching:
        raise BodyMismatch(f"no receipt commits to this {what}", found=sha256_name(body))
    return Finding(
        f"the {what} is the one that {len(matching)} receipt commits to",
        where=tuple(record.jti for record in matching),
    )


def check_request(case: Case) -> Finding:
    """``body.request``: the given request body is one that a receipt commits to."""
    case.need("sig.receipts")
    assert case.asked.request is not None
    return _matched(case, case.asked.request, "req.dig", "request", _exchanges(case))


def check_response(case: Case) -> Finding:
    """``body.response``: the given response body is one that a receipt commits to.

    Where a request is given as well it is the answer to that request: one receipt commits to both.
    """
    case.need("sig.receipts")
    assert case.asked.response is not None
    records = _exchanges(case)
    if case.asked.request is None:
        return _matched(case, case.asked.response, "res.dig", "response", records)
    asked = _commit_to(case.asked.request, "req.dig", records)
    if (
        asked
        and not _commit_to(case.asked.response, "res.dig", asked)
        and _commit_to(case.asked.response, "res.dig", records)
    ):
        raise BodyMismatch(
            "the response is the answer to another request", expected="one receipt that commits to both"
        )
    return _matched(case, case.asked.response, "res.dig", "response", asked or records)
