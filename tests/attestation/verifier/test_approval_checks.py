"""Approvals as a verifier finds them; the published vectors hold the other cases."""

from __future__ import annotations

import hashlib

from cryptography.hazmat.primitives.asymmetric import ec
from story import NOW, Issued, link, trust

from affiant.attestation.approving.statement import sign_statement
from affiant.attestation.canonical import canonical
from affiant.attestation.encoding import sha256_name
from affiant.attestation.keys import Signer, public_jwk
from affiant.attestation.verifier.verdict import State, Tier, Verdict
from affiant.attestation.verifier.verify_bundle import verify_bundle

from .test_erasure_checks import AUTHORITY, Ordered, row, without

ANN, BOB = (Signer(ec.derive_private_key(number, ec.SECP256R1())) for number in (31, 32))
POLICY = canonical(
    {
        "semantics": "affiant.policy/1",
        "approval": {
            "everything": True,
            "methods": [],
            "approvers": sorted([ANN.kid, BOB.kid]),
            "quorum": 1,
            "ttl": 600,
        },
    }
)
DIGEST = "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + POLICY).hexdigest()
ACTION = sha256_name(b"an action")
TARGET = {"name": "api.example.com", "tgt": "POST https://api.example.com:443/"}


class Approved(Ordered):
    """A request that one of two approvers agreed to, and its outcome."""

    begins = True

    def by_supervisor(self, step: str, kind: str, members: dict, *more: object, **named: object) -> Issued:
        if step == "session-end":
            self.use(ACTION, begins=self.begins)
        return super().by_supervisor(step, kind, members, *more, **named)

    def use(self, action: str, *, begins: bool) -> None:
        made = int(self.clock.now.timestamp())
        text = sign_statement(ANN, action=action, approves=True, made=made, expires=made + 600)
        apr = {"dig": action, "kid": ANN.kid, "sig": text, "exp": made + 600, "via": "cli"}
        kept = self.by_gateway(
            "approval",
            "approval",
            {"act": {"typ": "approval", "end": "complete"}, "pol": self._pol(), "apr": apr},
            {"act": TARGET},
        )
        if begins:
            members = {"act": {"typ": "egress"}, "pol": self._pol(), "ph": "intent", "apr": apr}
            begun = self.by_supervisor(
                "intent", "egress", {**members, "par": [kept.payload["jti"]]}, {"act": TARGET}
            )
            outcome = {"act": {"typ": "egress", "end": "complete"}, "pol": self._pol(), "ph": "outcome"}
            self.by_supervisor(
                "outcome", "egress", {**outcome, "par": [begun.payload["jti"]]}, {"act": TARGET}
            )


def judged(story: Ordered, *gone: str) -> Verdict:
    bundle = story.bundle()
    bundle = without(bundle, *(story.the(kind) for kind in gone))
    accepted = trust(
        erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}], profiles=[{"value": DIGEST}]
    )
    return verify_bundle(bundle.to_bytes(), accepted, at=NOW, build="build")


def story(kind: type[Ordered] = Approved) -> Ordered:
    return kind(policy=POLICY, policy_digest=DIGEST)


def test_an_approved_request_holds_and_its_records_are_judged() -> None:
    verdict = judged(story())
    found = row(verdict, "apr.bound")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING), found
    assert found.detail == "1 actions done by approval, each with its quorum and once"
    assert row(verdict, "kinds.judged").state is State.HELD
    assert not [check for check in verdict.checks if check.state is State.REFUSED]


def test_what_was_approved_and_never_done_holds() -> None:
    class Undone(Approved):
        begins = False

    assert row(judged(story(Undone)), "apr.bound").detail.startswith("0 actions done by approval")


def test_where_the_approval_itself_is_erased_by_order_nothing_is_said_of_its_quorum() -> None:
    class Erasing(Approved):
        orders = staticmethod(lambda told: told.order("erasure", {"del": [told.item(told.the("approval"))]}))

    assert row(judged(story(Erasing)), "apr.bound").state is State.HELD
    found = row(judged(story(Erasing), "approval"), "apr.bound")
    assert (found.state, found.tier) == (State.NOT_MADE, Tier.NONE), found


def test_an_approval_that_the_intent_does_not_name_does_not_count() -> None:
    class Unnamed(Approved):
        def by_supervisor(
            self, step: str, kind: str, members: dict, *more: object, **named: object
        ) -> Issued:
            if step == "intent":
                members = members | {"par": [link("nobody")[:22]]}
            return super().by_supervisor(step, kind, members, *more, **named)

    found = row(judged(story(Unnamed)), "apr.bound")
    assert (found.state, found.reason) == (State.REFUSED, "apr.quorum")


def test_a_bundle_with_a_record_missing_that_nobody_erased_is_not_judged_as_if_it_were_whole() -> None:
    verdict = judged(story(), "approval")
    assert row(verdict, "session.order").state is State.REFUSED
    assert row(verdict, "apr.bound").state is State.NOT_MADE


def test_a_session_in_which_nobody_was_asked_holds() -> None:
    found = row(judged(story(Ordered)), "apr.bound")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
