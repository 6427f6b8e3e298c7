"""A line that enforcement writes is one that the reader takes, decides again alike, and that holds nothing more."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.properties import thorough

from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import EgressQuestion, ModelQuestion, Question, ToolQuestion, answer
from affiant.policy.decision_log.reader import MAX_LINE, read_decision_log
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Policy, Scheme

PIN = "sha256:" + "a" * 64
connections = some.connections.map(lambda each: replace(each, scheme=Scheme.HTTPS))  # a CONNECT is TLS
DENIED = Decision(Effect.DENY, "tool_not_listed")


def by(policy: CompiledPolicy | None = None) -> DecidedBy:
    return DecidedBy("s-1", "sha384:" + "0" * 96 if policy is None else policy.digest, "dev")


def line(question: Question, decision: Decision = DENIED, **more) -> bytes:
    return decision_line(by(), question, decision, ts=1_700_000_000, **more)


@thorough(60)
@given(some.policies(), st.one_of(some.tools, some.models, some.paths, some.egress, connections))
def test_a_replay_by_the_same_policy_decides_every_written_line_alike(policy: Policy, question: Question):
    compiled = compile_policy(policy)
    decision = answer(compiled, question)
    (found,) = read_decision_log([decision_line(by(compiled), question, decision, ts=0)])
    again = answer(compiled, found.question)
    assert (again.effect, again.reason) == (decision.effect, decision.reason)
    assert (found.reason, found.rules) == (decision.reason, decision.rules)


_places = st.sampled_from([None, ANY, "k8s", "other", "K8S!", PIN, PIN.replace("a", "b"), "\u202e"])


@thorough()
@given(st.builds(Origin, _places, _places), st.sampled_from(["any", "pinned", "served", "both"]))
def test_a_tool_from_anywhere_or_nowhere_is_replayed_as_it_was_decided(origin: Origin, rule: str):
    more = {
        "any": "",
        "pinned": f", schema: '{PIN}'",
        "served": ", server: k8s",
        "both": f", server: k8s, schema: '{PIN}'",
    }
    text = f"agent_configs: {{dev: {{tools: [{{name: run{more[rule]}}}]}}}}"
    compiled = load_profiles(text.encode()).profile("dev").compiled
    decision = compiled.decide_tool("run", origin)
    written = decision_line(by(compiled), ToolQuestion("run", None, origin), decision, ts=0)
    (found,) = read_decision_log([written])
    assert answer(compiled, found.question) == decision


@given(st.text(max_size=300))
def test_hostile_names_are_read_back_and_can_never_be_taken_for_others(name: str):
    for question in (ToolQuestion(name), ModelQuestion(name)):
        written = line(question)
        assert len(written) < MAX_LINE
        assert written.isascii()
        (found,) = read_decision_log([written])
        assert type(found.question) is type(question)
        assert found.question.name in (name, "?")
        assert not isinstance(found.question, ToolQuestion) or found.question.arguments is None


@given(st.text(max_size=300), st.text(max_size=50))
def test_hostile_methods_and_targets_are_read_back_with_nothing_that_is_not_judged(target: str, method: str):
    question = EgressQuestion("api.b.com", 443, Scheme.HTTPS, method, target)
    (found,) = read_decision_log([line(question, Decision(Effect.DENY, "host_not_listed"))])
    assert isinstance(found.question, EgressQuestion)
    assert found.question.target is not None
    assert "?" not in found.question.target
    assert found.question.host == "api.b.com"


@pytest.mark.parametrize(
    "question",
    [
        ToolQuestion("run", '{"password": "hunter2"}'),
        EgressQuestion("api.b.com", 443, Scheme.HTTPS, "GET", "/v1?token=hunter2"),
        EgressQuestion("api.b.com", 443, Scheme.HTTPS, "hunter2", "/v1"),
        ToolQuestion("hunter2 {}"),
    ],
)
def test_what_is_not_judged_is_not_in_the_line(question: Question):
    assert b"hunter2" not in line(question)


def test_a_target_that_must_not_be_repeated_is_denied_by_every_replay():
    question = EgressQuestion("api.b.com", 443, Scheme.HTTPS, "GET", "/affiant-ph-0/x")
    written = line(question, Decision(Effect.DENY, "target_not_listed"), target_hidden=True)
    assert b"affiant-ph" not in written
    (found,) = read_decision_log([written])
    everything = compile_policy(Policy(egress=(some.EgressRule("api.b.com"),)))
    assert answer(everything, found.question).reason == "target_not_canonical"


def test_the_members_of_the_record_stand_in_the_line():
    question = EgressQuestion("api.b.com", 443, Scheme.HTTPS, "POST", "/v1")
    decision = Decision(Effect.ALLOW, "allowed", ("egress/0",))
    assert json.loads(line(question, decision, size=12, latency_us=3)) == {
        "agent": "dev",
        "bytes": 12,
        "decision": "allow",
        "latency": 3,
        "plane": "egress",
        "policy_digest": "sha384:" + "0" * 96,
        "reason": "allowed",
        "request": "POST https://api.b.com/v1",
        "rules": ["egress/0"],
        "session": "s-1",
        "ts": 1_700_000_000,
    }


def test_a_call_says_that_its_arguments_are_withheld_and_an_offer_that_it_is_one():
    called = json.loads(line(ToolQuestion("run", "{}")))
    offered = json.loads(line(ToolQuestion("run"), offered=True))
    assert (called["withheld"], "offered" in called) == (True, False)
    assert (offered["offered"], "withheld" in offered) == (True, False)
