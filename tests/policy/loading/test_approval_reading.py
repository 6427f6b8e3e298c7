"""Who may approve: read, merged with a floor, digested, decided by, compared."""

from __future__ import annotations

import pytest

from affiant.errors import AffiantError
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.differences import compare_profile_sets
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Approval

ANN, BOB, EVE = "A" * 43, "b" * 42 + "A", "e" * 42 + "8"
HOST = "network_egress: [{host: a.b.com}], "


def load(sections: str, floor: str | None = None):
    named = "floor: floor.yaml\n" if floor is not None else ""
    text = f"{named}agent_configs: {{dev: {{{sections}}}}}"
    return load_profiles(text.encode(), floor=None if floor is None else floor.encode()).profile("dev")


def approval(sections: str, floor: str | None = None) -> Approval:
    return load(f"requires_human_approval: {sections}", floor).policy.approval


def refused(sections: str, floor: str | None = None) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        load(sections, floor)
    return caught.value


def test_all_that_a_mapping_says_is_read() -> None:
    found = approval(f"{{everything: true, egress: [POST], approvers: [{BOB}, {ANN}], quorum: 2, ttl: 2h}}")
    assert found == Approval(True, ("POST",), (ANN, BOB), 2, 7200)
    assert approval(f"{{egress: [POST], approvers: [{ANN}]}}") == Approval(False, ("POST",), (ANN,), 1, 600)


@pytest.mark.parametrize(
    ("mapping", "code"),
    [
        ("{egress: [POST], quorum: 1}", "policy.missing_key"),
        ("{egress: [POST], ttl: 10m}", "policy.missing_key"),
        ("{approvers: []}", "policy.empty_list"),
        ("{approvers: [ann@example.com]}", "policy.name"),
        (f"{{approvers: [{'A' * 42}B]}}", "policy.name"),  # the bits after the 32nd byte are another spelling
        (f"{{approvers: [{', '.join(f'{at:02x}' + 'A' * 41 for at in range(17))}]}}", "policy.value"),
        (f"{{approvers: [{ANN}], quorum: 2}}", "policy.conflict"),
        (f"{{approvers: [{ANN}, {ANN}], quorum: 2}}", "policy.conflict"),
        (f"{{approvers: [{ANN}], quorum: 0}}", "policy.value"),
        (f"{{approvers: [{ANN}], ttl: 29s}}", "policy.value"),
        (f"{{approvers: [{ANN}], ttl: 25h}}", "policy.value"),
        (f"{{approvers: [{ANN}], ttl: 600}}", "policy.wrong_type"),
        (f"{{approvers: [{ANN}], ttl: 1d}}", "policy.wrong_type"),
    ],
)
def test_what_could_not_be_enforced_is_refused(mapping: str, code: str) -> None:
    assert refused(f"requires_human_approval: {mapping}").code == code


def test_a_refused_approver_is_shown_where_it_stands() -> None:
    section = f"requires_human_approval:\n      everything: true\n      approvers:\n        - {ANN}\n        - ann\n"
    with pytest.raises(AffiantError) as caught:
        load_profiles(f"agent_configs:\n  dev:\n    {section}".encode(), source="p.yaml")
    assert (caught.value.code, str(caught.value.where)) == ("policy.name", "p.yaml:7:11")


def test_a_floor_supplies_approvers_and_they_enter_the_digest() -> None:
    floor = f"requires_human_approval: {{egress: [POST], approvers: [{ANN}, {BOB}], quorum: 2, ttl: 5m}}"
    assert approval("true", floor) == Approval(True, ("POST",), (ANN, BOB), 2, 300)
    everything = floor.replace("egress: [POST]", "everything: true")
    assert approval("{egress: [PUT]}", everything) == Approval(True, ("PUT",), (ANN, BOB), 2, 300)
    other = floor.replace(BOB, EVE)
    assert load("tools: [a]", floor).digest != load("tools: [a]", other).digest


def test_a_profile_names_only_approvers_of_the_floor_and_is_never_laxer() -> None:
    floor = f"requires_human_approval: {{approvers: [{ANN}, {BOB}], quorum: 1, ttl: 5m}}"
    own = f"{{egress: [POST], approvers: [{BOB}], quorum: 1, ttl: 1h}}"
    assert approval(own, floor) == Approval(False, ("POST",), (BOB,), 1, 300)
    assert refused(f"requires_human_approval: {{approvers: [{EVE}]}}", floor).code == "policy.conflict"
    both = f"requires_human_approval: {{approvers: [{ANN}, {BOB}], quorum: 2}}"
    assert refused(f"requires_human_approval: {{approvers: [{ANN}]}}", both).code == "policy.conflict"


