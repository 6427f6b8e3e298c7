"""The URLs in a chat completion request that a model server may fetch: where each is, and by which method. Sans I/O.

Servers fetch what the parts of a message name (``image_url``, ``video_url``, ``file_url``), what documents name, and
what extensions of their own name. No list of such members is complete. So every string of a request may be a reference,
except text that is known to be text. Under any member, a string that begins like a URL is one. Under the members that
servers fetch (``_REFERENCES``) every string is one, because some servers read a path of their own file system there. In
a JSON schema ``$ref`` is one, unless it points into the schema itself.

A ``data:`` URL holds its content and is fetched from nowhere.

>>> part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
>>> named_urls({"messages": [{"role": "user", "content": [part]}]})
(NamedURL(where='messages[0].content[0].image_url.url', text='https://example.com/a.png', method='GET'),)
>>> named_urls({"messages": [{"role": "user", "content": "read https://example.com/"}]})
()
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from affiant.gateway.openai.strict_json import fold

__all__ = ["NamedURL", "named_urls"]

_TEXT: Final = "text"
_DATA: Final = "data"
_SCHEMA: Final = "schema"
_OTHER: Final = "other"
_PLACES: Final[Mapping[str, Mapping[str, str]]] = {
    "request": {
        "documents": "document",
        "messages": "message",
        "prediction": "message",
        "tools": "tool",
        **dict.fromkeys(
            (
                *("bad_words", "chat_template", "grammar", "guided_choice", "guided_grammar", "guided_regex"),
                *("model", "prompt_cache_key", "safety_identifier", "stop", "user"),
            ),
            _TEXT,
        ),
        **dict.fromkeys(
            (
                *("functions", "guided_json", "json_schema", "response_format", "structural_tag"),
                "structured_outputs",
            ),
            _SCHEMA,
        ),
        "metadata": _DATA,
    },
    "message": {
        "annotations": _DATA,
        "content": "content",
        "function_call": "call",
        "tool_calls": "call",
        **dict.fromkeys(("name", "reasoning", "reasoning_content", "refusal", "tool_call_id"), _TEXT),
    },
    "part": {"text": _TEXT, "refusal": _TEXT},
    "document": {"text": _TEXT, "title": _TEXT},
    "tool": {"function": _SCHEMA, "custom": _SCHEMA},
    "call": {
        "arguments": _DATA,
        "custom": "call",
        "function": "call",
        "id": _TEXT,
        "input": _DATA,
        "name": _TEXT,
    },
}
"""An object's place -> the places of its members; that of every other member is ``other``. ``data`` holds no reference:
arguments of calls, the caller's own notes, and what an earlier answer cited."""
_NOT_READ: Final = frozenset({_TEXT, "content", "part"})
"""Places at which a string is text."""
_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "part": ("text", "input_text", "output_text", "refusal"),
    "tool": ("function", "custom"),
}
"""Place -> the types of the objects whose members are as ``_PLACES`` says; the first where an object has none."""

_REFERENCES: Final = frozenset(
    {
        *(
            "audio",
            "audios",
            "document",
            "file",
            "files",
            "image",
            "images",
            "video",
            "videos",
            "href",
            "link",
        ),
        *("apibase", "callback", "endpoint", "host", "hostname", "proxy", "remotehost", "webhook"),
    }
)
"""Folded names under which a server takes a URL, or a path, as text. Names that end with ``url`` or ``uri`` are like
these."""
_ENDINGS: Final = ("url", "urls", "uri", "uris")
_REFS: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
"""Names of what a JSON schema takes from elsewhere. They are exact, as are those of all members of a schema."""
_SCHEMA_TEXTS: Final = frozenset({"guided_json", "json", "json_schema", "schema", "structural_tag"})
"""Names under which a schema may be JSON as text."""
_POSTED: Final = frozenset({"serverurl"})
"""Folded names of servers that are not only read: the model chooses what is sent there."""
_LIKE_A_URL: Final = re.compile(
    r"[^!-~]*(?:[a-z][a-z0-9+.-]*:[/\\]|(?:data|file|ftp|ftps|gs|http|https|s3|ws|wss):)", re.IGNORECASE
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")


class NamedURL(NamedTuple):
    """A URL in a request: where it is, as it is written, and what a server would do with it."""

    where: str
    text: str
    method: str


def named_urls(request: Mapping[str, object]) -> tuple[NamedURL, ...]:
    """The URLs that are not ``data:`` ones, in their order."""
    found: list[NamedURL] = []
    left: list[tuple[str, str, str, object]] = [
        ("", "", "request", request)
    ]  # no recursion: the depth is the agent's
    while left:
        where, name, place, value = left.pop()
        if isinstance(value, str):
            if place == _SCHEMA and name in _SCHEMA_TEXTS and "{" in value:
                left.append((where, "", place, _parsed(value)))
            elif _is_reference(name, place, value):
                found.append(NamedURL(where, value, "POST" if name in _POSTED else "GET"))
        elif isinstance(value, list):
            inner = "part" if place == "content" else place
            left += reversed([(f"{where}[{at}]", name, inner, entry) for at, entry in enumerate(value)])
        elif isinstance(value, dict):
            left += reversed(list(_members(where, place, value)))
    return tuple(found)


def _is_reference(name: str, place: str, value: str) -> bool:
    if place in _NOT_READ or value.startswith("data:"):
        return False
    if place == _SCHEMA:
        return name in _REFS and not value.startswith("#")
    if name in _REFERENCES or name.endswith(_ENDINGS):
        return bool(value)
    return _LIKE_A_URL.match(value) is not None


def _members(where: str, place: str, value: Mapping[str, object]) -> Iterator[tuple[str, str, str, object]]:
    """The members of an object that may hold a reference: path, name, folded outside of schemas, place, value."""
    places, types = _PLACES.get(place, {}), _TYPES.get(place)
    if types is not None and value.get("type", types[0]) not in types:
        places = {}
    for name, member in value.items():
        inner = _SCHEMA if place == _SCHEMA else places.get(name, _OTHER)
        if inner != _DATA:
            shown = name if _PLAIN_NAME.match(name) else "?"
            yield (
                (f"{where}.{shown}" if where else shown),
                name if inner == _SCHEMA else fold(name),
                inner,
                member,
            )


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # no schema to any server
