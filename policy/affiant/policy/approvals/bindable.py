"""Which calls of a tool an approver can be shown whole.

An approval covers what is shown. Of an argument that is a path the agent chooses the content too, which nobody shows or
holds still, so a rule that says ``under`` of an argument has no calls that can be approved; nor has a rule without
``args``, of which nobody knows what is a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from affiant.policy.arguments import takes_path
from affiant.policy.profile import Policy, ToolRule

__all__ = ["bindable", "every_bindable", "some_bindable"]


def bindable(rule: ToolRule) -> bool:
    """Whether all that a call by ``rule`` means stands in its arguments."""
    return rule.arguments is not None and not any(
        takes_path(argument.constraint) for argument in rule.arguments
    )


def every_bindable(policy: Policy, rules: Sequence[str]) -> bool:
    """Whether each of these rules for a tool, by their ids, is; False where there are none."""
    found = list(_of(policy, rules))
    return bool(found) and all(found)


def some_bindable(policy: Policy, rules: Sequence[str]) -> bool:
    """Whether one of them is."""
    return any(_of(policy, rules))


def _of(policy: Policy, rules: Sequence[str]) -> Iterator[bool]:
    wanted = set(rules)
    for position, rule in enumerate(policy.tools):
        if f"tools/{position}" in wanted and isinstance(rule, ToolRule):
            yield bindable(rule)
