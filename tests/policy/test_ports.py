"""Ports of the agent's own servers: none by default, allowed by number or range, one form for one meaning."""

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
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import parse_question, plane_of, question_text
from affiant.policy.diff.differences import Direction, compare_compiled, compare_profiles
from affiant.policy.diff.restriction import NotARestriction, compare_restriction, require_restriction
from affiant.policy.editor.rule_text import rule_text
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import PortDenial, PortGrant
from affiant.policy.testing.mutation import Fate, judge_mutant, planned_mutants
from affiant.policy.testing.trial import TriedProfile

FLOOR = b"ports: [{deny: 1-1023}]"


def profile(text: str, floor: bytes | None = None) -> Profile:
    head = "" if floor is None else "floor: floor.yaml\n"
    return load_profiles(f"{head}agent_configs: {{dev: {{{text}}}}}".encode(), floor=floor).profile("dev")


def error_of(text: str, floor: bytes | None = None) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        profile(text, floor)
    return caught.value


def test_a_profile_without_them_has_the_digest_that_it_had() -> None:
    plain = profile("tools: [read_file]")
    assert plain.digest == profile("tools: [read_file], ports: []").digest
    assert b"ports" not in plain.normal_form
    assert plain.digest.startswith("sha384:66f5a9247ac905b33be3ac16")


def test_a_port_that_is_not_listed_is_denied() -> None:
    for compiled in (profile("tools: []").compiled, profile("ports: [8080]").compiled):
        decision = compiled.decide_port(8081)
        assert (decision.effect, decision.reason, decision.rules) == (
            Effect.DENY,
            "server_port_not_listed",
            (),
        )


def test_a_port_is_allowed_by_its_number_or_a_range_with_both_ends() -> None:
    compiled = profile("ports: [8080, 8000-8010]").compiled
    allowed = [port for port in range(65537) if compiled.decide_port(port).allowed]
    assert allowed == [*range(8000, 8011), 8080]
    assert compiled.decide_port(8005).rules == ("ports/0",)


@pytest.mark.parametrize("number", [True, 1.0, "1", None, 0, -1, 65536, 2**70])
def test_what_is_no_port_is_denied_by_every_profile(number: object) -> None:
    assert profile("ports: [1-65535]").compiled.decide_port(number).reason == "server_port_not_listed"  # type: ignore[arg-type]


def test_a_host_that_egress_allows_opens_no_port_and_a_port_allows_no_host() -> None:
    one = profile("network_egress: 'allowed:api.example.com:8080'").compiled
    assert not one.decide_port(8080).allowed
    other = profile("ports: [443]").compiled
    assert not other.decide_egress(host="api.example.com", port=443, scheme="https").allowed


def test_a_denial_wins_also_that_of_a_baseline() -> None:
    own = profile("ports: [8000-8010, {deny: 8005}]").compiled
    assert [port for port in range(7999, 8012) if not own.decide_port(port).allowed] == [7999, 8005, 8011]
    assert own.decide_port(8005).reason == "server_port_denied"
    merged = profile("ports: [22, 1000-1100]", FLOOR).compiled
    assert merged.decide_port(22).reason == merged.decide_port(1023).reason == "server_port_denied"
    assert merged.decide_port(1024).allowed


def test_a_baseline_allows_none() -> None:
    assert error_of("tools: []", b"ports: [8080]").code == "policy.floor"
    assert error_of("tools: []", b"ports: [8000-8010]").code == "policy.floor"


def test_a_baseline_of_ports_alone_is_one() -> None:
    assert not profile("ports: [80, 443]", FLOOR).compiled.decide_port(80).allowed


def test_an_approval_of_everything_asks_nobody_about_the_owners_own_act() -> None:
    assert profile("ports: [8080], requires_human_approval: true").compiled.decide_port(8080).allowed


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "0",
            "65536",
            "99999",
            "-1",
            "+80",
            "080",
            "8e3",
            "8080.0",
            "0x50",
            "1_000",
            "true",
            "null",
            "''",
            "'8080'",
        ),
        *("8010-8000", "0-80", "80-65536", "8000-", "-8000", "8000--8010", "8000-8010-8020", "08000-8010"),
        *("'8000 - 8010'", "8000:8010", "'8000,8010'", "http", "'*'", "any", "٨٠٨٠", "８０８０"),
        *("[8080]", "{}", "{port: 8080}", "{deny: 8080, port: 8081}", "{deny: [8080]}", "{deny: true}"),
        *("{deny: 8010-8000}", "{deny: 0}", "{deny: 65536}", "{deny: }"),
    ],
)
def test_another_form_of_an_entry_does_not_load(entry: str) -> None:
    error = error_of(f"ports: [{entry}]")
    assert error.code.startswith("policy.")
    assert error.where is not None
    assert error.where.startswith("profiles.yaml:1:")


