"""A profile's word on the calls that a model makes: the name, and what it is called with."""

from __future__ import annotations

import json

import pytest
from tests.gateway.dialects.answers import judged

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.dialect import Offered
from affiant.gateway.dialects.judged_calls import CallText
from affiant.gateway.requests.policy_gate import judge_of, may_offer
from affiant.gateway.wire.errors import ToolNotAllowedError
from affiant.policy.canonical.tool_origin import Origin, tool_digest
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.loading.load import load_profiles

APPLY = "{name: apply, args: {namespace: {one_of: [staging]}}}"
POLICY = f"agent_configs: {{dev: {{tools: [read_file, {APPLY}, {{deny: rm}}]}}}}".encode()


def ignored(_: object) -> None:
    """Nothing is done with an event's value."""


@pytest.fixture(scope="module")
def policy() -> CompiledPolicy:
    return load_profiles(POLICY).profile("dev").compiled


def answer(name: str, arguments: str, *, form: str = "function") -> bytes:
    text = {"function": "arguments", "custom": "input"}[form]
    call = {"id": "c", "type": form, form: {"name": name, text: arguments}}
    return json.dumps({"choices": [{"index": 0, "message": {"tool_calls": [call]}}]}).encode()


def event(**function: str) -> bytes:
    delta = {"tool_calls": [{"index": 0, "function": function}]}
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


FINISHED = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\n'


def test_a_call_with_allowed_arguments_goes_on_and_is_told_with_them(policy: CompiledPolicy) -> None:
    (call,) = judged(answer("apply", '{"namespace": "staging"}'), judge_of(policy))
    assert call.rules == policy.decide_call("apply", '{"namespace": "staging"}').rules == ("tools/0",)
    assert "staging" not in repr(call)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"namespace": "prod"}',
        '{"namespace": "staging", "namespace": "prod"}',
        '{"namespace": "staging", "force": true}',
        '{"namespace": ["staging"]}',
        "{}",
        "",
        "staging",
        '{"namespace": "staging"',
        '{"namespace": "staging", "pad": "' + "x" * 70_000 + '"}',
        "{" + " " * (16 << 10) + '"namespace": "prod"}',
        "{" + " " * 65_500 + '"namespace": "prod"}',
    ],
)
def test_any_other_arguments_stop_the_answer(policy: CompiledPolicy, arguments: str) -> None:
    with pytest.raises(ToolNotAllowedError):
        judged(answer("apply", arguments), judge_of(policy))


def test_a_call_that_a_person_must_approve_is_told_with_its_text_and_as_waiting() -> None:
    kid = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    asking = f"requires_human_approval: {{tools: [apply], approvers: [{kid}]}}"
    text = f"agent_configs: {{dev: {{tools: [{APPLY}], {asking}}}}}"
    asks = load_profiles(text.encode()).profile("dev").compiled
    assert may_offer(asks)(Offered("apply"))
    (call,) = judged(answer("apply", '{"namespace": "staging"}'), judge_of(asks))
    assert (call.rules, call.waiting) == (("tools/0",), CallText('{"namespace": "staging"}', is_json=True))
    assert "staging" not in repr(call)
    with pytest.raises(ToolNotAllowedError) as refused:
        judged(answer("apply", '{"namespace": "prod"}'), judge_of(asks))
    assert refused.value.code == "tool.not_allowed"


def test_arguments_are_judged_as_a_stream_joins_them(policy: CompiledPolicy) -> None:
    pieces = [
        event(name="apply", arguments='{"name'),
        event(arguments='space": "pr'),
        event(arguments='od"}'),
    ]
    judge = Chat().stream_filter(judge_of(policy), ignored)
    assert [judge.feed(piece).events for piece in pieces] == [(), (), ()]
    with pytest.raises(ToolNotAllowedError):
        judge.feed(FINISHED)


def test_two_texts_that_are_each_allowed_are_no_call_together(policy: CompiledPolicy) -> None:
    good = '{"namespace": "staging"}'
    judge = Chat().stream_filter(judge_of(policy), ignored)
    judge.feed(event(name="apply", arguments=good))
    judge.feed(event(arguments=good))
    with pytest.raises(ToolNotAllowedError):
        judge.feed(FINISHED)


def test_a_call_in_free_text_is_allowed_only_without_constraints(policy: CompiledPolicy) -> None:
    assert judged(answer("read_file", "any text", form="custom"), judge_of(policy))
    with pytest.raises(ToolNotAllowedError):
        judged(answer("apply", '{"namespace": "staging"}', form="custom"), judge_of(policy))


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "a": 2}', '{"a": NaN}', "[1]", '{"a": 12345678901234567890}']
)
def test_arguments_with_two_readings_are_refused_whatever_the_rule(
    policy: CompiledPolicy, arguments: str
) -> None:
    with pytest.raises(ToolNotAllowedError):
        judged(answer("read_file", arguments), judge_of(policy))


def test_a_tool_with_constraints_may_be_offered(policy: CompiledPolicy) -> None:
    assert [name for name in ("read_file", "apply", "rm", "other") if may_offer(policy)(Offered(name))] == [
        "read_file",
        "apply",
    ]


SCHEMA = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0.5}}}
PIN = tool_digest("pinned", "Does.", SCHEMA)


def offered(description: str | None, schema: object = SCHEMA, name: str = "pinned") -> dict[str, object]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def asked(*tools: dict[str, object]) -> bytes:
    return json.dumps({"model": "m", "messages": [], "tools": tools}).encode()


@pytest.fixture(scope="module")
def pinned() -> CompiledPolicy:
    rules = f"{{name: pinned, schema: '{PIN}'}}, {{name: served, server: k8s}}"
    return load_profiles(f"agent_configs: {{dev: {{tools: [{rules}]}}}}".encode()).profile("dev").compiled


def test_a_pinned_tool_is_offered_word_by_word_or_not_at_all(pinned: CompiledPolicy) -> None:
    changed = [
        offered("Does more."),
        offered(None),
        offered("Does.", {"type": "object"}),
        offered("Does.", None),
        offered("Does.", {**SCHEMA, "big": 2**60}),
    ]
    body = asked(*changed, offered("Does."))
    kept = json.loads(Chat().without_tools(body, may_offer(pinned)))["tools"]
    assert kept == [offered("Does.")]


def test_a_pinned_tool_is_called_only_as_it_was_offered(pinned: CompiledPolicy) -> None:
    good, bad = (Chat().read_request(asked(offered(text))).tools for text in ("Does.", "Does more."))
    assert judge_of(pinned, good)("pinned", "{}").rules == ("tools/0",)
    assert judge_of(pinned, bad)("pinned", "{}").reason == "tool_schema_changed"
    assert judge_of(pinned, (*bad, *good))("pinned", "{}").rules == ("tools/0",)  # the bad one was taken out
    assert judge_of(pinned)("pinned", "{}").reason == "tool_schema_changed"


def test_what_an_agent_offers_by_itself_is_no_servers_tool(pinned: CompiledPolicy) -> None:
    tools = Chat().read_request(asked(offered("", name="served"))).tools
    assert not may_offer(pinned)(tools[0])
    assert judge_of(pinned, tools)("served", "{}").reason == "tool_other_server"
    assert judge_of(pinned, tools, lambda _: Origin("k8s"))("served", "{}").rules == ("tools/1",)
