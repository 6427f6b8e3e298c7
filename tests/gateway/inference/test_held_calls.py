"""A call in a model's response that a person must approve is held, and handed over or not by what the person says."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from openai._streaming import SSEDecoder
from tests.gateway.approvals.approver import Approver, path_of
from tests.gateway.bundles.test_bundles import with_openings
from tests.gateway.in_process import InProcess, asgi, in_process
from tests.gateway.inference.test_inference import records_of, sha, tool
from tests.gateway.narrowing_client import NarrowingClient
from tests.gateway.session_client import Answer, SessionClient

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.merkle import root
from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.inference import held_calls, inference
from affiant.gateway.upstream import dev_echo
from affiant.policy.approvals.action import Action, parse_action
from affiant.policy.approvals.errors import ApprovalExpired
from affiant.policy.approvals.queue import MAX_WAITING

ROOT = Path(__file__).parents[3]
RULES = ["tools/1"]
"""Those of the tool that needs approval, in the order of the normal form."""
CALL = 'call_tool:deploy {"to": "staging"}'
WAITS = held_calls.KEEP_ALIVE
DONE = b"data: [DONE]\n\n"


class Place:
    """A gateway in this process, an approver, and agents of which some calls need approval."""

    def __init__(self, gateway: InProcess, platform: PlatformClient, pool: ThreadPoolExecutor) -> None:
        self.gateway, self.platform = gateway, platform
        self.ann = Approver(gateway)
        self._pool = pool

    def agent(self, *, tools: str = "[deploy, look]", more: str = "", rest: str = "") -> Agent:
        asks = f"requires_human_approval: {{tools: [deploy], approvers: [{self.ann.kid}]{more}}}"
        profile = f"agent_configs: {{tester: {{tools: {tools}, {asks}{rest}}}}}"
        key = X25519PrivateKey.generate()
        started = SessionClient.start(self.gateway, self.platform, profile=profile.encode(), openings=key)
        return Agent(started, key)

    def during(self, work: Any, *arguments: Any, **more: Any) -> Future[Any]:
        return self._pool.submit(work, *arguments, **more)

    def listed(self, agent: Agent) -> list[dict[str, Any]]:
        answer = self.ann.ask("GET", "/v1/approvals")
        entries = answer.json()["approvals"] if answer.status == 200 else []
        return [each for each in entries if each["session"] == agent.session.id]

    def waiting(self, agent: Agent, *, count: int = 1) -> list[Action]:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            names = [each["action"] for each in self.listed(agent) if each["state"] == "pending"]
            if len(names) >= count:
                shown = (self.ann.ask("GET", f"/v1/approvals/{name[7:]}").json() for name in names)
                return [parse_action(from_b64u(entry["bytes"])) for entry in shown]
            time.sleep(0.05)
        raise AssertionError("nothing waits")

    def state(self, action: Action) -> str:
        return self.ann.ask("GET", path_of(action)).json()["state"]


class Agent:
    def __init__(self, session: SessionClient, key: X25519PrivateKey) -> None:
        self.session, self.key = session, key

    def say(self, text: str = CALL, **more: Any) -> Answer:
        return self.session.say(text, **{"tools": [tool("deploy")], **more})

    def records(self) -> list[VerifiedReceipt]:
        return [each for each in records_of(self.session, self.key) if each.kind != "session-start"]

    def kinds(self) -> list[str]:
        return [each.kind for each in self.records()]

    def denied(self) -> list[tuple[str, str, str, int]]:
        """What the summary of the session says was denied."""
        target = f"/v1/sessions/{self.session.id}/decisions"
        said = self.session.ask("POST", target, b'{"after": null}', content_type="application/json").json()
        return [(each["kind"], each["name"], each["reason"], each["count"]) for each in said["denied"]]


@pytest.fixture(scope="module")
def place(platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    store = tmp_path_factory.mktemp("held") / "store"
    with in_process(platform, store) as gateway, ThreadPoolExecutor(20) as pool:
        yield Place(gateway, platform, pool)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments every tenth of a second."""
    monkeypatch.setattr(held_calls, "_KEEP_ALIVE_S", 0.1)
    monkeypatch.setattr(held_calls, "_STEP_S", 0.1)


def ended(answer: Answer) -> str:
    """The code with which a stream ended."""
    assert DONE not in answer.body
    return json.loads(answer.body.rpartition(b"data: ")[2])["error"]["code"]


