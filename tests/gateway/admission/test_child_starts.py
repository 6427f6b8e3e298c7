"""A session is admitted as another's child only as that one announced it, and takes from its limits from then on."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import Answer, SessionClient, admit, draft

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.supervisor.launch.provision import new_session_id

PROFILES = b"""
agent_configs:
  lead:
    models: [affiant-dev-echo]
    limits: {requests: 3}
    may_start: [{agent: helper, at_most: 2}, wide, middle, {deny: never}]
  middle: {models: [affiant-dev-echo], limits: {requests: 3}, may_start: [{agent: helper, at_most: 2}]}
  helper: {models: [affiant-dev-echo], limits: {requests: 3}}
  wide: {limits: {requests: 3}}
  never: {models: []}
"""
FOUND = load_profiles(PROFILES)


@pytest.fixture
def gateway(platform: PlatformClient, tmp_path) -> Iterator[InProcess]:
    with in_process(platform, tmp_path / "store") as made:
        yield made


def started(gateway, platform, agent: str = "lead", **more) -> SessionClient:
    return SessionClient.start(gateway, platform, profile=PROFILES, agent=agent, **more)


def announce(
    parent: SessionClient, session: str, agent: str = "helper", policy: str | None = None, **proof: object
) -> Answer:
    digest = policy or FOUND.profile(agent).digest
    body = canonical({"session": session, "agent": agent, "policy": digest})
    return posted(parent, body, **proof)


def posted(parent: SessionClient, body: bytes, *, of: str | None = None, **proof: object) -> Answer:
    target = f"/v1/sessions/{of or parent.id}/children"
    return parent.ask("POST", target, body, content_type="application/json", **proof)


def child_of(parent: SessionClient, gateway, platform, agent: str = "helper") -> SessionClient:
    session = new_session_id(secrets.token_bytes)
    assert announce(parent, session, agent).status == 200
    return started(gateway, platform, agent, session=session)


def test_a_child_uses_up_its_parents_requests(gateway, platform) -> None:
    parent = started(gateway, platform)
    child = child_of(parent, gateway, platform)
    stranger = started(gateway, platform, "helper")
    assert [one.say("x").status for one in (child, parent, child)] == [200] * 3
    for spent in (child, parent):
        answer = spent.say("x")
        assert (answer.status, answer.code) == (403, "limit_requests")
    assert stranger.say("x").status == 200


def test_only_the_parent_is_told_which_children_it_has(gateway, platform) -> None:
    parent = started(gateway, platform)
    other = started(gateway, platform)
    child = child_of(parent, gateway, platform)
    assert announce(parent, "w" * 22).status == 200

    def admitted(asks: SessionClient, session: str) -> object:
        answer = asks.ask("GET", f"/v1/sessions/{asks.id}/children/{session}")
        return answer.json()["admitted"] if answer.status == 200 else answer.status

    assert [admitted(parent, one) for one in (child.id, other.id, parent.id, "w" * 22)] == [True] + [
        False
    ] * 3
    assert admitted(other, child.id) is False
    assert admitted(parent, "short") == 422
    assert other.ask("GET", f"/v1/sessions/{parent.id}/children/{child.id}").status == 404


def test_a_childs_child_counts_for_all_above_it(gateway, platform) -> None:
    parent = started(gateway, platform)
    middle = child_of(parent, gateway, platform, "middle")
    leaf = child_of(middle, gateway, platform)
    assert [one.say("x").status for one in (leaf, middle, parent)] == [200] * 3
    assert [one.say("x").code for one in (leaf, middle, parent)] == ["limit_requests"] * 3


def test_a_child_does_not_outlive_its_parent(gateway, platform) -> None:
    parent = started(gateway, platform)
    child = child_of(parent, gateway, platform)
    assert int(child.admitted["expires"]) <= int(parent.admitted["expires"])
    assert parent.submit(parent.end_record()).status == 200
    assert parent.close().status == 200
    answer = child.say("x")
    assert (answer.status, answer.code) == (409, "session.closed")
    assert announce(child, new_session_id(secrets.token_bytes)).code in {
        "session.start_denied",
        "session.closed",
    }
    assert child.submit(child.end_record()).status == 200  # it can still be closed in order
    assert child.close().status == 200


def test_starts_are_counted_whatever_became_of_them(gateway, platform) -> None:
    parent = started(gateway, platform)
    for _ in range(2):
        assert announce(parent, new_session_id(secrets.token_bytes)).status == 200
    answer = announce(parent, new_session_id(secrets.token_bytes))
    assert (answer.status, answer.code) == (403, "limit_starts")
    assert announce(parent, new_session_id(secrets.token_bytes), "middle").status == 200
    assert announce(started(gateway, platform), new_session_id(secrets.token_bytes)).status == 200


def test_a_childs_starts_count_for_all_above_it(gateway, platform) -> None:
    parent = started(gateway, platform)
    middle = child_of(parent, gateway, platform, "middle")
    assert announce(middle, new_session_id(secrets.token_bytes)).status == 200
    assert announce(parent, new_session_id(secrets.token_bytes)).status == 200
    for spent in (middle, parent):
        answer = announce(spent, new_session_id(secrets.token_bytes))
        assert (answer.status, answer.code) == (403, "limit_starts")
    other = child_of(parent, gateway, platform, "middle")
    assert announce(other, new_session_id(secrets.token_bytes)).code == "limit_starts"


@pytest.mark.parametrize("agent", ["lead", "never", "nobody", "", "x" * 3000])
def test_only_what_the_profile_lets_start_is_announced(gateway, platform, agent: str) -> None:
    answer = announce(started(gateway, platform), "s" * 22, agent, FOUND.profile("helper").digest)
    assert (answer.status, answer.code) == (403, "session.start_denied")


def test_a_session_without_children_in_its_profile_announces_none(gateway, platform) -> None:
    answer = announce(started(gateway, platform, "helper"), "s" * 22)
    assert (answer.status, answer.code) == (403, "session.start_denied")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        canonical({"session": "s" * 22, "agent": "helper"}),
        canonical({"session": "s" * 21, "agent": "helper", "policy": FOUND.profile("helper").digest}),
        canonical({"session": "../" + "s" * 19, "agent": "helper", "policy": FOUND.profile("helper").digest}),
        canonical({"session": "s" * 22, "agent": 1, "policy": FOUND.profile("helper").digest}),
        canonical({"session": "s" * 22, "agent": "helper", "policy": "sha384:x"}),
        canonical({"session": "s" * 22, "agent": "helper", "policy": FOUND.profile("helper").digest, "x": 1}),
        b"x" * 5000,
    ],
)
def test_another_body_is_no_announcement(gateway, platform, body: bytes) -> None:
    assert posted(started(gateway, platform), body).status in {400, 413}


def test_nobody_announces_for_another(gateway, platform) -> None:
    parent, other = started(gateway, platform), started(gateway, platform)
    body = canonical({"session": "s" * 22, "agent": "helper", "policy": FOUND.profile("helper").digest})
    assert posted(other, body, of=parent.id).status == 404
    assert gateway.ask("POST", f"/v1/sessions/{parent.id}/children", body, {}).status in {401, 403}
    assert started(gateway, platform, "helper", session="s" * 22).say("x").status == 200


def test_an_id_is_announced_once_and_never_that_of_a_session(gateway, platform) -> None:
    parent, other = started(gateway, platform), started(gateway, platform)
    assert announce(parent, "s" * 22).status == 200
    assert announce(other, "s" * 22).code == "admission.replayed"
    for used in (parent.id, other.id):
        assert announce(parent, used).code == "admission.replayed"
    child = started(gateway, platform, "helper", session="s" * 22)
    assert announce(other, child.id).code == "admission.replayed"


@pytest.mark.parametrize(
    ("announced", "policy", "code"),
    [
        ("helper", None, None),
        ("helper", "middle", "admission.child"),
        ("wide", "wide", "policy.not_narrower"),
    ],
)
def test_the_child_has_the_profile_that_was_announced_and_no_wider(
    gateway, platform, announced: str, policy: str | None, code: str | None
) -> None:
    parent = started(gateway, platform)
    assert announce(parent, "s" * 22, announced).status == 200
    made = draft(gateway, profile=PROFILES, agent=policy or announced, session="s" * 22)
    answer = admit(gateway, made, platform)
    assert (answer.status, None if code is None else answer.code) == (201 if code is None else 403, code)
    if code is not None:
        assert answer.headers.get("affiant-receipt-id"), "a refusal is recorded"


def test_a_parent_that_has_ended_has_no_new_children(gateway, platform) -> None:
    parent = started(gateway, platform)
    assert announce(parent, "s" * 22).status == 200
    assert parent.submit(parent.end_record()).status == 200
    assert parent.close().status == 200
    answer = admit(gateway, draft(gateway, profile=PROFILES, agent="helper", session="s" * 22), platform)
    assert (answer.status, answer.code) == (409, "session.closed")
    assert announce(parent, "t" * 22).code == "session.closed"


def test_a_storm_of_announcements_is_bounded(gateway, platform) -> None:
    parent = started(gateway, platform)
    answers = [announce(parent, new_session_id(secrets.token_bytes), "middle") for _ in range(18)]
    assert [answer.status for answer in answers] == [200] * 16 + [429] * 2
    assert {answer.code for answer in answers[16:]} == {"gateway.busy"}
    assert announce(started(gateway, platform), "s" * 22).status == 200
