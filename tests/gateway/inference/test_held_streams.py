"""A stream with a call that waits for approval, from an upstream that takes its time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.gateway.in_process import in_process
from tests.gateway.inference.test_held_calls import DONE, WAITS, Place, assert_names, ended, hurried
from tests.gateway.inference.test_inference import sha
from tests.gateway.upstream_server import Received, ScriptedUpstream, Step, scripted_upstream, streamed

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.upstream.dev_echo import answer_to
from affiant.gateway.upstream.dev_echo_responses import respond_stream

__all__ = ["hurried"]


def said(choice: int, delta: dict[str, Any], *, finish: str | None = None) -> bytes:
    entry = {"index": choice, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [entry]}).encode() + b"\n\n"


def called(choice: int, name: str, arguments: str = '{"to": "staging"}') -> bytes:
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return said(choice, {"tool_calls": [call]}, finish="tool_calls")


class Told:
    answer: list[Step]

    def __call__(self, _received: Received) -> list[Step]:
        return self.answer


@pytest.fixture(scope="module")
def upstream() -> Iterator[tuple[ScriptedUpstream, Told]]:
    told = Told()
    with scripted_upstream(told) as started:
        yield started, told


@pytest.fixture(scope="module")
def slow(
    platform: PlatformClient,
    tmp_path_factory: pytest.TempPathFactory,
    upstream: tuple[ScriptedUpstream, Told],
) -> Iterator[tuple[Place, Told]]:
    configs = upstream_configs([UpstreamChoice(upstream[0].url)])
    store = tmp_path_factory.mktemp("slow") / "store"
    with in_process(platform, store, upstreams=configs) as gateway, ThreadPoolExecutor(4) as pool:
        yield Place(gateway, platform, pool), upstream[1]


def test_a_held_stream_is_kept_alive_while_its_upstream_goes_on(
    slow: tuple[Place, Told], hurried: None
) -> None:
    place, told = slow
    agent = place.agent()
    told.answer = streamed(called(0, "deploy"), 0.5, said(1, {"content": "later"}), 0.5, DONE)
    answer = place.during(agent.say, stream=True)
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    body = answer.result(10).body
    assert body.endswith(DONE) and b"later" in body
    assert body.count(WAITS) >= 5, "for a second, every tenth of it"
    assert agent.records()[-1].disclosed.get("res.dig") == sha(body)


def test_a_call_in_a_streamed_response_is_held_too(slow: tuple[Place, Told]) -> None:
    place, told = slow
    agent = place.agent()
    ask = {"model": "m", "stream": True, "input": 'call_tool:deploy {"to": "staging"}'}
    events = list(respond_stream(ask, answer_to, "m"))
    told.answer = streamed(*events)
    answer = place.during(agent.session.post, "/v1/responses", ask)
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    body = answer.result(10).body
    assert body.replace(WAITS, b"") == b"".join(events)
    assert agent.records()[-1].disclosed.get("res.dig") == sha(body)


def test_a_call_that_is_held_when_a_later_one_is_denied_has_a_record(slow: tuple[Place, Told]) -> None:
    place, told = slow
    agent = place.agent()
    told.answer = streamed(called(0, "deploy"), 0.1, called(1, "rm", "{}"), DONE)
    answer = agent.say(stream=True)
    assert ended(answer) == "tool.not_allowed" and b"staging" not in answer.body
    denied, held, inference = agent.records()
    assert (denied.member("rsn"), denied.disclosed.get("act.name")) == ("tool_not_listed", "rm")
    assert held.disclosed.get("act.name") == "deploy"
    assert_names(held, "tool.not_allowed", ["tools/1"], inference)
    assert agent.denied() == [("tool", "rm", "tool_not_listed", 1)]
