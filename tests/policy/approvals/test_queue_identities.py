"""The desk, where identities approve: each counts once, whatever keys it signs with, and only under its own root."""

from __future__ import annotations

import pytest
from tests.attestation.signatures.approvers.signing_identity import SigningIdentity, root_of
from tests.policy.approvals.making import ANN, NOW, POLICY, SESSION, SESSION_KEY, draft, nonce, says
from tests.sigstore_authority.authority import Authority

from affiant.errors import AffiantError
from affiant.policy.approvals.queue import ApprovalQueue, Phase
from affiant.policy.model.profile import Approval

DEPLOYMENT = Authority()
BOB = SigningIdentity(DEPLOYMENT, "bob@example.org")
EVE = SigningIdentity(DEPLOYMENT, "eve@example.org")


def desk(*approvers: SigningIdentity, quorum: int = 1) -> ApprovalQueue:
    who = (ANN.kid, *(each.who for each in approvers))
    root = root_of(DEPLOYMENT).decode()
    approval = Approval(False, ("POST",), who, quorum, 600, root)
    return ApprovalQueue(session=SESSION, policy=POLICY, approval=approval, never={SESSION_KEY.kid})


def asked(at: ApprovalQueue, *, now: float = NOW) -> str:
    return at.ask(draft(), nonce=nonce, now=now).action.name


def signed(who: SigningIdentity, action: str, *, at: int = NOW + 1, approves: bool = True) -> str:
    return who.says(action, at=at, expires=NOW + 600, approves=approves)


def code(at: ApprovalQueue, text: str, *, now: float = NOW + 2) -> str:
    with pytest.raises(AffiantError) as caught:
        at.decide(text, now=now)
    return caught.value.code


def test_what_an_identity_approved_is_claimed_once() -> None:
    at = desk(BOB)
    name = asked(at)
    text = signed(BOB, name)
    assert at.decide(text, now=NOW + 2).phase is Phase.APPROVED
    (statement,) = at.claim(name, now=NOW + 2).statements
    assert (statement.kid, statement.bundle) == (BOB.name, text.encode())
    assert code(at, text) == "approval.used"
    assert at.may_approve(BOB.name)
    assert not at.may_approve(EVE.name)


def test_one_identity_counts_once_whatever_keys_it_signs_with() -> None:
    at = desk(BOB, EVE, quorum=2)
    name = asked(at)
    for text in (signed(BOB, name), signed(BOB, name, at=NOW + 2)):  # a certificate and a key of its own each
        assert at.decide(text, now=NOW + 2).phase is Phase.PENDING
    assert at.decide(signed(EVE, name), now=NOW + 2).phase is Phase.APPROVED


def test_keys_and_identities_make_a_quorum_together() -> None:
    at = desk(BOB, quorum=2)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW + 2)
    assert at.decide(signed(BOB, name), now=NOW + 2).phase is Phase.APPROVED


def test_an_identity_denies_too() -> None:
    at = desk(BOB)
    name = asked(at)
    at.decide(says(ANN, name), now=NOW)
    assert at.decide(signed(BOB, name, approves=False), now=NOW + 2).phase is Phase.DENIED


def test_an_equal_action_asked_for_again_needs_a_signature_of_its_own() -> None:
    at = desk(BOB)
    first = asked(at)
    text = signed(BOB, first)
    at.decide(text, now=NOW + 2)
    at.claim(first, now=NOW + 2)
    again = asked(at, now=NOW + 3)
    assert again != first
    assert code(at, text, now=NOW + 4) == "approval.used"
    assert at.look(again, now=NOW + 4).phase is Phase.PENDING
    assert code(desk(BOB), text) == "approval.unknown"


@pytest.mark.parametrize(
    ("who", "when", "expected"),
    [
        (EVE, NOW + 1, "approval.not_an_approver"),
        (SigningIdentity(Authority(), BOB.subject), NOW + 1, "approval.signature"),
        (
            SigningIdentity(DEPLOYMENT, BOB.subject, "https://accounts.other"),
            NOW + 1,
            "approval.not_an_approver",
        ),
        (BOB, NOW - 61, "approval.stale"),  # signed before it was asked for
        (BOB, NOW + 100, "approval.stale"),  # and later than now
    ],
)
def test_what_does_not_count_changes_nothing(who: SigningIdentity, when: int, expected: str) -> None:
    at = desk(BOB)
    name = asked(at)
    assert code(at, signed(who, name, at=when)) == expected
    assert at.look(name, now=NOW + 2).phase is Phase.PENDING


def test_under_a_narrower_profile_who_is_no_approver_any_more_approves_nothing() -> None:
    at = desk(BOB, EVE)
    narrower = desk(BOB).approval
    at.narrow(policy="sha384:" + "cd" * 48, approval=narrower)
    assert (at.may_approve(BOB.name), at.may_approve(EVE.name)) == (True, False)
    assert at.identities == narrower.identities
    only_ann = Approval(False, ("POST",), (ANN.kid,), 1, 600)
    at.narrow(policy="sha384:" + "ef" * 48, approval=only_ann)
    assert not at.may_approve(BOB.name)
    assert at.identities.who == frozenset()
