"""Approvers by issuer and subject: read with their trusted root, merged with a floor, digested, compared, drafted."""

from __future__ import annotations

import hashlib
import json

import pytest
from tests.policy.loading.test_approval_reading import ANN, approval, compared, load, refused

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.signatures.approvers.identities import ApproverIdentity, NamedIdentities
from affiant.attestation.signatures.approvers.named_approvers import read_approvers
from affiant.errors import AffiantError
from affiant.policy.authority.authority import authority_of
from affiant.policy.authority.document import authority_document
from affiant.policy.authority.words import settings, settings_lines
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.editor.rule_text import approval_text
from affiant.policy.loading.all_errors import every_refusal
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Approval

ROOT = canonical(
    {"mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1", "tlogs": []}
).decode()
OTHER_ROOT = ROOT.replace("[]", "[1]")
BOB = ApproverIdentity("https://id.example", "bob@example.org")
EVE = ApproverIdentity("https://id.example", "eve@example.org")


def entry(who: ApproverIdentity) -> str:
    return f"{{issuer: '{who.issuer}', subject: '{who.subject}'}}"


def section(*who: ApproverIdentity | str, root: str | None = ROOT, more: str = "") -> str:
    names = ", ".join(each if isinstance(each, str) else entry(each) for each in who)
    said = "" if root is None else f", trusted_root: {json.dumps(root)}"
    return f"{{egress: [POST], approvers: [{names}]{said}{more}}}"


def test_an_identity_is_read_with_the_root_that_says_whose_word_it_is() -> None:
    found = approval(section(BOB, ANN, EVE, more=", quorum: 2"))
    assert found == Approval(False, ("POST",), (ANN, BOB, EVE), 2, 600, ROOT)
    assert len(found.kids) == 3
    assert found.kids == {ANN} | found.identities.names


def test_a_roots_layout_means_nothing() -> None:
    spaced = json.dumps(json.loads(ROOT), indent=2).replace("\n", " ")
    digests = {load(f"requires_human_approval: {section(BOB, root=root)}").digest for root in (ROOT, spaced)}
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("mapping", "code"),
    [
        (section(BOB, root=None), "policy.missing_key"),
        (section(ANN), "policy.conflict"),
        (f"{{egress: [POST], trusted_root: {json.dumps(ROOT)}}}", "policy.missing_key"),
        (section(BOB, root="{}"), "policy.value"),
        (section(BOB, root="not JSON"), "policy.value"),
        (section(BOB, root=ROOT[:-1] + ',"tlogs":[]}'), "policy.value"),  # a member twice
        (section(BOB, root=ROOT.replace("[]", json.dumps("x" * (64 << 10)))), "policy.value"),
        (section(BOB, root='{"mediaType": "application/json"}'), "policy.value"),
        (section("{issuer: 'https://id.example'}"), "policy.missing_key"),
        (section("{subject: 'bob@example.org'}"), "policy.missing_key"),
        (section("{issuer: 'https://id.example', subject: 'b@c.d', name: Bob}"), "policy.unknown_key"),
        (section("{issuer: 'http://id.example', subject: 'b@c.d'}"), "policy.name"),
        (section("{issuer: 'https://', subject: 'b@c.d'}"), "policy.name"),
        (section("{issuer: 'https://id.example', subject: bob}"), "policy.name"),
        (section("{issuer: 'https://id.example', subject: '*@example.org '}"), "policy.name"),
        (section("{issuer: 'https://id.example', subject: 'bób@example.org'}"), "policy.name"),
        (section("[]"), "policy.wrong_type"),
        (section(BOB, BOB, more=", quorum: 2"), "policy.conflict"),
        (section(*[ApproverIdentity("https://i.e", f"{n}@e.f") for n in range(17)]), "policy.value"),
    ],
)
def test_what_could_not_be_meant_is_refused(mapping: str, code: str) -> None:
    assert refused(f"requires_human_approval: {mapping}").code == code


def test_the_normal_form_holds_identities_and_their_root_and_no_other_digest_changes() -> None:
    form = load(f"requires_human_approval: {section(EVE, ANN, BOB)}").normal_form
    found = parse_object(form)["approval"]
    assert found == {
        "approvers": [ANN],
        "everything": False,
        "identities": [{"issuer": each.issuer, "subject": each.subject} for each in (BOB, EVE)],
        "methods": ["POST"],
        "quorum": 1,
        "trusted_root": json.loads(ROOT),
        "ttl": 600,
    }
    assert parse_normal_form(form).normal_form == form
    keys = f"requires_human_approval: {{egress: [POST], approvers: [{ANN}]}}"
    assert b'"approval":{"approvers":["%s"],"everything":false,"methods":["POST"],"quorum":1,"ttl":600}' % (
        ANN.encode()
    ) in (load(keys).normal_form)


