"""Who may approve, read from a profile's normal form without the policy layer."""

from __future__ import annotations

import pytest

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.signatures.approvers.named_approvers import NOBODY, NamedApprovers, read_approvers
from affiant.errors import AffiantError
from affiant.policy.model.profile import Approval, Policy
from affiant.policy.normal_form.digest import normal_form

ANN, BOB = "A" * 43, "B" * 42 + "A"
APPROVAL = {"everything": False, "methods": ["POST"], "approvers": [ANN, BOB], "quorum": 2, "ttl": 600}


def form(**changes: object) -> bytes:
    return canonical({"semantics": "affiant.policy/1", "approval": APPROVAL} | changes)


def test_it_reads_what_the_policy_layer_writes() -> None:
    policy = Policy(approval=Approval(methods=("POST",), approvers=(BOB, ANN), quorum=2, ttl=600))
    assert read_approvers(normal_form(policy)) == NamedApprovers(frozenset({ANN, BOB}), 2)
    assert read_approvers(normal_form(Policy(approval=Approval(everything=True)))) == NOBODY


def test_without_the_member_nobody_may() -> None:
    assert read_approvers(canonical({"semantics": "affiant.policy/1"})) == NOBODY


@pytest.mark.parametrize(
    "changes",
    [
        {"semantics": "affiant.policy/2"},
        {"approval": None},
        {"approval": APPROVAL | {"everything": "false"}},
        {"approval": APPROVAL | {"everything": 0}},
        {"approval": APPROVAL | {"approvers": []}},
        {"approval": APPROVAL | {"approvers": [ANN + "A"]}},
        {"approval": APPROVAL | {"quorum": 0}},
        {"approval": APPROVAL | {"quorum": True}},
        {"approval": APPROVAL | {"deputies": [ANN]}},
        {"approval": {"everything": False, "methods": ["POST"], "quorum": 1}},
        {"approval": {"everything": False}},
    ],
)
def test_another_form_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(AffiantError):
        read_approvers(form(**changes))


def test_what_is_not_canonical_is_refused() -> None:
    with pytest.raises(AffiantError):
        read_approvers(form() + b"\n")
