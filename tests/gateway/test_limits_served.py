"""Limits of a profile at a real gateway: at their edge exactly as many pass, and of the rest nothing goes upstream."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.in_process import in_process
from tests.gateway.inference.test_inference import records_of
from tests.gateway.session_client import Answer, SessionClient
from tests.gateway.upstream_server import (
    Received,
    ScriptedUpstream,
    Step,
    completion,
    scripted_upstream,
    streamed,
    whole,
)

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.simulated.served.client import PlatformClient

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
Start = Callable[[str], SessionClient]


class Script:
    answer: Sequence[Step] | Callable[[Received], Sequence[Step]] = ()

    def __call__(self, received: Received) -> Sequence[Step]:
        return self.answer(received) if callable(self.answer) else self.answer


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: Path
) -> Iterator[tuple[Running, ScriptedUpstream, Script]]:
    script = Script()
    with (
        scripted_upstream(script) as upstream,
        serving_gateway(
            tmp_path_factory.mktemp("limited"), platform_home, "--upstream", upstream.url
        ) as running,
    ):
        yield running, upstream, script


@pytest.fixture
def upstream(served: tuple[Running, ScriptedUpstream, Script]) -> ScriptedUpstream:
    served[1].received.clear()
    served[1].keep = True
    return served[1]


@pytest.fixture
def script(served: tuple[Running, ScriptedUpstream, Script]) -> Script:
    served[2].answer = whole(completion())
    return served[2]


@pytest.fixture
def start(
    served: tuple[Running, ScriptedUpstream, Script], platform: PlatformClient, openings: X25519PrivateKey
) -> Start:
    return lambda sections: SessionClient.start(
        served[0].gateway, platform, openings=openings, profile=profile(sections)
    )


def profile(sections: str) -> bytes:
    return f"agent_configs: {{tester: {{{sections}}}}}".encode()


def at_once(
    session: SessionClient, count: int, *, done: Callable[[Answer], object] | None = None, **members: object
) -> list[Answer]:
    """So many requests, all under way at the same time; ``done`` is told each answer as it comes."""
    with ThreadPoolExecutor(count) as pool:
        asked = [pool.submit(session.chat, {**BODY, **members}, cseq=number) for number in range(count)]
        if done is not None:
            for each in as_completed(asked):
                done(each.result())
        answers = [each.result() for each in asked]
    session.cseq = count
    return answers


def refusals(session: SessionClient, key: X25519PrivateKey) -> list[VerifiedReceipt]:
    return [record for record in records_of(session, key) if record.kind == "refusal"]


def test_of_parallel_requests_exactly_the_limit_passes_and_each_refusal_is_recorded(
    start: Start, upstream: ScriptedUpstream, script: Script, openings: X25519PrivateKey
) -> None:
    script.answer = lambda _: [0.05, *whole(completion())]
    session = start("limits: {requests: 5}")
    answers = at_once(session, 16)
    assert sorted(answer.status for answer in answers) == [200] * 5 + [403] * 11
    assert len(upstream.received) == 5
    refused = [answer for answer in answers if answer.status == 403]
    assert {answer.code for answer in refused} == {"limit_requests"}
    assert not any("retry-after" in answer.headers for answer in refused)
    found = refusals(session, openings)
    assert len(found) == 11
    for record in found:
        assert (record.member("rsn"), record.member("pol", "dec")) == ("limit_requests", "deny")
        assert (record.member("res", "st"), record.member("res", "end")) == (403, "policy_stop")
        assert record.disclosed.get("pol.rules") == ["limits/requests"]


def test_a_rate_that_is_reached_is_429_and_says_when(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    session = start("limits: {requests: 3/min}")
    answers = at_once(session, 6)
    late = [answer for answer in answers if answer.status == 429]
    assert len(late) == 3
    assert len(upstream.received) == 3
    for answer in late:
        assert 55 <= int(answer.headers["retry-after"]) <= 62
        assert answer.json()["error"]["type"] == "rate_limit_error"
    hourly = start("limits: {requests: 1/h}")
    assert hourly.chat(BODY).status == 200
    answer = hourly.chat(BODY)
    assert (answer.status, answer.headers["x-should-retry"]) == (429, "false")


def test_parallel_requests_cannot_overrun_a_budget_of_tokens(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    refused: list[Answer] = []
    judged = threading.Event()  # none is settled before every other was judged

    def answer(_: Received) -> Sequence[Step]:
        assert judged.wait(30)
        return whole(completion())

    def count(each: Answer) -> None:
        refused.extend([] if each.status == 200 else [each])
        if len(refused) == 8:
            judged.set()

    script.answer = answer
    size = len(json.dumps({**BODY, "max_tokens": 20}).encode())
    session = start(f"limits: {{tokens: {4 * (size + 20)}}}")
    answers = at_once(session, 12, done=count, max_tokens=20)
    assert sorted(answer.status for answer in answers) == [200] * 4 + [403] * 8
    assert len(upstream.received) == 4
    # each cost 5 in the end: what it did not use is there again
    assert session.chat({**BODY, "max_tokens": 20}).status == 200


@pytest.mark.parametrize("stated", [True, False])
def test_what_a_stream_states_is_what_it_costs_else_all_that_it_could(
    start: Start, upstream: ScriptedUpstream, script: Script, stated: bool
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    events = [{"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}]
    events += [{"choices": [], "usage": usage}] if stated else []
    script.answer = streamed(
        *(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), b"data: [DONE]\n\n"
    )
    request = {**BODY, "max_tokens": 20, "stream": True}
    session = start(f"limits: {{tokens: {len(json.dumps(request)) + 30}}}")
    assert session.chat(request).status == 200
    assert session.chat(request).status == (200 if stated else 403)
    assert len(upstream.received) == (2 if stated else 1)


def test_what_a_stream_states_of_one_of_its_answers_is_not_what_it_costs(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    events = [
        {
            "choices": [{"index": at, "delta": {"content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        }
        for at in range(4)
    ]
    script.answer = streamed(
        *(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), b"data: [DONE]\n\n"
    )
    options = {"include_usage": True, "continuous_usage_stats": True}
    request = {**BODY, "max_tokens": 20, "n": 4, "stream": True, "stream_options": options}
    session = start(f"limits: {{tokens: {len(json.dumps(request)) + 100}}}")
    assert session.chat(request).status == 200
    assert session.chat(request).code == "limit_tokens"


def test_what_a_stream_stated_before_it_was_stopped_is_not_what_it_costs(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    denied = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "no", "arguments": "{}"}}]}
    events = [
        {"choices": [], "usage": usage},
        {"choices": [{"index": 0, "delta": denied, "finish_reason": "tool_calls"}]},
    ]
    script.answer = streamed(
        *(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events), b"data: [DONE]\n\n"
    )
    request = {**BODY, "max_tokens": 20, "stream": True}
    session = start(f"limits: {{tokens: {len(json.dumps(request)) + 30}}}")
    assert b'"tool.not_allowed"' in session.chat(request).body
    assert session.chat(request).code == "limit_tokens"


def test_an_upstream_that_counts_nothing_says_nothing(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    script.answer = whole({**completion(), "usage": zeros})
    request = {**BODY, "max_tokens": 20}
    session = start(f"limits: {{tokens: {len(json.dumps(request)) + 30}}}")
    assert session.chat(request).status == 200
    assert session.chat(request).code == "limit_tokens"


@pytest.mark.parametrize(
    ("status", "code"), [("429 Too Many Requests", None), ("408 Timeout", "limit_tokens")]
)
def test_a_request_that_the_upstream_refuses_costs_nothing_one_that_took_too_long_may_have(
    start: Start, upstream: ScriptedUpstream, script: Script, status: str, code: str | None
) -> None:
    request = {**BODY, "max_tokens": 20}
    session = start(f"limits: {{tokens: {len(json.dumps(request)) + 30}}}")
    script.answer = whole({"error": {"message": "no"}}, status=status)
    assert session.chat(request).status == int(status[:3])
    script.answer = whole(completion())
    answer = session.chat(request)
    assert (None if answer.status == 200 else answer.code) == code


def test_a_request_that_an_upstream_read_and_did_not_answer_counts_and_is_not_sent_again(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    session = start("limits: {requests: 2}")
    assert session.chat(BODY).status == 200

    def cut_once(_: Received) -> Sequence[Step]:
        upstream.keep = len(upstream.received) != 2
        return whole(completion()) if upstream.keep else []

    script.answer = cut_once
    assert session.chat(BODY).code == "upstream.cut"
    assert len(upstream.received) == 2
    assert session.chat(BODY).code == "limit_requests"


def test_an_answer_that_breaks_off_costs_all_that_it_could(
    start: Start, upstream: ScriptedUpstream, script: Script
) -> None:
    script.answer, upstream.keep = [], False
    request = {**BODY, "max_tokens": 20}
    session = start(f"limits: {{tokens: {len(json.dumps(request)) + 30}}}")
    assert session.chat(request).code == "upstream.cut"
    script.answer = whole(completion())
    assert session.chat(request).code == "limit_tokens"


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"max_tokens": 51}, "limit_max_tokens"),
        ({"max_completion_tokens": 51, "max_tokens": 1}, "limit_max_tokens"),
        ({}, "limit_answer_unbounded"),
        ({"max_tokens": None}, "limit_answer_unbounded"),
        ({"max_tokens": "50"}, "limit_answer_unbounded"),
        ({"max_tokens": 5.0}, "limit_answer_unbounded"),
        ({"max_tokens": 5, "n": 0}, "limit_answer_unbounded"),
        ({"max_tokens": 5, "n_predict": 5000}, "limit_answer_unbounded"),
        ({"max_tokens": 5, "n_cmpl": 8}, "limit_answer_unbounded"),
        ({"Max_Tokens": 5}, "request.malformed"),
        ({"max_tokens": 50}, None),
    ],
)
def test_no_request_asks_for_longer_answers_than_the_profile_gives(
    start: Start,
    upstream: ScriptedUpstream,
    script: Script,
    members: dict[str, object],
    code: str | None,
) -> None:
    session = start("models: [{name: m, max_tokens: 50}, other]")
    answer = session.chat({**BODY, **members})
    assert (answer.code if answer.status != 200 else None) == code
    assert len(upstream.received) == (code is None)
    assert session.chat({**BODY, "model": "other"}).status == 200


def calling(count: int) -> dict[str, object]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "x", "arguments": "{}"}}
        for n in range(count)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {**completion(), "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ("tools: [x], limits: {tool_calls: 3}", "limit_tool_calls"),
        ("tools: [{name: x, rate: 3/h}]", "limit_tool_rate"),
    ],
)
def test_no_call_beyond_a_limit_reaches_the_agent(
    start: Start,
    script: Script,
    openings: X25519PrivateKey,
    sections: str,
    code: str,
) -> None:
    session = start(sections)
    script.answer = whole(calling(2))
    assert session.chat(BODY).status == 200
    stopped = session.chat(BODY)
    assert stopped.code == code
    assert "choices" not in stopped.json()
    script.answer = whole(calling(1))
    assert session.chat(BODY).status == 200
    records = records_of(session, openings)
    assert len([record for record in records if record.kind == "tool"]) == 3
    ended = [r for r in records if r.kind == "inference" and r.member("res", "end") == "policy_stop"]
    assert [record.member("pol", "dec") for record in ended] == ["deny"]


def test_a_stream_ends_before_the_call_that_is_too_much(start: Start, script: Script) -> None:
    def event(call: str, finish: str | None) -> bytes:
        delta = {"tool_calls": [{"index": 0, "id": call, "function": {"name": "x", "arguments": "{}"}}]}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    session = start("tools: [{name: x, rate: 1/min}]")
    script.answer = streamed(event("first", "tool_calls"), b"data: [DONE]\n\n")
    assert b"first" in session.chat({**BODY, "stream": True}).body
    script.answer = streamed(event("second", "tool_calls"), b"data: [DONE]\n\n")
    answer = session.chat({**BODY, "stream": True})
    assert b"second" not in answer.body
    assert b'"limit_tool_rate"' in answer.body
    assert b"[DONE]" not in answer.body


def test_every_session_has_room_of_its_own(start: Start, script: Script) -> None:
    first, second = start("limits: {requests: 1}"), start("limits: {requests: 1}")
    assert [each.chat(BODY).status for each in (first, second, first, second)] == [200, 200, 403, 403]


def test_without_its_meters_a_session_gets_nothing(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with in_process(platform, tmp_path / "store") as gateway:
        session = SessionClient.start(gateway, platform)
        assert session.say("hi").status == 200
        held = gateway.service.sessions.by_id(session.id)
        assert held is not None
        monkeypatch.setattr(held, "limits", None)
        answer = session.say("hi")
        assert (answer.status, answer.code) == (500, "gateway.error")