def test_a_digest_binds_the_root() -> None:
    digests = {
        load(f"requires_human_approval: {section(BOB, root=root)}").digest for root in (ROOT, OTHER_ROOT)
    }
    assert len(digests) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.pop("trusted_root"),
        lambda said: said.update(identities=[]),
        lambda said: said.pop("identities"),
        lambda said: said.pop("approvers"),
        lambda said: said.update(trusted_root={}),
        lambda said: said["identities"].reverse(),
        lambda said: said["identities"][0].update(more=1),
        lambda said: said["identities"][0].update(issuer="http://id.example"),
    ],
)
def test_another_normal_form_is_refused(change) -> None:
    form = parse_object(load(f"requires_human_approval: {section(BOB, EVE)}").normal_form)
    change(form["approval"])
    with pytest.raises(AffiantError):
        parse_normal_form(canonical(form))


def test_a_verifier_reads_the_same_names_from_the_form_alone() -> None:
    found = load(f"requires_human_approval: {section(BOB, ANN, EVE, more=', quorum: 2')}")
    named = read_approvers(found.normal_form)
    assert (named.kids, named.quorum) == (found.policy.approval.kids, 2)
    assert named.identities == found.policy.approval.identities
    alone = load(f"requires_human_approval: {section(BOB)}")
    assert read_approvers(alone.normal_form).kids == alone.policy.approval.kids


FLOOR = f"requires_human_approval: {section(BOB, ANN)}"


def test_a_floor_supplies_identities_and_its_root() -> None:
    assert approval("true", FLOOR) == Approval(True, ("POST",), (ANN, BOB), 1, 600, ROOT)
    assert approval(section(BOB, root=None), FLOOR) == Approval(False, ("POST",), (BOB,), 1, 600, ROOT)
    assert approval(section(BOB), FLOOR).trusted_root == ROOT
    assert approval(section(ANN, root=None), FLOOR) == Approval(False, ("POST",), (ANN,), 1, 600)


def test_a_profile_names_nobody_whom_the_floor_does_not_and_no_other_root() -> None:
    """Else the same address, on the word of an authority of the profile's own, would pass for the floor's approver."""
    for own in (section(EVE, root=None), section(BOB, root=OTHER_ROOT)):
        assert refused(f"requires_human_approval: {own}", FLOOR).code == "policy.conflict"
    keys_only = f"requires_human_approval: {{approvers: [{ANN}]}}"
    assert refused(f"requires_human_approval: {section(BOB)}", keys_only).code == "policy.conflict"
    unrooted = f"requires_human_approval: {section(BOB, root=None)}"
    assert refused(unrooted, "tools: [{deny: x}]").code == "policy.missing_key"


def test_all_refusals_of_a_file_know_of_the_floors_root() -> None:
    text = (
        "floor: floor.yaml\nagent_configs: {dev: {tools: [{q: 1}], requires_human_approval: "
        f"{section(BOB, root=None)}}}}}"
    )
    assert [each.code for each in every_refusal(text.encode(), source="p.yaml", floor=FLOOR.encode())] == [
        "policy.unknown_key"
    ]


def test_another_identity_or_another_root_is_wider() -> None:
    assert [way for way, _ in compared(section(ANN, root=None), section(ANN, BOB))] == ["widens"]
    assert [way for way, _ in compared(section(ANN, BOB), section(ANN, root=None))] == ["narrows"]
    assert sorted(way for way, _ in compared(section(BOB), section(BOB, root=OTHER_ROOT))) == [
        "narrows",
        "widens",
    ]
    ((_, said),) = compared(section(ANN, root=None), section(ANN, BOB))
    root = hashlib.sha256(ROOT.encode()).hexdigest()
    assert said == f"approver bob@example.org (issuer https://id.example) under sha256:{root}"


def test_a_draft_writes_what_reads_back_as_the_same() -> None:
    found = approval(section(BOB, ANN, EVE, more=", quorum: 2, ttl: 5m"))
    assert approval(approval_text(found)) == found


def test_who_approves_is_said_to_whoever_reviews() -> None:
    text = f"agent_configs: {{dev: {{network_egress: [{{host: a.b.com}}], requires_human_approval: {section(BOB)}}}}}"
    profiles = load_profiles(text.encode())
    authority = authority_of(profiles.profile("dev"))
    assert settings(authority)["approval"][""] == (
        "needed for requests with POST; by 1 of 1 approver; a request waits 600 s, and its approval holds as long"
    )
    assert "approver: bob@example.org (issuer https://id.example)" in settings_lines(authority)
    (agent,) = authority_document([authority], profiles=profiles)["agents"]
    assert agent["approval"] == {
        "everything": False,
        "methods": ["POST"],
        "approvers": [],
        "identities": [
            {
                "issuer": "https://id.example",
                "subject": "bob@example.org",
                "name": NamedIdentities(frozenset({BOB}), ROOT.encode()).name_of(BOB),
            }
        ],
        "trusted_root": "sha256:" + hashlib.sha256(ROOT.encode()).hexdigest(),
        "quorum": 1,
        "ttl": 600,
    }
