"""All mistakes of a file: the one that refuses it among them, and none where it loads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.loading.all_errors import MOST_REFUSALS, every_refusal
from affiant.policy.loading.load import load_profiles

SECTIONS = st.lists(
    st.sampled_from(
        [
            "tools: [a, b c, {nam: x}, {deny: a}]",
            "tools: [a]",
            "tolos: [ZQ7zq]",
            "filesystem_access: ['read:/a', 'read:b']",
            "filesystem_access: 'read:/a'",
            "network_egress: [{host: a.b.com, port: x}, denied]",
            "network_egress: [{host: a.b.com, tls: passthrough}]",
            "secrets_access: [A, 'ZQ7zq!', {name: B, hosts: ['ZQ7zq!']}, {name: C, 'ZQ7zq!': x}]",
            "secrets_access: [{name: A, hosts: [a.b.com], shape: 'ZQ7zq'}]",
            "secrets_access: [{name: A, hosts: [a.b.com]}]",
            "requires_human_approval: {tools: [zz]}",
            "requires_human_approval: yes",
            "models: []",
            "resources: {cpus: 0}",
            "tests: [{deny: {tool: a}}]",
            "tests: [{allow: {secret: 'ZQ7zq!'}}]",
            "weight: 0",
            "priority: [batch]",
            "nice: ZQ7zq",
        ]
    ),
    unique_by=lambda section: section.partition(":")[0],
    max_size=5,
)
FILES = st.lists(SECTIONS, min_size=1, max_size=4).map(
    lambda agents: (
        "agent_configs:\n"
        + "".join(f"  agent{n}: {{{', '.join(sections)}}}\n" for n, sections in enumerate(agents))
    )
)
FLOORS = st.none() | st.sampled_from([b"tools: [{deny: a}]", b"tools: [a]", b"[", b""])


@thorough(150)
@given(FILES, FLOORS)
def test_a_file_loads_exactly_if_there_is_no_refusal(text: str, floor: bytes | None) -> None:
    found = every_refusal(text.encode(), source="p.yaml", floor=floor)
    try:
        load_profiles(text.encode(), source="p.yaml", floor=floor)
    except AffiantError as error:
        assert (error.code, error.where) in {(each.code, each.where) for each in found}
    else:
        assert found == ()
    assert len({(each.code, each.where) for each in found}) == len(found) <= MOST_REFUSALS
    for each in found:
        assert each.excerpt is not None
        told = f"{each} {each!r} {each.to_json()} {each.excerpt.text}"
        assert "ZQ7zq" not in told


@pytest.mark.parametrize(
    "text", ["- a", "agent_configs: [", "agent_configs: []", "version: 2\nagent_configs: {b b: 1}"]
)
def test_a_file_that_is_no_file_of_profiles_has_one(text: str) -> None:
    assert len(every_refusal(text.encode(), source="p.yaml")) == 1


def test_a_profile_with_a_mistake_is_not_held_together() -> None:
    """What follows from another mistake is not told: here the tool that approval names, and the test."""
    text = "agent_configs: {dev: {tools: [a b], requires_human_approval: {tools: [a]}, tests: [{allow: {tool: a}}]}}"
    (found,) = every_refusal(text.encode(), source="p.yaml")
    assert found.code == "policy.name"
