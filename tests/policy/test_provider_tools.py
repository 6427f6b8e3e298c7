"""Tools that the model's provider runs itself: denied by default, allowed by name, and said to be unseen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.errors import AffiantError
from affiant.policy import load_profiles, parse_normal_form
from affiant.policy.authority.authority import authority_of
from affiant.policy.authority.document import authority_document
from affiant.policy.authority.overview import authority_lines
from affiant.policy.commands import policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.fetches import decide_fetch
from affiant.policy.decision.questions import parse_question, plane_of, question_text
from affiant.policy.diff.differences import Direction, compare_profiles
from affiant.policy.lint.lint import lint_profile
from affiant.policy.loading.profile_set import Profile

FLOOR = b"provider_tools: [{deny: web_search}]"
KEY = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def profile(text: str, floor: bytes | None = None) -> Profile:
    head = "" if floor is None else "floor: floor.yaml\n"
    return load_profiles(f"{head}agent_configs: {{dev: {{{text}}}}}".encode(), floor=floor).profile("dev")


def test_a_profile_without_them_has_the_digest_that_it_had() -> None:
    plain = profile("tools: [read_file]")
    assert plain.digest == profile("tools: [read_file], provider_tools: []").digest
    assert b"provider_tools" not in plain.normal_form
    known = "sha384:66f5a9247ac905b33be3ac16"
    assert plain.digest.startswith(known)


def test_one_that_is_not_listed_is_denied() -> None:
    decision = profile("tools: [web_search]").compiled.decide_provider_tool("web_search")
    assert (decision.effect, decision.reason) == (Effect.DENY, "provider_tool_not_listed")


def test_one_that_is_listed_is_allowed_by_exactly_its_name() -> None:
    compiled = profile("provider_tools: [web_search]").compiled
    assert compiled.decide_provider_tool("web_search").rules == ("provider_tools/0",)
    assert compiled.decide_provider_tool("web_search").allowed
    assert compiled.decide_provider_tool("Web_search").reason == "provider_tool_not_listed"
    assert compiled.decide_tool("web_search").reason == "tool_not_listed"


def test_a_denial_wins_also_that_of_a_baseline() -> None:
    own = profile("provider_tools: [web_search, {deny: web_search}]").compiled
    merged = profile("provider_tools: [web_search, code_interpreter]", FLOOR).compiled
    for compiled in (own, merged):
        assert compiled.decide_provider_tool("web_search").reason == "provider_tool_denied"
    assert merged.decide_provider_tool("code_interpreter").allowed


def test_a_baseline_allows_none() -> None:
    with pytest.raises(AffiantError) as caught:
        profile("tools: []", b"provider_tools: [web_search]")
    assert caught.value.code == "policy.floor"


@pytest.mark.parametrize("entry", ["''", "a b", "{name: web_search}", "{deny: a, args: b}", "[a]"])
def test_another_form_of_an_entry_does_not_load(entry: str) -> None:
    with pytest.raises(AffiantError) as caught:
        profile(f"provider_tools: [{entry}]")
    assert caught.value.code.startswith("policy.")


def test_the_normal_form_reads_back_as_it_was() -> None:
    form = profile("provider_tools: [web_search, {deny: mcp}, web_search]").normal_form
    assert parse_normal_form(form).normal_form == form
    assert json.loads(form)["provider_tools"] == [
        {"effect": "allow", "name": "web_search"},
        {"effect": "deny", "name": "mcp"},
    ]


def test_what_needs_approval_as_a_whole_is_not_allowed_unasked() -> None:
    asks = f"provider_tools: [web_search], requires_human_approval: {{everything: true, approvers: [{KEY}]}}"
    alone = "provider_tools: [web_search], requires_human_approval: true"
    for text in (asks, alone):
        decision = profile(text).compiled.decide_provider_tool("web_search")
        assert (decision.effect, decision.reason) == (Effect.DENY, "provider_tool_unshowable")
        assert decision.rules == ("provider_tools/0",)
    assert "approval_unshowable" in {found.code for found in lint_profile(profile(asks))}


# -- a server that the provider is told to call ------------------------------------------------------------------------


def test_a_server_is_judged_as_egress_and_the_tool_by_its_name() -> None:
    compiled = profile("provider_tools: [mcp], network_egress: 'allowed:mcp.example.com'").compiled
    assert compiled.decide_provider_tool("mcp").allowed
    assert decide_fetch(compiled, "https://mcp.example.com/sse", "POST")[1].allowed
    other = decide_fetch(compiled, "https://other.example.com/sse", "POST")[1]
    assert other.reason == "host_not_listed"
    alone = profile("network_egress: 'allowed:mcp.example.com'").compiled
    assert alone.decide_provider_tool("mcp").reason == "provider_tool_not_listed"


def test_a_server_needs_the_method_that_the_provider_uses() -> None:
    compiled = profile("network_egress: [{host: mcp.example.com, methods: [GET]}]").compiled
    assert decide_fetch(compiled, "https://mcp.example.com/sse", "POST")[1].reason == "method_not_listed"


# -- what a reviewer sees ----------------------------------------------------------------------------------------------


def test_adding_one_is_wider_and_taking_it_out_narrower() -> None:
    old, new = profile("tools: []"), profile("provider_tools: [web_search]")
    (found,) = compare_profiles("dev", old, new)
    assert (found.plane, found.direction, found.request) == (
        "provider_tool",
        Direction.WIDENS,
        "provider_tool:web_search",
    )
    assert [each.direction for each in compare_profiles("dev", new, old)] == [Direction.NARROWS]


def test_can_says_that_the_provider_may_fetch_anything() -> None:
    one = profile("provider_tools: [web_search]")
    lines = "\n".join(authority_lines([authority_of(one)]))
    assert "web_search" in lines
    assert "the provider may fetch anything for it" in " ".join(lines.split())


def test_the_document_of_can_lists_them() -> None:
    profiles = load_profiles(b"agent_configs: {dev: {provider_tools: [web_search, mcp, {deny: mcp}]}}")
    document = authority_document(
        [authority_of(each) for each in profiles.profiles.values()], profiles=profiles
    )
    (agent,) = json.loads(json.dumps(document))["agents"]
    assert [(each["name"], each["effect"]) for each in agent["provider_tools"]] == [
        ("mcp", "deny"),
        ("web_search", "allow"),
    ]


def test_who_can_says_it_too(tmp_path: Path) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text("agent_configs: {dev: {provider_tools: [web_search]}, other: {}}")
    result = CliRunner().invoke(policy, ["who-can", str(file), "provider_tool:web_search"])
    assert result.exit_code == 0
    assert "1 of 2 agents may" in result.output
    assert "the provider may fetch anything for it" in " ".join(result.output.split())


def test_the_review_page_says_it_too(tmp_path: Path) -> None:
    file, page = tmp_path / "profiles.yaml", tmp_path / "page.html"
    file.write_text("agent_configs: {dev: {provider_tools: [web_search]}}")
    result = CliRunner().invoke(policy, ["report", str(file), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "the provider may fetch anything for it" in page.read_text()


def test_lint_warns_of_each_and_of_private_files_beside_it() -> None:
    one = profile("provider_tools: [web_search], filesystem_access: 'read:/w'")
    codes = {found.code: found.subject for found in lint_profile(one)}
    assert codes["provider_tool"] == "provider tool web_search"
    assert "outsiders_can_steer" in codes


def test_lint_says_that_a_denial_meets_no_allow() -> None:
    found = lint_profile(profile("provider_tools: [{deny: web_search}]"))
    assert [each.code for each in found] == ["denial_without_allow"]


def test_a_request_is_read_as_it_is_written() -> None:
    question = parse_question("provider_tool:web_search")
    assert (plane_of(question), question_text(question)) == ("provider_tool", "provider_tool:web_search")


def test_tests_of_a_profile_ask_for_them() -> None:
    profile(
        "provider_tools: [web_search], tests: [{allow: {provider_tool: web_search}}, {deny: {provider_tool: mcp}}]"
    )
    with pytest.raises(AffiantError) as caught:
        profile("tests: [{allow: {provider_tool: web_search}}]")
    assert caught.value.code == "policy.test_failed"


@pytest.mark.parametrize("target", ["srt", "claude-code", "cilium", "cedar"])
def test_every_export_reports_that_it_says_nothing_of_them(tmp_path: Path, target: str) -> None:
    file = tmp_path / "profiles.yaml"
    file.write_text("agent_configs: {dev: {provider_tools: [web_search]}}")
    result = CliRunner().invoke(
        policy, ["compile", str(file), "dev", "--target", target, "-o", str(tmp_path / "out")]
    )
    said = result.output + result.stderr
    assert "provider_tools/0" in said
    assert "unjudged" in said
