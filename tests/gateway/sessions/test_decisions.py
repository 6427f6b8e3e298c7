"""``affiant gateway serve --decisions``: every decision about models and tools is in the file, or nothing happens."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.gateway.conftest import serving_gateway
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import PROFILE, SessionClient
from tests.gateway.upstream_server import Received, Step, scripted_upstream, streamed, whole

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.process.server import gateway_app
from affiant.gateway.sessions.decisions import GatewayDecisions
from affiant.gateway.sessions.sessions import Session
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import ModelQuestion, ToolQuestion, parse_question, plane_of
from affiant.policy.decision_log.file import DecisionFile, DecisionsUnavailable, open_decision_file
from affiant.policy.decision_log.reader import agents_of, read_decision_log
from affiant.policy.loading.load import load_profiles


def tool(name: str) -> Mapping[str, object]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


def call(name: str, arguments: str = '{"path": "hunter2"}') -> Mapping[str, object]:
    entry = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": [entry]}}]}


def answering(received: Received) -> list[Step]:
    """Calls the tool that the prompt names."""
    return whole(dict(call(json.loads(received.body)["messages"][0]["content"])))


def asked(session: SessionClient, name: str, *offered: str):
    message = {"role": "user", "content": name}
    return session.chat({"model": "m", "messages": [message], "tools": [tool(each) for each in offered]})


def told(log: Path) -> list[tuple[str, str, str, bool, bool]]:
    agents = agents_of(load_profiles(PROFILE))
    return [
        (each.request.partition("#")[0], each.agent, each.reason, each.offered, each.withheld)
        for each in read_decision_log(log.read_bytes().splitlines(keepends=True), agents=agents)
    ]


def test_models_offers_and_calls_are_told_and_no_arguments_in_whatever_file_the_log_goes_on(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    log, moved = tmp_path / "decisions.jsonl", tmp_path / "moved"
    with scripted_upstream(answering) as upstream:
        options = ("--upstream", upstream.url, "--decisions", str(log))
        with serving_gateway(tmp_path / "home", platform_home, *options) as running:
            session = SessionClient.start(running.gateway, platform)
            for _ in range(2):
                assert asked(session, "read_file", "read_file", "other").status == 200
            assert asked(session, "evil\u202e\n", "read_file").status == 403
            log.rename(moved)  # as logrotate does
            later, until = 0, time.monotonic() + 20
            while (not log.exists() or log.stat().st_size == 0) and time.monotonic() < until:
                asked(session, "evil\u202e\n")
                later += 1
            assert running.stop() == 0
    ask = ("model:m", "tester", "allowed", False, False)
    reads = ("tool:read_file@?", "tester", "allowed", False, True)
    evil = ("tool:?@?", "tester", "tool_not_listed", False, True)
    assert told(moved) + told(log) == [
        ask,
        ("tool:read_file@?", "tester", "allowed", True, False),
        ("tool:other@?", "tester", "tool_not_listed", True, False),
        reads,
        ask,
        reads,
        ask,
        evil,
        *(ask, evil) * later,
    ]
    assert b"hunter2" not in moved.read_bytes() + log.read_bytes()
    assert {each.stat().st_mode & 0o777 for each in (moved, log)} == {0o600}


@pytest.fixture
def inside(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    with scripted_upstream(answering) as upstream:
        configs = upstream_configs([UpstreamChoice(upstream.url)])
        with in_process(platform, tmp_path / "store", upstreams=configs) as made:
            made.upstream = upstream
            yield made


@pytest.mark.parametrize(("lines", "reached"), [(0, False), (1, False), (2, True)])
def test_L5_what_cannot_be_told_is_not_done_nor_anything_after_it(
    inside: InProcess, platform: PlatformClient, tmp_path: Path, lines: int, reached: bool
) -> None:
    """The model, the offer of the tool, the call: the log takes only so many of them."""
    log = tmp_path / "decisions.jsonl"
    file = DecisionFile(open_decision_file(log))
    inside.app = gateway_app(inside.service, file)
    session = SessionClient.start(inside, platform)
    kept = file.append

    def append(line: bytes) -> None:
        if log.read_bytes().count(b"\n") >= lines:
            file.close()  # as a disk that is full from now on
        kept(line)

    file.append = append  # type: ignore[method-assign]
    for _ in range(2):
        answer = asked(session, "read_file", "read_file")
        assert (answer.status, answer.code) == (503, "decisions.unavailable")
    assert bool(inside.upstream.received) is reached
    assert log.read_bytes().count(b"\n") == lines


def test_what_the_upstream_may_fetch_and_a_model_that_answers_instead_are_told(
    platform: PlatformClient, inside: InProcess, tmp_path: Path
) -> None:
    """So that a profile that is learned from the log allows them, or a reviewer asks why it should."""
    log = tmp_path / "decisions.jsonl"
    inside.app = gateway_app(inside.service, DecisionFile(open_decision_file(log)))
    session = SessionClient.start(inside, platform)
    part = {"type": "image_url", "image_url": {"url": "https://pictures.example.com/a.png?token=hunter2"}}
    message = {"role": "user", "content": [part]}
    assert session.chat({"model": "m", "messages": [message]}).code == "url.not_allowed"
    assert ("GET https://pictures.example.com/a.png", "host_not_listed") in {
        each[::2][:2] for each in told(log)
    }
    assert b"hunter2" not in log.read_bytes()
    denied = {"kind": "egress", "name": "pictures.example.com", "reason": "host_not_listed", "count": 1}
    assert denied in followed(session, None)["denied"]
    inside.upstream.script = lambda _: whole({"model": "another", "choices": []})
    assert session.chat({"model": "m", "messages": []}).status == 200
    assert "model:another" in [each[0] for each in told(log)]


def followed(session: SessionClient, after: int | None = 0) -> dict:
    body = json.dumps({"after": after}).encode()
    target = f"/v1/sessions/{session.id}/decisions"
    answer = session.ask("POST", target, body, content_type="application/json")
    assert answer.status == 200, answer.body
    return answer.json()


def requests_of(said: Mapping[str, list[str]]) -> list[str]:
    return [json.loads(line)["request"].partition("#")[0] for line in said["lines"]]


def test_a_session_gets_its_own_decisions_and_no_others(inside: InProcess, platform: PlatformClient) -> None:
    one, other = (SessionClient.start(inside, platform) for _ in range(2))
    assert asked(one, "read_file", "read_file").status == 200
    assert followed(one)["lines"] == [], "kept from when it is asked for"
    assert asked(one, "read_file", "read_file", "other").status == 200
    assert asked(other, "evil").status == 403
    said = followed(one)
    assert requests_of(said) == ["model:m", "tool:read_file@?", "tool:other@?", "tool:read_file@?"]
    assert {json.loads(line)["session"] for line in said["lines"]} == {one.id}
    assert "hunter2" not in json.dumps(said)
    assert (followed(one)["lines"], followed(one, said["next"])["lines"]) == (said["lines"], [])
    assert followed(one, 0)["lines"] == [], "what was fetched is kept no longer"


def test_denials_are_counted_whoever_asks_for_decisions(inside: InProcess, platform: PlatformClient) -> None:
    session = SessionClient.start(inside, platform)
    for _ in range(2):
        asked(session, "read_file", "read_file", "other")
    asked(session, "evil\u202e\n")
    session.chat({"messages": "none"})
    said = followed(session, None)
    assert said["lines"] == []
    assert sorted((each["kind"], each["name"], each["reason"], each["count"]) for each in said["denied"]) == [
        ("request", "POST /v1/chat/completions", "request.malformed", 1),
        ("tool", "?", "tool_not_listed", 1),
        ("tool offer", "other", "tool_not_listed", 2),
    ]
    assert followed(SessionClient.start(inside, platform), None)["denied"] == []


def test_what_a_request_was_rejected_for_is_counted_with_its_tool_host_or_path(
    inside: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(inside, platform)
    for more in ({"web_search_options": {}}, {"plugins": []}, {"tools": [{"type": "mcp\u202e"}]}):
        assert session.chat({"model": "m", "messages": [], **more}).status == 403
    part = {"type": "image_url", "image_url": {"url": "https://pictures.example.com/a.png"}}
    session.chat({"model": "m", "messages": [{"role": "user", "content": [part]}]})
    denied = followed(session, None)["denied"]
    assert sorted((each["kind"], each["name"], each["reason"], each["count"]) for each in denied) == [
        ("egress", "pictures.example.com", "host_not_listed", 1),
        ("provider_tool", "?", "provider_tool_not_listed", 1),
        ("provider_tool", "web_search", "provider_tool_not_listed", 1),
        ("request", "POST /v1/chat/completions plugins", "request.unlisted", 1),
    ]


APPROVER = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
ASKING = f"""
agent_configs:
  tester:
    tools: [read_file]
    provider_tools: [web_search]
    network_egress: [{{host: pictures.example.com}}, {{host: counted.example.com, limits: {{requests: 3}}}}]
    requires_human_approval: {{everything: true, approvers: [{APPROVER}]}}