def code_of(answer: Answer, *, stream: bool) -> str:
    return ended(answer) if stream else answer.code


# -- agreed ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_is_held_until_a_person_agrees_and_then_handed_over_as_it_came(
    place: Place, stream: bool
) -> None:
    agent = place.agent()
    answer = place.during(agent.say, stream=stream)
    (action,) = place.waiting(agent)
    call = action.members["call"]
    assert (call["tool"], call["arguments"]) == ("deploy", '{"to": "staging"}')
    assert (call["server"], action.rules) == ("the agent itself", RULES)
    assert not answer.done()
    assert place.ann.decide(action).status == 200
    handed = answer.result(10)
    assert handed.status == 200 and b"deploy" in handed.body
    approval, intent, outcome, inference = agent.records()
    assert [each.kind for each in (approval, intent, outcome, inference)] == [
        *("approval", "tool", "tool", "inference")
    ]
    assert intent.member("par") == [approval.jti] and intent.member("apr", "dig") == action.name
    assert (intent.member("ph"), outcome.member("ph"), outcome.member("par")) == (
        "intent",
        "outcome",
        [intent.jti],
    )
    assert outcome.member("act", "end") == "complete"
    assert intent.disclosed.get("act.name") == "deploy"
    assert intent.disclosed.get("act.arg") == sha(b'{"to": "staging"}')
    assert intent.disclosed.get("act.tgt") == f"inference:{inference.jti}"
    assert (inference.member("res", "end"), inference.member("pol", "dec")) == ("complete", "allow")
    assert inference.disclosed.get("res.dig") == sha(handed.body)
    assert place.state(action) == "done"


def test_a_tool_that_needs_approval_is_offered_to_the_model(place: Place) -> None:
    agent = place.agent()
    assert agent.say("hi").status == 200
    (inference,) = agent.records()
    assert inference.member("pol", "dec") == "allow"


def test_a_stream_is_kept_alive_and_its_record_covers_the_comments(place: Place, hurried: None) -> None:
    agent = place.agent()
    answer = place.during(agent.say, stream=True)
    (action,) = place.waiting(agent)
    time.sleep(0.5)
    place.ann.decide(action)
    body = answer.result(10).body
    assert body.count(WAITS) >= 2 and body.endswith(DONE)
    before, _, after = body.partition(WAITS)
    assert b"deploy" not in before and b"deploy" in after
    inference = agent.records()[-1]
    events = [event + b"\n\n" for event in body.split(b"\n\n")[:-1]]
    assert inference.disclosed.get("res.dig") == sha(body)
    assert (inference.disclosed.get("res.evs"), inference.disclosed.get("res.evr")) == (
        len(events),
        b64u(root(events)),
    )


def test_the_openai_client_reads_over_the_comments() -> None:
    event = b'data: {"choices": []}\n\n'
    read = list(SSEDecoder().iter_bytes(iter([WAITS, event, WAITS + WAITS, event, DONE])))
    assert [each.data for each in read] == ['{"choices": []}'] * 2 + ["[DONE]"]


def test_the_same_call_finds_the_action_that_it_asked_for_before_and_takes_it_once(place: Place) -> None:
    agent = place.agent()
    gone = asyncio.Event()
    first = place.during(asked, place, agent, gone)
    (action,) = place.waiting(agent)
    place.gateway.loop.call_soon_threadsafe(gone.set)
    first.result(10)
    place.ann.decide(action)
    assert agent.say().status == 200
    again = place.during(agent.say)
    (other,) = place.waiting(agent)
    assert other.name != action.name and not again.done()
    place.ann.decide(other, approves=False)
    assert again.result(10).code == "approval.denied"


def test_the_published_profile_runs_unchanged_where_the_organisation_names_who_approves(place: Place) -> None:
    published = (ROOT / "policy/profiles/seed-profiles.yaml").read_bytes()
    floor = f"requires_human_approval: {{approvers: [{place.ann.kid}]}}".encode()
    key = X25519PrivateKey.generate()
    given = {"profile": published, "floor": floor, "agent": "deployment_agent", "openings": key}
    agent = Agent(SessionClient.start(place.gateway, place.platform, **given), key)
    call, offered = 'call_tool:run_terraform {"plan": "staging"}', [tool("run_terraform")]
    answer = place.during(agent.say, call, stream=True, tools=offered)
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    assert b"run_terraform" in answer.result(10).body
    alone = SessionClient.start(place.gateway, place.platform, profile=published, agent="deployment_agent")
    assert alone.say(call, tools=offered).code == "tool.not_allowed"


