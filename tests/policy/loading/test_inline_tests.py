"""The tests of a profile: what each kind wants, and what a refusal says of one that does not hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from affiant.errors import AffiantError
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile

SECTIONS = (
    "tools: [free, {name: asked, approval: true}, {deny: gone}],"
    "models: [{name: big, upstream: attested}, small], filesystem_access: 'read:/w'"
)
Make = Callable[..., Profile]


@pytest.mark.parametrize(
    "test",
    [
        "{allow: {tool: free}}",
        "{allow: {tool: asked}}",
        "{ask: {tool: asked}}",
        "{deny: {tool: gone}}",
        "{deny: {model: big}}",
        "{allow: {attested_model: big}}",
        "{allow: {model: small}}",
        "{allow: {attested_model: small}}",
        "{deny: {attested_model: other}}",
    ],
)
def test_what_holds_loads(profile_of: Make, test: str) -> None:
    assert profile_of(f"{SECTIONS}, tests: [{test}]").name == "dev"


@pytest.mark.parametrize(
    "test",
    [
        "{ask: {tool: free}}",
        "{ask: {tool: gone}}",
        "{ask: {tool: other}}",
        "{deny: {tool: asked}}",
        "{allow: {model: big}}",
        "{deny: {attested_model: big}}",
        "{allow: {write: /w}}",
    ],
)
def test_what_does_not_hold_refuses_the_file(profile_of: Make, test: str) -> None:
    with pytest.raises(AffiantError, match="the test of dev wants") as caught:
        profile_of(f"{SECTIONS}, tests: [{test}]")
    assert caught.value.code == "policy.test_failed"


@pytest.mark.parametrize(
    ("test", "code"),
    [
        ("{permit: {tool: free}}", "policy.unknown_key"),
        ("{allow: {tol: free}}", "policy.unknown_key"),
        ("{allow: {tool: free, model: small}}", "policy.wrong_type"),
        ("{allow: {tool: free}, deny: {tool: gone}}", "policy.wrong_type"),
        ("{allow: {tool: }}", "policy.wrong_type"),
        ("{allow: {egress: not-a-request}}", "policy.request"),
        ("{allow: {secret: KEY}}", "policy.request"),
    ],
)
def test_what_is_no_test_refuses_the_file(profile_of: Make, test: str, code: str) -> None:
    with pytest.raises(AffiantError) as caught:
        profile_of(f"{SECTIONS}, tests: [{test}]")
    assert caught.value.code == code
    assert str(caught.value.where).startswith("profiles.yaml:1:")


def test_whoever_looks_may_take_the_tests_instead_of_holding_them() -> None:
    data = b"agent_configs: {dev: {tools: [a], tests: [{deny: {tool: a}}]}, other: {tools: [a]}}"
    seen = []
    profiles = load_profiles(data, hold_tests=lambda agent, node, _: seen.append((agent, str(node.mark))))
    assert seen == [("dev", "profiles.yaml:1:42")]
    assert sorted(profiles.profiles) == ["dev", "other"]
