"""The tests that a profile carries, held against it whenever it is loaded.

Each is ``{allow: REQUEST}`` or ``{deny: REQUEST}``; a request is one of ``tool``, ``model``, ``read``,
``write``, ``secret`` and ``egress``. A request that only waits for a person's approval counts as allowed. The
tests are no part of the meaning, and so of no digest.
"""

from __future__ import annotations

from typing import Final

from affiant.policy import schema
from affiant.policy.compiled import CompiledPolicy
from affiant.policy.questions import answer, parse_question
from affiant.policy.refusals import PolicyTestFailed, WrongType, excerpt, located
from affiant.policy.strict_yaml import Node

__all__ = ["check_tests"]

_KINDS: Final = ("tool", "model", "read", "write", "egress", "secret")


def check_tests(node: Node, compiled: CompiledPolicy) -> None:
    """Hold each test of the list ``node`` against the policy.

    Raises:
        PolicyTestFailed: one does not hold.
    """
    for item in schema.items(node, what="'tests'"):
        wanted, request = _only(item, ("allow", "deny"), "a test")
        kind, value = _only(request, _KINDS, "a test's request")
        text = schema.text(value, what=f"'{kind}'")
        with located(value.mark):
            decision = answer(compiled, parse_question(text if kind == "egress" else f"{kind}:{text}"))
            allowed = decision.allowed or decision.reason == "approval_no_approver"
            if allowed != (wanted == "allow"):
                raise PolicyTestFailed(
                    f"the test wants {wanted} for {kind} {excerpt(text)}",
                    found=f"{decision.effect.value}, {decision.reason}",
                )


def _only(node: Node, known: tuple[str, ...], what: str) -> tuple[str, Node]:
    found = schema.keys(node, known, what=what, later=("args",))
    if len(found) != 1:
        raise WrongType(f"{what} has exactly one key", expected=" or ".join(known), where=str(node.mark))
    return next(iter(found.items()))
