"""Permission rules of Claude Code: what is written for which tools, files and hosts."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.policy.exports.target_models import ClaudeCode

from affiant.policy.exports.claude_code import CLAUDE_CODE, export_claude_code
from affiant.policy.exports.model import Outcome
from affiant.policy.loading.profile_set import Profile

PIN = "sha256:" + "a" * 64
ALL = frozenset(CLAUDE_CODE.wider)


def test_a_server_s_tool_has_its_server_in_its_name(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of(
        f"tools: [{{name: search, server: github, schema: '{PIN}'}}, {{name: Read, server: k8s}}]"
    )
    model = ClaudeCode(export_claude_code(profile, ALL))
    assert set(model.lists["allow"]) == {"mcp__github__search", "mcp__k8s__Read"}
    assert "Read" in model.lists["deny"]
    kinds = {loss.kind for loss in export_claude_code(profile).losses if loss.outcome is Outcome.OMITTED}
    assert kinds == {"schema", "subprocess"}


def test_a_tool_that_is_named_like_another_server_s_is_left_out(profile_of: Callable[..., Profile]) -> None:
    """``mcp__a__b__c`` is ``b__c`` of ``a``, and ``c`` of ``a__b``."""
    export = export_claude_code(
        profile_of("tools: [{name: b__c, server: a}, {name: _c, server: a}, {name: b_c, server: a}]"), ALL
    )
    assert ClaudeCode(export).lists["allow"] == ["mcp__a__b_c"]
    assert (
        len([loss for loss in export.losses if (loss.kind, loss.outcome) == ("name", Outcome.OMITTED)]) == 2
    )


def test_a_shell_is_left_out_unless_that_is_accepted(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of("tools: [Bash]")
    assert ClaudeCode(export_claude_code(profile)).calls("Bash") == "deny"
    assert ClaudeCode(export_claude_code(profile, frozenset({"subprocess"}))).calls("Bash") == "allow"


def test_what_needs_approval_is_asked_and_never_allowed(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of(
        "tools: [Read, TodoWrite], filesystem_access: 'read:/w', requires_human_approval: true"
    )
    model = ClaudeCode(export_claude_code(profile, ALL))
    assert model.lists["allow"] == []
    assert (model.reads("/w/a"), model.calls("TodoWrite")) == ("ask", "ask")


def test_editing_takes_both_tools(profile_of: Callable[..., Profile]) -> None:
    files = "filesystem_access: 'read-write:/w'"
    both = ClaudeCode(export_claude_code(profile_of(f"tools: [Edit, Write], {files}")))
    assert both.edits("/w/a") == "allow" and both.edits("/v") == "deny"
    one = export_claude_code(profile_of(f"tools: [Write], {files}"))
    assert ClaudeCode(one).edits("/w/a") == "deny"
    assert ("tools/0", Outcome.OMITTED) in {(loss.rule, loss.outcome) for loss in one.losses}


def test_a_denied_path_that_cannot_be_spelled_is_denied_with_more(profile_of: Callable[..., Profile]) -> None:
    profile = profile_of(
        "tools: [Read], filesystem_access: [read:/w, {path: '/w/s (1)', mode: none}, 'read:/v(x)']"
    )
    export = export_claude_code(profile)
    model = ClaudeCode(export)
    assert (
        model.reads("/w/a"),
        model.reads("/w/s (1)/x"),
        model.reads("/w/s x1y"),
        model.reads("/v(x)"),
    ) == (
        *("allow", "deny", "deny"),
        "deny",
    )
    for name in model.lists:
        assert all(rule.count(")") <= 1 for rule in model.lists[name])


def test_no_mode_that_asks_for_less_can_be_chosen(profile_of: Callable[..., Profile]) -> None:
    settings = json.loads(export_claude_code(profile_of("tools: [Read]")).documents[0].text)
    assert settings["allowManagedPermissionRulesOnly"] is True
    assert settings["permissions"]["disableBypassPermissionsMode"] == "disable"
    assert settings["permissions"]["disableAutoMode"] == "disable"


def test_a_host_of_which_a_part_is_denied_is_not_fetched(profile_of: Callable[..., Profile]) -> None:
    hosts = "{host: a.b.com}, {host: c.b.com}, {deny: a.b.com, paths: [/x]}"
    model = ClaudeCode(export_claude_code(profile_of(f"tools: [WebFetch], network_egress: [{hosts}]"), ALL))
    assert (model.fetches("a.b.com"), model.fetches("c.b.com")) == ("deny", "allow")
    assert "WebFetch(domain:a.b.com)" not in model.lists["allow"]


def test_a_fetch_that_needs_approval_is_asked(profile_of: Callable[..., Profile]) -> None:
    sections = "tools: [WebFetch], network_egress: [{host: a.b.com}], requires_human_approval: {egress: [%s]}"
    asked = ClaudeCode(export_claude_code(profile_of(sections % "GET"), ALL))
    other = ClaudeCode(export_claude_code(profile_of(sections % "POST"), ALL))
    assert (asked.fetches("a.b.com"), other.fetches("a.b.com")) == ("ask", "allow")


def test_a_fetch_through_a_connection_that_nobody_sees_is_asked_like_any_other(
    profile_of: Callable[..., Profile],
) -> None:
    hosts = "[{host: a.b.com, tls: passthrough}]"
    profile = profile_of(
        f"tools: [WebFetch], network_egress: {hosts}, requires_human_approval: {{egress: [POST]}}"
    )
    assert ClaudeCode(export_claude_code(profile, ALL)).fetches("a.b.com") == "ask"