@pytest.mark.parametrize("value", ["8080", "8000-8010", "{8080: true}", "true", ""])
def test_ports_are_a_list(value: str) -> None:
    assert error_of(f"ports: {value}").code == "policy.wrong_type"


def test_a_list_of_more_than_1024_entries_does_not_load() -> None:
    profile(f"ports: [{', '.join(str(port) for port in range(1, 2049, 2))}]")
    listed = ", ".join(str(port) for port in range(1, 2051, 2))
    assert error_of(f"ports: [{listed}]").code == "policy.value"
    assert error_of(f"ports: [{', '.join(['8080'] * 1025)}]").code == "policy.value"


@pytest.mark.parametrize("kind", [PortGrant, PortDenial])
@pytest.mark.parametrize(
    "ends", [(True, 1), (1, True), (1.0, 2), ("1", 2), (None, 2), (0, 1), (2, 1), (1, 65536)]
)
def test_no_value_of_a_range_exists_that_is_none(kind: type, ends: tuple[int, int]) -> None:
    with pytest.raises(AffiantError):
        kind(*ends)


# -- one form for one meaning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        "8000-8010",
        "8010, 8000-8009",
        "8000-8005, 8003-8010, 8004",
        "8000-8010, 8000-8010, 8000, 8010",
        "8000-8000, 8001-8010",
        ", ".join(str(port) for port in range(8010, 7999, -1)),
    ],
)
def test_the_same_ports_have_one_digest_however_they_are_written(written: str) -> None:
    assert profile(f"ports: [{written}]").digest == profile("ports: [8000-8010]").digest


def test_denials_are_joined_among_themselves_and_take_nothing_out_of_what_is_allowed() -> None:
    one = profile("ports: [1-10, {deny: 3-5}, {deny: 6}, 11]")
    assert json.loads(one.normal_form)["ports"] == [
        {"effect": "allow", "first": 1, "last": 11},
        {"effect": "deny", "first": 3, "last": 6},
    ]


def test_the_normal_form_reads_back_as_it_was() -> None:
    form = profile("ports: [9000, 8000-8010, 8005-8020, {deny: 8003}]").normal_form
    assert parse_normal_form(form).normal_form == form


def test_a_joined_range_names_the_first_of_its_parts_in_the_file() -> None:
    one = profile("ports: [9000, 8005-8020, 8000-8010]")
    assert one.compiled.decide_port(8000).rules == ("ports/0",)
    assert one.where("ports/0") == "profiles.yaml:1:37"
    assert one.where("ports/1") == "profiles.yaml:1:31"
    inside = profile("ports: [8005, 8000-8010]")
    assert inside.where("ports/0") == "profiles.yaml:1:31"


@pytest.mark.parametrize("entry", ["{}", "{{deny: {}}}"])
def test_each_of_many_joined_ranges_has_the_place_of_its_own_first_part(entry: str) -> None:
    starts = [*range(3 * 511 + 1, 0, -3)]
    parts = (f"{entry.format(port + 1)}, {entry.format(port)}" for port in starts)
    text = f"ports: [ {', '.join(parts)}]"
    one = profile(text)
    assert len(one.policy.ports) == len(starts) == 512
    for position, rule in enumerate(one.policy.ports):
        assert rule.last == rule.first + 1
        column = len("agent_configs: {dev: {") + text.index(f" {entry.format(rule.last)}, ") + 2
        assert one.where(f"ports/{position}") == f"profiles.yaml:1:{column}"


def test_a_floor_that_is_merged_again_changes_nothing() -> None:
    merged = profile("ports: [8080, {deny: 1024}]", FLOOR)
    assert json.loads(merged.normal_form)["ports"][1] == {"effect": "deny", "first": 1, "last": 1024}
    again = merged.policy.merged(merged.policy, str(merged.policy.floor))
    assert parse_normal_form(merged.normal_form).policy.ports == merged.policy.ports
    assert set(again.ports) == set(merged.policy.ports)


# -- what a reviewer sees ----------------------------------------------------------------------------------------------