# -- not agreed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_is_denied_is_not_handed_over_and_its_receipt_names_it(
    place: Place, stream: bool
) -> None:
    agent = place.agent()
    answer = place.during(agent.say, stream=stream)
    (action,) = place.waiting(agent)
    place.ann.decide(action, approves=False)
    said = answer.result(10)
    assert code_of(said, stream=stream) == "approval.denied" and b"staging" not in said.body
    assert stream or said.status == 403
    approval, stopped, inference = agent.records()
    assert (approval.kind, approval.member("pol", "dec")) == ("approval", "deny")
    assert_names(stopped, "approval.denied", RULES, inference)
    assert inference.disclosed.get("pol.rules") == RULES
    assert agent.denied() == [("tool", "deploy", "approval.denied", 1)]


def assert_names(stopped: VerifiedReceipt, reason: str, rules: list[str], inference: VerifiedReceipt) -> None:
    assert (stopped.kind, stopped.member("rsn")) == ("refusal", reason)
    assert (stopped.member("act", "typ"), stopped.member("act", "end")) == ("tool", "refused")
    assert (stopped.disclosed.get("act.name"), stopped.disclosed.get("pol.rules")) == ("deploy", rules)
    assert stopped.disclosed.get("act.arg") == sha(b'{"to": "staging"}')
    assert (stopped.member("pol", "dec"), stopped.member("par")) == ("deny", [inference.jti])
    assert (inference.kind, inference.member("res", "end")) == ("inference", "policy_stop")
    assert inference.member("pol", "dec") == "deny"


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_that_nobody_decides_ends_with_the_profiles_time(place: Place, stream: bool) -> None:
    agent = place.agent(more=", ttl: 30s")
    answer = place.during(agent.say, stream=stream)
    (action,) = place.waiting(agent)
    assert action.not_after - action.made == 30
    place.gateway.clock.offset += timedelta(seconds=31)
    try:
        said = answer.result(10)
    finally:
        place.gateway.clock.offset -= timedelta(seconds=31)
    assert code_of(said, stream=stream) == "approval.expired" and b"staging" not in said.body
    stopped, inference = agent.records()
    assert_names(stopped, "approval.expired", RULES, inference)


def asked(place: Place, agent: Agent, gone: asyncio.Event, **members: object) -> Answer:
    """A request whose client may go away."""
    asking = {"messages": [{"role": "user", "content": CALL}], "tools": [tool("deploy")]}
    request = {"model": "affiant-dev-echo", **asking, **members}
    body, target = json.dumps(request).encode(), "/v1/chat/completions"
    proof = agent.session.proof("POST", target, body, content_type="application/json", counted=True)
    headers = {PROOF_HEADER: proof, "Content-Type": "application/json"}
    return place.gateway.run(asgi(place.gateway.app, "POST", target, body, headers, gone=gone))


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_handed_nothing_and_what_waits_is_not_done(
    place: Place, stream: bool
) -> None:
    agent = place.agent()
    gone = asyncio.Event()
    answer = place.during(asked, place, agent, gone, stream=stream)
    (action,) = place.waiting(agent)
    place.gateway.loop.call_soon_threadsafe(gone.set)
    assert b"staging" not in answer.result(10).body
    place.ann.decide(action)
    kinds = agent.records()
    (inference,) = [each for each in kinds if each.kind == "inference"]
    assert inference.member("res", "end") == "client_abort"
    assert "tool" not in [each.kind for each in kinds] and place.state(action) == "approved"


@pytest.mark.parametrize("stream", [False, True])
def test_a_gateway_that_is_stopped_hands_nothing_over(place: Place, stream: bool) -> None:
    agent = place.agent()
    answer = place.during(agent.say, stream=stream)
    place.waiting(agent)
    place.gateway.service.draining = True
    try:
        said = answer.result(10)
    finally:
        place.gateway.service.draining = False
    assert code_of(said, stream=stream) == "gateway.draining" and b"staging" not in said.body
    assert agent.kinds() == ["inference"]


def test_a_session_that_ends_hands_nothing_over(place: Place) -> None:
    agent = place.agent()
    answer = place.during(agent.say)
    place.waiting(agent)
    agent.session.close("killed")
    assert answer.result(10).code == "session.closed"


