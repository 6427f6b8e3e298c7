"""``weight`` and ``priority``: read strictly, written only where they say something, compared in one direction."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from affiant.__main__ import cli
from affiant.errors import AffiantError
from affiant.policy.canonical.errors import NormalFormRefused, ValueRefused
from affiant.policy.decision.compiled import compile_policy, parse_normal_form
from affiant.policy.diff.differences import Direction, compare_compiled, compare_profiles
from affiant.policy.diff.restriction import (
    NotARestriction,
    compare_restriction,
    require_enforced,
    require_restriction,
)
from affiant.policy.loading.load import load_baseline, load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model import share as module
from affiant.policy.model.profile import Policy
from affiant.policy.model.share import NO_SHARE, PRIORITIES, Priority, Share

SHARES = st.builds(Share, st.integers(1, 100), st.sampled_from(PRIORITIES))


def profile(sections: str) -> Profile:
    return load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev")


def test_the_examples_hold() -> None:
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("weight", [1, 2, 100])
@pytest.mark.parametrize("priority", list(Priority))
def test_what_is_written_is_what_is_read(weight: int, priority: Priority) -> None:
    read = profile(f"weight: {weight}, priority: {priority}").compiled.share
    assert read == Share(weight, priority)
    assert profile(f"priority: {priority}, weight: {weight}").compiled.share == read


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ("weight: 0", "policy.value"),
        ("weight: 101", "policy.value"),
        ("weight: -1", "policy.wrong_type"),
        ("weight: 1.5", "policy.wrong_type"),
        ("weight: '2'", "policy.wrong_type"),
        ("weight: 02", "policy.wrong_type"),
        ("weight: ", "policy.wrong_type"),
        ("weight: [2]", "policy.wrong_type"),
        ("weight: {work: 2}", "policy.wrong_type"),
        ("priority: urgent", "policy.value"),
        ("priority: Batch", "policy.value"),
        ("priority: ", "policy.wrong_type"),
        ("priority: [batch]", "policy.wrong_type"),
        ("priority: 1", "policy.value"),
        ("Weight: 2", "policy.unknown_key"),
    ],
)
def test_anything_else_is_refused_at_its_place(sections: str, code: str) -> None:
    with pytest.raises(AffiantError) as caught:
        profile(sections)
    assert caught.value.code == code and caught.value.where is not None


def test_a_floor_has_no_share() -> None:
    for text in (b"weight: 2", b"priority: batch"):
        with pytest.raises(AffiantError) as caught:
            load_baseline(text, source="floor.yaml")
        assert caught.value.code == "policy.unknown_key"


def test_a_share_of_a_profile_stays_under_a_floor() -> None:
    text = b"floor: floor.yaml\nagent_configs: {dev: {tools: [a], weight: 7, priority: batch}}"
    read = load_profiles(text, floor=b"tools: [{deny: b}]").profile("dev")
    assert read.compiled.share == Share(7, Priority.BATCH)


# -- the normal form ---------------------------------------------------------------------------------------------------


def test_a_digest_is_what_it_was_where_nothing_is_written() -> None:
    assert profile("tools: [a]").digest == (
        "sha384:f6e8c465eb52b20ed866750ddf68b7a4f52dce139d6192ef2315abf4a9770c956879927a6904bdce8ca61d78f56f25c2"
    )
    assert profile("tools: [a], weight: 1, priority: normal").digest == profile("tools: [a]").digest


@given(SHARES)
def test_a_normal_form_is_read_back(share: Share) -> None:
    made = compile_policy(Policy(share=share))
    assert parse_normal_form(made.normal_form).share == share
    members = json.loads(made.normal_form)
    assert members.get("weight", 1) == share.weight
    assert members.get("priority", "normal") == share.priority
    assert (share == NO_SHARE) == (made.digest == compile_policy(Policy()).digest)


@pytest.mark.parametrize(
    "members",
    [
        {"weight": 1},
        {"priority": "normal"},
        {"weight": 0},
        {"weight": 101},
        {"weight": "2"},
        {"weight": 2.0},
        {"weight": None},
        {"weight": True},
        {"priority": "urgent"},
        {"priority": 1},
        {"priority": None},
        {"share": {"weight": 2}},
    ],
)
def test_another_normal_form_is_refused(members: dict[str, object]) -> None:
    plain = json.loads(compile_policy(Policy()).normal_form)
    form = json.dumps({**plain, **members}, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(NormalFormRefused):
        parse_normal_form(form)


def test_no_value_out_of_range_exists() -> None:
    for weight in (0, -1, 101):
        with pytest.raises(ValueRefused):
            Share(weight)


# -- compared ----------------------------------------------------------------------------------------------------------


@given(SHARES, SHARES)
def test_more_of_either_widens_and_less_of_either_narrows(old: Share, new: Share) -> None:
    found = compare_compiled("dev", *(compile_policy(Policy(share=each)) for each in (old, new)))
    told = {each.request: each.direction for each in found}
    assert {each.plane for each in found} <= {"share"}
    assert ("weight" in told) == (old.weight != new.weight)
    assert ("priority" in told) == (old.priority != new.priority)
    if old.weight != new.weight:
        assert (told["weight"] is Direction.WIDENS) == (new.weight > old.weight)
    if old.priority != new.priority:
        earlier = PRIORITIES.index(new.priority) < PRIORITIES.index(old.priority)
        assert (told["priority"] is Direction.WIDENS) == earlier
    assert new.includes(old) == all(direction is Direction.WIDENS for direction in told.values())


@given(SHARES, SHARES)
def test_only_less_of_both_is_a_narrowing(old: Share, new: Share) -> None:
    before, after = (compile_policy(Policy(share=each)) for each in (old, new))
    differences = compare_restriction(before, after)
    if old.includes(new):
        require_restriction(differences)
        require_enforced(before, after, differences)
    else:
        with pytest.raises(NotARestriction):
            require_restriction(differences)


def test_a_share_of_an_agent_that_is_new_or_gone_says_nothing() -> None:
    one = profile("weight: 3")
    assert "share" not in {each.plane for each in compare_profiles("dev", None, one)}
    assert "share" not in {each.plane for each in compare_profiles("dev", one, None)}


# -- told --------------------------------------------------------------------------------------------------------------

OLD = "agent_configs: {dev: {models: [m], weight: 2}, other: {models: [m]}}"
NEW = "agent_configs: {dev: {models: [m], weight: 5, priority: interactive}, other: {models: [m]}}"


def test_commands_tell_it(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(OLD)
    new.write_text(NEW)

    def told(*arguments: str) -> str:
        return CliRunner().invoke(cli, ["policy", *arguments]).output

    differences = told("diff", str(old), str(new))
    assert "+ 2 becomes 5: weight" in differences
    assert "+ normal becomes interactive: priority" in differences
    failed = CliRunner().invoke(cli, ["policy", "diff", str(old), str(new), "--fail-on", "widen"])
    assert failed.exit_code == 1
    words = "in the queue for an upstream: priority interactive, weight 5"
    assert words in told("explain", str(new), "dev", "model:m")
    assert words not in told("explain", str(new), "dev", "model:n")
    assert "in the queue" not in told("explain", str(new), "other", "model:m")
    assert words in told("can", str(new)) and told("can", str(new)).count("in the queue") == 1
    assert "priority interactive, weight 5" in told("can", str(new), "--markdown")
    assert "agent dev (priority interactive, weight 5)" in told("can", str(new), "--graph", "dot")
    shares = [each["share"] for each in json.loads(told("can", str(new), "--json"))["agents"]]
    assert shares == [
        {"priority": "interactive", "weight": 5},
        {"priority": "normal", "weight": 1},
    ]
    assert "in the queue for an upstream: priority interactive, weight 5" in told(
        "report", str(new), "-o", "-"
    )
    exported = told("compile", str(new), "dev", "--target", "cedar", "--json")
    assert "nobody waits in a queue: priority interactive, weight 5" in exported
