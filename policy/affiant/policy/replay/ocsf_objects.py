"""Maps a request to OCSF 1.8.0: its class, its activity, its objects. Pure.

=================  ===============================  ==============================================
request            class                            activity
=================  ===============================  ==============================================
``METHOD URL``     HTTP Activity (4002)             the method, or Other with its name
``connect:``       Network Activity (4001)          Open
``tool:``          API Activity (6003)              Other: *Call*, or *Offer* (to a model)
``provider_tool:`` API Activity (6003)              Other: *Use*
``model:``         API Activity (6003)              Other: *Call*
``secret:``        API Activity (6003)              Other: *Use*
``start:``         API Activity (6003)              Other: *Start*
``port:``          Network Activity (4001)          Open, to the session's machine
``read:``          File System Activity (1001)      Read
``write:``         File System Activity (1001)      Update
=================  ===============================  ==============================================

A call, an offer and a use are none of API Activity's create, read, update and delete, and nothing here knows which of
them a tool does; so they are Other, by name. A model's provider is not in a decision, and OCSF's ``ai_model`` requires
one: the model is a resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, assert_never

from affiant.policy.canonical.tool_origin import ANY
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
from affiant.policy.model.profile import PathMode

__all__ = ["OTHER", "activity_of", "known"]

OTHER: Final = 99
"""Of every enumeration of OCSF: the caption beside it is the source's own word."""
_MAX_PORT: Final = 65535
_OWNER: Final = {"name": "session owner", "type_id": OTHER, "type": "session owner"}
"""The actor that reaches a port of the agent's own servers."""
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


_CATEGORIES: Final = {1: "System Activity", 4: "Network Activity", 6: "Application Activity"}
"""By the thousands of a class's number."""


def activity_of(recorded: RecordedDecision) -> Mapping[str, object]:
    """The class and activity of what ``recorded`` is about, and the class's own attributes."""
    question, source = recorded.question, _asking(recorded)
    match question:
        case EgressQuestion(method=None):
            ends = {"src_endpoint": source, "dst_endpoint": _endpoint(question.host, question.port)}
            return _activity(4001, "Network Activity", 1, "Open", **ends)
        case EgressQuestion():
            return _http(question, recorded.size, source)
        case ToolQuestion(name, origin=origin):
            server = None if origin.server in (None, ANY) else {"name": origin.server}
            pinned = None if origin.schema in (None, ANY) else origin.schema
            api = known(operation=name, service=server)
            caption = "Offer" if recorded.offered else "Call"
            return _api(caption, source, api=api, resources=[known(type="tool", name=name, uid=pinned)])
        case ProviderToolQuestion(name):
            tool = {"type": "provider tool", "name": name}
            return _api("Use", source, api={"operation": name}, resources=[tool])
        case ModelQuestion(name):
            model = {"type": "model", "name": name}
            return _api("Call", source, api={"operation": "call model"}, resources=[model])
        case SecretQuestion(name, host, port):
            secret, end = {"type": "secret", "name": name}, _endpoint(host, port)
            return _api("Use", source, api={"operation": "use secret"}, resources=[secret], dst_endpoint=end)
        case StartQuestion(name):
            child = {"type": "agent", "name": name}
            return _api("Start", source, api={"operation": "start session"}, resources=[child])
        case PortQuestion(number):
            ends = {"src_endpoint": _OWNER, "dst_endpoint": {**source, "port": _port(number)}}
            return _activity(4001, "Network Activity", 1, "Open", **ends)
        case PathQuestion(path, mode):
            return _file(path, mode, source)
        case _:
            assert_never(question)


def known(**members: object) -> Mapping[str, object]:
    """The members that are known: those that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def _activity(number: int, name: str, activity: int, caption: str, **members: object) -> Mapping[str, object]:
    """An event's class, and the attributes that say what it is about."""
    return {
        "category_uid": number // 1000,
        "category_name": _CATEGORIES[number // 1000],
        "class_uid": number,
        "class_name": name,
        "activity_id": activity,
        "activity_name": caption,
        "type_uid": number * 100 + activity,
        "type_name": f"{name}: {'Other' if activity == OTHER else caption}",
        **members,
    }


def _asking(recorded: RecordedDecision) -> Mapping[str, object]:
    """The session's machine, as an endpoint or a device: what it runs on is not in a decision."""
    return known(name=recorded.agent or None, uid=recorded.session, type_id=OTHER, type="agent session")


def _http(question: EgressQuestion, size: int | None, source: Mapping[str, object]) -> Mapping[str, object]:
    method, target = question.method or "", question.target or "/"
    path, _, query = target.partition("?")
    standard = 443 if question.scheme.value == "https" else 80
    port = "" if question.port == standard else f":{question.port}"
    url = known(
        scheme=question.scheme.value,
        hostname=question.host,
        port=_port(question.port),
        path=path,
        query_string=query or None,
        url_string=f"{question.scheme.value}://{question.host}{port}{target}",
    )
    number = _METHODS.get(method, OTHER)
    return _activity(
        4002,
        "HTTP Activity",
        number,
        method if number == OTHER else method.capitalize(),
        src_endpoint=source,
        dst_endpoint=_endpoint(question.host, question.port),
        http_request=known(http_method=None if number == OTHER else method, url=url, body_length=size),
    )


def _api(caption: str, source: Mapping[str, object], **members: object) -> Mapping[str, object]:
    return _activity(6003, "API Activity", OTHER, caption, src_endpoint=source, **members)


def _file(path: str, mode: PathMode, source: Mapping[str, object]) -> Mapping[str, object]:
    """``file.type_id`` 0: a path may be a file or a folder, and a decision does not look."""
    name = path.rstrip("/").rpartition("/")[2] or "/"
    file = {"name": name, "path": path, "type_id": 0, "type": "Unknown"}
    number, caption = (2, "Read") if mode is PathMode.READ else (3, "Update")
    return _activity(1001, "File System Activity", number, caption, file=file, device=source)


def _endpoint(host: str, port: int) -> Mapping[str, object]:
    try:
        return known(ip=str(ip_address(host.removeprefix("[").removesuffix("]"))), port=_port(port))
    except ValueError:
        return known(hostname=host, port=_port(port))


def _port(port: int) -> int | None:
    """None for a port that is none: the request's own text, beside it, has it."""
    return port if port <= _MAX_PORT else None
