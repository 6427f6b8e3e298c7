"""Bodies that a reader holds: what one receipt commits to, what none discloses, and what nobody may judge."""

from __future__ import annotations

from tests.attestation.story import NOW, REQUEST, RESPONSE, Issued, Story, trust

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle

TRUE = {"request": REQUEST, "response": RESPONSE}


class Withheld(Story):
    """The answer's digest is not shown, the request's is."""

    def by_gateway(self, step: str, kind: str, *arguments: object, **more: object) -> Issued:
        members, *hidden = arguments
        if step == "inference":
            hidden = [{**hidden[0], "res": {}}]
        return super().by_gateway(step, kind, members, *hidden, **more)


def judge(bundle: Bundle, **bodies: bytes) -> Verdict:
    return verify_bundle(
        bundle.to_bytes(), trust(), verifiers=STANDARD_VERIFIERS, at=NOW, build="build", **bodies
    )


def row(verdict: Verdict, code: str) -> Check:
    return next(check for check in verdict.checks if check.code == code)


def forged_last(bundle: Bundle) -> Bundle:
    """The last receipt's signature is another; those before it hold."""
    signed, _, rest = bundle.receipts[-1].partition("~")
    head, payload, signature = signed.split(".")
    raw = from_b64u(signature)
    other = b64u(raw[:-1] + bytes([raw[-1] ^ 1]))
    last = f"{head}.{payload}.{other}~{rest}"
    names = ("keysets", "evidence", "endorsements", "results", "policies", "checkpoints")
    objects = {name: getattr(bundle, name) for name in names}
    return Bundle(receipts=(*bundle.receipts[:-1], last), proofs=bundle.proofs, **objects)


def test_nothing_is_said_of_a_bundle_in_which_one_receipt_does_not_hold() -> None:
    """Not of its bodies either, although the receipt that commits to them was read before the forged one."""
    verdict = judge(forged_last(Story().bundle()), **TRUE)
    assert row(verdict, "sig.receipts").reason == "sig.invalid"
    made = {
        check.code: check.state for check in verdict.checks if check.code not in ("fmt.bundle", "fmt.keysets")
    }
    del made["sig.receipts"]
    assert {*made.values()} <= {State.NOT_MADE, State.NOT_ASKED}, made
    assert made["body.request"] == made["body.response"] == State.NOT_MADE


def test_a_response_is_judged_by_itself_where_no_receipt_commits_to_the_request() -> None:
    verdict = judge(Story().bundle(), request=b"never sent", response=RESPONSE)
    assert row(verdict, "body.request").reason == "body.mismatch"
    assert (row(verdict, "body.response").state, row(verdict, "body.response").tier) == (
        State.HELD,
        Tier.AFFIRMING,
    )


def test_a_response_whose_digest_is_not_shown_is_not_judged() -> None:
    """It is no mismatch either: what was answered to this request is not known."""
    verdict = judge(Withheld().bundle(), **TRUE)
    assert row(verdict, "body.request").state is State.HELD
    assert row(verdict, "body.response").state is State.NOT_MADE
