"""Approvals as a verifier finds them; the published vectors hold the other cases."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.story import NOW, Issued, link, trust
from tests.attestation.verifier.checks.test_erasure_checks import AUTHORITY, Ordered, row, without

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle

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
        apr = self.signed(ANN, action)
        kept = self.keep(apr)
        if begins:
            self.begin(apr, kept)

    def signed(self, signer: Signer, action: str, *, approves: bool = True) -> dict[str, Any]:
        made = int(self.clock.now.timestamp())
        text = sign_statement(signer, action=action, approves=approves, made=made, expires=made + 600)
        return {"dig": action, "kid": signer.kid, "sig": text, "exp": made + 600, "via": "cli"}

    def keep(self, apr: dict[str, Any], *, approves: bool = True) -> Issued:
        end, decision = ("complete", "allow") if approves else ("refused", "deny")
        members = {"act": {"typ": "approval", "end": end}, "pol": self._pol(decision), "apr": apr}
        return self.by_gateway("approval", "approval", members, {"act": TARGET})

    def begin(self, apr: dict[str, Any], *kept: Issued) -> None:
        members = {"act": {"typ": "egress"}, "pol": self._pol(), "ph": "intent", "apr": apr}
        named = [each.payload["jti"] for each in kept]
        begun = self.by_supervisor("intent", "egress", {**members, "par": named}, {"act": TARGET})
        outcome = {"act": {"typ": "egress", "end": "complete"}, "pol": self._pol(), "ph": "outcome"}
        self.by_supervisor("outcome", "egress", {**outcome, "par": [begun.payload["jti"]]}, {"act": TARGET})


def judged(story: Ordered, *gone: str) -> Verdict:
    bundle = story.bundle()
    bundle = without(bundle, *(story.the(kind) for kind in gone))
    accepted = trust(
        erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}], profiles=[{"value": DIGEST}]
    )
    return verify_bundle(bundle.to_bytes(), accepted, verifiers=STANDARD_VERIFIERS, at=NOW, build="build")


def story(kind: type[Ordered] = Approved, **more: Any) -> Ordered:
    return kind(policy=POLICY, policy_digest=DIGEST, **more)


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


def shifted(step: str, by: int) -> Callable[[str, dict[str, Any]], dict[str, Any]]:
    """The record of ``step`` has another number among the gateway's of the session."""
    return lambda found, members: (
        members | {"agt": members["agt"] | {"seq": members["agt"]["seq"] + by}} if found == step else members
    )


@pytest.mark.parametrize(("ahead", "reason"), [(0, None), (1, "apr.order"), (9, "apr.order")])
def test_an_approval_whose_gateway_had_the_request_already_came_after_it(
    ahead: int, reason: str | None
) -> None:
    """By one record more or less: the gateway has received what stands before the intent, or the intent too."""

    def heard(step: str, members: dict[str, Any]) -> dict[str, Any]:
        if step == "approval":
            members["peer"] = members["peer"] | {"seq": members["peer"]["seq"] + ahead}
        return members

    assert row(judged(story(Approved, alter=heard)), "apr.bound").reason == reason


@pytest.mark.parametrize(("seconds", "reason"), [(60, None), (61, "apr.order")])
def test_an_approval_dated_more_than_a_minute_after_the_request_came_after_it(
    seconds: int, reason: str | None
) -> None:
    class Ahead(Approved):
        def signed(self, signer: Signer, action: str, *, approves: bool = True) -> dict[str, Any]:
            self.clock.now -= timedelta(seconds=300)
            apr = super().signed(signer, action, approves=approves)
            self.clock.now += timedelta(seconds=300)
            return apr

        def begin(self, apr: dict[str, Any], *kept: Issued) -> None:
            self.clock.now -= timedelta(seconds=seconds + 1)
            super().begin(apr, *kept)
            self.clock.now += timedelta(seconds=seconds + 1)

    assert row(judged(story(Ahead)), "apr.bound").reason == reason


@pytest.mark.parametrize(("late", "reason"), [(60, None), (61, "approval.stale")])
def test_a_request_begins_no_more_than_a_minute_after_its_approval_was_over(
    late: int, reason: str | None
) -> None:
    class Over(Approved):
        def begin(self, apr: dict[str, Any], *kept: Issued) -> None:
            self.clock.now += timedelta(seconds=apr["exp"] + late - 1 - int(self.clock.now.timestamp()))
            super().begin(apr, *kept)

    assert row(judged(story(Over)), "apr.bound").reason == reason


