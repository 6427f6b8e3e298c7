"""Reads tests of profiles from a file of their own: ``tests: {AGENT: [TEST, ...]}``.

For those who may not change a profile and still say what it must allow and deny.

>>> found = read_external_tests(b"tests: {dev: [{deny: {tool: rm}}]}", source="t.yaml", agents=["dev"])
>>> found["dev"][0].request, str(found["dev"][0].mark)
('tool:rm', 't.yaml:1:28')
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from affiant.errors import ConfigurationError
from affiant.policy.canonical.errors import EmptyList, WrongType, did_you_mean, excerpt
from affiant.policy.canonical.strict_yaml import MapNode, compose
from affiant.policy.loading.inline_tests import PolicyTest, read_tests
from affiant.policy.normal_form import schema

__all__ = ["read_external_tests"]


def read_external_tests(
    data: bytes, *, source: str, agents: Collection[str]
) -> Mapping[str, tuple[PolicyTest, ...]]:
    """The tests of a file, by agent.

    Args:
        data: the file's bytes, at most 1 MiB of UTF-8.
        source: the name that places begin with.
        agents: those that have a profile; a test of another would never be tried.

    Raises:
        MalformedError, ConfigurationError: each with a code ``policy.*`` and ``where``; also where there is no test.
    """
    node = compose(data, source=source)
    if node is None:
        raise EmptyList("the file holds no test", where=f"{source}:1:1")
    top = schema.keys(node, what="a file of tests", known=("tests",))
    tests = schema.required(top, "tests", node, what="a file of tests")
    if not isinstance(tests, MapNode):
        raise WrongType("wrong type", expected="a mapping of agents to tests", where=str(tests.mark))
    found: dict[str, tuple[PolicyTest, ...]] = {}
    for member in tests.members:
        if member.key.text not in agents:
            raise ConfigurationError(
                f"no profile for the agent {excerpt(member.key.text)}",
                code="policy.unknown_agent",
                where=str(member.key.mark),
                hint=did_you_mean(member.key.text, agents),
            )
        found[member.key.text] = tuple(read_tests(member.value))
    if not any(found.values()):
        raise EmptyList("the file holds no test", where=str(tests.mark))
    return found
