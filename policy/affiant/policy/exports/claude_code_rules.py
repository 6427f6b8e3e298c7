"""Writes Claude Code's permission rules, and lists its tools as its settings schema does."""

from __future__ import annotations

import re
from typing import Final

from affiant.policy.model.profile import ToolRule

__all__ = [
    "BUILT_IN",
    "EDITS",
    "OTHERS_ACT",
    "READS",
    "edit_rules",
    "fetch_rule",
    "is_server_tool",
    "read_rules",
    "rule_name",
]

BUILT_IN: Final = frozenset(
    {
        *(
            "Agent",
            "Artifact",
            "Bash",
            "Cd",
            "Edit",
            "EnterWorktree",
            "ExitPlanMode",
            "Glob",
            "Grep",
            "KillShell",
        ),
        *(
            "LSP",
            "Monitor",
            "MultiEdit",
            "NotebookEdit",
            "PowerShell",
            "Read",
            "ShareOnboardingGuide",
            "Skill",
        ),
        *(
            "TaskCreate",
            "TaskGet",
            "TaskList",
            "TaskOutput",
            "TaskStop",
            "TaskUpdate",
            "TodoWrite",
            "ToolSearch",
        ),
        *("WebFetch", "WebSearch", "Workflow", "Write"),
    }
)
"""Each tool that a rule may name (the pattern of ``permissionRule`` in the published schema, August 2026)."""

READS: Final = ("Read", "Glob", "Grep")
"""Tools for which ``Read(...)`` speaks."""
EDITS: Final = ("Edit", "Write")
"""Tools for which ``Edit(...)`` speaks; what else edits is denied by name unless it is listed."""

OTHERS_ACT: Final = frozenset(
    {
        *(
            "Agent",
            "Artifact",
            "Bash",
            "EnterWorktree",
            "LSP",
            "Monitor",
            "MultiEdit",
            "NotebookEdit",
            "PowerShell",
        ),
        *("ShareOnboardingGuide", "Skill", "WebSearch", "Workflow"),
    }
)
"""Tools that reach files or hosts in ways that no rule here narrows."""

_SERVER_TOOL: Final = re.compile(r"mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*__[A-Za-z0-9_.-]+\Z")


def rule_name(rule: ToolRule) -> str:
    """The tool as Claude Code names it: with the server that alone may serve it, where the rule names one."""
    return rule.name if rule.server is None else f"mcp__{rule.server}__{rule.name}"


def is_server_tool(name: str) -> bool:
    """Whether ``name`` is a tool of an MCP server: ``mcp__github__search``."""
    return _SERVER_TOOL.match(name) is not None


def read_rules(path: str) -> tuple[str, str]:
    """A node and all below it, for tools that read."""
    return _rules("Read", path)


def edit_rules(path: str) -> tuple[str, str]:
    """A node and all below it, for tools that edit."""
    return _rules("Edit", path)


def fetch_rule(host: str) -> str:
    """One host, for WebFetch."""
    return f"WebFetch(domain:{host})"


def _rules(tool: str, path: str) -> tuple[str, str]:
    """In gitignore's patterns; a parenthesis, which no rule holds, is any character.

    An allow of such a path is never written; a denial of more than the path is.
    """
    pattern = re.sub(r"[()]", "?", "" if path == "/" else path)
    return f"{tool}(/{pattern or '/'})", f"{tool}(/{pattern}/**)"