def test_a_call_whose_approval_is_over_before_its_record_is_durable_is_not_handed_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(_self: object, _approved: object) -> None:
        raise ApprovalExpired("its time was over before it could be done")

    monkeypatch.setattr(type(place.gateway.service.approvals), "require_time", over)
    agent = place.agent()
    answer = place.during(agent.say)
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    assert answer.result(10).code == "approval.expired"
    _, _, outcome, stopped, inference = agent.records()
    assert outcome.member("act", "end") == "aborted"
    assert_names(stopped, "approval.expired", RULES, inference)
    assert place.state(action) == "unknown"


# -- what can be approved ----------------------------------------------------------------------------------------------


def test_all_calls_of_one_response_are_asked_for_together(place: Place) -> None:
    agent = place.agent()
    with answering(place, two_calls("deploy", "deploy", "look")):
        answer = place.during(agent.say)
        first, second = place.waiting(agent, count=2)
        place.ann.decide(first)
        time.sleep(0.3)
        assert not answer.done()
        place.ann.decide(second)
        assert answer.result(10).status == 200
    assert agent.kinds().count("tool") == 5, (
        "an intent and an outcome each, and one record of what needs no approval"
    )


def test_one_denial_keeps_all_calls_of_a_response_back(place: Place) -> None:
    agent = place.agent()
    with answering(place, two_calls("deploy", "deploy", "look")):
        answer = place.during(agent.say)
        first, second = place.waiting(agent, count=2)
        place.ann.decide(first)
        place.ann.decide(second, approves=False)
        assert answer.result(10).code == "approval.denied"
    assert "tool" not in agent.kinds() and agent.kinds().count("refusal") == 2


def test_the_same_call_twice_in_one_response_is_not_asked_for(place: Place) -> None:
    agent = place.agent()
    calls = two_calls("deploy", "deploy")
    calls["choices"][0]["message"]["tool_calls"][1]["function"]["arguments"] = '{"n": 0}'
    with answering(place, calls):
        assert agent.say().code == "tool.needs_approval"
    assert place.listed(agent) == []


