"""Writes a recorded decision as OpenTelemetry attributes and as a log record in OTLP/JSON. Pure.

``affiant.*`` are ours and stable; the others are OpenTelemetry's semantic conventions (``gen_ai.*``: still in
development there) and say of the request what they say of any. ``docs/decision-logs.md`` has the table of them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from affiant.errors import MalformedError
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    PortQuestion,
    ProviderToolQuestion,
    SecretQuestion,
    StartQuestion,
    ToolQuestion,
)
from affiant.policy.decision_log.reader import RecordedDecision
from affiant.policy.replay.members import decision_members, decision_uid

__all__ = ["EVENT_NAME", "Attribute", "decision_attributes", "otlp_logs"]

Attribute = str | bool | int | tuple[str, ...]
"""A value of an attribute: what OpenTelemetry calls a primitive, or a list of texts."""

EVENT_NAME: Final = "affiant.policy.decision"
_SCOPE: Final = "affiant.policy"
_METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"}
)
"""That OpenTelemetry's HTTP conventions know; any other is ``_OTHER``."""
_SEVERITY: Final[Mapping[Effect, tuple[int, str]]] = {
    Effect.ALLOW: (9, "INFO"),
    Effect.ASK: (9, "INFO"),
    Effect.DENY: (13, "WARN"),
}
"""``opentelemetry/proto/logs/v1/logs.proto``, SeverityNumber."""
_MAX_TIME: Final = ((1 << 64) - 1) // 1_000_000_000
"""Seconds of which ``fixed64`` can hold the nanoseconds."""
_OURS: Final[Mapping[str, str]] = {
    "agent": "affiant.agent.name",
    "attested": "affiant.policy.attested",
    "bytes": "http.request.body.size",
    "decision": "affiant.policy.decision",
    "grant": "affiant.policy.grant",
    "latency": "affiant.policy.latency_us",
    "offered": "affiant.policy.offered",
    "plane": "affiant.policy.plane",
    "policy_digest": "affiant.policy.digest",
    "reason": "affiant.policy.reason",
    "request": "affiant.policy.request",
    "request_digest": "affiant.policy.request_digest",
    "rules": "affiant.policy.rule",
    "secrets": "affiant.policy.secrets",
    "session": "affiant.session.id",
    "surface": "affiant.policy.surface",
    "withheld": "affiant.policy.withheld",
}
"""Member of a line -> attribute. ``ts`` is the time of the record, or of the span."""


def decision_attributes(
    recorded: RecordedDecision, *, places: Mapping[str, str] | None = None
) -> Mapping[str, Attribute]:
    """The attributes, for a span or a log record; what is not known is absent.

    Args:
        places: rule id -> where the profile's file writes it.
    """
    found: dict[str, Attribute] = {}
    for name, value in decision_members(recorded).items():
        if name in _OURS:
            found[_OURS[name]] = tuple(value) if isinstance(value, list) else value  # type: ignore[assignment]
    if places and recorded.rules:
        found["affiant.policy.rule.where"] = tuple(places.get(rule, "") for rule in recorded.rules)
    if recorded.agent:
        found["gen_ai.agent.name"] = recorded.agent
    return {**found, **_of_request(recorded)}


def otlp_logs(
    recorded: RecordedDecision, *, source: str, version: str, places: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """One document of OTLP/JSON (``LogsData``) with one log record, ready for JSON.

    A line of a file for the collector's ``otlpjsonfile`` receiver, or the body of ``POST /v1/logs``.

    Args:
        source: the name of the log.
        version: of this product.

    Raises:
        ``policy.decision_event``: the time is beyond what OTLP can say.
    """
    number, text = _SEVERITY[recorded.enforced]
    record = {
        **_times(recorded, source),
        "severityNumber": number,
        "severityText": text,
        "eventName": EVENT_NAME,
        "body": {"stringValue": f"{recorded.enforced.value}: {recorded.reason}"},
        "attributes": _key_values(
            {
                **decision_attributes(recorded, places=places),
                "log.file.name": source,
                "log.record.uid": decision_uid(recorded, decision_members(recorded)),
            }
        ),
    }
    product = {"service.name": "affiant", "service.version": version}
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": _key_values(product)},
                "scopeLogs": [{"scope": {"name": _SCOPE, "version": version}, "logRecords": [record]}],
            }
        ]
    }


def _times(recorded: RecordedDecision, source: str) -> Mapping[str, str]:
    """64-bit integers are text in JSON (Protocol Buffers' mapping); without a time it is not known, as in OTLP."""
    if recorded.ts is None:
        return {}
    if recorded.ts > _MAX_TIME:
        raise MalformedError(
            "OTLP cannot say this time",
            code="policy.decision_event",
            expected=f"at most {_MAX_TIME}",
            where=f"{source}:{recorded.line}",
        )
    nanoseconds = str(recorded.ts * 1_000_000_000)
    return {"timeUnixNano": nanoseconds, "observedTimeUnixNano": nanoseconds}


def _of_request(recorded: RecordedDecision) -> Mapping[str, Attribute]:
    question = recorded.question
    match question:
        case ToolQuestion(name) | ProviderToolQuestion(name):
            return {"gen_ai.tool.name": name}
        case ModelQuestion(name):
            return {"gen_ai.request.model": name}
        case PathQuestion(path):
            return {"file.path": path}
        case SecretQuestion(_, host, port):
            return {"server.address": host, "server.port": port}
        case StartQuestion():
            return {}
        case PortQuestion(number):
            return {"server.port": number}
        case EgressQuestion():
            return {"server.address": question.host, "server.port": question.port, **_of_http(question)}
        case _:
            assert_never(question)


def _of_http(question: EgressQuestion) -> Mapping[str, Attribute]:
    if question.method is None or question.target is None:
        return {}
    path, _, query = question.target.partition("?")
    known = question.method in _METHODS
    return {
        "http.request.method": question.method if known else "_OTHER",
        **({} if known else {"http.request.method_original": question.method}),
        "url.scheme": question.scheme.value,
        "url.path": path,
        **({"url.query": query} if query else {}),
    }


def _key_values(attributes: Mapping[str, Attribute]) -> list[Mapping[str, object]]:
    return [{"key": name, "value": _any_value(value)} for name, value in sorted(attributes.items())]


def _any_value(value: Attribute) -> Mapping[str, object]:
    """``AnyValue`` of ``opentelemetry/proto/common/v1/common.proto``, in JSON."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
