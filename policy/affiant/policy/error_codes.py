"""Lists the codes of this package's errors that no program catches by a class of their own.

Each is raised as its family with ``code=``. An error that a program catches, or that is raised in many places, has a
class; its docstring is its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ERROR_CODES"]

ERROR_CODES: Final[Mapping[str, tuple[str, str]]] = {
    "approval.unknown": ("StateError", "No such action waits for approval here."),
    "policy.address": ("MalformedError", "A CIDR is not canonical, too wide, or may never be dialled."),
    "policy.decision_event": (
        "MalformedError",
        "A decision cannot be expressed in the form that is asked for.",
    ),
    "policy.file": ("ConfigurationError", "A policy file cannot be read, or others could have written it."),
    "policy.floor": ("ConfigurationError", "The baseline policy is not given, or holds more than denials."),
    "policy.line_breaks": ("MalformedError", "A profile was pasted without its line breaks."),
    "policy.missing_key": ("MalformedError", "A key that the schema demands is absent."),
    "policy.narrow_unenforced": (
        "NotAllowedError",
        "A restriction of what a session's sandbox was made with.",
    ),
    "policy.not_enforced_yet": ("ConfigurationError", "A known key that nothing enforces in this version."),
    "policy.test_failed": ("ConfigurationError", "An inline test does not hold."),
    "policy.unknown_agent": ("ConfigurationError", "The file has no profile of that name."),
    "policy.unknown_digest": (
        "ConfigurationError",
        "No profile has that digest, or the agent's has another.",
    ),
    "policy.unknown_key": ("MalformedError", "A key that the schema does not know."),
    "policy.unknown_rule": ("ConfigurationError", "The profile has no rule of that id."),
    "tool.method": ("NotAllowedError", "A method of MCP that the tool gate does not pass on."),
}
"""Code -> the family that is raised, and its meaning."""
