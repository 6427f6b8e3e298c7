"""Approvers whom an issuer may take for one are named together, and nobody else is."""

from __future__ import annotations

import pytest

from affiant.attestation.signatures.approvers.identities import ApproverIdentity
from affiant.policy.lint.alike_approvers import alike_approvers
from affiant.policy.lint.lint import lint_profiles
from affiant.policy.loading.load import load_profiles

ISSUER = "https://accounts.example.com"
ANN = ApproverIdentity(ISSUER, "ann@example.org")
WORKFLOW = "https://github.com/acme/deploy/.github/workflows/approve.yml@refs/heads/main"
ROOT = '{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}'
KEY = "A" * 43


@pytest.mark.parametrize(
    "subject",
    [
        "Ann@example.org",
        "ann@EXAMPLE.org",
        "ANN@Example.ORG",
        "ann@example.org.",
        "ann+deploy@example.org",
        "Ann+@Example.org.",
    ],
)
def test_two_spellings_of_an_address_may_be_one_person(subject: str) -> None:
    other = ApproverIdentity(ISSUER, subject)
    assert alike_approvers([other, KEY, ANN]) == [sorted([ANN, other])]


@pytest.mark.parametrize(
    "subject",
    ["anna@example.org", "ann@example.com", "ann@sub.example.org", "an.n@example.org", "nn+a@example.org"],
)
def test_another_address_is_somebody_else(subject: str) -> None:
    assert alike_approvers([ANN, ApproverIdentity(ISSUER, subject)]) == []


def test_an_issuer_in_another_case_or_with_a_slash_may_be_the_same() -> None:
    for issuer in ("https://Accounts.example.com", f"{ISSUER}/"):
        assert len(alike_approvers([ANN, ApproverIdentity(issuer, ANN.subject)])) == 1
    assert alike_approvers([ANN, ApproverIdentity(f"{ISSUER}/v2", ANN.subject)]) == []


def test_a_workflow_is_compared_whole_whatever_its_branch_is_called() -> None:
    one, other = (ApproverIdentity(ISSUER, f"{WORKFLOW}{more}") for more in ("", "+x"))
    assert alike_approvers([one, other]) == []
    loud = ApproverIdentity(ISSUER, WORKFLOW.replace("acme", "ACME"))
    assert alike_approvers([one, loud]) == [[loud, one]]


def test_keys_whose_thumbprints_differ_by_case_are_two() -> None:
    assert alike_approvers([KEY, KEY.lower()]) == []


def test_each_group_is_told_once_with_everybody_in_it() -> None:
    loud = [ApproverIdentity(ISSUER, text) for text in ("ANN@example.org", "Ann@example.org")]
    others = [ApproverIdentity(ISSUER, text) for text in ("bob@example.org", "BOB@example.org")]
    assert alike_approvers([ANN, *loud, *others]) == [sorted([ANN, *loud]), sorted(others)]


def test_what_a_floor_adds_counts_as_what_the_profile_names() -> None:
    """A profile names some of a floor's approvers and no others: only those who may approve in it are compared."""

    def warned(own: str) -> list[str]:
        both = ", ".join(f"{{issuer: '{ISSUER}', subject: {text}}}" for text in ("ann@a.org", "Ann@a.org"))
        floor = f"requires_human_approval: {{everything: true, approvers: [{both}], trusted_root: '{ROOT}'}}"
        file = (
            f"floor: floor.yaml\nagent_configs: {{a: {{tools: [{{name: t, args: {{n: {{max: 2}}}}}}]{own}}}}}"
        )
        profiles = load_profiles(file.encode(), floor=floor.encode())
        return [found.subject for found in lint_profiles(profiles) if found.code == "approvers_alike"]

    assert warned("") == ["Ann@a.org, ann@a.org"]
    own = f"requires_human_approval: {{approvers: [{{issuer: '{ISSUER}', subject: ann@a.org}}]}}"
    assert warned(f", {own}") == []