def test_adding_one_is_wider_and_taking_it_out_narrower() -> None:
    old, new = profile("tools: []"), profile("ports: [8080, 8000-8010]")
    found = compare_profiles("dev", old, new)
    assert [(each.plane, each.direction, each.request) for each in found] == [
        ("port", Direction.WIDENS, "port:8000-8010"),
        ("port", Direction.WIDENS, "port:8080"),
    ]
    assert {each.direction for each in compare_profiles("dev", new, old)} == {Direction.NARROWS}


def test_only_the_ports_that_differ_are_named() -> None:
    found = compare_profiles(
        "dev", profile("ports: [8000-8010]"), profile("ports: [8003-8012, {deny: 8005}]")
    )
    assert [(each.request, each.direction.value) for each in found] == [
        ("port:8000-8002", "narrows"),
        ("port:8005", "narrows"),
        ("port:8011-8012", "widens"),
    ]


def test_the_last_port_of_all_is_compared() -> None:
    found = compare_profiles("dev", profile("ports: [65534]"), profile("ports: [65534-65535]"))
    assert [each.request for each in found] == ["port:65535"]


def test_a_running_session_can_lose_ports_and_gain_none() -> None:
    wide, narrow = profile("ports: [8000-8010]").compiled, profile("ports: [8000-8009]").compiled
    require_restriction(compare_restriction(wide, narrow))
    with pytest.raises(NotARestriction):
        require_restriction(compare_restriction(narrow, wide))


def test_a_thousand_ranges_are_compared_within_the_bound_of_a_restriction() -> None:
    many = [profile(f"ports: [{', '.join(map(str, range(first, 4000, 3)[:1024]))}]") for first in (1, 2)]
    found = compare_compiled("dev", many[0].compiled, many[1].compiled, most=5000)
    assert {each.direction for each in found} == {Direction.WIDENS, Direction.NARROWS}


def test_can_lists_them_after_denials_and_says_who_reaches_what() -> None:
    one = authority_of(profile("ports: [8000-8010, {deny: 8005}, 9000]"))
    lines = " ".join("\n".join(authority_lines([one])).split())
    for name in ("8000-8004: yes", "8005: never", "8006-8010: yes", "9000: yes"):
        assert name in lines
    assert "the session's owner may reach the agent's server there" in lines
    assert "ports" not in "\n".join(authority_lines([authority_of(profile("tools: []"))]))


def test_a_table_says_of_each_agent_which_of_the_ports_it_has() -> None:
    profiles = load_profiles(
        b"agent_configs: {a: {ports: [8000-8010]}, b: {ports: [8003-8004]}, c: {ports: [{deny: 8000-8010}]}}"
    )
    table = authority_markdown([authority_of(each) for each in profiles.profiles.values()], profiles=profiles)
    row = next(line for line in table.splitlines() if line.startswith("| 8000-8010"))
    _, _, first, second, third, _ = row.split("|")
    assert "yes:" in first
    assert "8003-8004:" in second
    assert "never" in third


def test_the_document_of_can_lists_them() -> None:
    profiles = load_profiles(b"agent_configs: {dev: {ports: [8000-8010, {deny: 8010}]}}")
    document = authority_document(
        [authority_of(each) for each in profiles.profiles.values()], profiles=profiles
    )
    (agent,) = json.loads(json.dumps(document))["agents"]
    assert [(each["first"], each["last"], each["effect"], each["sample"]) for each in agent["ports"]] == [
        (8000, 8009, "allow", "port:8000"),
        (8010, 8010, "deny", None),
    ]


def test_graphs_have_a_node_for_what_may_be_reached() -> None:
    one = authority_of(profile("ports: [8080, 22, {deny: 22}]"))
    for graph in (authority_dot([one]), authority_mermaid([one])):
        assert "port 8080" in graph
        assert "port 22" not in graph


def run(*arguments: object) -> str:
    result = CliRunner().invoke(policy, [str(each) for each in arguments])
    assert result.exit_code in (0, 1), result.output
    return " ".join((result.output + result.stderr).split())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "profiles.yaml"
    path.write_text("agent_configs: {dev: {ports: [8080, 8000-8010]}, other: {}}")
    return path


def test_who_can_and_explain_answer_about_a_port(file: Path) -> None:
    assert "1 of 2 agents may: port:8005" in run("who-can", file, "port:8005")
    assert "server_port_not_listed" in run("explain", file, "dev", "port:8011")
    assert "ports/0" in run("explain", file, "dev", "port:8000")


