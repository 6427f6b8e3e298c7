"""A tool may be named with its server and its definition: nothing else is then that tool."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.canonical.errors import NameRefused, ToolDefinitionRefused, ValueRefused
from affiant.policy.canonical.tool_origin import ANYWHERE, Origin, tool_digest
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.decision.questions import ToolQuestion, answer, parse_question, question_text
from affiant.policy.diff.differences import compare_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.testing.mutants import mutants_of

PIN, OTHER = ("sha256:" + digit * 64 for digit in "ab")
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def loaded(tools: str, sections: str = "") -> Profile:
    return load_profiles(f"agent_configs: {{dev: {{tools: [{tools}]{sections}}}}}".encode()).profile("dev")


def policy(tools: str) -> CompiledPolicy:
    return loaded(tools).compiled


def reason(tools: str, origin: Origin, *, name: str = "x") -> str:
    compiled = policy(tools)
    by_name, called = compiled.decide_tool(name, origin), compiled.decide_call(name, "{}", origin)
    assert by_name == called
    return by_name.reason


@thorough(suppress_health_check=[HealthCheck.too_slow])
@given(schema=st.dictionaries(st.text(), JSON, max_size=4), name=st.text(max_size=5), text=st.text())
def test_the_digest_is_of_the_rfc_8785_bytes(schema: dict[str, Any], name: str, text: str) -> None:
    rfc8785 = pytest.importorskip("rfc8785", reason="rfc8785 is not installed: make setup")
    try:
        data = rfc8785.dumps({"name": name, "description": text, "inputSchema": schema})
    except rfc8785.CanonicalizationError:
        with pytest.raises(ToolDefinitionRefused):
            tool_digest(name, text, schema)
        return
    assert tool_digest(name, text, schema) == f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.mark.parametrize(
    "schema",
    [
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 2**53},
        {"a": "\ud800"},
        {"a": "x" * 65536},
        {1: 2},
        {"a": {1, 2}},
        json.loads('{"a":' * 40 + "1" + "}" * 40),
    ],
)
def test_what_has_no_one_reading_has_no_digest(schema: Any) -> None:
    with pytest.raises(ToolDefinitionRefused):
        tool_digest("x", "", schema)


def test_a_rule_allows_its_tool_from_its_server_alone() -> None:
    rule = "{name: x, server: k8s}"
    assert reason(rule, Origin("k8s", PIN)) == "allowed"
    for server in ("docs", "K8S", "k8s ", "", None):
        assert reason(rule, Origin(server, PIN)) == "tool_other_server"
    assert reason(rule, Origin()) == "tool_other_server"


def test_a_rule_allows_its_tool_as_it_was_agreed_to_alone() -> None:
    rule = f"{{name: x, schema: '{PIN}'}}"
    assert reason(rule, Origin("any", PIN)) == reason(rule, Origin(None, PIN)) == "allowed"
    assert reason(rule, Origin("any", OTHER)) == reason(rule, Origin()) == "tool_schema_changed"


def test_what_is_not_known_fulfils_no_rule_and_enforcement_asks_so_by_default() -> None:
    compiled = policy(f"{{name: x, server: k8s}}, {{name: y, schema: '{PIN}'}}, z")
    assert [compiled.decide_tool(name).allowed for name in "xyz"] == [False, False, True]
    assert [compiled.decide_call(name, "{}").allowed for name in "xyz"] == [False, False, True]
    assert all(compiled.decide_tool(name, ANYWHERE).allowed for name in "xyz")


def test_rules_of_one_name_are_for_their_own_servers_with_their_own_arguments() -> None:
    compiled = policy("{name: x, server: a, args: {n: {max: 5}}}, {name: x, server: b}")
    assert compiled.decide_call("x", '{"n":5}', Origin("a")).rules == ("tools/0",)
    assert compiled.decide_call("x", '{"n":6}', Origin("a")).reason == "tool_argument_refused"
    assert compiled.decide_call("x", '{"n":6}', Origin("b")).rules == ("tools/1",)
    assert compiled.decide_call("x", '{"n":6}', Origin("c")).reason == "tool_other_server"
    assert compiled.tool_servers("x") == {"a", "b"}
    assert compiled.tool_servers("y") == frozenset()


def test_a_changed_tool_is_told_before_another_server() -> None:
    rules = f"{{name: x, server: a}}, {{name: x, server: b, schema: '{PIN}'}}"
    assert reason(rules, Origin("b", OTHER)) == "tool_schema_changed"


def test_a_denial_is_by_name_wherever_the_tool_comes_from() -> None:
    assert reason("{name: x, server: k8s}, {deny: x}", Origin("k8s", PIN)) == "tool_denied"


def test_approval_by_name_keeps_where_the_tool_comes_from() -> None:
    compiled = loaded("{name: x, server: k8s}", ", requires_human_approval: {tools: [x]}").compiled
    assert compiled.decide_tool("x", Origin("k8s")).reason == "approval_no_approver"
    assert compiled.decide_tool("x", Origin("docs")).reason == "tool_other_server"


def test_the_normal_form_holds_the_members_where_they_are_written_and_nowhere_else() -> None:
    plain, pinned = policy("x"), policy(f"{{name: x, server: k8s, schema: '{PIN}'}}")
    assert b"server" not in plain.normal_form and b"schema" not in plain.normal_form
    assert f'"name":"x","schema":"{PIN}","server":"k8s"'.encode() in pinned.normal_form
    again = parse_normal_form(pinned.normal_form)
    assert again.policy == pinned.policy and again.digest == pinned.digest != plain.digest


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("{name: x, server: K8s}", NameRefused),
        ("{name: x, server: '*'}", NameRefused),
        ("{name: x, server: 'k 8'}", NameRefused),
        ("{name: x, schema: 'sha256:ab'}", ValueRefused),
        (f"{{name: x, schema: '{PIN.upper()}'}}", ValueRefused),
        (f"{{name: x, schema: 'sha384:{'a' * 96}'}}", ValueRefused),
    ],
)
def test_what_is_no_server_and_no_digest_is_refused(rule: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        loaded(rule)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("tool:x@k8s", ToolQuestion("x", None, Origin("k8s", "*"))),
        (f"tool:x#{PIN}", ToolQuestion("x", None, Origin("*", PIN))),
        (f'tool:x@k8s#{PIN} {{"a": 1}}', ToolQuestion("x", '{"a": 1}', Origin("k8s", PIN))),
    ],
)
def test_a_question_can_name_an_origin(text: str, question: ToolQuestion) -> None:
    assert parse_question(text) == question
    assert question_text(question) == text


def test_every_difference_of_origin_is_found_with_a_request_that_shows_it() -> None:
    old, new = loaded(f"{{name: x, server: k8s, schema: '{PIN}'}}"), loaded("{name: x, server: k8s}")
    (found,) = compare_profiles("dev", old, new)
    assert found.direction.is_wider
    assert re.fullmatch("tool:x@k8s#sha256:0{64}", found.request)
    assert not answer(old.compiled, parse_question(found.request)).allowed
    assert answer(new.compiled, parse_question(found.request)).allowed
    assert {each.direction.is_wider for each in compare_profiles("dev", new, old)} == {False}
    moved = compare_profiles("dev", new, loaded("{name: x, server: docs}"))
    assert {each.request: each.direction.value for each in moved} == {
        "tool:x@docs": "widens",
        "tool:x@k8s": "narrows",
    }


def test_a_slip_of_the_origin_is_a_mutant_that_an_inline_test_can_notice() -> None:
    tests = ", tests: [{deny: {tool: x@docs}}, {allow: {tool: x@k8s, args: {a: 1}}}]"
    profile = loaded(f"{{name: x, server: k8s, schema: '{PIN}'}}", tests)
    assert {mutant.change for mutant in mutants_of(profile.compiled, [])} >= {
        "at any server",
        "with any definition",
    }
