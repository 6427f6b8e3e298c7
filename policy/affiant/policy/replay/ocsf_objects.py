"""Maps a request to OCSF 1.8.0: its class, its activity, its objects. Pure.

=================  ===============================  ==============================================
request            class                            activity
=================  ===============================  ==============================================
``METHOD URL``     HTTP Activity (4002)             the method, or Other with its name
``connect:``       Network Activity (4001)          Open
``tool:``          API Activity (6003)              Other: *Call*, or *Offer* (to a model)
``model:``         API Activity (6003)              Other: *Call*
``secret:``        API Activity (6003)              Other: *Use*
``read:``          File System Activity (1001)      Read
``write:``         File System Activity (1001)      Update
=================  ===============================  ==============================================

A call, an offer and a use are none of API Activity's create, read, update and delete, and nothing here knows which of
them a tool does; so they are Other, by name. A model's provider is not in a decision, and OCSF's ``ai_model`` requires
one: the model is a resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, assert_never

from affiant.policy.canonical.tool_origin import ANY, Origin
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    SecretQuestion,
    ToolQuestion,
)
from affiant.policy.decision_log.reader import RecordedDecision
from affiant.policy.model.profile import PathMode

__all__ = ["OTHER", "Activity", "activity_of", "named_or_numbered"]

OTHER: Final = 99
"""Of every enumeration of OCSF: the caption beside it is the source's own word."""
_MAX_PORT: Final = 65535
_METHODS: Final[Mapping[str, int]] = {
    "CONNECT": 1,
    "DELETE": 2,
    "GET": 3,
    "HEAD": 4,
    "OPTIONS": 5,
    "POST": 6,
    "PUT": 7,
    "TRACE": 8,
    "PATCH": 9,
}
"""OCSF 1.8.0, ``events/network/http_activity.json``, ``activity_id``; a caption is the method, capitalised.

No other stands in ``http_request.http_method`` either: it is an enumeration too (``objects/http_request.json``)."""


@dataclass(frozen=True, slots=True)
class Activity:
    """A class of OCSF, one of its activities, and the attributes that say what it is about.

    Args:
        number: ``class_uid``; its thousands are ``category_uid``.
        name: ``class_name``; category: ``category_name``.
        activity: ``activity_id``; caption: ``activity_name``.
        members: the class's own attributes.
    """

    number: int
    name: str
    category: str
    activity: int
    caption: str
    members: Mapping[str, object]


def activity_of(recorded: RecordedDecision, source: Mapping[str, object]) -> Activity:
    """What ``recorded`` is about.

    Args:
        source: the endpoint that asked: the session.
    """
    question = recorded.question
    match question:
        case EgressQuestion(method=None):
            members = {"src_endpoint": source, "dst_endpoint": _endpoint(question.host, question.port)}
            return Activity(4001, "Network Activity", "Network Activity", 1, "Open", members)
        case EgressQuestion():
            return _http(question, recorded.size, source)
        case ToolQuestion(name, origin=origin):
            api = {"operation": name, **_service(origin)}
            resource = {"type": "tool", "name": name, **_pinned(origin)}
            return _api("Offer" if recorded.offered else "Call", api, resource, source)
        case ModelQuestion(name):
            return _api("Call", {"operation": "call model"}, {"type": "model", "name": name}, source)
        case SecretQuestion(name, host, port):
            used = _api("Use", {"operation": "use secret"}, {"type": "secret", "name": name}, source)
            return _with(used, {"dst_endpoint": _endpoint(host, port)})
        case PathQuestion(path, mode):
            return _file(path, mode, source)
        case _:
            assert_never(question)


def named_or_numbered(name: str, number: str | None) -> Mapping[str, str]:
    """``name`` and ``uid`` of an entity, those that are known."""
    return {**({"name": name} if name else {}), **({} if number is None else {"uid": number})}


def _http(question: EgressQuestion, size: int | None, source: Mapping[str, object]) -> Activity:
    method, target = question.method or "", question.target or "/"
    path, _, query = target.partition("?")
    standard = 443 if question.scheme.value == "https" else 80
    port = "" if question.port == standard else f":{question.port}"
    url = {
        "scheme": question.scheme.value,
        "hostname": question.host,
        **_port(question.port),
        "path": path,
        **({"query_string": query} if query else {}),
        "url_string": f"{question.scheme.value}://{question.host}{port}{target}",
    }
    number = _METHODS.get(method, OTHER)
    request = {
        **({} if number == OTHER else {"http_method": method}),
        "url": url,
        **({} if size is None else {"body_length": size}),
    }
    caption = method if number == OTHER else method.capitalize()
    members = {
        "src_endpoint": source,
        "dst_endpoint": _endpoint(question.host, question.port),
        "http_request": request,
    }
    return Activity(4002, "HTTP Activity", "Network Activity", number, caption, members)


def _api(
    caption: str, api: Mapping[str, object], resource: Mapping[str, object], source: Mapping[str, object]
) -> Activity:
    members = {"api": api, "resources": [resource], "src_endpoint": source}
    return Activity(6003, "API Activity", "Application Activity", OTHER, caption, members)


def _file(path: str, mode: PathMode, source: Mapping[str, object]) -> Activity:
    """``file.type_id`` 0: a path may be a file or a folder, and a decision does not look."""
    name = path.rstrip("/").rpartition("/")[2] or "/"
    members = {"file": {"name": name, "path": path, "type_id": 0, "type": "Unknown"}, "device": source}
    number, caption = (2, "Read") if mode is PathMode.READ else (3, "Update")
    return Activity(1001, "File System Activity", "System Activity", number, caption, members)


def _with(activity: Activity, members: Mapping[str, object]) -> Activity:
    return Activity(
        activity.number,
        activity.name,
        activity.category,
        activity.activity,
        activity.caption,
        {**activity.members, **members},
    )


def _endpoint(host: str, port: int) -> Mapping[str, object]:
    try:
        return {"ip": str(ip_address(host.removeprefix("[").removesuffix("]"))), **_port(port)}
    except ValueError:
        return {"hostname": host, **_port(port)}


def _port(port: int) -> Mapping[str, int]:
    """Without a port that is none: the request's own text, beside it, has it."""
    return {"port": port} if port <= _MAX_PORT else {}


def _service(origin: Origin) -> Mapping[str, object]:
    return {} if origin.server in (None, ANY) else {"service": {"name": origin.server}}


def _pinned(origin: Origin) -> Mapping[str, object]:
    return {} if origin.schema in (None, ANY) else {"uid": origin.schema}
