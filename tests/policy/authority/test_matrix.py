"""The table says of each agent what its policy decides, and marks exactly what differs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.policy.placed_profiles import profile
from tests.policy.review_page.conftest import made_review
from tests.policy.review_page.examples import NEW, OLD
from tests.properties import thorough

from affiant.policy.authority.authority import Authority, authority_of
from affiant.policy.authority.matrix import MEANINGS, Column, Row, rows_of
from affiant.policy.canonical.tool_origin import ANYWHERE
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.effective import effective_egress
from affiant.policy.diff.differences import Direction, compare_profiles
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import PathMode, Policy
from affiant.policy.review.changed_cells import AGENT, changed_cells

MANY = thorough(40)


def authority(policy: Policy, name: str = "dev") -> Authority:
    return authority_of(profile(policy, name))


@MANY
@given(policy=some.policies(), other=some.policies())
def test_every_cell_is_what_the_policy_decides(policy: Policy, other: Policy) -> None:
    """Rows of either agent; cells of the first."""
    mine = authority(policy)
    rows = rows_of([mine, authority(other, "other")])
    column, compiled = Column(mine), compile_policy(policy, asks=True)
    for row, reach in rows.items():
        letter = column.cell(row, reach).letter
        assert letter in ("", *MEANINGS)
        match row.plane:
            case "tool":
                effect = compiled.decide_tool(row.name, ANYWHERE).effect
                assert letter in {Effect.ALLOW: "AL", Effect.ASK: "LP", Effect.DENY: "N"}[effect]
            case "provider_tool":
                effect = compiled.decide_provider_tool(row.name).effect
                assert letter in {Effect.ALLOW: "A", Effect.DENY: "N"}[effect] or (
                    letter == "" and not any(rule.name == row.name for rule in policy.provider_tools)
                )
            case "start":
                effect = compiled.decide_start(row.name).effect
                assert letter in {Effect.ALLOW: "AL", Effect.ASK: "P", Effect.DENY: "N"}[effect] or (
                    letter == "" and not any(rule.agent == row.name for rule in policy.may_start)
                )
            case "port":
                first, _, last = row.name.partition("-")
                effects = [
                    compiled.decide_port(at).effect for at in range(int(first), int(last or first) + 1)
                ]
                letters = {(True, True): "A", (True, False): "L"}
                assert (
                    letter == letters[Effect.ALLOW in effects, {*effects} == {Effect.ALLOW}]
                    if Effect.ALLOW in effects
                    else letter in ("N", "")
                )
            case "path":
                read = compiled.decide_path(row.name, PathMode.READ).effect is Effect.ALLOW
                write = compiled.decide_path(row.name, PathMode.READ_WRITE).effect is Effect.ALLOW
                assert (letter in ("R", "W"), letter == "W") == (read, write)
            case "egress":
                assert reach is not None
                question = reach.sample(reach.requests[0])
                if effective_egress(compiled, question).effect is Effect.ALLOW:
                    has_own_row = any(
                        rule.host == question.host != reach.names.pattern for rule in policy.egress
                    )
                    assert letter in ("A", "L") or (letter == "" and has_own_row)
            case "secret":
                listed = any(grant.name == row.name for grant in policy.secrets)
                assert (letter in ("S", "P", "U")) == listed
            case _:
                named = row.name if " " not in row.name else "other"
                allowed = compiled.decide_model(named, attested=True).effect is Effect.ALLOW
                assert (letter != "") == allowed


@MANY
@given(old=some.policies(), new=some.policies())
def test_a_difference_marks_a_cell_and_no_difference_marks_none(old: Policy, new: Policy) -> None:
    before, after = profile(old), profile(new)
    sides = [authority_of(before), authority_of(after)]
    found = compare_profiles("dev", before, after)
    marked = changed_cells(found, rows_of(sides), {"dev": sides})
    assert bool(marked) == bool(found)
    assert {each.direction for each in found} == {
        each for directions in marked.values() for each in directions
    }


def test_the_marks_of_a_changed_file_stand_at_what_changed() -> None:
    review = made_review(NEW, OLD)
    assert review.old is not None
    agents = [*review.new.agents, *review.old.agents]
    sides = {name: [each for each in agents if each.agent == name] for name in ("triage", "deployer", "gone")}
    marked = changed_cells(review.differences, rows_of(agents), sides)
    wider, narrower = frozenset({Direction.WIDENS}), frozenset({Direction.NARROWS})
    assert marked["triage", Row("path", "/workspace/docs")] == wider
    assert marked["triage", Row("egress", "https://api.github.com:443")] == wider
    assert marked["triage", Row("tool", "label")] == wider
    assert marked["triage", Row("model", "big")] == wider
    assert marked["deployer", Row("tool", "apply")] == narrower
    assert marked["deployer", Row("tool", "publish")] == wider
    assert marked["deployer", Row("egress", "https://api.cloud.com:443")] == narrower
    assert marked["deployer", AGENT] == frozenset({Direction.CHANGES})
    assert marked["gone", AGENT] == narrower
    assert ("triage", Row("tool", "read_issue")) not in marked


@pytest.mark.parametrize(
    ("sections", "row", "letter", "words"),
    [
        ("tools: [x]", Row("tool", "x"), "A", ("yes",)),
        ("tools: [{name: x, args: {n: {max: 3}}}]", Row("tool", "x"), "L", ("yes with n: at most 3",)),
        ("tools: [{name: x, server: k8s}]", Row("tool", "x"), "L", ("yes of server k8s",)),
        ("tools: [{name: x, approval: true}]", Row("tool", "x"), "P", ("yes, after approval",)),
        ("tools: [x, {deny: x}]", Row("tool", "x"), "N", ("never",)),
        ("filesystem_access: [read:/w, none:/w/a]", Row("path", "/w/a"), "N", ("never",)),
        (
            "secrets_access: [K]",
            Row("secret", "K"),
            "U",
            (
                "in header authorization, as the whole credential (Bearer, Basic or token)",
                "granted, and usable nowhere",
                "the profile has no https host at which it may be used",
            ),
        ),
        (
            "models: [{name: m, upstream: attested}]",
            Row("model", "m"),
            "L",
            ("yes, at an attested upstream only",),
        ),
    ],
)
def test_a_cell_has_a_letter_and_the_words_for_it(profile_of, sections, row, letter, words) -> None:
    mine = authority_of(profile_of(sections))
    cell = Column(mine).cell(row, rows_of([mine])[row])
    assert (cell.letter, cell.words) == (letter, words)
    assert cell.rules


def test_an_unlimited_host_names_what_is_taken_from_it(profile_of) -> None:
    text = 'network_egress: [{host: "*.a.com"}, {deny: k.a.com}], requires_human_approval: {egress: [DELETE]}'
    mine = authority_of(profile_of(text))
    row = Row("egress", "https://*.a.com:443")
    cell = Column(mine).cell(row, rows_of([mine])[row])
    assert cell.letter == "L"
    said = "; ".join(cell.words)
    assert said.startswith("other than k.a.com; may do anything that this host's API allows")
    assert "DELETE any path, after approval" in said


@given(st.sampled_from(["tool", "path", "egress", "secret", "model"]))
def test_rows_of_a_plane_stand_together(plane: str) -> None:
    planes = [row.plane for row in rows_of(made_review(NEW).new.agents)]
    assert planes.count(plane) > 0
    first = planes.index(plane)
    assert planes[first : first + planes.count(plane)] == [plane] * planes.count(plane)


def test_a_path_above_a_carve_out_is_not_said_to_be_open_all_below() -> None:
    text = (
        b"agent_configs: {dev: {filesystem_access: ['read-write:/w', 'none:/w/a', 'none:/w/b/c', 'read:/v']}}"
    )
    column = Column(authority_of(load_profiles(text).profile("dev")))
    said = {path: column.cell(Row("path", path), None).words for path in ("/w", "/w/b", "/v")}
    assert said == {
        "/w": ("read-write, and all below but 2 paths",),
        "/w/b": ("read-write, and all below but 1 path",),
        "/v": ("read, and all below",),
    }
