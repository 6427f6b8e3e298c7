"""Approvals by identities as a verifier finds them: records name the bundle, which lies among the policies."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.signatures.approvers.signing_identity import SigningIdentity, root_of
from tests.attestation.story import NOW, trust
from tests.attestation.verifier.checks.test_approval_checks import ACTION, TARGET
from tests.attestation.verifier.checks.test_erasure_checks import Ordered, row
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.attestation.signatures.sigstore.errors import ExtraMissing
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle

ANN = Signer(ec.derive_private_key(31, ec.SECP256R1()))
DEPLOYMENT = Authority()
BOB = SigningIdentity(DEPLOYMENT, "bob@example.org")
FORM = canonical(
    {
        "semantics": "affiant.policy/1",
        "approval": {
            "everything": True,
            "methods": [],
            "approvers": [ANN.kid],
            "identities": [{"issuer": BOB.issuer, "subject": BOB.subject}],
            "quorum": 2,
            "trusted_root": parse_object(root_of(DEPLOYMENT)),
            "ttl": 600,
        },
    }
)


class ByIdentity(Ordered):
    """A request that a key and an identity agreed to; what is signed, and by whom, is for the test to say."""

    who = BOB
    recorded = ""
    """Another signer by the record's word."""
    twice = False

    def by_supervisor(self, step, kind, members, *more, **named):
        if step == "session-end":
            self.use()
        return super().by_supervisor(step, kind, members, *more, **named)

    def signed(self, made: int) -> str:
        return self.who.says(ACTION, at=made, expires=made + 600)

    def use(self) -> None:
        made = int(self.clock.now.timestamp())
        self.text = self.signed(made)
        by_key = sign_statement(ANN, action=ACTION, approves=True, made=made, expires=made + 600)
        said = {"dig": ACTION, "exp": made + 600, "via": "cli"}
        identity = {**said, "kid": self.recorded or self.who.name, "sig": sha256_name(self.text.encode())}
        key = identity if self.twice else {**said, "kid": ANN.kid, "sig": by_key}
        kept = [
            self.by_gateway(
                name,
                "approval",
                {"act": {"typ": "approval", "end": "complete"}, "pol": self._pol(), "apr": apr},
                {"act": TARGET},
            )
            for name, apr in (("first", key), ("second", identity))
        ]
        members = {"act": {"typ": "egress"}, "pol": self._pol(), "ph": "intent", "apr": identity}
        begun = self.by_supervisor(
            "intent", "egress", {**members, "par": [each.payload["jti"] for each in kept]}, {"act": TARGET}
        )
        outcome = {"act": {"typ": "egress", "end": "complete"}, "pol": self._pol(), "ph": "outcome"}
        self.by_supervisor("outcome", "egress", {**outcome, "par": [begun.payload["jti"]]}, {"act": TARGET})


def judged(kind: type[ByIdentity] = ByIdentity, *, form: bytes = FORM, carried: bool = True) -> Verdict:
    digest = "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + form).hexdigest()
    story = kind(policy=form, policy_digest=digest)
    bundle = story.bundle()
    if carried:
        signed = story.text.encode()
        bundle = replace(bundle, policies={**bundle.policies, sha256_name(signed): signed})
    accepted = trust(profiles=[{"value": digest}])
    return verify_bundle(bundle.to_bytes(), accepted, verifiers=STANDARD_VERIFIERS, at=NOW, build="build")


def found(kind: type[ByIdentity] = ByIdentity, **how: object) -> Check:
    return row(judged(kind, **how), "apr.bound")  # type: ignore[arg-type]


def test_what_a_key_and_an_identity_approved_holds() -> None:
    verdict = judged()
    check = row(verdict, "apr.bound")
    assert (check.state, check.tier) == (State.HELD, Tier.AFFIRMING), check
    assert check.detail == (
        "1 actions done by approval, each with its quorum and once; "
        "signed by bob@example.org (issuer https://accounts.tests)"
    )
    assert not [each for each in verdict.checks if each.state is State.REFUSED]


def test_one_identity_in_two_records_is_one_approver() -> None:
    class Twice(ByIdentity):
        twice = True

    check = found(Twice)
    assert (check.state, check.reason) == (State.REFUSED, "apr.quorum")


def test_a_signature_that_the_bundle_does_not_carry_is_not_judged() -> None:
    verdict = judged(carried=False)
    check = row(verdict, "apr.bound")
    assert (check.state, check.tier) == (State.NOT_MADE, Tier.NONE)
    objects = row(verdict, "bundle.objects")
    assert (objects.state, "approver's signature" in objects.detail) == (State.NOT_MADE, True)
    assert row(judged(), "bundle.objects").state is State.HELD


def test_without_the_library_nothing_is_said_of_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise ExtraMissing

    monkeypatch.setattr(
        "affiant.attestation.signatures.approvers.signed_by_identity.verify_signed_statement", missing
    )
    check = found()
    assert check.state is State.NOT_MADE
    assert "sigstore library" in check.detail


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (SigningIdentity(DEPLOYMENT, "eve@example.org"), "approval.not_an_approver"),
        (SigningIdentity(DEPLOYMENT, BOB.subject, "https://accounts.other"), "approval.not_an_approver"),
        (SigningIdentity(Authority(), BOB.subject), "approval.signature"),
    ],
)
def test_whoever_the_profile_does_not_name_under_its_root_is_refused(
    who: SigningIdentity, reason: str
) -> None:
    check = found(type("Other", (ByIdentity,), {"who": who}))
    assert (check.state, check.reason) == (State.REFUSED, reason)


def test_a_record_that_says_something_else_than_the_signed_statement_is_refused() -> None:
    class OtherAction(ByIdentity):
        def signed(self, made: int) -> str:
            return self.who.says(sha256_name(b"another"), at=made, expires=made + 600)

    class OtherEnd(ByIdentity):
        def signed(self, made: int) -> str:
            return self.who.says(ACTION, at=made, expires=made + 300)

    class Early(ByIdentity):
        def signed(self, made: int) -> str:
            return self.who.says(ACTION, at=made + 120, expires=made + 600)

    class OtherApprover(ByIdentity):
        recorded = ANN.kid

    reasons = [found(each).reason for each in (OtherAction, OtherEnd, Early, OtherApprover)]
    assert reasons == ["approval.other_action", "apr.unbound", "approval.stale", "apr.unbound"]


def test_a_root_that_a_profile_does_not_hold_judges_nothing() -> None:
    """The bundle was made by an authority of whoever made the bundle: the profile, which the quote binds, decides."""
    other = canonical({**parse_object(FORM)["approval"], "trusted_root": parse_object(root_of(Authority()))})
    form = canonical({"semantics": "affiant.policy/1", "approval": parse_object(other)})
    check = found(form=form)
    assert (check.state, check.reason) == (State.REFUSED, "approval.signature")


@pytest.mark.parametrize(
    "change", [{"trusted_root": None}, {"trusted_root": []}, {"identities": []}, {"more": 1}]
)
def test_a_profile_in_another_form_names_nobody_here(change: dict[str, object]) -> None:
    approval = {**parse_object(FORM)["approval"], **change}  # type: ignore[dict-item]
    form = canonical({"semantics": "affiant.policy/1", "approval": approval})
    assert found(form=form).state is State.NOT_MADE
