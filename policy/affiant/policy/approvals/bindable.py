"""Decides which calls of a tool can be shown to an approver as a whole.

An approval covers what is shown. Of an argument that is a path the content is chosen too: it can be shown, and held
still, where the caller can read it and hands the server a copy (``folders``). What is to be written to
cannot be a copy. Without ``args`` a rule does not say what is a path, so no call by it can be approved at the tool
gate. A call in a model's response is made by the agent: its text is shown, and no path in it can be kept unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from affiant.policy.canonical.paths import covers
from affiant.policy.model.arguments import Argument, Each, Under, takes_path
from affiant.policy.model.profile import Policy, ToolRule

__all__ = ["bindable", "bindable_in_response", "every_bindable", "paths_among", "some_bindable"]


def bindable(rule: ToolRule, folders: Sequence[str] | None = None) -> bool:
    """Whether an action can hold all that a call by ``rule`` means.

    Args:
        folders: below which content can be read and handed on as a copy; None: wherever the rule lets paths lead.
    """
    return rule.arguments is not None and all(
        _holds_still(argument, folders) for argument in rule.arguments if takes_path(argument.constraint)
    )


def bindable_in_response(rule: ToolRule) -> bool:
    """Whether a call by ``rule`` that the agent makes itself, as a model's response says, can be approved."""
    return rule.server is None and not any(
        takes_path(argument.constraint) and not argument.optional for argument in rule.arguments or ()
    )


def every_bindable(policy: Policy, rules: Sequence[str], folders: Sequence[str] = ()) -> bool:
    """Whether each of these rules for a tool, by their ids, is; False where there are none."""
    found = [bindable(rule, folders) for rule in _of(policy, rules)]
    return bool(found) and all(found)


def some_bindable(policy: Policy, rules: Sequence[str], folders: Sequence[str] = ()) -> bool:
    """Whether one of them is."""
    return any(bindable(rule, folders) for rule in _of(policy, rules))


def paths_among(
    policy: Policy, rules: Sequence[str], arguments: Mapping[str, object]
) -> Sequence[tuple[str, str]]:
    """The paths among the arguments, by what one of ``rules`` says: argument and value, in order of the names.

    A value of a list has its place behind the name: ``files[0]``.

    Args:
        arguments: those of a call that ``rules`` allow.
    """
    names = {
        argument.name
        for rule in _of(policy, rules)
        for argument in rule.arguments or ()
        if takes_path(argument.constraint)
    }
    found: list[tuple[str, str]] = []
    for name in sorted(names & arguments.keys()):
        value = arguments[name]
        if isinstance(value, list):
            found += [(f"{name}[{place}]", str(each)) for place, each in enumerate(value)]
        else:
            found.append((name, str(value)))
    return found


def _under(argument: Argument) -> Under:
    constraint = argument.constraint
    inner = constraint.item if isinstance(constraint, Each) else constraint
    assert isinstance(inner, Under)
    return inner


def _holds_still(argument: Argument, folders: Sequence[str] | None) -> bool:
    """Whether some value of a path argument leads to what can be read and be handed on as a copy."""
    under = _under(argument)
    if under.write:
        return False
    return folders is None or any(
        covers(folder, under.path) or covers(under.path, folder) for folder in folders
    )


def _of(policy: Policy, rules: Sequence[str]) -> Iterator[ToolRule]:
    wanted = set(rules)
    for position, rule in enumerate(policy.tools):
        if f"tools/{position}" in wanted and isinstance(rule, ToolRule):
            yield rule
