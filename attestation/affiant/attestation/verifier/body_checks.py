"""L5: content that the reader holds is what a receipt commits to."""

from __future__ import annotations

from affiant.attestation.encoding import sha256_name
from affiant.attestation.verifier.case import Case
from affiant.attestation.verifier.refusals import BodyMismatch, NotMade
from affiant.attestation.verifier.verdict import Finding

__all__ = ["check_request", "check_response"]


def _matched(case: Case, body: bytes, member: str, what: str) -> Finding:
    records = [record for record in case.records if record.kind in ("inference", "refusal")]
    opened = [record for record in records if record.disclosed.text(member) is not None]
    if not opened:
        raise NotMade(f"no receipt here discloses the digest of a {what}")
    digest = sha256_name(body)
    matching = tuple(record.jti for record in opened if record.disclosed.text(member) == digest)
    if not matching:
        raise BodyMismatch(f"no receipt commits to this {what}", found=digest)
    return Finding(f"the {what} is the one that {len(matching)} receipt commits to", where=matching)


def check_request(case: Case) -> Finding:
    """``body.request``: the given request body is one that a receipt commits to."""
    case.need("sig.receipts")
    assert case.request is not None
    return _matched(case, case.request, "req.dig", "request")


def check_response(case: Case) -> Finding:
    """``body.response``: the given response body is one that a receipt commits to."""
    case.need("sig.receipts")
    assert case.response is not None
    return _matched(case, case.response, "res.dig", "response")
