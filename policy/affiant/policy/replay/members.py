"""Writes a recorded decision as a line of a decision log again, with the agent's name if it is known. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from affiant.policy.decision.questions import plane_of
from affiant.policy.decision_log.reader import RecordedDecision

__all__ = ["decision_members", "decision_uid", "encoded"]


def decision_members(recorded: RecordedDecision) -> Mapping[str, object]:
    """The members of the line; what is absent by default is absent."""
    members: Mapping[str, object] = {
        "agent": recorded.agent or None,
        "attested": recorded.attested or None,
        "bytes": recorded.size,
        "decision": recorded.enforced.value,
        "grant": recorded.grant,
        "latency": recorded.latency_us,
        "offered": recorded.offered or None,
        "plane": plane_of(recorded.question),
        "policy_digest": recorded.policy_digest,
        "reason": recorded.reason,
        "request": recorded.request,
        "request_digest": recorded.request_digest,
        "rules": list(recorded.rules) or None,
        "secrets": list(recorded.secrets) or None,
        "session": recorded.session,
        "surface": recorded.surface,
        "ts": recorded.ts,
        "withheld": recorded.withheld or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def encoded(members: Mapping[str, object]) -> str:
    """One line of JSON in ASCII, so that no text in it reaches a terminal as more than text; without its line feed."""
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def decision_uid(recorded: RecordedDecision, members: Mapping[str, object]) -> str:
    """A name for the decision, 64 hex: of its line, and of the line's number, since one may be asked twice in a second.

    The same line of the same log has the same name whenever it is exported, whether its agent was known or not.

    Args:
        members: its :func:`decision_members`.
    """
    told = {name: value for name, value in members.items() if name != "agent"}
    return hashlib.sha256(f"{recorded.line} {encoded(told)}".encode("ascii")).hexdigest()
