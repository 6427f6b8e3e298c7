"""Reads the tests that a profile carries, and checks them whenever it is loaded.

Each is ``{allow: REQUEST}``, ``{ask: REQUEST}`` or ``{deny: REQUEST}``; a request is one of ``tool``,
``provider_tool``, ``model``, ``attested_model``, ``read``, ``write``, ``secret``, ``egress``, ``port`` and
``start``; beside ``tool`` may stand ``args``. A request that only waits for a person's approval counts as allowed;
``ask`` wants exactly that it waits. The tests are no part of the meaning, and so of no digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from affiant.errors import ConfigurationError
from affiant.policy.canonical.errors import WrongType, excerpt, located
from affiant.policy.canonical.strict_yaml import MapNode, Mark, Node
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import ModelQuestion, Question, answer, parse_question, question_text
from affiant.policy.normal_form import schema
from affiant.policy.normal_form.argument_reading import json_text

__all__ = ["PolicyTest", "check_tests", "effect_of", "read_tests"]

_WANTED: Final = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
_KINDS: Final = (
    *("tool", "provider_tool", "model", "attested_model", "read", "write", "egress", "secret"),
    *("port", "start"),
)


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """One test as it was written; ``attested``: its model is called at an upstream that was verified."""

    wanted: Effect
    question: Question
    attested: bool
    mark: Mark

    @property
    def request(self) -> str:
        """The request as reports name it."""
        return question_text(self.question) + (" at an attested upstream" if self.attested else "")

    def decide(self, policy: CompiledPolicy) -> Decision:
        """What ``policy`` says."""
        if self.attested and isinstance(self.question, ModelQuestion):
            return policy.decide_model(self.question.name, attested=True)
        return answer(policy, self.question)

    def accepts(self, decision: Decision) -> bool:
        """Whether ``decision`` is what the test wants."""
        found = effect_of(decision)
        return found is self.wanted or (self.wanted is Effect.ALLOW and found is Effect.ASK)


def effect_of(decision: Decision) -> Effect:
    """*Ask* also without an approver: the rules allow it, and a person would have to approve it."""
    return Effect.ASK if decision.reason == "approval_no_approver" else decision.effect


def check_tests(agent: str, node: Node, compiled: CompiledPolicy) -> None:
    """Hold each test of the list ``node`` against the policy of ``agent``.

    Raises:
        ``policy.test_failed``: one does not hold.
    """
    for test in read_tests(node):
        decision = test.decide(compiled)
        if not test.accepts(decision):
            raise ConfigurationError(
                f"the test of {agent} wants {test.wanted.value} for {excerpt(test.request)}",
                code="policy.test_failed",
                found=f"{decision.effect.value}, {decision.reason}",
                where=str(test.mark),
                hint="'affiant policy test' shows every test that does not hold",
            )


def read_tests(node: Node) -> Iterator[PolicyTest]:
    """The tests of a list, each with the place of its request.

    Raises:
        WrongType, RequestRefused, ``policy.unknown_key``: one is no test.
    """
    for item in schema.items(node, what="'tests'"):
        wanted, request = _only(item, tuple(_WANTED), "a test")
        text, kind, value = _request(request)
        with located(value.mark):
            question = parse_question(text)
        yield PolicyTest(_WANTED[wanted], question, kind == "attested_model", value.mark)


def _request(node: Node) -> tuple[str, str, Node]:
    """The request's text, its kind, and the node to whose place an error points."""
    found = schema.keys(node, what="a test's request")
    if "args" in found and "tool" in found and len(found) == 2:
        name = schema.text(found["tool"], what="'tool'")
        if not isinstance(found["args"], MapNode):
            raise WrongType("wrong type", expected="a mapping for 'args'", where=str(found["args"].mark))
        return f"tool:{name} {json_text(found['args'])}", "tool", found["tool"]
    kind, value = _only(node, _KINDS, "a test's request")
    text = schema.text(value, what=f"'{kind}'")
    word = "model" if kind == "attested_model" else kind
    return (text if kind == "egress" else f"{word}:{text}"), kind, value


def _only(node: Node, known: tuple[str, ...], what: str) -> tuple[str, Node]:
    found = schema.keys(node, what=what, known=known)
    if len(found) != 1:
        place = schema.key_mark(node, "".join([*found][1:2]))
        raise WrongType(f"{what} has exactly one key", expected=" or ".join(known), where=str(place))
    return next(iter(found.items()))