@pytest.mark.parametrize(
    "request_", ["port:0", "port:65536", "port:08080", "port:8000-8010", "port:x", "port:-1"]
)
def test_a_request_that_names_no_port_is_rejected(file: Path, request_: str) -> None:
    assert CliRunner().invoke(policy, ["explain", str(file), "dev", request_]).exit_code == 1
    with pytest.raises(AffiantError):
        parse_question(request_)


def test_a_request_is_read_as_it_is_written() -> None:
    question = parse_question("port:8080")
    assert (plane_of(question), question_text(question)) == ("port", "port:8080")


def test_the_review_page_and_its_picture_show_them(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("report", file, "-o", page)
    text = page.read_text()
    assert "may reach its servers at port" in text
    assert "8000-8010" in text


def test_the_review_page_marks_a_port_that_is_new(file: Path, tmp_path: Path) -> None:
    page, before = tmp_path / "page.html", tmp_path / "before.yaml"
    before.write_text("agent_configs: {dev: {ports: [8080]}, other: {}}")
    run("report", file, "--against", before, "-o", page)
    assert "port:8000-8010" in page.read_text()


def test_a_rule_is_shown_as_it_would_be_written() -> None:
    rules = profile("ports: [8080, 8000-8010, {deny: 8003}, {deny: 8005-8006}]").policy.ports
    assert [rule_text(rule) for rule in rules] == ["8000-8010", "8080", "{deny: 8003}", "{deny: 8005-8006}"]


def test_tests_of_a_profile_ask_for_them() -> None:
    profile("ports: [8080], tests: [{allow: {port: 8080}}, {deny: {port: 8081}}]")
    assert error_of("tests: [{allow: {port: 8080}}]").code == "policy.test_failed"
    assert error_of("tests: [{allow: {port: 0}}]").code == "policy.request"


def test_a_slip_in_a_rule_is_noticed_or_the_missing_test_is_shown() -> None:
    one = load_profiles(b"agent_configs: {dev: {ports: [8000-8010, {deny: 8005}]}}").profile("dev")
    tried = TriedProfile(one, one.compiled, ())
    judged = [judge_mutant(tried, mutant) for mutant in planned_mutants(tried)]
    found = [(each.change, each.fate, each.missing_test) for each in judged if each is not None]
    assert found == [
        ("dropped", Fate.UNNOTICED, '{allow: {port: "8000"}}'),
        ("any port", Fate.UNNOTICED, '{deny: {port: "1"}}'),
        ("dropped", Fate.UNNOTICED, '{deny: {port: "8005"}}'),
    ]


@pytest.mark.parametrize("target", ["srt", "claude-code", "cilium", "cedar"])
def test_every_export_reports_that_it_says_nothing_of_them(file: Path, tmp_path: Path, target: str) -> None:
    said = run("compile", file, "dev", "--target", target, "-o", tmp_path / "out")
    assert "ports/0" in said
    assert "unjudged" in said


def test_a_draft_has_the_ports_that_were_used_and_no_others(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    lines = [
        {
            "agent": "dev",
            "decision": "allow",
            "reason": "allowed",
            "request": "port:8005",
            "rules": ["ports/0"],
        },
        {"agent": "dev", "decision": "deny", "reason": "server_port_not_listed", "request": "port:9999"},
    ]
    log.write_text("".join(json.dumps({**line, "plane": "port"}) + "\n" for line in lines))
    draft = tmp_path / "draft.yaml"
    run("learn", "--log", log, "-o", draft)
    learned = load_profiles(draft.read_bytes()).profile("dev")
    assert learned.policy.ports == (PortGrant(8005, 8005),)
    log.write_text(
        json.dumps({"agent": "dev", "decision": "allow", "reason": "allowed", "request": "tool:a"}) + "\n"
    )
    draft.unlink()
    run("learn", "--log", log, "-o", draft)
    assert "ports" not in draft.read_text()


def test_a_log_of_decisions_converts_for_other_systems(tmp_path: Path) -> None:
    log = tmp_path / "decisions.jsonl"
    line = {"agent": "dev", "decision": "allow", "reason": "allowed", "request": "port:8080", "plane": "port"}
    log.write_text(json.dumps({**line, "ts": 1700000000}) + "\n")
    event = CliRunner().invoke(policy, ["decisions", str(log), "--format", "ocsf"])
    assert json.loads(event.output)["dst_endpoint"]["port"] == 8080
    assert (
        "server.port" in CliRunner().invoke(policy, ["decisions", str(log), "--format", "otlp-json"]).output
    )
    assert "port:8080" in run("decisions", log, "--plane", "port")
