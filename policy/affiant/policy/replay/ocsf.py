"""Writes one recorded decision as one event of the Open Cybersecurity Schema Framework (OCSF) 1.8.0. Pure.

Which class: ``ocsf_objects``. Every event has the profile ``security_control``, which says
what the policy did, and classes of the network ``host``, which says who asked. The schema:
``github.com/ocsf/ocsf-schema``, tag ``1.8.0``; ``events/``, ``objects/``, ``profiles/``, ``dictionary.json``.

======================  ==========================================================================================
attribute               is
======================  ==========================================================================================
``action_id``           Allowed, Denied; Other (*Approval required*) for *ask*: it is neither, yet
``disposition_id``      Allowed, Blocked; Other for *ask*
``status_id``           Failure if denied; else Unknown: whether what was allowed succeeded is not in a decision log
``status_code``         the reason code
``severity_id``         Low if denied, else Informational: a policy that denies does its work
``policy.uid``          the digest of the profile; ``name``: the agent's, as profiles have
``firewall_rule``       egress decided by exactly one rule: its id
``actor``               ``app_name``: the agent; ``session.uid``
``metadata.uid``        a digest of the line and its number: the same line, exported again, is the same event
``unmapped``            what has no place, under the names of the decision log; the request as it was written
======================  ==========================================================================================

No member of a decision is lost. A line without a time, or without an agent and a session, is no event: OCSF requires
both, and neither is made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.errors import MalformedError
from affiant.policy.decision.decide import Effect
from affiant.policy.decision_log.reader import RecordedDecision
from affiant.policy.replay.members import decision_members, decision_uid
from affiant.policy.replay.ocsf_objects import OTHER, Activity, activity_of, named_or_numbered

__all__ = ["OCSF_VERSION", "ocsf_event"]

OCSF_VERSION: Final = "1.8.0"
_APPROVAL: Final = (OTHER, "Approval required")
_ACTION: Final[Mapping[Effect, tuple[int, str]]] = {
    Effect.ALLOW: (1, "Allowed"),
    Effect.ASK: _APPROVAL,
    Effect.DENY: (2, "Denied"),
}
_DISPOSITION: Final[Mapping[Effect, tuple[int, str]]] = {
    Effect.ALLOW: (1, "Allowed"),
    Effect.ASK: _APPROVAL,
    Effect.DENY: (2, "Blocked"),
}
_UNMAPPED: Final = (
    "attested",
    "bytes",
    "grant",
    "latency",
    "offered",
    "plane",
    "request",
    "request_digest",
    "secrets",
    "surface",
    "withheld",
)
_NETWORK: Final = 4


def ocsf_event(
    recorded: RecordedDecision, *, source: str, version: str, places: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """The event, ready for JSON.

    Args:
        source: the name of the log.
        version: of this product.
        places: rule id -> where the profile's file writes it.

    Raises:
        ``policy.decision_event``: the decision lacks what OCSF requires.
    """
    where = f"{source}:{recorded.line}"
    if recorded.ts is None:
        raise MalformedError(
            "OCSF requires a time, and this decision has none",
            code="policy.decision_event",
            expected="'ts'",
            where=where,
        )
    if not recorded.agent and recorded.session is None:
        raise MalformedError(
            "OCSF requires an actor, and this decision names neither agent nor session",
            code="policy.decision_event",
            where=where,
            hint="Name the file that decided, with --profiles",
        )
    activity = activity_of(recorded, _asking(recorded))
    members = decision_members(recorded)
    network = activity.number // 1000 == _NETWORK
    return {
        **_classification(activity),
        **_outcome(recorded),
        "time": recorded.ts * 1000,
        "message": f"{recorded.enforced.value}: {recorded.request} ({recorded.reason})",
        "metadata": _metadata(recorded, members, source=source, version=version, network=network),
        "actor": _actor(recorded),
        **activity.members,
        **_control(recorded, places or {}, network=network),
        "unmapped": _unmapped(recorded, members, places or {}),
    }


def _classification(activity: Activity) -> Mapping[str, object]:
    return {
        "category_uid": activity.number // 1000,
        "category_name": activity.category,
        "class_uid": activity.number,
        "class_name": activity.name,
        "activity_id": activity.activity,
        "activity_name": activity.caption,
        "type_uid": activity.number * 100 + activity.activity,
        "type_name": f"{activity.name}: {'Other' if activity.activity == OTHER else activity.caption}",
    }


def _outcome(recorded: RecordedDecision) -> Mapping[str, object]:
    denied = recorded.enforced is Effect.DENY
    return {
        "severity_id": 2 if denied else 1,
        "severity": "Low" if denied else "Informational",
        "status_id": 2 if denied else 0,
        "status": "Failure" if denied else "Unknown",
        "status_code": recorded.reason,
    }


def _metadata(
    recorded: RecordedDecision, members: Mapping[str, object], *, source: str, version: str, network: bool
) -> Mapping[str, object]:
    return {
        "version": OCSF_VERSION,
        "product": {
            "name": "affiant",
            "vendor_name": "affiant",
            "version": version,
            "feature": {"name": "policy"},
        },
        "profiles": ["security_control", "host"] if network else ["security_control"],
        "uid": decision_uid(recorded, members),
        "log_name": source,
        "log_provider": "affiant",
        "sequence": recorded.line,
        "original_time": str(recorded.ts),
        **({} if recorded.session is None else {"correlation_uid": recorded.session}),
    }


def _asking(recorded: RecordedDecision) -> Mapping[str, object]:
    """The session's machine, as an endpoint or a device: what it runs on is not in a decision."""
    return {
        **named_or_numbered(recorded.agent, recorded.session),
        "type_id": OTHER,
        "type": "agent session",
    }


def _actor(recorded: RecordedDecision) -> Mapping[str, object]:
    return {
        **({"app_name": recorded.agent} if recorded.agent else {}),
        **({} if recorded.session is None else {"session": {"uid": recorded.session}}),
    }


def _control(recorded: RecordedDecision, places: Mapping[str, str], *, network: bool) -> Mapping[str, object]:
    """The attributes of the profile ``security_control``."""
    action, disposition = _ACTION[recorded.enforced], _DISPOSITION[recorded.enforced]
    rule = _firewall_rule(recorded.rules[0], places) if network and len(recorded.rules) == 1 else {}
    return {
        "action_id": action[0],
        "action": action[1],
        "disposition_id": disposition[0],
        "disposition": disposition[1],
        "policy": {
            **named_or_numbered(recorded.agent, recorded.policy_digest),
            "type": "affiant permission profile",
            "is_applied": True,
        },
        **rule,
    }


def _firewall_rule(rule: str, places: Mapping[str, str]) -> Mapping[str, object]:
    return {"firewall_rule": {"uid": rule, **({"desc": places[rule]} if rule in places else {})}}


def _unmapped(
    recorded: RecordedDecision, members: Mapping[str, object], places: Mapping[str, str]
) -> Mapping[str, object]:
    rules = [{"id": rule, **({"where": places[rule]} if rule in places else {})} for rule in recorded.rules]
    return {
        **{name: members[name] for name in _UNMAPPED if name in members},
        **({"rules": rules} if rules else {}),
    }
