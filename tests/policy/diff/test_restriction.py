"""A running session's profile is replaced by a narrower one only; what cannot be compared is not narrower."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.policy.diff.test_differences import profile
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.policy.canonical.errors import ComparisonTooLarge
from affiant.policy.commands import policy
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy, parse_normal_form
from affiant.policy.diff.differences import compare_compiled, compare_profiles
from affiant.policy.diff.restriction import (
    NotARestriction,
    compare_restriction,
    first_wider,
    require_enforced,
    require_restriction,
    restriction_digest,
    restriction_document,
)
from affiant.policy.loading.load import load_profiles

HOST = (
    "network_egress: [{host: api.example.com, methods: [GET, POST]}, {host: b.example.com, methods: [GET]}]"
)
BASE = f"""
tools: [read_logs, run_tests]
filesystem_access: read-write:/workspace
{HOST}
secrets_access: [{{name: TOKEN, hosts: [api.example.com]}}]
limits: {{requests: 60/min}}
"""


def loaded(text: str) -> CompiledPolicy:
    lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
    return load_profiles(f"agent_configs:\n  dev:\n{lines}".encode()).profile("dev").compiled


def judged(old: str, new: str) -> None:
    before, after = loaded(old), loaded(new)
    found = compare_restriction(before, after)
    require_restriction(found)
    require_enforced(before, after, found)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("[GET, POST]", "[GET]"),
        (", {host: b.example.com, methods: [GET]}", ""),
        ("[read_logs, run_tests]", "[read_logs]"),
        ("60/min", "30/min"),
        ("secrets_access: [{name: TOKEN, hosts: [api.example.com]}]", "secrets_access: []"),
        ("limits:", "models: [small]\nlimits:"),
        ("limits:", "requires_human_approval: true\nlimits:"),
    ],
)
def test_what_allows_less_is_narrower_and_the_way_back_is_not(was: str, now: str) -> None:
    assert was in BASE
    judged(BASE, BASE.replace(was, now))
    with pytest.raises(NotARestriction) as refused:
        judged(BASE.replace(was, now), BASE)
    assert refused.value.code == "policy.not_narrower"
    assert refused.value.found  # a witness


def test_less_here_does_not_pay_for_more_there() -> None:
    mixed = BASE.replace("[read_logs, run_tests]", "[read_logs, deploy]")
    with pytest.raises(NotARestriction, match="deploy"):
        judged(BASE, mixed)


def test_what_cannot_be_ordered_is_not_narrower() -> None:
    with pytest.raises(NotARestriction, match="reference of TOKEN"):
        judged(BASE, BASE.replace("name: TOKEN,", "name: TOKEN, ref: 'local:OTHER',"))


@pytest.mark.parametrize(
    ("new", "named"),
    [
        (BASE.replace("read-write:", "read:"), "filesystem_access"),
        (BASE.replace("filesystem_access: read-write:/workspace", ""), "filesystem_access"),
    ],
)
def test_what_the_sandbox_was_made_with_stays(new: str, named: str) -> None:
    with raises_code("policy.narrow_unenforced") as refused:
        judged(BASE, new)
    assert (refused.value.code, refused.value.found) == ("policy.narrow_unenforced", named)


def test_a_smaller_machine_is_not_made_of_one_that_runs() -> None:
    large, small = (BASE + f"resources: {{memory: {size}GiB}}" for size in (2, 1))
    with raises_code("policy.narrow_unenforced", match="resources"):
        judged(large, small)


def test_too_many_requests_to_compare_are_refused_and_never_called_narrower(monkeypatch) -> None:
    monkeypatch.setattr("affiant.policy.diff.restriction.MOST_REQUESTS", 10)
    with pytest.raises(NotARestriction, match="too many"):
        judged(BASE, BASE.replace("[GET, POST]", "[GET]"))
    assert compare_restriction(loaded(BASE), loaded(BASE)) == ()  # nothing has to be asked


def test_a_profile_that_would_take_hours_is_refused_at_once(monkeypatch) -> None:
    monkeypatch.setattr("affiant.policy.diff.restriction.MOST_REQUESTS", 2_000)
    rules = "".join(f"  - {{host: h.example.com, port: {at}, paths: [/p{at}/**]}}\n" for at in range(1, 400))
    with pytest.raises(NotARestriction, match="too many"):
        judged(f"network_egress:\n{rules}", "network_egress: denied")


@thorough(20)
@given(pair=st.tuples(some.policies(), some.policies()))
def test_without_places_two_profiles_differ_in_the_same(pair) -> None:
    old, new = (compile_policy(each) for each in pair)
    with_places = compare_profiles("dev", *(profile(each) for each in pair))
    bare = compare_compiled("dev", old, new)
    members = ("plane", "direction", "request", "others", "secrets")
    assert [[getattr(each, name) for name in members] for each in bare] == [
        [getattr(each, name) for name in members] for each in with_places
    ]
    assert (first_wider(bare) is None) == (not any(each.direction.is_wider for each in bare))
    forms = [parse_normal_form(each.normal_form) for each in (old, new)]
    again = compare_compiled("another name", *forms)
    documents = [restriction_document(each, old=old.digest, new=new.digest) for each in (bare, again)]
    assert canonical(documents[0]) == canonical(documents[1])  # whoever has both normal forms writes the same


def test_the_bound_says_so_for_whoever_sets_one() -> None:
    with pytest.raises(ComparisonTooLarge):
        compare_compiled("dev", loaded(BASE), loaded("tools: []"), most=3)


def test_a_reviewer_computes_the_digest_that_a_record_has(tmp_path) -> None:
    old, new = loaded(BASE), loaded(BASE.replace("[GET, POST]", "[GET]"))
    places = [tmp_path / "old.json", tmp_path / "new.json"]
    for place, each in zip(places, (old, new), strict=True):
        place.write_bytes(each.normal_form)
    given_files = ["diff", "--normal-forms", *map(str, places)]
    done = CliRunner().invoke(policy, [*given_files, "--fail-on", "widen"])
    document = restriction_document(compare_restriction(old, new), old=old.digest, new=new.digest)
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == f"dif {restriction_digest(document)}"
    assert "no longer allowed: POST" in done.output
    as_json = CliRunner().invoke(policy, [*given_files, "--json"])
    assert json.loads(as_json.output) == document
    widened = ["diff", "--normal-forms", *map(str, reversed(places)), "--fail-on", "widen"]
    assert CliRunner().invoke(policy, widened).exit_code == 1
    assert CliRunner().invoke(policy, [*given_files, "--markdown"]).exit_code == 2
