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
from affiant.policy.replay.ocsf_objects import OTHER, activity_of, known

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
    activity = activity_of(recorded)
    members = decision_members(recorded)
    network = activity["category_uid"] == _NETWORK
    return {
        **activity,
        **_outcome(recorded),
        "time": recorded.ts * 1000,
        "message": f"{recorded.enforced.value}: {recorded.request} ({recorded.reason})",
        "metadata": _metadata(recorded, members, source=source, version=version, network=network),
        "actor": known(
            app_name=recorded.agent or None,
            session=None if recorded.session is None else {"uid": recorded.session},
        ),
        **_control(recorded, places or {}, network=network),
        "unmapped": _unmapped(recorded, members, places or {}),
    }


def _outcome(recorded: RecordedDecision) -> Mapping[str, object]:
    denied = recorded.enforced is Effect.DENY
    severity, status = ((2, "Low"), (2, "Failure")) if denied else ((1, "Informational"), (0, "Unknown"))
    return {**_enumerated(severity=severity, status=status), "status_code": recorded.reason}


def _enumerated(**members: tuple[int, str]) -> Mapping[str, object]:
    """Each number of an enumeration as ``name_id``, and its caption."""
    return {
        key: value
        for name, (number, caption) in members.items()
        for key, value in ((f"{name}_id", number), (name, caption))
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
        **known(correlation_uid=recorded.session),
    }


def _control(recorded: RecordedDecision, places: Mapping[str, str], *, network: bool) -> Mapping[str, object]:
    """The attributes of the profile ``security_control``."""
    rule = recorded.rules[0] if network and len(recorded.rules) == 1 else None
    policy = known(name=recorded.agent or None, uid=recorded.policy_digest)
    return {
        **_enumerated(action=_ACTION[recorded.enforced], disposition=_DISPOSITION[recorded.enforced]),
        "policy": {**policy, "type": "affiant permission profile", "is_applied": True},
        **known(firewall_rule=None if rule is None else known(uid=rule, desc=places.get(rule))),
    }


def _unmapped(
    recorded: RecordedDecision, members: Mapping[str, object], places: Mapping[str, str]
) -> Mapping[str, object]:
    rules = [known(id=rule, where=places.get(rule)) for rule in recorded.rules]
    return {**{name: members[name] for name in _UNMAPPED if name in members}, **known(rules=rules or None)}
