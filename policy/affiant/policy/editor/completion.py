"""Completes agents and rule ids of a profile file in a shell. It never fails.

The file may be from an untrusted source, and the user has only pressed a key. So one that would be
refused completes to nothing, and no more of it is read than its reader would: of agents the keys alone, of rules one
profile, without its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from affiant.command_line import printable
from affiant.errors import AffiantError
from affiant.policy.editor.rule_text import texts_by_id
from affiant.policy.loading.policy_file import read_agent_names, read_one_profile
from affiant.policy.loading.shown_lines import without_values

__all__ = ["complete_agents", "complete_rules"]

_MOST_HELP = 60
"""Characters of a rule beside its id."""

_Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_agents(*files: str) -> _Complete:
    """The agents of the file that the first of the parameters ``files`` names, of those that are given."""

    def complete(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        path = next((path for path in (_path(context, name) for name in files) if path is not None), None)
        try:
            names = () if path is None else read_agent_names(path)
        except (AffiantError, OSError):
            return []
        return _begun([(name, "") for name in names], typed)

    return complete


def complete_rules(context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The rules of the profile of ``--agent``, or of the only one of the file, with what each says."""
    path, agent = _path(context, "file"), context.params.get("agent")
    if path is None:
        return []
    try:
        names = read_agent_names(path) if agent is None else (agent,)
        floor = _path(context, "floor")
        profile = read_one_profile(path, names[0], floor=floor) if len(names) == 1 else None
    except (AffiantError, OSError):
        return []
    if profile is None:
        return []
    given = context.params.get("ids") or ()
    text_of = texts_by_id(profile.policy)
    return _begun(((rule, text_of(rule)) for rule in profile.places if rule not in given), typed)


def _path(context: click.Context, name: str) -> Path | None:
    """The file that a parameter names; what stands before an option that has no value yet is not assigned to any."""
    path = context.params.get(name)
    if isinstance(path, tuple):  # an option that may be repeated
        path = path[0] if path else None
    if path is None:
        arguments = [each.name for each in context.command.params if isinstance(each, click.Argument)]
        words = dict(zip(arguments, context.args, strict=False))
        path = Path(words[name]) if name in words else None
    return path if isinstance(path, Path) else None


def _begun(choices: Iterable[tuple[str, str]], typed: str) -> list[CompletionItem]:
    return [
        CompletionItem(value, help=printable(without_values(text), limit=_MOST_HELP) or None)
        for value, text in choices
        if value.startswith(typed)
    ]
