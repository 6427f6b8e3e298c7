"""The URLs in a model request that a model server may fetch: where each is, and by which method. Sans I/O.

Servers fetch what the parts of a message name (``image_url``, ``video_url``, ``file_url``), what documents name, and
what extensions of their own name. No list of such members is complete. So every string of a request may be a reference,
except text that is known to be text. Under any member, a string that begins like a URL is one. Under the members that
servers fetch (``_REFERENCES``) every string is one, because some servers read a path of their own file system there. In
parts of a message that are no text every string is one, except words, names and content where the dialect defines them.
In a JSON schema ``$ref`` is one, unless it points into the schema itself.

A ``data:`` URL holds its content and is fetched from nowhere. Each dialect says where its texts and parts are
(:class:`URLPlaces`).

>>> from affiant.gateway.dialects.chat.chat_urls import CHAT_URLS
>>> part = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
>>> named_urls({"messages": [{"role": "user", "content": [part]}]}, CHAT_URLS)
(NamedURL(where='messages[0].content[0].image_url.url', text='https://example.com/a.png', method='GET'),)
>>> named_urls({"messages": [{"role": "user", "content": "read https://example.com/"}]}, CHAT_URLS)
()
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from affiant.gateway.dialects.strict_json import Step, fold, written

__all__ = [
    "DATA",
    "MEDIA",
    "MEDIA_MEMBERS",
    "MOST_URLS",
    "OTHER",
    "POSTED",
    "SCHEMA",
    "TEXT",
    "NamedURL",
    "URLPlaces",
    "named_urls",
]

MOST_URLS: Final = 32
"""The most that a request may name. The walk ends at the first one beyond: each has its path written."""

TEXT: Final = "text"
DATA: Final = "data"
"""Holds no reference: arguments of calls, the caller's own notes, and what an earlier answer cited."""
SCHEMA: Final = "schema"
OTHER: Final = "other"
POSTED: Final = "posted"
"""A reference to a server that is not only read: the model chooses what is sent there."""
MEDIA: Final = "media"
"""A part that is no text: every string is a reference, except under the members that :data:`MEDIA_MEMBERS` has."""
_BASE64: Final = "base64"
_NAME: Final = "name"
_MEDIA_TYPE: Final = "media type"
MEDIA_MEMBERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("format", "media_type", "mime_type"), _MEDIA_TYPE),
    **dict.fromkeys(("audio_embeds", "data", "file_data", "image_embeds", "video_embeds"), _BASE64),
    **dict.fromkeys(("detail", "file_id", "filename", "type", "uuid"), _NAME),
    **dict.fromkeys(("cache_control", "prompt_cache_breakpoint"), OTHER),
}
"""Of a part that is no text, at any depth: what is no reference. An id, a word or a name has no folders in it and does
not begin like a URL; so has a media type, but for the ``/`` between its two names."""


@dataclass(frozen=True, slots=True)
class URLPlaces:
    """Where the texts, parts, schemas and data of a dialect's requests are. The root's place is ``request``.

    Args:
        members: an object's place -> the places of its members. others: its place -> the place of all its other
            members; ``other`` where it is not here.
        entries: place of a list -> the place of its entries, where that is another.
        kinds: place of objects of several forms -> ``type`` -> the place of that form. untyped: the same place -> the
            form of what has no ``type``. unknown: the same place -> the form of what has another.
        texts: places at which a string is text; :data:`TEXT` is one.
    """

    members: Mapping[str, Mapping[str, str]]
    others: Mapping[str, str]
    entries: Mapping[str, str]
    kinds: Mapping[str, Mapping[str, str]]
    untyped: Mapping[str, str]
    unknown: Mapping[str, str]
    texts: frozenset[str]


_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = dict.fromkeys((MEDIA, _MEDIA_TYPE, _NAME), MEDIA_MEMBERS)
_OTHERS: Final[Mapping[str, str]] = {
    SCHEMA: SCHEMA,
    _BASE64: _BASE64,
    **dict.fromkeys((MEDIA, _MEDIA_TYPE, _NAME), MEDIA),
}
"""As :class:`URLPlaces`: what is so in every dialect."""

