"""Recorded decisions, read strictly: one JSON object on each line (``FORMAT.md``, "The decision log").

Every line is a decision of a policy about one request, or the whole log is refused with the number of the line: of a
log that is read in part nobody could say what a change would do. Lines are read one at a time.

>>> line = b'{"agent":"dev","decision":"deny","reason":"tool_not_listed","request":"tool:rm"}'
>>> next(read_decision_log([line])).effect.value
'deny'
>>> list(read_decision_log([line, b"{}"]))
Traceback (most recent call last):
    ...
affiant.policy.decision_log.DecisionLogRefused: decisions.jsonl:2: a member is missing; expected 'request'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from affiant.attestation.canonical import parse_object
from affiant.errors import AffiantError, MalformedError
from affiant.policy.decide import REASONS, Effect
from affiant.policy.names import check_agent_name
from affiant.policy.profile_set import ProfileSet
from affiant.policy.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    Question,
    SecretQuestion,
    ToolQuestion,
    parse_question,
)
from affiant.policy.refusals import excerpt

__all__ = [
    "MAX_LINE",
    "DecisionLogRefused",
    "RecordedDecision",
    "agents_of",
    "plane_of",
    "read_decision_log",
]

MAX_LINE: Final = 1 << 19
"""Bytes: the arguments of one call have at most 65536, which an escape in JSON makes six times longer."""

_PLANES: Final[Mapping[type[Question], str]] = {
    ToolQuestion: "tool",
    ModelQuestion: "model",
    PathQuestion: "path",
    EgressQuestion: "egress",
    SecretQuestion: "secret",
}
_DIGEST: Final = re.compile(r"(?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96})\Z")
_RULE: Final = re.compile(r"(?:tools|filesystem|egress|secrets|models)/(?:0|[1-9][0-9]{0,3})\Z")
_SURFACE: Final = re.compile(
    r"(?:header:[a-z0-9-]{1,64}|(?:query|body:form):[A-Za-z0-9._~-]{1,64}|body:json:/[A-Za-z0-9._~@$:+/-]{1,255})\Z"
)
_DECISIONS: Final = {"allow": Effect.ALLOW, "ask": Effect.ASK, "deny": Effect.DENY}
_REASON: Final = {"allowed": Effect.ALLOW, "approval_required": Effect.ASK}
"""Every other reason denies."""


class DecisionLogRefused(MalformedError):
    """A line of a decision log is no decision as the format says, or the log holds none."""

    code = "policy.decision_log"


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """One line.

    Args:
        line: its number, from 1.
        request: as it was written.
        effect: *ask* also for ``approval_no_approver``: rules allow it, and a person would have to approve it.
        policy_digest: of the profile that decided, if the line names it.
        attested: a model's upstream was verified.
        surface: where a secret's placeholder stood; None: in its own place.
        rules: ids into the normal form that ``policy_digest`` names.
        offered: a tool was offered to a model, and not called.
        withheld: a tool was called with arguments that the line does not tell.
        ts: seconds since 1970, if the line says when.
    """

    line: int
    agent: str
    request: str
    question: Question
    effect: Effect
    reason: str
    policy_digest: str | None
    attested: bool
    surface: str | None
    rules: tuple[str, ...] = ()
    offered: bool = False
    withheld: bool = False
    ts: int | None = None


def read_decision_log(
    lines: Iterable[bytes], *, source: str = "decisions.jsonl", agents: Mapping[str, str] | None = None
) -> Iterator[RecordedDecision]:
    """The decisions, one for each line.

    Args:
        lines: with or without their line feeds; of one that is longer than :data:`MAX_LINE`, a byte more is enough.
        agents: digest of a profile -> its name, for lines of a gateway, which is not told whom it serves
            (:func:`agents_of`).

    Raises:
        DecisionLogRefused: a line is no decision, with its number; or there is none.
    """
    number = 0
    for number, line in enumerate(lines, start=1):
        try:
            found = _decision(number, line, agents or {})
        except AffiantError as error:
            raise DecisionLogRefused(
                error.message,
                expected=error.expected,
                found=error.found,
                where=f"{source}:{number}",
                hint=error.hint,
            ) from error
        yield found
    if not number:
        raise DecisionLogRefused("the log holds no decision: nothing can be said of it", where=source)


def agents_of(*files: ProfileSet) -> Mapping[str, str]:
    """The agents of some files by the digests of their profiles; a digest that two agents share names neither."""
    found: dict[str, set[str]] = {}
    for file in files:
        for name, profile in file.profiles.items():
            found.setdefault(profile.digest, set()).add(name)
    return {digest: names.pop() for digest, names in found.items() if len(names) == 1}


def plane_of(question: Question) -> str:
    """``tool``, ``model``, ``path``, ``egress`` or ``secret``."""
    return _PLANES[type(question)]


def _decision(number: int, line: bytes, agents: Mapping[str, str]) -> RecordedDecision:
    members = _members(line.removesuffix(b"\n"))
    question = parse_question(members["request"])
    agent = _agent(members, agents)
    effect, reason = _DECISIONS[members["decision"]], members["reason"]
    if _REASON.get(reason, Effect.DENY) is not effect:
        raise DecisionLogRefused(f"'reason' contradicts 'decision': {effect.value}, {reason}")
    for name, plane in _OF_ONE_PLANE:
        if name in members and plane_of(question) != plane:
            raise DecisionLogRefused(f"'{name}' belongs to the plane '{plane}' alone")
    if isinstance(question, ToolQuestion) and question.arguments is not None and _without_arguments(members):
        raise DecisionLogRefused("arguments beside a member that says that there are none")
    if members.get("plane", plane_of(question)) != plane_of(question):
        raise DecisionLogRefused("'plane' is not that of the request", expected=plane_of(question))
    return RecordedDecision(
        number,
        agent,
        members["request"],
        question,
        Effect.ASK if reason == "approval_no_approver" else effect,
        reason,
        members.get("policy_digest"),
        members.get("attested", False),
        members.get("surface"),
        tuple(members.get("rules", ())),
        members.get("offered", False),
        members.get("withheld", False),
        members.get("ts"),
    )


def _agent(members: Mapping[str, Any], agents: Mapping[str, str]) -> str:
    """Whose decision it is: by name, or by the one profile that has the digest."""
    if "agent" in members:
        check_agent_name(members["agent"])
        return str(members["agent"])
    digest = members.get("policy_digest")
    if digest is None:
        raise DecisionLogRefused("a member is missing", expected="'agent', or 'policy_digest'")
    if digest not in agents:
        raise DecisionLogRefused(
            "the line names no agent, and no file that was given has exactly one profile of this digest",
            found=digest,
            hint="Name the file that decided, with --old or --from",
        )
    return agents[digest]


def _without_arguments(members: Mapping[str, Any]) -> bool:
    return bool(members.get("offered") or members.get("withheld"))


def _members(line: bytes) -> Mapping[str, Any]:
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
_OF_ONE_PLANE: Final = (
    ("attested", "model"),
    ("surface", "secret"),
    ("offered", "tool"),
    ("withheld", "tool"),
)
_MEMBERS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "agent": (_is_text, "text"),
    "request": (_is_text, "text"),
    "decision": (lambda value: isinstance(value, str) and value in _DECISIONS, "allow, ask or deny"),
    "reason": (lambda value: isinstance(value, str) and value in REASONS, "a reason code of a policy"),
    "ts": (_is_count, "whole seconds since 1970"),
    "session": (_is_text, "text"),
    "plane": (lambda value: value in _PLANES.values(), "tool, model, path, egress or secret"),
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