""".encode()
PART = "POST /v1/chat/completions messages[0].content[0].image_url.url"
UNCOUNTED: dict[str, tuple[Mapping[str, object], tuple[str, str, str]]] = {
    "a fetch of an address": (
        {"image_url": {"url": "http://169.254.169.254/latest/meta-data/"}},
        ("request", PART, "url.not_canonical"),
    ),
    "a fetch that asks": (
        {"image_url": {"url": "https://pictures.example.com/a.png"}},
        ("request", PART, "url.not_allowed"),
    ),
    "a fetch that cannot be counted": (
        {"image_url": {"url": "https://counted.example.com/a.png"}},
        ("request", PART, "url.not_allowed"),
    ),
    "a provider's tool that asks": (
        {"web_search_options": {}},
        ("provider_tool", "web_search", "provider_tool_unshowable"),
    ),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_every_denial_is_counted_once_with_what_it_is_about(
    inside: InProcess, platform: PlatformClient, name: str
) -> None:
    session = SessionClient.start(inside, platform, profile=ASKING)
    more, counted = UNCOUNTED[name]
    content: object = "hi"
    if "image_url" in more:
        content, more = [{"type": "image_url", **more}], {}
    for _ in range(2):
        answer = session.chat({"model": "m", "messages": [{"role": "user", "content": content}], **more})
        assert answer.status == 403
    assert denials(session) == [(*counted, 2)]


def denials(session: SessionClient) -> list[tuple[str, str, str, int]]:
    denied = followed(session, None)["denied"]
    return [(each["kind"], each["name"], each["reason"], each["count"]) for each in denied]


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_is_stopped_for_what_no_list_has_is_counted(
    inside: InProcess, platform: PlatformClient, stream: bool
) -> None:
    session = SessionClient.start(inside, platform)
    said = {"choices": [{"index": 0, "delta" if stream else "message": {"shell": {"action": {}}}}]}
    event = b"data: " + json.dumps(said).encode() + b"\n\n"
    inside.upstream.script = lambda _: streamed(event) if stream else whole(said)
    session.chat({"model": "m", "messages": [], "stream": stream})
    path = f"choices[0].{'delta' if stream else 'message'}.shell"
    assert denials(session) == [("request", f"POST /v1/chat/completions {path}", "upstream.unlisted", 1)]


@pytest.mark.parametrize("after", ["0", -1, True, 1.5])
def test_another_number_of_a_line_is_refused(
    inside: InProcess, platform: PlatformClient, after: object
) -> None:
    session = SessionClient.start(inside, platform)
    body = json.dumps({"after": after}).encode()
    target = f"/v1/sessions/{session.id}/decisions"
    assert session.ask("POST", target, body, content_type="application/json").status == 400


def test_a_session_that_does_not_fetch_its_decisions_is_decided_nothing_more(tmp_path: Path) -> None:
    decisions = GatewayDecisions(None, lambda: datetime.now(UTC))
    session = cast("Session", OneSession())
    note = decisions.of(session)
    for _ in range(10_000):
        note(ModelQuestion("m"), Decision(Effect.ALLOW, "allowed"))
    decisions.follow(session, 0)
    with pytest.raises(DecisionsUnavailable):
        for _ in range(10_000):
            note(ModelQuestion("m"), Decision(Effect.ALLOW, "allowed"))
    fetched, said = 0, decisions.follow(session, 0)
    while said["lines"]:
        assert len(json.dumps(said)) < 64 << 10, "one answer to the supervisor"
        fetched += len(said["lines"])
        said = decisions.follow(session, said["next"])
    assert fetched > 1000
    note(ModelQuestion("m"), Decision(Effect.ALLOW, "allowed"))


class OneSession:
    """What a decision log must know of a session."""

    id = "s-1"
    admitted = SimpleNamespace(policy=SimpleNamespace(digest="sha384:" + "0" * 96))


@pytest.fixture
def decisions(tmp_path: Path) -> GatewayDecisions:
    file = DecisionFile(open_decision_file(tmp_path / "decisions.jsonl"))
    return GatewayDecisions(file, lambda: datetime.now(UTC), most=64 << 10)


def test_one_session_cannot_fill_the_log_of_all(decisions: GatewayDecisions, tmp_path: Path) -> None:
    greedy, other = OneSession(), OneSession()
    note = decisions.of(cast("Session", greedy))
    with pytest.raises(DecisionsUnavailable, match="session"):
        for number in range(1000):
            note(ToolQuestion(f"{number:0128}"), Decision(Effect.DENY, "tool_not_listed"), offered=True)
    assert (tmp_path / "decisions.jsonl").stat().st_size <= 64 << 10
    with pytest.raises(DecisionsUnavailable):
        note(ModelQuestion("m"), Decision(Effect.DENY, "model_not_listed"))
    decisions.of(cast("Session", other))(ModelQuestion("m"), Decision(Effect.DENY, "model_not_listed"))
    assert (tmp_path / "decisions.jsonl").read_bytes().endswith(b"\n")


def test_names_that_nobody_could_list_are_told_once_and_kept_nowhere(
    decisions: GatewayDecisions, tmp_path: Path
) -> None:
    session = OneSession()
    note = decisions.of(cast("Session", session))
    tracemalloc.start()
    try:
        for number in range(64):
            name = f"{number}" + "x" * (1 << 20)
            note(ToolQuestion(name), Decision(Effect.DENY, "tool_not_listed"), offered=True)
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()
    assert (tmp_path / "decisions.jsonl").read_bytes().count(b"\n") == 1


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        *(
            ("tool:read", "read"),
            ("provider_tool:web", "web"),
            ("model:m", "m"),
            ("secret:KEY@a.example.com", "KEY"),
        ),
        *(("start:reviewer", "reviewer"), ("start:a b\u202e", "?"), ("port:8080", "?"), ("read:/w", "?")),
        ("connect:a.example.com", "a.example.com"),
    ],
)
def test_a_denial_of_any_kind_is_counted_by_a_name_that_a_profile_could_list(
    decisions: GatewayDecisions, request_: str, name: str
) -> None:
    session, question = cast("Session", OneSession()), parse_question(request_)
    decisions.of(session)(question, Decision(Effect.DENY, "tool_not_listed"))
    (found,) = cast("list[Mapping[str, object]]", decisions.follow(session, None)["denied"])
    assert (found["kind"], found["name"]) == (plane_of(question), name)


def test_a_file_that_others_can_reach_starts_no_gateway(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    log = tmp_path / "decisions.jsonl"
    log.touch(mode=0o644)
    with (
        pytest.raises(AssertionError, match=r"decisions\.file"),
        serving_gateway(tmp_path / "home", platform_home, "--decisions", str(log)),
    ):
        pass
