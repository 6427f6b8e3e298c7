"""Reports what was copied out of a session: counts, and everything that was not copied.

What was skipped is lost with the session, so it is said whatever else is silent. Its names are the agent's: hostile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from affiant.command_line import printable
from affiant.sandbox.workspace.tree import Changes, Skipped

__all__ = ["changes_to_json", "counted", "skipped_lines"]

_SHOWN: Final = 20
"""How many skipped entries a terminal is shown."""

_REASONS: Final[Mapping[str, str]] = {
    "workspace.git_name": "git could take it for its own folder",
    "workspace.link_leaves_tree": "a link that could lead out of the folder",
    "workspace.name": "its name, or where it links to, is not printable",
    "workspace.special_file": "a device, pipe or socket",
    "workspace.submodule": "it is in a submodule",
    "workspace.unreadable": "it cannot be read",
}


def counted(changes: Changes) -> str:
    """How much was copied: ``2 added, 1 changed, 1 removed, 3 skipped``."""
    parts = [
        f"{len(changes.added)} added",
        f"{len(changes.changed)} changed",
        f"{len(changes.removed)} removed",
    ]
    if changes.folders:
        parts.append(f"{len(changes.folders)} new folder{'s' if len(changes.folders) > 1 else ''}")
    if changes.skipped:
        parts.append(f"{len(changes.skipped)} skipped")
    return ", ".join(parts)


def skipped_lines(changes: Changes, *, rest: str) -> tuple[str, ...]:
    """One line for each entry that was not copied, fit to be printed; of more than twenty, how many more.

    Args:
        rest: where the others are to be found.
    """
    lines = [_line(skipped) for skipped in changes.skipped[:_SHOWN]]
    more = len(changes.skipped) - _SHOWN
    if more > 0:
        lines.append(f"and {more} more were not copied: {rest}")
    return tuple(lines)


def changes_to_json(changes: Changes) -> Mapping[str, object]:
    """The members that ``--json`` writes."""
    return asdict(changes)


def _line(skipped: Skipped) -> str:
    reason = _REASONS.get(skipped.reason, skipped.reason)
    return printable(f"not copied: {skipped.path}: {reason}")
