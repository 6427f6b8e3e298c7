"""Calls that are not tried because both policies judge them by the same rules: then they do answer them alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.properties import thorough

from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.questions import ToolQuestion
from affiant.policy.diff.differences import compare_compiled
from affiant.policy.diff.same_calls import calls_judged_alike
from affiant.policy.loading.load import load_profiles

PIN = "sha256:" + "a" * 64
FILES = ["read:/w", "read:/w/a", "read-write:/w"]
EGRESS = ["allowed:x.b.com", "denied", "allowed:x.b.com:8443"]
ASKS = ["false", "true", "{egress: [GET]}"]


def loaded(sections: str) -> CompiledPolicy:
    return load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled


@thorough(60)
@given(
    rules=st.tuples(some.tool_rules(), st.none() | some.tool_rules()),
    files=st.tuples(st.sampled_from(FILES), st.sampled_from(FILES)),
    egress=st.tuples(st.sampled_from(EGRESS), st.sampled_from(EGRESS)),
    asks=st.tuples(st.sampled_from(ASKS), st.sampled_from(ASKS)),
    calls=st.lists(some.calls, min_size=3, max_size=12),
)
def test_calls_that_are_judged_alike_have_one_answer(rules, files, egress, asks, calls) -> None:
    old, new = (
        loaded(
            f"{rules[at] or rules[0]}, filesystem_access: '{files[at]}', network_egress: '{egress[at]}', "
            f"requires_human_approval: {asks[at]}"
        )
        for at in (0, 1)
    )
    if calls_judged_alike(old.policy, new.policy, ToolQuestion("x")):
        for call in calls:
            assert old.decide_call("x", call).effect is new.decide_call("x", call).effect


PATHS = "tools: [{name: t, args: {p: {under: /w}}}], "
HOSTS = "tools: [{name: t, args: {h: {each: {host: x.b.com}}}}], "


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("tools: [{name: t, args: {n: {max: 3}}}]", "tools: [{name: t, rate: 5/s, args: {n: {max: 3}}}]", True),
        ("tools: [{name: t, args: {n: {max: 3}}}]", "tools: [{name: t, args: {n: {max: 4}}}]", False),
        ("tools: [{name: t, args: {n: {max: 3}}}]", "tools: [{name: t, approval: true, args: {n: {max: 3}}}]", False),
        (PATHS + "filesystem_access: 'read:/w'", PATHS + "filesystem_access: 'read:/w/a'", False),
        (PATHS + "network_egress: denied", PATHS + "network_egress: 'allowed:x.b.com'", True),
        (HOSTS + "network_egress: denied", HOSTS + "network_egress: 'allowed:x.b.com'", False),
        (HOSTS + "filesystem_access: 'read:/w'", HOSTS + "filesystem_access: 'read:/w/a'", True),
        ("tools: [{name: t, server: k8s, args: {n: any}}]", "tools: [{name: t, args: {n: any}}]", True),
        ("tools: [{name: t, server: docs, args: {n: any}}]", "tools: [{name: t, args: {n: any}}]", False),
    ],
)  # fmt: skip
def test_what_counts_for_a_call_is_looked_at(old: str, new: str, alike: bool) -> None:
    tool = ToolQuestion("t", None, Origin("k8s", ANY))
    assert calls_judged_alike(loaded(old).policy, loaded(new).policy, tool) is alike


def test_a_tool_that_did_not_change_is_not_called_too_large_to_compare() -> None:
    """Its arguments are of a kind that is not listed; the other tool's change is told, and nothing else is."""
    unlisted = (
        "{name: t, args: {h: {host: '*.b.com'}, n: {one_of: ["
        + ", ".join(f"v{n}" for n in range(250))
        + "]}, "
    )
    unlisted += "o: {one_of: [" + ", ".join(f"v{n}" for n in range(250)) + "]}}}"
    (found,) = compare_compiled("dev", loaded(f"tools: [{unlisted}]"), loaded(f"tools: [{unlisted}, ls]"))
    assert found.request == "tool:ls"
