"""Limits in the language: their one spelling, their normal form, floors, places."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.errors import AffiantError
from affiant.policy.canonical.errors import NormalFormRefused
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.limits import WINDOWS, Bound, EgressLimits, Limits, tightest
from affiant.policy.model.profile import EgressRule, ModelRule, SecretGrant, ToolRule

BOUNDS = st.builds(Bound, st.integers(1, 9), st.none() | st.sampled_from(list(WINDOWS.values())))


def profile(sections: str, floor: str | None = None) -> Profile:
    named = "" if floor is None else "floor: f.yaml\n"
    text = f"{named}agent_configs: {{dev: {{{sections}}}}}"
    return load_profiles(text.encode(), floor=None if floor is None else floor.encode()).profile("dev")


def refused(sections: str, floor: str | None = None) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        profile(sections, floor)
    return caught.value


def test_every_way_to_write_a_limit() -> None:
    limits = profile(
        "limits: {tool_calls: 500, requests: [5/s, 120/min, 1000], tokens: 2M/day, bytes_out: 50MiB, wall: 2h}"
    ).compiled.limits
    assert limits == Limits(
        tool_calls=(Bound(500),),
        requests=(Bound(5, 1), Bound(120, 60), Bound(1000)),
        tokens=(Bound(2_000_000, 86400),),
        bytes_out=(Bound(50 * 2**20),),
        wall=7200,
    )
    compiled = profile(
        "network_egress: [{host: a.b.com, limits: {requests: 60/min, bytes_out: [5MiB, 1KiB/s]}}],"
        " secrets_access: [{name: A, max_uses: 200}]"
    ).compiled
    assert compiled.egress_limits() == {
        "egress/0": EgressLimits((Bound(60, 60),), (Bound(1024, 1), Bound(5 * 2**20)))
    }
    assert compiled.secret_grants()[0].max_uses == 200
    assert profile("limits: {tokens: 200k}").compiled.limits.tokens == (Bound(200_000),)
    assert profile("tools: [{name: x, rate: 10/h}]").policy.tools == (ToolRule("x", rate=(Bound(10, 3600),)),)
    models = profile("models: [{name: m, max_tokens: 8k}, {name: n, max_tokens: 1}]").compiled.policy.models
    assert models == (ModelRule("n", max_tokens=1), ModelRule("m", max_tokens=8000))


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("0", "leave out the rule"),
        ("00", "leave out the rule"),
        ("0/min", "leave out the rule"),
        ("-1", None),
        ("+5", None),
        ("1.5", None),
        ("1e3", None),
        ("0x10", None),
        ("05", None),
        ("1_000", None),
        ("'500'", None),
        ("９", None),
        ("9999999999999999", None),
        ("10/minute", "Did you mean 'min'?"),
        ("10/m", "Did you mean 'min'?"),
        ("10/sec", "Did you mean 's'?"),
        ("10/hour", "Did you mean 'h'?"),
        ("10/d", "Did you mean 'day'?"),
        ("10/week", "Known: day, h, min, s"),
        ("10 /min", None),
        ("10/2min", None),
        ("5k", "A number here has no unit 'k'"),
        ("unlimited", None),
        ("true", None),
        ("", None),
        ("{most: 5}", None),
    ],
)
def test_anything_else_is_refused_at_its_place(value: str, hint: str | None) -> None:
    error = refused(f"limits: {{requests: {value}}}")
    assert error.code in {"policy.wrong_type", "policy.value"}
    assert error.where == "profiles.yaml:1:42" or value in {"", "{most: 5}"}
    assert (error.hint is None) == (hint is None)
    assert hint is None or (error.hint is not None and hint in error.hint)


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ("limits: {}", "policy.wrong_type"),
        ("limits: 5", "policy.wrong_type"),
        ("limits: {requests: []}", "policy.empty_list"),
        ("limits: {requests: [5/s, 6/s]}", "policy.conflict"),
        ("limits: {requests: [[5/s]]}", "policy.wrong_type"),
        ("limits: {request: 5}", "policy.unknown_key"),
        ("limits: {tokens: 2m}", "policy.wrong_type"),
        ("limits: {tokens: 2000000000M}", "policy.wrong_type"),
        ("limits: {tokens: 999999999999999}", None),
        ("limits: {wall: 2}", "policy.wrong_type"),
        ("limits: {wall: 2h/day}", "policy.wrong_type"),
        ("limits: {wall: 367day}", "policy.value"),
        ("limits: {bytes_out: 5}", "policy.wrong_type"),
        ("limits: {bytes_out: 5MB}", "policy.wrong_type"),
        ("network_egress: [{host: a.b.com, limits: {}}]", "policy.wrong_type"),
        ("network_egress: [{host: a.b.com, limits: {wall: 5h}}]", "policy.unknown_key"),
        ("network_egress: [{host: a.b.com, tls: passthrough, limits: {requests: 5}}]", "policy.conflict"),
        ("network_egress: [{host: a.b.com, tls: passthrough, limits: {bytes_out: 5KiB}}]", None),
        ("secrets_access: [{name: A, max_uses: 5/h}]", "policy.wrong_type"),
        ("secrets_access: [{name: A, max_uses: 0}]", "policy.wrong_type"),
        ("tools: [{name: x, rate: 10}]", "policy.wrong_type"),
        ("tools: [{name: x, rate: [10/s]}]", "policy.wrong_type"),
        ("models: [{name: m, max_tokens: 5/s}]", "policy.wrong_type"),
        ("models: [{name: m, max_tokens: 0}]", "policy.value"),
    ],
)
def test_limits_that_say_nothing_or_too_much_are_refused(sections: str, code: str | None) -> None:
    if code is None:
        profile(sections)
    else:
        assert refused(sections).code == code


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ([(5, 60), (9, 60)], [(5, 60)]),
        ([(5, 60), (9, 1)], [(5, 60)]),
        ([(5, 60), (5, None)], [(5, None)]),
        ([(5, 1), (9, 60), (100, None)], [(5, 1), (9, 60), (100, None)]),
    ],
)
def test_what_another_bound_implies_is_not_said(
    bounds: list[tuple[int, int | None]], expected: list[tuple[int, int | None]]
) -> None:
    assert tightest(Bound(*bound) for bound in bounds) == tuple(Bound(*bound) for bound in expected)


def test_what_a_rules_own_limits_imply_is_not_said_either() -> None:
    for name, bounds, plain in (
        ("requests", "[60/min, 100/s]", "60/min"),
        ("bytes_out", "[1KiB/h, 2KiB/s]", "1KiB/h"),
    ):
        written, short = (
            profile(f"network_egress: [{{host: a.b.com, limits: {{{name}: {each}}}}}]")
            for each in (bounds, plain)
        )
        assert written.digest == short.digest


@given(st.lists(BOUNDS, max_size=6))
def test_the_tightest_bounds_are_one_form_and_imply_all(bounds: list[Bound]) -> None:
    kept = tightest(bounds)
    assert tightest(reversed(bounds)) == tightest(kept) == kept
    assert all(any(bound.implies(other) for bound in kept) for other in bounds)
    assert not any(a.implies(b) for a in kept for b in kept if a != b)


def test_of_a_floors_limit_and_a_profiles_the_tighter_counts_and_enters_the_digest() -> None:
    floor = "limits: {requests: 60/min, tool_calls: 900, tokens: 1M}"
    merged = profile("limits: {requests: [120/min, 500/h], tool_calls: 500}", floor)
    limits = merged.compiled.limits
    assert limits.requests == (Bound(60, 60), Bound(500, 3600))
    assert limits.tool_calls == (Bound(500),)
    assert limits.tokens == (Bound(1_000_000),)
    assert merged.compiled.policy.floor is not None
    other = profile("limits: {requests: [120/min, 500/h], tool_calls: 500}", floor.replace("900", "901"))
    assert other.digest != merged.digest
    assert str(merged.places["limits/requests"]).startswith("profiles.yaml:2:")
    assert str(profile("", floor).places["limits/tokens"]) == "f.yaml:1:9"


@pytest.mark.parametrize(
    ("name", "tight", "loose"),
    [
        ("tool_calls", "5", "6"),
        ("requests", "5/min", "6/min"),
        ("tokens", "5k", "6k"),
        ("bytes_out", "5KiB/h", "6KiB/h"),
        ("wall", "5min", "1h"),
    ],
)
def test_whoever_writes_the_tighter_limit_it_is_the_one_that_counts(
    name: str, tight: str, loose: str
) -> None:
    alone = profile(f"limits: {{{name}: {tight}}}").compiled.limits
    for own, above in ((tight, loose), (loose, tight), (tight, tight)):
        merged = profile(f"limits: {{{name}: {own}}}", f"limits: {{{name}: {above}}}")
        assert merged.compiled.limits == alone
    for own, above in (
        ("", f"limits: {{{name}: {tight}}}"),
        (f"limits: {{{name}: {tight}}}", "tools: [{deny: x}]"),
    ):
        assert profile(own, above).compiled.limits == alone


def test_a_floor_may_hold_limits_alone_and_no_limit_of_a_rule() -> None:
    profile("", "limits: {tool_calls: 5}")
    assert refused("", "limits: {}").code == "policy.wrong_type"
    assert refused("", "tools: [{name: x, rate: 1/s}]").code == "policy.floor"


def test_a_profile_without_limits_has_the_digest_that_it_always_had() -> None:
    plain = profile("tools: [a], models: [m], secrets_access: [A], network_egress: 'allowed:a.b.com'")
    assert plain.digest.startswith("sha384:9467fc04d7a53162c03ced1cd2f4b4fa40c5c8662ad51803867ddd6e8075249e")
    form = json.loads(plain.normal_form)
    assert "limits" not in form
    assert "rate" not in form["tools"][0]


@pytest.mark.parametrize(
    "sections",
    [
        "limits: {tool_calls: 500, tokens: [2M/day, 300k/h], requests: 120/min}",
        "tools: [{name: x, rate: 10/min, args: {a: any}}, {name: x, rate: 9/min}]",
        "models: [{name: m, max_tokens: 4096, upstream: attested}, m]",
        "limits: {wall: 90s, bytes_out: [1KiB/s, 9MiB]}",
        "network_egress: [{host: a.b.com, limits: {requests: [1/s, 9]}}, 'allowed:a.b.com']",
        "network_egress: 'allowed:a.b.com', secrets_access: [{name: A, max_uses: 7}]",
    ],
)
def test_limits_survive_their_normal_form(sections: str) -> None:
    loaded = profile(sections)
    again = parse_normal_form(loaded.normal_form)
    assert again.digest == loaded.digest
    assert again.policy == loaded.compiled.policy


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b'"most":120', b'"most":0'),
        (b'"most":120', b'"most":true'),
        (b'"most":120', b'"most":1.5'),
        (b'"most":120', b'"most":9007199254740993'),
        (b'"per":60', b'"per":61'),
        (b'"per":60', b'"per":"60"'),
        (b'"limits":{', b'"limits":{"a":1,'),
        (b'[{"most":120,"per":60}]', b"[]"),
        (b'[{"most":120,"per":60}]', b'[{"most":120,"per":60},{"most":121,"per":60}]'),
        (b'{"requests":[{"most":120,"per":60}]}', b"{}"),
    ],
)
def test_another_form_of_limits_is_no_normal_form(part: bytes, other: bytes) -> None:
    form = profile("limits: {requests: 120/min}").normal_form
    assert part in form
    with pytest.raises(NormalFormRefused):
        parse_normal_form(form.replace(part, other))


def test_what_stands_for_the_uses_of_a_secret_is_never_shown() -> None:
    error = refused("secrets_access: [{name: A, max_uses: hunter2hunter2}]")
    assert "hunter2" not in f"{error} {error!r} {error.to_json()} {error.excerpt and error.excerpt.text}"


def test_the_longest_answer_is_that_of_the_loosest_rule_that_allows_the_model() -> None:
    compiled = profile(
        "models: [{name: m, max_tokens: 10}, {name: m, max_tokens: 99, upstream: attested}, n]"
    ).compiled
    assert compiled.max_tokens("m") == 10
    assert compiled.max_tokens("m", attested=True) == 99
    assert compiled.max_tokens("n") is None
    assert profile("models: [{name: m, max_tokens: 10}, m]").compiled.max_tokens("m") is None
    assert profile("").compiled.max_tokens("anything") is None


def test_values_that_no_reader_gives_are_refused_too() -> None:
    for make in (
        lambda: Limits(requests=(Bound(0),)),
        lambda: Limits(requests=(Bound(1, 7),)),
        lambda: Limits(tokens=(Bound(2**50 + 1),)),
        lambda: Limits(wall=0),
        lambda: EgressLimits(requests=(Bound(1),) * 17),
        lambda: ToolRule("x", rate=(Bound(-1, 60),)),
        lambda: ModelRule("m", max_tokens=0),
        lambda: SecretGrant("A", (), max_uses=0),
        lambda: EgressRule("a.b.com", limits=EgressLimits(bytes_out=(Bound(0),))),
    ):
        with pytest.raises(AffiantError, match=r"out of range|not a window|too many limits"):
            make()