@pytest.mark.parametrize(("late", "reason"), [(60, None), (61, "apr.quorum")])
def test_one_of_two_approvals_counts_until_a_minute_after_it_was_over(late: int, reason: str | None) -> None:
    form = parse_object(POLICY, limit=1 << 20)
    form["approval"]["quorum"] = 2  # type: ignore[index]
    policy = canonical(form)
    digest = "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + policy).hexdigest()

    class Both(Approved):
        def begin(self, apr: dict[str, Any], *kept: Issued) -> None:
            self.clock.now += timedelta(seconds=apr["exp"] + late - 2 - int(self.clock.now.timestamp()))
            second = self.signed(BOB, ACTION)
            super().begin(second, *kept, self.keep(second))

    assert row(judged(Both(policy=policy, policy_digest=digest)), "apr.bound").reason == reason


def test_an_approval_of_another_gateway_chain_is_not_told_by_its_number() -> None:
    def elsewhere(step: str, members: dict[str, Any]) -> dict[str, Any]:
        if step == "approval":
            members["peer"] = members["peer"] | {"chn": "A" * 22, "seq": 10**6}
        return members

    assert row(judged(story(Approved, alter=elsewhere)), "apr.bound").state is State.HELD


class Called(Approved):
    """A call that the gateway makes; BOB agrees, and ANN says no to what ``denied`` names, before or after it."""

    denied = ""
    denied_first = True

    def use(self, action: str, *, begins: bool) -> None:
        assert begins
        if self.denied and self.denied_first:
            self.keep(self.signed(ANN, self.denied, approves=False), approves=False)
        apr = self.signed(BOB, action)
        kept = self.keep(apr)
        members = {"act": {"typ": "tool"}, "pol": self._pol(), "ph": "intent", "apr": apr}
        begun = self.by_gateway("intent", "tool", {**members, "par": [kept.payload["jti"]]}, {"act": TARGET})
        outcome = {"act": {"typ": "tool", "end": "complete"}, "pol": self._pol(), "ph": "outcome"}
        self.by_gateway("outcome", "tool", {**outcome, "par": [begun.payload["jti"]]}, {"act": TARGET})
        if self.denied and not self.denied_first:
            self.keep(self.signed(ANN, self.denied, approves=False), approves=False)


def called(denied: str = "", *, first: bool = True, **more: Any) -> Check:
    kind = type("Told", (Called,), {"denied": denied, "denied_first": first})
    return row(judged(story(kind, **more)), "apr.bound")


def test_a_call_that_the_gateway_makes_stands_behind_its_approval() -> None:
    assert called().state is State.HELD

    def swapped(step: str, members: dict[str, Any]) -> dict[str, Any]:
        return shifted("intent", -1)(step, shifted("approval", 1)(step, members))

    assert called(alter=swapped).reason == "apr.order"


def test_a_call_that_was_denied_before_is_not_made_by_another_approval() -> None:
    assert called(ACTION).reason == "apr.denied"
    assert called(ACTION, first=False).state is State.HELD
    assert called(sha256_name(b"another action")).state is State.HELD


def test_a_denial_may_be_recorded_while_a_supervisor_begins() -> None:
    class Crossed(Approved):
        def begin(self, apr: dict[str, Any], *kept: Issued) -> None:
            self.keep(self.signed(BOB, ACTION, approves=False), approves=False)
            super().begin(apr, *kept)

    assert row(judged(story(Crossed)), "apr.bound").state is State.HELD


def test_whatever_an_intent_names_beside_its_approvals_is_one_of_them() -> None:
    def named(more: Callable[[Approved], Issued]) -> str | None:
        class Named(Approved):
            def begin(self, apr: dict[str, Any], *kept: Issued) -> None:
                super().begin(apr, *kept, more(self))

        return row(judged(story(Named)), "apr.bound").reason

    assert named(lambda told: told.keep(told.signed(BOB, ACTION))) is None
    assert named(lambda told: told.keep(told.signed(BOB, sha256_name(b"another")))) == "apr.quorum"
    assert (
        named(lambda told: told.keep(told.signed(BOB, ACTION, approves=False), approves=False))
        == "apr.quorum"
    )
    assert named(lambda told: told.gateway_records[0]) == "apr.quorum"


def test_a_bundle_with_a_record_missing_that_nobody_erased_is_not_judged_as_if_it_were_whole() -> None:
    verdict = judged(story(), "approval")
    assert row(verdict, "session.order").state is State.REFUSED
    assert row(verdict, "apr.bound").state is State.NOT_MADE


def test_a_session_in_which_nobody_was_asked_holds() -> None:
    found = row(judged(story(Ordered)), "apr.bound")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
