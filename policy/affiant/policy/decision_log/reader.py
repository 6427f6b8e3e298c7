"""Reads recorded decisions strictly: one JSON object on each line (``FORMAT.md``, "The decision log").

Every line is a decision of a policy about one request, or the whole log is refused with the number of the line: of a
log that is read in part it would be unknown what a change would do. Lines are read one at a time.

>>> line = b'{"agent":"dev","decision":"deny","reason":"tool_not_listed","request":"tool:rm"}'
>>> next(read_decision_log([line])).effect.value
'deny'
>>> list(read_decision_log([line, b"{}"]))
Traceback (most recent call last):
    ...
affiant.policy.decision_log.line_members.DecisionLogRefused: decisions.jsonl:2: a member is missing; expected 'request'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from affiant.errors import AffiantError
from affiant.policy.canonical.names import check_agent_name
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import (
    Question,
    ToolQuestion,
    parse_question,
    plane_of,
)
from affiant.policy.decision_log.line_members import DECISIONS, MAX_LINE, DecisionLogRefused, read_members
from affiant.policy.loading.profile_set import ProfileSet

__all__ = [
    "MAX_LINE",
    "DecisionLogRefused",
    "RecordedDecision",
    "agents_of",
    "read_decision",
    "read_decision_log",
]

_OF_ONE_PLANE: Final = (
    ("attested", "model"),
    ("surface", "secret"),
    ("offered", "tool"),
    ("withheld", "tool"),
)
_NO_APPROVER: Final = "approval_no_approver"
_REASON: Final = {"allowed": Effect.ALLOW, "approval_required": Effect.ASK}
"""Every other reason denies."""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """One line.

    Args:
        log: the name of its log. line: its number there, from 1.
        agent: empty where the line names none and the reader may accept that.
        request: as it was written.
        effect: *ask* also for ``approval_no_approver``: rules allow it, and a person would have to approve it.
        policy_digest: of the profile that decided, if the line names it.
        attested: a model's upstream was verified.
        surface: where a secret's placeholder was; None: in its own place.
        rules: ids into the normal form that ``policy_digest`` names.
        offered: a tool was offered to a model, and not called.
        withheld: a tool was called with arguments that the line does not tell.
        ts: seconds since 1970, if the line says when.
        request_digest: of the request, from other writers; ours never write it.
        grant: the standing approval that allowed it.
        secrets: names of the secrets that are used.
        size: bytes of the request's body.
        latency_us: microseconds that the decision took.
    """

    log: str
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
    session: str | None = None
    request_digest: str | None = None
    grant: str | None = None
    secrets: tuple[str, ...] = ()
    size: int | None = None
    latency_us: int | None = None

    @property
    def enforced(self) -> Effect:
        """What happened: *deny* also where there was no approver. The line's own word."""
        return Effect.DENY if self.reason == _NO_APPROVER else self.effect


def read_decision_log(
    lines: Iterable[bytes], *, source: str = "decisions.jsonl", agents: Mapping[str, str] | None = None
) -> Iterator[RecordedDecision]:
    """The decisions, one for each line.

    Args:
        lines: with or without their line feeds; of one that is longer than :data:`MAX_LINE`, a byte more is enough.
        agents: digest of a profile -> its name, for lines of a gateway, which does not know agents' names
            (:func:`agents_of`).

    Raises:
        DecisionLogRefused: a line is no decision, with its number; or there is none.
    """
    number = 0
    for number, line in enumerate(lines, start=1):
        yield read_decision(line, number=number, source=source, agents=agents)
    if not number:
        raise DecisionLogRefused("the log holds no decision: nothing can be said of it", where=source)


def read_decision(
    line: bytes,
    *,
    number: int,
    source: str,
    agents: Mapping[str, str] | None = None,
    nameless: bool = False,
) -> RecordedDecision:
    """The decision of one line; arguments as :func:`read_decision_log`.

    Args:
        nameless: a line whose agent is not known is taken, with an empty name.

    Raises:
        DecisionLogRefused: it is none.
    """
    try:
        return _decision((source, number), line, agents or {}, nameless=nameless)
    except AffiantError as error:
        raise DecisionLogRefused(
            error.message,
            expected=error.expected,
            found=error.found,
            where=f"{source}:{number}",
            hint=error.hint,
        ) from error


def agents_of(*files: ProfileSet) -> Mapping[str, str]:
    """The agents of some files by the digests of their profiles; a digest that two agents share names neither."""
    found: dict[str, set[str]] = {}
    for file in files:
        for name, profile in file.profiles.items():
            found.setdefault(profile.digest, set()).add(name)
    return {digest: names.pop() for digest, names in found.items() if len(names) == 1}


def _decision(
    place: tuple[str, int], line: bytes, agents: Mapping[str, str], *, nameless: bool
) -> RecordedDecision:
    members = read_members(line.removesuffix(b"\n"))
    question = parse_question(members["request"])
    agent = _agent(members, agents, nameless=nameless)
    effect, reason = DECISIONS[members["decision"]], members["reason"]
    if _REASON.get(reason, Effect.DENY) is not effect:
        raise DecisionLogRefused(f"'reason' contradicts 'decision': {effect.value}, {reason}")
    for name, plane in _OF_ONE_PLANE:
        if name in members and plane_of(question) != plane:
            raise DecisionLogRefused(f"'{name}' is allowed only in the plane '{plane}' alone")
    if isinstance(question, ToolQuestion) and question.arguments is not None and _without_arguments(members):
        raise DecisionLogRefused("arguments beside a member that says that there are none")
    if members.get("plane", plane_of(question)) != plane_of(question):
        raise DecisionLogRefused("'plane' is not that of the request", expected=plane_of(question))
    return RecordedDecision(
        *place,
        agent,
        members["request"],
        question,
        Effect.ASK if reason == _NO_APPROVER else effect,
        reason,
        members.get("policy_digest"),
        members.get("attested", False),
        members.get("surface"),
        tuple(members.get("rules", ())),
        members.get("offered", False),
        members.get("withheld", False),
        members.get("ts"),
        members.get("session"),
        members.get("request_digest"),
        members.get("grant"),
        tuple(members.get("secrets", ())),
        members.get("bytes"),
        members.get("latency"),
    )


def _agent(members: Mapping[str, Any], agents: Mapping[str, str], *, nameless: bool) -> str:
    """Whose decision it is: by name, or by the one profile that has the digest."""
    if "agent" in members:
        check_agent_name(members["agent"])
        return str(members["agent"])
    digest = members.get("policy_digest")
    if digest is None:
        raise DecisionLogRefused("a member is missing", expected="'agent', or 'policy_digest'")
    if digest not in agents and not nameless:
        raise DecisionLogRefused(
            "the line names no agent, and no file that was given has exactly one profile of this digest",
            found=digest,
            hint="Name the file that decided, with --old or --from",
        )
    return agents.get(digest, "")


def _without_arguments(members: Mapping[str, Any]) -> bool:
    return bool(members.get("offered") or members.get("withheld"))
