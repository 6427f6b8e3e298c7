"""A request's body: read strictly, and taken apart so that what stays keeps its bytes. Sans I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from affiant.gateway.dialects.dialect import Offered
from affiant.gateway.dialects.strict_json import parse_json
from affiant.gateway.wire.errors import RequestMalformed

__all__ = [
    "almost_named",
    "array_in",
    "assembled",
    "keep_tools",
    "read_head",
    "spelled_parameters",
    "taken_apart",
]

_MODEL: Final = re.compile(r"[\x21-\x7e]{1,200}\Z")


def read_head(body: bytes, *, usual_model: str | None = None) -> tuple[dict[str, object], str, bool]:
    """The object that a request is, the model that it names, and whether it asks for a stream.

    Args:
        usual_model: what a request asks for that names none; None: it must name one.

    Raises:
        RequestMalformed: it is not one strict JSON object, names no model in 1 to 200 printable ASCII characters, or
            has a ``stream`` that is no truth value.
    """
    value = parse_json(body)
    if not isinstance(value, dict):
        raise RequestMalformed("the body is not an object", found=type(value).__name__)
    model, stream = value.get("model", usual_model), value.get("stream", False)
    if not isinstance(model, str) or _MODEL.match(model) is None:
        raise RequestMalformed(
            "no usable model name", expected="1 to 200 printable ASCII characters", where="model"
        )
    if not isinstance(stream, (bool, type(None))):
        raise RequestMalformed("not a truth value", where="stream")
    return value, model, bool(stream)


def array_in(value: Mapping[str, object], name: str) -> Sequence[object]:
    """What a member of a request lists; nothing where it is left out or null.

    Raises:
        RequestMalformed: it holds something else.
    """
    found = value.get(name)
    if found is None:
        return ()
    if not isinstance(found, list):
        raise RequestMalformed("not an array", where=name)
    return found


def spelled_parameters(value: Mapping[str, object], names: Iterable[str]) -> Mapping[str, str]:
    """Those of ``names`` that a request sets, each as it is written, cut at 64 characters."""
    found = {}
    for name in names:
        if value.get(name) is not None:
            found[name] = _spelled(value[name])
    return found


def _spelled(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    shown = "".join(char if char.isprintable() else "?" for char in text[:64])
    return shown or "?"


def almost_named(exact: str) -> RequestMalformed:
    """That a member's name is almost ``exact``."""
    return RequestMalformed(
        "a member's name differs from a known one only in case or separators",
        expected=exact,
        where=exact,
        hint="Two readers would see two requests",
    )


def taken_apart(body: bytes) -> dict[str, msgspec.Raw]:
    """The members of the object that a body is, each with its bytes.

    Raises:
        RequestMalformed: not one JSON object.
    """
    try:
        return msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError) as error:  # what one reader takes and the other does not
        raise RequestMalformed("the body is not JSON") from error


def keep_tools(
    members: dict[str, msgspec.Raw],
    name: str,
    read: Callable[[object], Offered],
    allowed: Callable[[Offered], bool],
) -> set[str | None]:
    """Keep of the list that a member holds what is ``allowed``; the member itself goes where nothing is.

    Returns:
        What a choice of tools calls those that stay.

    Raises:
        RequestMalformed: the member holds no list.
    """
    if name not in members or bytes(members[name]) == b"null":
        return set()
    try:
        entries = msgspec.json.decode(members[name], type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise RequestMalformed("the body is not JSON") from error
    offered = [(entry, read(parse_json(bytes(entry)))) for entry in entries]
    kept = [(entry, tool) for entry, tool in offered if tool.called is not None and allowed(tool)]
    if kept:
        members[name] = msgspec.Raw(b"[" + b",".join(bytes(entry) for entry, _ in kept) + b"]")
    else:
        del members[name]
    return {tool.called for _, tool in kept}


def assembled(members: Mapping[str, msgspec.Raw]) -> bytes:
    """The body of these members, each with the bytes that it had."""
    pairs = (msgspec.json.encode(name) + b":" + bytes(value) for name, value in members.items())
    return b"{" + b",".join(pairs) + b"}"