_REFERENCES: Final = frozenset(
    {
        *(
            "audio",
            "audios",
            "document",
            "documents",
            "file",
            "filename",
            "filepath",
            "files",
            "href",
            "image",
            "images",
            "link",
            "path",
            "source",
            "src",
            "video",
            "videos",
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
_SCHEMA_NAMES: Final = _REFS | _SCHEMA_TEXTS
_POSTED: Final = frozenset({"serverurl"})
"""Folded names of members that are as :data:`POSTED`, wherever they are."""
_LIKE_A_URL: Final = re.compile(
    r"[^!-~]*(?:[a-z][a-z0-9+.-]*:[/\\]|(?:data|file|ftp|ftps|gs|http|https|s3|ws|wss):)", re.IGNORECASE
)
_OF_TWO_NAMES: Final = re.compile(
    r"[A-Za-z0-9][\w!#$&^.+-]*/[A-Za-z0-9][\w!#$&^.+-]*(?: *;[^/\\]*)?\Z", re.ASCII
)
"""A media type: two names (RFC 6838, section 4.2), and parameters without a path."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}\Z")
_LONGEST_PATH: Final = 4096
"""Bytes of a path (Linux, ``PATH_MAX``)."""


class NamedURL(NamedTuple):
    """A URL in a request: where it is, as it is written, and what a server would do with it."""

    where: str
    text: str
    method: str


def named_urls(request: Mapping[str, object], places: URLPlaces) -> tuple[NamedURL, ...]:
    """The URLs that are not ``data:`` ones, in their order; those beyond ``MOST_URLS`` and one are not looked for."""
    found: list[NamedURL] = []
    left = [_inside(_Held(None, "", "request", request), places)]  # no recursion: the depth is the agent's
    while left and len(found) <= MOST_URLS:
        held = next(left[-1], None)
        if held is None:
            left.pop()
            continue
        step, name, place, value = held
        if not isinstance(value, str):
            left.append(_inside(held, places))
        elif place == SCHEMA and name in _SCHEMA_TEXTS and "{" in value:
            left.append(_inside(_Held(step, "", place, _parsed(value)), places))
        elif place not in places.texts and _is_reference(name, place, value):
            found.append(
                NamedURL(written(step), value, "POST" if place == POSTED or name in _POSTED else "GET")
            )
    return tuple(found)


class _Held(NamedTuple):
    """A value that may be a reference or hold one; ``name``: of the member that holds it, folded outside of schemas."""

    step: Step | None
    name: str
    place: str
    value: object


def _is_reference(name: str, place: str, value: str) -> bool:
    if place == TEXT or value.startswith("data:"):
        return False
    if place == SCHEMA:
        return name in _REFS and not value.startswith("#")
    if place == _BASE64:
        return not _is_base64(value)
    if place == _MEDIA_TYPE and _OF_TWO_NAMES.match(value):
        return False
    if place in {_NAME, _MEDIA_TYPE}:
        return "/" in value or "\\" in value or _LIKE_A_URL.match(value) is not None
    if place in (MEDIA, POSTED) or name in _REFERENCES or name.endswith(_ENDINGS):
        return bool(value)
    return _LIKE_A_URL.match(value) is not None


def _is_base64(value: str) -> bool:
    """Whether a text is content in base64, and no absolute path."""
    if value.startswith("/") and len(value) < _LONGEST_PATH:
        return False
    return len(value) % 4 == 0 and _ENCODED.match(value) is not None


def _inside(held: _Held, places: URLPlaces) -> Iterator[_Held]:
    """What of an object or a list may be a reference or hold one; one after the other, so that none is kept."""
    if isinstance(held.value, list):
        inner = places.entries.get(held.place, held.place)
        for at, entry in enumerate(held.value):
            if isinstance(entry, (str, list, dict)):
                yield _Held(Step(held.step, at), held.name, inner, entry)
    elif isinstance(held.value, dict):
        form, kind = held.place, held.value.get("type")
        if form in places.kinds:
            kinds, unknown = places.kinds[form], places.unknown[form]
            known = kinds.get(kind, unknown) if isinstance(kind, str) else unknown
            form = places.untyped[form] if kind in (None, "") else known
        members = places.members.get(form) or _MEMBERS.get(form, {})
        others = places.others.get(form) or _OTHERS.get(form, OTHER)
        for name, member in held.value.items():
            inner = members.get(name, others)
            if inner == SCHEMA != form and name not in _SCHEMA_NAMES and not _may_refer(member):
                continue
            if inner != DATA and isinstance(member, (str, list, dict)):
                shown = name if _PLAIN_NAME.match(name) else "?"
                yield _Held(Step(held.step, shown), name if inner == SCHEMA else fold(name), inner, member)


def _may_refer(schema: object) -> bool:
    """Whether a whole schema has one of the only names under which it could refer to anything: most have none."""
    left = [schema]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if not _SCHEMA_NAMES.isdisjoint(value):
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # no schema to any server
