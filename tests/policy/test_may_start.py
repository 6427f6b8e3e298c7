"""Agents that an agent may start: none by default, by name, never in a circle, and never with more than it has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from affiant.errors import AffiantError
from affiant.policy import load_profiles, parse_normal_form
from affiant.policy.authority.authority import authority_of
from affiant.policy.authority.document import authority_document
from affiant.policy.authority.graph import authority_dot, authority_mermaid
from affiant.policy.authority.overview import authority_lines, authority_markdown
from affiant.policy.commands import policy
from affiant.policy.decision.applied_limits import applied_limits
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.meters import Meter
from affiant.policy.decision.questions import StartQuestion, answer, parse_question, plane_of, question_text
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.diff.differences import Direction, compare_profiles
from affiant.policy.diff.restriction import (
    NotARestriction,
    compare_restriction,
    require_no_wider,
    require_restriction,
)
from affiant.policy.editor.rule_text import rule_text
from affiant.policy.lint.lint import lint_profiles
from affiant.policy.loading.all_errors import every_refusal
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.model.limits import Bound
from affiant.policy.model.profile import StartDenial, StartGrant
from affiant.policy.testing.mutation import Fate, judge_mutant, planned_mutants
from affiant.policy.testing.trial import TriedProfile

OTHERS = "reviewer: {}, tester: {}"
FLOOR = b"may_start: [{deny: reviewer}]"
KEY = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def profiles(text: str, floor: bytes | None = None) -> ProfileSet:
    head = "" if floor is None else "floor: floor.yaml\n"
    return load_profiles(f"{head}agent_configs: {{{text}}}".encode(), floor=floor)


def profile(text: str, floor: bytes | None = None) -> Profile:
    return profiles(f"dev: {{{text}}}, {OTHERS}", floor).profile("dev")


def error_of(text: str, floor: bytes | None = None) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        profiles(text, floor)
    return caught.value


def test_a_profile_without_it_has_the_digest_that_it_had() -> None:
    plain = profile("tools: [read_file]")
    assert plain.digest == profile("tools: [read_file], may_start: []").digest
    assert b"may_start" not in plain.normal_form
    assert plain.digest.startswith("sha384:66f5a9247ac905b33be3ac16")


def test_an_agent_that_is_not_listed_may_not_be_started() -> None:
    for text in ("tools: [reviewer]", "may_start: [tester]"):
        decision = profile(text).compiled.decide_start("reviewer")
        assert (decision.effect, decision.reason) == (Effect.DENY, "start_not_listed")


def test_one_that_is_listed_may_be_started_by_exactly_its_name() -> None:
    compiled = profile("may_start: [reviewer]").compiled
    assert compiled.decide_start("reviewer").rules == ("may_start/0",)
    assert compiled.decide_start("reviewer").allowed
    for name in ("Reviewer", "review", "reviewer2", "reviewer ", "dev", ""):
        assert not compiled.decide_start(name).allowed


def test_a_denial_wins_also_that_of_a_baseline() -> None:
    own = profile("may_start: [reviewer, {deny: reviewer}, tester]").compiled
    merged = profile("may_start: [{agent: reviewer, at_most: 2}, tester]", FLOOR).compiled
    for compiled in (own, merged):
        assert compiled.decide_start("reviewer").reason == "start_denied"
        assert compiled.decide_start("tester").allowed


def test_a_baseline_allows_none_and_may_deny_agents_that_a_file_does_not_have() -> None:
    assert error_of(f"dev: {{}}, {OTHERS}", b"may_start: [reviewer]").code == "policy.floor"
    assert error_of(f"dev: {{}}, {OTHERS}", b"may_start: [{agent: reviewer}]").code == "policy.floor"
    profiles("dev: {}", b"may_start: [{deny: somebody_else}]")


def test_what_needs_approval_as_a_whole_is_not_started_unasked() -> None:
    asks = f"may_start: [reviewer], requires_human_approval: {{everything: true, approvers: [{KEY}]}}"
    assert profile(asks).compiled.decide_start("reviewer").effect is Effect.ASK
    alone = profile("may_start: [reviewer], requires_human_approval: true").compiled
    assert alone.decide_start("reviewer").reason == "approval_no_approver"


def test_how_many_it_may_start_is_a_bound_of_one_session() -> None:
    compiled = profile("may_start: [reviewer, {agent: tester, at_most: 2}]").compiled
    assert dict(compiled.start_limits()) == {"may_start/1": (Bound(2),)}
    (rule,) = compiled.decide_start("tester").rules
    meter = Meter(compiled.start_limits()[rule])
    taken = [meter.take(1, now=day * 86_400 * 10**9) is not None for day in range(4)]
    assert taken == [True, True, False, False]
    question = StartQuestion("tester")
    assert applied_limits(compiled, question, answer(compiled, question)) == (
        ("may_start/1", "at most 2 sessions of it in a session"),
    )


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        *("''", "'a b'", "'../dev'", "-dev", "'*'", "[reviewer]", "{}", "{at_most: 3}", "{name: reviewer}"),
        *(
            "{agent: reviewer, at_most: 0}",
            "{agent: reviewer, at_most: -1}",
            "{agent: reviewer, at_most: true}",
        ),
        *(
            "{agent: reviewer, at_most: '3'}",
            "{agent: reviewer, at_most: 1.5}",
            "{agent: reviewer, at_most: 3/h}",
        ),
        *("{agent: reviewer, at_most: }", "{agent: reviewer, at_most: [3]}", "{agent: [reviewer]}"),
        *("{agent: reviewer, at_most: 99999999999999999}", "{deny: reviewer, at_most: 1}"),
        *("{agent: reviewer, deny: reviewer}", "{deny: [reviewer]}", f"{'a' * 65}", "ｒeviewer"),
    ],
)
def test_another_form_of_an_entry_does_not_load(entry: str) -> None:
    error = error_of(f"dev: {{may_start: [{entry}]}}, {OTHERS}")
    assert error.code.startswith("policy.")
    assert error.where is not None
    assert error.where.startswith("profiles.yaml:1:")


@pytest.mark.parametrize("value", ["reviewer", "true", "3", "", "{reviewer: 3}"])
def test_agents_to_start_are_a_list(value: str) -> None:
    assert error_of(f"dev: {{may_start: {value}}}, {OTHERS}").code == "policy.wrong_type"


def test_a_list_of_more_than_1024_entries_does_not_load() -> None:
    others = ", ".join(f"a{number}: {{}}" for number in range(1025))
    listed = [f"a{number}" for number in range(1025)]
    profiles(f"dev: {{may_start: [{', '.join(listed[1:])}]}}, {others}")
    assert error_of(f"dev: {{may_start: [{', '.join(listed)}]}}, {others}").code == "policy.value"


@pytest.mark.parametrize("most", [True, False, 0, -1, 1.0, "3"])
def test_no_value_of_a_bound_exists_that_is_none(most: int) -> None:
    with pytest.raises(AffiantError):
        StartGrant("reviewer", most)


@pytest.mark.parametrize("kind", [StartGrant, StartDenial])
def test_no_rule_exists_about_what_is_no_name_of_an_agent(kind: type) -> None:
    with pytest.raises(AffiantError):
        kind("a b")


def test_an_agent_without_a_profile_in_the_file_is_rejected_at_its_place() -> None:
    error = error_of(f"dev: {{may_start: [tester, reviwer]}}, {OTHERS}")
    assert (error.code, error.where) == ("policy.unknown_agent", "profiles.yaml:1:43")
    assert "Did you mean 'reviewer'" in str(error)


def test_one_agent_is_bounded_in_one_way_only() -> None:
    error = error_of(f"dev: {{may_start: [reviewer, {{agent: reviewer, at_most: 3}}]}}, {OTHERS}")
    assert error.code == "policy.conflict"
    twice = profile("may_start: [reviewer, {agent: reviewer}, reviewer]")
    assert twice.policy.may_start == (StartGrant("reviewer"),)


@pytest.mark.parametrize(
    ("text", "circle"),
    [
        ("a: {may_start: [a]}", "a -> a"),
        ("a: {may_start: [b]}, b: {may_start: [a]}", "b -> a"),
        ("a: {may_start: [b]}, b: {may_start: [c]}, c: {may_start: [{agent: a, at_most: 1}]}", "a -> b"),
        ("z: {may_start: [a]}, a: {may_start: [b]}, b: {may_start: [a]}", "a -> b"),
        ("a: {may_start: [b, {deny: b}]}, b: {may_start: [a]}", "a -> b"),
    ],
)
def test_agents_that_start_each_other_in_a_circle_are_rejected(text: str, circle: str) -> None:
    error = error_of(text)
    assert error.code == "policy.conflict"
    start, _, end = circle.partition(" -> ")
    shown = str(error.found).split(" -> ")
    assert (start, end) in {*zip(shown, shown[1:], strict=False)}
    assert error.where is not None


def test_a_long_chain_is_no_circle_and_a_long_circle_is_rejected_at_once() -> None:
    chain = ", ".join(f"a{number}: {{may_start: [a{number + 1}]}}" for number in range(3000))
    profiles(f"{chain}, a3000: {{}}")
    error = error_of(f"{chain}, a3000: {{may_start: [a0]}}")
    assert error.code == "policy.conflict"
    assert len(str(error)) < 2000


def test_two_ways_to_one_agent_are_no_circle() -> None:
    profiles("a: {may_start: [b, c]}, b: {may_start: [d]}, c: {may_start: [d]}, d: {}")


def test_every_mistake_is_reported_and_a_circle_is_one() -> None:
    data = b"agent_configs: {a: {may_start: [b]}, b: {may_start: [a]}}"
    assert [found.code for found in every_refusal(data, source="profiles.yaml")] == ["policy.conflict"]
    data = b"agent_configs: {a: {may_start: ['a b', {agent: b, at_most: 0}]}}"
    assert len(every_refusal(data, source="profiles.yaml")) == 2


def test_the_normal_form_reads_back_as_it_was_and_does_not_depend_on_order() -> None:
    one = profile("may_start: [tester, {agent: reviewer, at_most: 3}, {deny: other}, tester]")
    assert parse_normal_form(one.normal_form).normal_form == one.normal_form
    assert json.loads(one.normal_form)["may_start"] == [
        {"agent": "other", "effect": "deny"},
        {"agent": "reviewer", "at_most": 3, "effect": "allow"},
        {"agent": "tester", "effect": "allow"},
    ]


# -- children are never wider ------------------------------------------------------------------------------------------

PARENT = (
    "tools: [a, b], provider_tools: [web_search], filesystem_access: 'read:/w', "
    "network_egress: [{host: a.example.com, methods: [GET]}], models: [m, {name: n, max_tokens: 100}], "
    "ports: [8000-8010], secrets_access: [{name: KEY, hosts: ['a.example.com:443']}], "
    "limits: {tool_calls: 10, wall: 2h}, weight: 2, resources: {cpus: 2, memory: 1GiB, disk: 1GiB, pids: 64}, "
    "may_start: [child, {agent: leaf, at_most: 2}]"
)
SAME = PARENT.replace("child, ", "")
"""All that the parent may do, except to start the child itself."""


def judge(child: str, parent: str = PARENT) -> None:
    found = profiles(f"parent: {{{parent}}}, child: {{{child}}}, leaf: {{models: []}}")
    require_no_wider(found.profile("parent").compiled, found.profile("child").compiled, agent="child")


def with_(old: str, new: str) -> str:
    assert old in SAME
    return SAME.replace(old, new)


@pytest.mark.parametrize(
    "child",
    [
        SAME,
        with_("tools: [a, b]", "tools: [a, {deny: b}]"),
        with_("tools: [a, b]", "tools: [{name: a, args: {x: {max: 3}}}]"),
        with_("provider_tools: [web_search], ", ""),
        with_("'read:/w'", "'read:/w/deep'"),
        with_("methods: [GET]", "methods: [GET], paths: [/x]"),
        with_("max_tokens: 100", "max_tokens: 99"),
        with_("8000-8010", "8001"),
        with_("tool_calls: 10, wall: 2h", "tool_calls: 9, wall: 1h, tokens: 5"),
        with_("weight: 2, ", ""),
        with_("cpus: 2", "cpus: 1"),
        with_("at_most: 2", "at_most: 1"),
        with_("may_start: [{agent: leaf, at_most: 2}]", "requires_human_approval: true"),
    ],
)
def test_a_child_with_the_same_or_less_may_begin(child: str) -> None:
    judge(child)


@pytest.mark.parametrize(
    "child",
    [
        with_("tools: [a, b]", "tools: [a, b, c]"),
        with_("provider_tools: [web_search]", "provider_tools: [web_search, mcp]"),
        with_("'read:/w'", "'read-write:/w'"),
        with_("'read:/w'", "['read:/w', 'read:/v']"),
        with_("methods: [GET]", "methods: [GET, POST]"),
        with_("[{host: a.example.com, methods: [GET]}]", "[{host: a.example.com, tls: passthrough}]").replace(
            ", secrets_access: [{name: KEY, hosts: ['a.example.com:443']}]", ""
        ),
        with_("network_egress: [", "network_egress: ['allowed:b.example.com', "),
        with_("models: [m, {name: n, max_tokens: 100}], ", ""),
        with_("max_tokens: 100", "max_tokens: 101"),
        with_("8000-8010", "8000-8011"),
        with_("{name: KEY, hosts: ['a.example.com:443']}", "{name: OTHER, hosts: ['a.example.com:443']}"),
        with_("{name: KEY, hosts", "{name: KEY, ref: 'vault:kv/other#key', hosts"),
        with_("limits: {tool_calls: 10, wall: 2h}, ", ""),
        with_("tool_calls: 10", "tool_calls: 11"),
        with_("weight: 2", "weight: 3"),
        with_("weight: 2", "weight: 2, priority: interactive"),
        with_("cpus: 2", "cpus: 3"),
        with_("resources: {cpus: 2, memory: 1GiB, disk: 1GiB, pids: 64}", "weight: 2").replace(
            "weight: 2, weight: 2", "weight: 2"
        ),
        with_("at_most: 2", "at_most: 3"),
        with_("{agent: leaf, at_most: 2}", "leaf"),
    ],
)
def test_a_child_with_more_in_any_plane_may_not(child: str) -> None:
    with pytest.raises(NotARestriction) as caught:
        judge(child)
    assert caught.value.code == "policy.not_narrower"
    assert caught.value.found


def test_a_child_starts_nothing_that_its_parent_could_not() -> None:
    with pytest.raises(NotARestriction, match="start:leaf"):
        judge("models: [], limits: {wall: 1h}, may_start: [leaf]", "models: [], may_start: [child]")


def test_a_child_is_held_against_the_profile_in_force_and_not_against_the_one_at_the_start() -> None:
    found = profiles("parent: {tools: [a, b], may_start: [child]}, child: {tools: [a]}")
    narrow = profiles("parent: {tools: [b], may_start: [child]}, child: {}").profile("parent")
    require_no_wider(found.profile("parent").compiled, found.profile("child").compiled, agent="child")
    with pytest.raises(NotARestriction):
        require_no_wider(narrow.compiled, found.profile("child").compiled, agent="child")


def test_what_cannot_be_compared_is_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.policy.diff.restriction.MOST_REQUESTS", 10)
    with pytest.raises(NotARestriction, match="too many requests"):
        judge("models: []")


# -- what a reviewer sees ----------------------------------------------------------------------------------------------


def test_adding_one_is_wider_and_taking_it_out_narrower() -> None:
    old, new = profile("tools: []"), profile("may_start: [reviewer]")
    (found,) = compare_profiles("dev", old, new)
    assert (found.plane, found.direction, found.request) == ("start", Direction.WIDENS, "start:reviewer")
    assert [each.direction for each in compare_profiles("dev", new, old)] == [Direction.NARROWS]


def test_more_sessions_are_wider_and_fewer_narrower() -> None:
    few, more, any_number = (
        profile(f"may_start: [{{agent: tester{most}}}]") for most in (", at_most: 2", ", at_most: 3", "")
    )
    for old, new in ((few, more), (more, any_number), (few, any_number)):
        (found,) = compare_profiles("dev", old, new)
        assert (found.plane, found.request, found.direction) == ("limit", "start:tester", Direction.WIDENS)
        require_restriction(compare_restriction(new.compiled, old.compiled))


def test_can_lists_them_with_how_many() -> None:
    one = authority_of(profile("may_start: [reviewer, {agent: tester, at_most: 3}, {deny: other}]"))
    lines = " ".join("\n".join(authority_lines([one])).split())
    for text in ("agents to start", "reviewer: yes", "tester: yes, at most 3 sessions of it", "other: never"):
        assert text in lines
    assert "agents to start" not in "\n".join(authority_lines([authority_of(profile("tools: []"))]))
    table = authority_markdown([one], profiles=profiles(f"dev: {{}}, {OTHERS}"))
    assert "agents to start" in table


def test_the_document_of_can_lists_them() -> None:
    found = profiles(
        f"dev: {{may_start: [reviewer, {{agent: tester, at_most: 3}}, {{deny: reviewer}}]}}, {OTHERS}"
    )
    document = authority_document([authority_of(found.profile("dev"))], profiles=found)
    (agent,) = json.loads(json.dumps(document))["agents"]
    assert [
        (each["agent"], each["effect"], each["at_most"], each["sample"]) for each in agent["may_start"]
    ] == [("reviewer", "deny", None, None), ("tester", "allow", 3, "start:tester")]


def test_a_graph_leads_from_the_agent_to_the_one_that_it_starts() -> None:
    found = profiles("dev: {may_start: [reviewer]}, reviewer: {}")
    both = [authority_of(each) for each in found.profiles.values()]
    assert 'n0 -> n1 [label="starts it"' in authority_dot(both)
    assert 'n0 -->|"starts it"| n1' in authority_mermaid(both)
    assert "agent reviewer" in authority_dot(both[:1])


def run(*arguments: object) -> str:
    result = CliRunner().invoke(policy, [str(each) for each in arguments])
    assert result.exit_code in (0, 1), result.output
    return " ".join((result.output + result.stderr).split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.yaml"
    path.write_text(f"agent_configs: {{dev: {{may_start: [reviewer]}}, {OTHERS}}}")
    return path


def test_who_can_and_explain_answer_about_a_start(file: Path) -> None:
    assert "1 of 3 agents may: start:reviewer" in run("who-can", file, "start:reviewer")
    assert "start_not_listed" in run("explain", file, "dev", "start:tester")
    assert "may_start/0" in run("explain", file, "dev", "start:reviewer")


def test_a_request_is_read_as_it_is_written() -> None:
    question = parse_question("start:reviewer")
    assert (plane_of(question), question_text(question)) == ("start", "start:reviewer")


def test_the_review_page_shows_them(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("report", file, "-o", page)
    text = page.read_text()
    assert "It may start sessions of" in text
    assert "Agents to start" in text


def test_a_rule_is_shown_as_it_would_be_written() -> None:
    rules = profile("may_start: [reviewer, {agent: tester, at_most: 3}, {deny: other}]").policy.may_start
    assert [rule_text(rule) for rule in rules] == ["{deny: other}", "reviewer", "{agent: tester, at_most: 3}"]


def test_tests_of_a_profile_ask_for_them() -> None:
    profile("may_start: [reviewer], tests: [{allow: {start: reviewer}}, {deny: {start: tester}}]")
    error = error_of("dev: {tests: [{allow: {start: reviewer}}]}, reviewer: {}")
    assert error.code == "policy.test_failed"


def test_a_slip_in_a_rule_is_noticed_or_the_missing_test_is_shown() -> None:
    one = profile("may_start: [reviewer, {agent: tester, at_most: 2}, {deny: tester}]")
    tried = TriedProfile(one, one.compiled, ())
    judged = [judge_mutant(tried, mutant) for mutant in planned_mutants(tried)]
    found = [(each.change, each.fate, each.missing_test) for each in judged if each is not None]
    assert ("dropped", Fate.UNNOTICED, '{allow: {start: "reviewer"}}') in found
    assert ("dropped", Fate.UNNOTICED, '{deny: {start: "tester"}}') in found


def test_lint_warns_of_any_number_and_of_a_child_that_could_never_begin() -> None:
    found = profiles(
        "dev: {may_start: [wide, {agent: narrow, at_most: 2}]}, wide: {tools: [a]}, narrow: {models: []}"
    )
    warned = {(each.code, each.subject) for each in lint_profiles(found) if each.agent == "dev"}
    assert warned == {
        ("start_unlimited", "start of wide"),
        ("start_wider", "start of wide (now allowed: tool:a)"),
    }


@pytest.mark.parametrize("target", ["srt", "claude-code", "cilium", "cedar"])
def test_every_export_reports_that_it_says_nothing_of_them(file: Path, tmp_path: Path, target: str) -> None:
    said = run("compile", file, "dev", "--target", target, "-o", tmp_path / "out")
    assert "may_start/0" in said
    assert "unjudged" in said


def test_a_log_says_no_name_that_no_profile_could_have() -> None:
    compiled = profile("may_start: [reviewer]").compiled
    by = DecidedBy("s", compiled.digest, "dev")
    for name, shown in (("reviewer", "start:reviewer"), ("a\nb " * 9999, "start:?")):
        question = StartQuestion(name)
        line = json.loads(decision_line(by, question, answer(compiled, question), ts=1))
        assert (line["request"], line["plane"]) == (shown, "start")


def test_a_log_of_decisions_is_shown_and_converts_for_other_systems(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    line = {"agent": "dev", "decision": "allow", "reason": "allowed", "request": "start:reviewer", "ts": 1}
    log.write_text(json.dumps({**line, "plane": "start", "rules": ["may_start/0"]}) + "\n")
    event = json.loads(CliRunner().invoke(policy, ["decisions", str(log), "--format", "ocsf"]).output)
    assert (event["activity_name"], event["resources"][0]["name"]) == ("Start", "reviewer")
    assert "start:reviewer" in run("decisions", log, "--format", "otlp-json")
    assert "start:reviewer" in run("decisions", log, "--plane", "start")


def learned(tmp_path: Path, lines: list[dict[str, str]], *options: object) -> ProfileSet:
    log, draft = tmp_path / "decisions.jsonl", tmp_path / "draft.yaml"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    draft.unlink(missing_ok=True)
    run("learn", "--log", log, "-o", draft, *options)
    return load_profiles(draft.read_bytes())


def test_a_draft_starts_what_was_started_and_only_agents_that_it_has(tmp_path: Path) -> None:
    lines = [
        {"agent": "dev", "decision": "allow", "reason": "allowed", "request": "start:reviewer"},
        {"agent": "dev", "decision": "allow", "reason": "allowed", "request": "start:absent"},
        {"agent": "dev", "decision": "allow", "reason": "allowed", "request": "start:dev"},
        {"agent": "dev", "decision": "deny", "reason": "start_not_listed", "request": "start:tester"},
        {"agent": "reviewer", "decision": "allow", "reason": "allowed", "request": "tool:a"},
        {"agent": "tester", "decision": "deny", "reason": "start_not_listed", "request": "start:dev"},
    ]
    for options in ((), ("--include-denied",)):
        found = learned(tmp_path, lines, *options)
        assert found.profile("dev").policy.may_start == (StartGrant("reviewer"),)
        assert found.profile("tester").policy.may_start == ()
    assert "start:absent" in (tmp_path / "draft.yaml").read_text()


def test_a_draft_keeps_how_many_may_be_started(file: Path, tmp_path: Path) -> None:
    file.write_text(
        f"agent_configs: {{dev: {{may_start: [{{agent: reviewer, at_most: 3}}, tester, {{deny: x}}]}}, {OTHERS}}}"
    )
    lines = [
        {"agent": "dev", "decision": "allow", "reason": "allowed", "request": "start:reviewer"},
        {"agent": "reviewer", "decision": "allow", "reason": "allowed", "request": "model:m"},
    ]
    found = learned(tmp_path, lines, "--from", file)
    assert set(found.profile("dev").policy.may_start) == {StartGrant("reviewer", 3), StartDenial("x")}
