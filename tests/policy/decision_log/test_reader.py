"""A decision log is read whole or refused, with the number of the line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.decision.decide import Effect
from affiant.policy.decision_log.reader import MAX_LINE, DecisionLogRefused, agents_of, read_decision_log
from affiant.policy.loading.load import load_profiles

GOOD = {"agent": "dev", "request": "tool:run", "decision": "allow", "reason": "allowed"}
DIGEST = "sha384:" + "0" * 96


def line(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_the_members_of_the_record_are_read():
    whole = line(
        ts=1_700_000_000,
        session="s-1",
        plane="tool",
        request_digest="sha256:" + "0" * 64,
        rules=["tools/0"],
        policy_digest=DIGEST,
        grant="g",
        secrets=["KEY"],
        bytes=0,
        latency=12,
    )
    (found,) = read_decision_log([whole + b"\n"])
    assert (found.line, found.agent, found.effect, found.policy_digest) == (1, "dev", Effect.ALLOW, DIGEST)


def test_what_nobody_could_approve_waits_for_approval():
    found = read_decision_log([line(decision="deny", reason="approval_no_approver")])
    assert next(found).effect is Effect.ASK


def test_a_line_of_a_gateway_is_the_agents_whose_profile_has_the_digest():
    unnamed = json.dumps({**GOOD, "policy_digest": DIGEST, "agent": None}).replace('"agent": null, ', "")
    unnamed = unnamed.replace(', "agent": null', "")
    (found,) = read_decision_log([unnamed.encode()], agents={DIGEST: "dev"})
    assert found.agent == "dev"
    for agents in ({}, {"sha384:" + "1" * 96: "dev"}):
        with pytest.raises(DecisionLogRefused, match="names no agent") as refused:
            next(read_decision_log([unnamed.encode()], agents=agents))
        assert refused.value.where == "decisions.jsonl:1"


def test_a_digest_that_two_agents_share_names_neither():
    text = b"agent_configs: {a: {tools: [x]}, b: {tools: [x]}, c: {tools: [y]}}"
    file = load_profiles(text)
    assert agents_of(file) == {file.profile("c").digest: "c"}


def test_offers_and_withheld_arguments_are_told():
    (offer, call) = read_decision_log([line(offered=True), line(withheld=True, rules=["tools/0"])])
    assert (offer.offered, offer.withheld, offer.rules) == (True, False, ())
    assert (call.offered, call.withheld, call.rules) == (False, True, ("tools/0",))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"{}",
        b'{"agent": "dev"',
        line()[:-1],
        line() + line(),
        b"\xff" + line(),
        line().replace(b'"agent"', b'"agent": "x", "agent"'),
        line(agent=""),
        line(agent="a b"),
        line(agent=1),
        line(request="run"),
        line(request="tool:"),
        line(request=7),
        line(decision="Allow"),
        line(decision=True),
        line(reason="tool_denied"),
        line(reason="because"),
        line(decision="deny"),
        line(decision="ask", reason="approval_no_approver"),
        line(plane="model"),
        line(plane=[]),
        line(attested=True),
        line(request="model:m", offered=True),
        line(request="read:/a", withheld=True),
        line(request="tool:run {}", withheld=True),
        line(request="tool:run {}", offered=True),
        line(offered=1),
        line(request="model:m", attested=1),
        line(surface="header:x-key"),
        line(request="secret:KEY@a.b.com", surface="body"),
        line(ts=-1),
        line(ts=1.5),
        line(bytes=True),
        line(rules="tools/0"),
        line(rules=["tools/x"]),
        line(policy_digest="sha384:0"),
        line(secrets=[""]),
        line(more=1),
        line(session="x" * MAX_LINE),
    ],
)
def test_a_line_that_is_no_decision_refuses_the_log_with_its_number(bad):
    with pytest.raises(DecisionLogRefused) as caught:
        list(read_decision_log([line(), line(), bad, line()], source="log"))
    assert (caught.value.code, caught.value.where) == ("policy.decision_log", "log:3")


@thorough(200)
@given(at=st.integers(0, len(line()) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_another_decision_or_none(at, byte):
    changed = bytearray(line())
    changed[at] = byte
    try:
        (found,) = read_decision_log([bytes(changed)])
    except DecisionLogRefused:
        return
    assert found.effect is Effect.ALLOW  # its reason says so


def test_a_log_without_decisions_says_nothing_and_is_refused():
    with pytest.raises(DecisionLogRefused, match="holds no decision"):
        list(read_decision_log([]))