def two_calls(*names: str, size: int = 0) -> dict[str, Any]:
    made = [json.dumps({"n": at, **({"x": "x" * size} if size else {})}) for at in range(len(names))]
    entries = [
        {"id": str(at), "type": "function", "function": {"name": name, "arguments": made[at]}}
        for at, name in enumerate(names)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": entries}
    return {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


@contextmanager
def answering(_place: Place, answer: dict[str, Any]) -> Iterator[None]:
    """The embedded model says this, as a stream in one event."""
    before = dev_echo.complete, dev_echo.stream
    data = json.dumps(answer).encode()
    dev_echo.complete = lambda _request: data
    dev_echo.stream = lambda _request: iter((b"data: " + data + b"\n\n", DONE))
    try:
        yield
    finally:
        dev_echo.complete, dev_echo.stream = before


def test_a_call_with_a_path_is_not_asked_for_but_with_its_other_arguments_it_is(place: Place) -> None:
    args = "{path: {under: /workspace, optional: true}, to: {optional: true, max_len: 9}}"
    agent = place.agent(
        tools=f"[{{name: deploy, args: {args}}}]", rest=", filesystem_access: read:/workspace"
    )
    refused = agent.say('call_tool:deploy {"path": "/workspace/a"}')
    assert (refused.status, refused.code) == (403, "approval.unshowable") and place.listed(agent) == []
    answer = place.during(agent.say)
    place.ann.decide(place.waiting(agent)[0])
    assert answer.result(10).status == 200


def test_arguments_that_a_person_cannot_read_are_not_asked_for(place: Place) -> None:
    agent = place.agent()
    refused = agent.say('call_tool:deploy {"to": "' + "x" * 40_000 + '"}')
    assert refused.code == "approval.unshowable" and place.listed(agent) == []


def test_without_approvers_a_call_is_stopped_and_its_receipt_says_by_which_rule(place: Place) -> None:
    profile = b"agent_configs: {tester: {tools: [deploy], requires_human_approval: true}}"
    key = X25519PrivateKey.generate()
    agent = Agent(SessionClient.start(place.gateway, place.platform, profile=profile, openings=key), key)
    assert agent.say().code == "tool.not_allowed"
    stopped, inference = agent.records()
    assert_names(stopped, "approval_no_approver", ["tools/0"], inference)


def test_no_more_responses_of_a_session_are_held_than_a_person_reads(place: Place) -> None:
    agent = place.agent()
    answers = [place.during(agent.say, f'call_tool:deploy {{"n": {at}}}') for at in range(MAX_WAITING)]
    actions = place.waiting(agent, count=MAX_WAITING)
    assert agent.say('call_tool:deploy {"n": 99}').code == "approval.too_many"
    for action in actions:
        place.ann.decide(action, approves=False)
    assert {answer.result(20).code for answer in answers} == {"approval.denied"}


def test_what_is_held_takes_no_slot_at_the_upstream_and_memory_for_the_response_alone(place: Place) -> None:
    agent = place.agent()
    memory = place.gateway.service.bodies.memory
    free = memory.left
    answer = place.during(agent.say, "call_tool:deploy " + json.dumps({"to": "x" * 9_000}))
    (action,) = place.waiting(agent)
    taken = free - memory.left
    (report,) = place.gateway.service.upstreams.report().values()
    assert report["under_way"] == 0
    place.ann.decide(action)
    assert taken == len(answer.result(10).body) and answer.result().status == 200
    assert memory.left == free


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_for_which_there_is_no_memory_is_not_held(place: Place, stream: bool) -> None:
    agent = place.agent()
    memory = place.gateway.service.bodies.memory
    with memory.share() as share, answering(place, two_calls("deploy", size=20_000)):
        share.take(memory.left - 10_000)
        answer = agent.say(stream=stream)
        assert code_of(answer, stream=stream) == "gateway.memory" and place.listed(agent) == []
    assert agent.records()[-1].member("res", "end") == "gateway_error"


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_that_is_too_large_to_be_held_is_not_asked_for(
    place: Place, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setattr(inference, "MAX_HELD", 2_000)
    agent = place.agent()
    with answering(place, two_calls("deploy", size=3_000)):
        answer = agent.say(stream=stream)
    assert code_of(answer, stream=stream) == "upstream.answer" and place.listed(agent) == []
    assert b"too large to be held" in answer.body
    with answering(place, two_calls("look", size=3_000)):
        assert DONE in agent.say(stream=True, tools=[tool("look")]).body, "what is not held may be as large"


def test_a_call_is_not_asked_for_where_the_request_offers_two_tools_of_its_name(place: Place) -> None:
    agent = place.agent()
    other = tool("deploy")
    other["function"] |= {"description": "Deploys elsewhere."}
    answer = agent.say(tools=[tool("deploy"), other])
    assert answer.code == "tool.needs_approval" and place.listed(agent) == []
    stopped, inference_ = agent.records()
    assert_names(stopped, "tool.needs_approval", RULES, inference_)
    assert agent.denied() == [("tool", "deploy", "tool.needs_approval", 1)]


def test_a_session_that_is_restricted_while_a_call_is_held_is_handed_nothing(place: Place) -> None:
    asks = f"requires_human_approval: {{tools: [deploy], approvers: [{place.ann.kid}]}}"
    profile = f"agent_configs: {{tester: {{tools: [deploy, look], {asks}}}}}".encode()
    with NarrowingClient.admitted_by(place.gateway, place.platform, profile=profile) as session:
        agent = Agent(session, X25519PrivateKey.generate())
        answer = place.during(agent.say)
        place.waiting(agent)
        narrower = f"agent_configs: {{tester: {{tools: [deploy], {asks}}}}}".encode()
        session.narrowed(narrower)
        assert (answer.result(10).status, answer.result().code) == (503, "session.narrowing")
        assert "tool" not in agent.kinds()


def test_a_call_that_a_limit_stops_after_its_approval_is_not_handed_over(place: Place) -> None:
    agent = place.agent(rest=", limits: {tool_calls: 1}")
    answers = [place.during(agent.say, f'call_tool:deploy {{"to": "{to}"}}') for to in ("a", "b")]
    for action in place.waiting(agent, count=2):
        place.ann.decide(action)
    found = sorted((answer.result(10) for answer in answers), key=lambda answer: answer.status)
    assert [answer.code if answer.status != 200 else None for answer in found] == [None, "limit_tool_calls"]
    stopped = [each for each in agent.records() if each.kind == "refusal"]
    assert [each.member("rsn") for each in stopped] == ["limit_tool_calls"]
    assert stopped[0].disclosed.get("pol.rules") == ["limits/tool_calls"]
    assert agent.kinds().count("tool") == 2, "the other one's intent and outcome"


# -- stopped calls that nobody is asked about --------------------------------------------------------------------------

DENIED = {
    "a tool that is not listed": ("call_tool:rm {}", "rm", "tool_not_listed", []),
    "a tool that a rule denies": ("call_tool:drop {}", "drop", "tool_denied", ["tools/2"]),
    "an argument": ('call_tool:look {"n": 2}', "look", "tool_argument_refused", []),
}


@pytest.mark.parametrize("name", DENIED)
@pytest.mark.parametrize("stream", [False, True])
def test_the_receipt_of_a_stopped_call_names_the_tool_the_reason_and_the_rule(
    place: Place, name: str, stream: bool
) -> None:
    text, called, reason, rules = DENIED[name]
    rules_of_tools = "[a, {name: look, args: {n: {max: 1}}}, {deny: drop}]"
    profile = f"agent_configs: {{tester: {{models: [affiant-dev-echo], tools: {rules_of_tools}}}}}".encode()
    key = X25519PrivateKey.generate()
    agent = Agent(SessionClient.start(place.gateway, place.platform, profile=profile, openings=key), key)
    assert code_of(agent.say(text, stream=stream, tools=[]), stream=stream) == "tool.not_allowed"
    stopped, inference = agent.records()
    assert (stopped.kind, stopped.member("rsn"), stopped.disclosed.get("act.name")) == (
        "refusal",
        reason,
        called,
    )
    assert stopped.disclosed.get("pol.rules") == inference.disclosed.get("pol.rules") == rules
    assert (inference.member("pol", "dec"), inference.member("res", "end")) == ("deny", "policy_stop")


def test_calls_that_a_limit_stops_are_named_but_no_more_than_some(place: Place) -> None:
    profile = b"agent_configs: {tester: {tools: [look], limits: {tool_calls: 5}}}"
    key = X25519PrivateKey.generate()
    agent = Agent(SessionClient.start(place.gateway, place.platform, profile=profile, openings=key), key)
    with answering(place, two_calls(*["look"] * 6)):
        assert agent.say(tools=[tool("look")]).code == "limit_tool_calls"
    *stopped, inference = agent.records()
    assert [(each.kind, each.disclosed.get("act.name")) for each in stopped] == [("refusal", "look")] * 6
    assert {each.member("rsn") for each in stopped} == {stopped[0].member("rsn")}
    assert inference.disclosed.get("pol.rules") == ["limits/tool_calls"]
    with answering(place, two_calls(*["look"] * 60)):
        agent.say(tools=[tool("look")])
    assert agent.kinds().count("refusal") == 6 + 16 and inference.member("res", "end") == "policy_stop"


# -- both verifiers ----------------------------------------------------------------------------------------------------


def test_both_verifiers_accept_sessions_with_held_calls(place: Place, tmp_path: Path) -> None:
    agent = place.agent()
    for approves, stream in ((True, False), (False, True), (True, True)):
        answer = place.during(agent.say, f'call_tool:deploy {{"n": "{approves} {stream}"}}', stream=stream)
        place.ann.decide(place.waiting(agent)[0], approves=approves)
        answer.result(10)
    agent.session.say("call_tool:rm {}")
    agent.session.submit(agent.session.exec_record())
    agent.session.submit(agent.session.end_record())
    agent.session.close()
    document = with_openings(agent.session.bundle(), agent.key)
    bundle, trust_file, now = tmp_path / "b.json", tmp_path / "trust.json", datetime.now(UTC)
    bundle.write_text(json.dumps(document))
    service = place.gateway.service
    reference = service.admissions.appraiser.reference.raw
    trust = simulated_trust_file(reference, now, gateway_configs=[service.config.digest])
    trust_file.write_bytes(trust)
    verdict = verify_bundle(
        bundle.read_bytes(), parse_trust_file(trust), verifiers=STANDARD_VERIFIERS, at=now, build="a test"
    )
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    assert (verdict.population.kinds["approval"], verdict.population.kinds["tool"]) == (3, 4)
    (bound,) = [check for check in verdict.checks if check.code == "apr.bound"]
    assert bound.detail.startswith("2 actions done by approval")
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: the other verifier is not asked")
    command = [
        node,
        str(ROOT / "attestation/verifier-js/verify.mjs"),
        str(bundle),
        "--trust",
        str(trust_file),
    ]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 40, done.stdout[-3000:]
    told = json.loads(done.stdout)
    assert [check for check in told["checks"] if check.get("tier") == "contraindicated"] == []
