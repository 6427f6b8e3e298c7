"""Reads the members of one line of a decision log strictly, each by its type (``FORMAT.md``, "The decision log").

>>> read_members(b'{"decision":"deny","reason":"tool_not_listed","request":"tool:rm"}')["decision"]
'deny'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from affiant.attestation.encoding.canonical import parse_object
from affiant.errors import MalformedError
from affiant.policy.canonical.errors import excerpt
from affiant.policy.decision.decide import REASONS, Effect

__all__ = ["DECISIONS", "MAX_LINE", "DecisionLogRefused", "read_members"]

MAX_LINE: Final = 1 << 19
"""Bytes: the arguments of one call have at most 65536, which an escape in JSON makes six times longer."""

_PLANES: Final = ("tool", "provider_tool", "model", "path", "egress", "secret", "port", "start")
_DIGEST: Final = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96})\Z")
_RULE: Final = re.compile(
    r"(?:tools|provider_tools|filesystem|egress|secrets|models|ports|may_start)/(?:0|[1-9][0-9]{0,3})\Z"
)
_SURFACE: Final = re.compile(
    r"(?:header:[a-z0-9-]{1,64}|(?:query|body:form):[A-Za-z0-9._~-]{1,64}|body:json:/[A-Za-z0-9._~@$:+/-]{1,255}"
    r"|sigv4:[a-z0-9-]{1,64}/[a-z0-9-]{1,64})\Z"
)
DECISIONS: Final = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}


class DecisionLogRefused(MalformedError):
    """A line of a decision log is no decision as the format says, or the log holds none."""

    code = "policy.decision_log"


def read_members(line: bytes) -> Mapping[str, Any]:
    """The members of a line, each of its type."""
    members = parse_object(line, limit=MAX_LINE, strict_form=False)
    for name in _REQUIRED:
        if name not in members:
            raise DecisionLogRefused("a member is missing", expected=repr(name))
    for name, value in members.items():
        if name not in _MEMBERS:
            raise DecisionLogRefused(f"unknown member {excerpt(name)}")
        holds, expected = _MEMBERS[name]
        if not holds(value):
            raise DecisionLogRefused(f"wrong value of '{name}'", expected=expected)
    return members


# -- members -----------------------------------------------------------------------------------------------------------


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_LINE


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.match(value) is not None


def _list_of(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


_REQUIRED: Final = ("request", "decision", "reason")
_MEMBERS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "agent": (_is_text, "text"),
    "request": (_is_text, "text"),
    "decision": (lambda value: isinstance(value, str) and value in DECISIONS, "allow, ask or deny"),
    "reason": (lambda value: isinstance(value, str) and value in REASONS, "a reason code of a policy"),
    "ts": (_is_count, "whole seconds since 1970"),
    "session": (_is_text, "text"),
    "plane": (
        lambda value: isinstance(value, str) and value in _PLANES,
        "tool, provider_tool, model, path, egress, secret, port or start",
    ),
    "request_digest": (_matches(_DIGEST), "sha256: or sha384: and hexadecimal"),
    "rules": (_list_of(_matches(_RULE)), "a list of rule ids such as tools/0"),
    "policy_digest": (_matches(_DIGEST), "sha384: and hexadecimal"),
    "grant": (_is_text, "text"),
    "secrets": (_list_of(_is_text), "a list of names"),
    "bytes": (_is_count, "a whole number"),
    "latency": (_is_count, "a whole number of microseconds"),
    "attested": (lambda value: isinstance(value, bool), "true or false"),
    "surface": (_matches(_SURFACE), "such as header:authorization"),
    "offered": (lambda value: isinstance(value, bool), "true or false"),
    "withheld": (lambda value: isinstance(value, bool), "true or false"),
}