def test_digests_of_profiles_without_approvers_are_those_of_before() -> None:
    digest = load("requires_human_approval: {egress: [POST]}").digest
    assert digest.startswith("sha384:")
    assert (
        b'"approval":{"everything":false,"methods":["POST"]}'
        in load("requires_human_approval: {egress: [POST]}").normal_form
    )


@pytest.mark.parametrize("spoilt", [b'"quorum":1,', b',"ttl":600', b'"approvers":["%s"],' % ANN.encode()])
def test_the_normal_form_names_all_three_or_none(spoilt: bytes) -> None:
    form = load(f"requires_human_approval: {{egress: [POST], approvers: [{ANN}]}}").normal_form
    assert parse_normal_form(form).policy.approval.approvers == (ANN,)
    assert spoilt in form
    with pytest.raises(AffiantError):
        parse_normal_form(form.replace(spoilt, b""))


def test_with_approvers_what_needs_approval_is_asked_and_never_allowed() -> None:
    who = f"requires_human_approval: {{egress: [POST], approvers: [{ANN}]}}"
    policy = load(HOST + "tools: [{name: t, approval: true}], " + who).compiled
    asked = (
        policy.decide_tool("t"),
        policy.decide_call("t", "{}"),
        policy.decide_egress(host="a.b.com", port=443, scheme="https", method="POST", target="/"),
    )
    assert {(each.effect, each.reason, each.allowed) for each in asked} == {
        (Effect.ASK, "approval_required", False)
    }
    read = policy.decide_egress(host="a.b.com", port=443, scheme="https", method="GET", target="/")
    assert read.allowed


def test_a_host_that_needs_approval_makes_the_call_that_names_it_need_it() -> None:
    """Else a tool would carry, unasked, what the proxy asks for."""
    policy = load(
        "tools: [{name: send, args: {to: {host: '*.b.com'}}}], "
        "network_egress: [{host: p.b.com, tls: passthrough}, {host: i.b.com}], "
        f"requires_human_approval: {{egress: [POST], approvers: [{ANN}]}}"
    ).compiled
    assert policy.decide_call("send", '{"to": "p.b.com"}').effect is Effect.ASK
    assert policy.decide_call("send", '{"to": "i.b.com"}').allowed


def compared(old: str, new: str) -> list[tuple[str, str]]:
    sets = [
        load_profiles(f"agent_configs: {{dev: {{requires_human_approval: {text}}}}}".encode())
        for text in (old, new)
    ]
    found = compare_profile_sets(*sets)
    assert {each.plane for each in found} <= {"approval"}
    return [(each.direction.value, each.request) for each in found]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[A]", "[A, B]", [("widens", f"approver {BOB}")]),
        ("[A, B]", "[B]", [("narrows", f"approver {ANN}")]),
        ("[A]", "[B]", [("narrows", f"approver {ANN}"), ("widens", f"approver {BOB}")]),
        ("[A, B], quorum: 2", "[A, B]", [("widens", "quorum")]),
        ("[A, B]", "[A, B], quorum: 2", [("narrows", "quorum")]),
        ("[A]", "[A], ttl: 1h", [("widens", "ttl")]),
        ("[A]", "[A], ttl: 1m", [("narrows", "ttl")]),
        ("[A, B]", "[B, A], quorum: 1, ttl: 600s", []),
    ],
)
def test_more_who_may_and_fewer_who_must_is_wider(
    old: str, new: str, expected: list[tuple[str, str]]
) -> None:
    texts = [
        f"{{egress: [POST], approvers: {text.replace('A', ANN, 1) if 'A' in text else text}}}"
        for text in (old, new)
    ]
    texts = [text.replace("B", BOB) for text in texts]
    assert compared(*texts) == expected


def test_the_first_approver_makes_possible_what_was_denied() -> None:
    assert compared("{egress: [POST]}", f"{{egress: [POST], approvers: [{ANN}]}}") == [
        ("widens", f"approver {ANN}")
    ]
