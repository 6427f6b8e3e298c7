"""The place of a secret in a request's body: one value of a JSON object, or one field of a form, and all of it.

Such a body is read whole and strictly before anything of it is sent, because two readers must not find two places. The
placeholder must be there as it was given out, once, with nothing beside it; every other byte goes on as it came.

>>> BodySurface(json="/auth/token").label, BodySurface(form="client_secret").label
('body:json:/auth/token', 'body:form:client_secret')
>>> BodySurface(json="/a").place(b'{"a": "placeholder", "b": 1.5}', b"placeholder")
slice(7, 18, None)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from affiant.errors import ConfigurationError
from affiant.policy.canonical.request_names import is_pointer
from affiant.secrets.injection.surface import QuerySurface
from affiant.secrets.names.errors import SecretValueInvalid

__all__ = ["MAX_HELD_BODY", "BodySurface", "media_type"]

MAX_HELD_BODY: Final = 1 << 20
"""Bytes of a body that is held for a secret in it."""

_JSON: Final = b"application/json"
_FORM: Final = b"application/x-www-form-urlencoded"
_MEDIA_TYPE: Final = re.compile(
    rb"([a-z0-9!#$&^_.+/-]+)[ \t]*(?:;[ \t]*charset=(\"?)utf-8\2[ \t]*)?\Z", re.IGNORECASE
)

_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_ESCAPED: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})|[^\x21-\x7e]")
"""What no client writes into a form: a percent sign without its digits, white space, bytes beyond ASCII."""
_MARK: Final = b"a-place-that-no-placeholder-has"


@dataclass(frozen=True, slots=True)
class BodySurface:
    """One place of a body.

    Args:
        json: a pointer into an object (RFC 6901), of names that need no escape in JSON and of indices.
        form: the name of a field, as of a parameter of the query.

    Raises:
        ``secret.surface``: neither, both, or no such place.
    """

    json: str | None = None
    form: str | None = None

    def __post_init__(self) -> None:
        if (self.json is None) == (self.form is None):
            raise ConfigurationError(
                "not one place of a body", expected="json or form", code="secret.surface"
            )
        if self.json is not None and not is_pointer(self.json):
            raise ConfigurationError(
                "not a pointer into a JSON object", found=repr(self.json[:80]), code="secret.surface"
            )
        if self.form is not None:
            QuerySurface(self.form)

    @property
    def label(self) -> str:
        """How decisions and records spell it: ``body:json:/auth/token``, ``body:form:client_secret``."""
        return f"body:json:{self.json}" if self.form is None else f"body:form:{self.form}"

    @property
    def media_type(self) -> bytes:
        """What the body must be."""
        return _JSON if self.form is None else _FORM

    def place(self, body: bytes, placeholder: bytes) -> slice | None:
        """Where in ``body`` the placeholder is all of this value; None where it is not, or could be to some reader."""
        if self.form is None:
            return self._in_object(body, placeholder)
        if _ESCAPED.search(body) is not None:
            return None
        found = QuerySurface(self.form).place(b"?" + body, placeholder)
        return None if found is None else slice(found.start - 1, found.stop - 1)

    def _in_object(self, body: bytes, placeholder: bytes) -> slice | None:
        """The one literal of the placeholder, if another text in its stead would be where the pointer leads."""
        assert self.json is not None
        literal = b'"%b"' % placeholder
        if body.count(placeholder) != 1 or (at := body.find(literal)) < 0:
            return None
        place = slice(at + 1, at + 1 + len(placeholder))
        marked = body[: place.start] + _MARK + body[place.stop :]
        found = _value_at(_read(marked), _steps(self.json))
        return place if _MARK not in body and found == _MARK.decode("ascii") else None

    def substituted(self, body: bytes, place: slice, secret: bytes) -> bytes:
        """``body`` with ``secret`` in the placeholder's place, as JSON or the form spells it. For the broker's process.

        Raises:
            SecretValueInvalid: the secret is no text, which JSON cannot hold.
        """
        if self.form is not None:
            return QuerySurface.substituted(body, place, secret)
        try:
            spelled = json.dumps(secret.decode("utf-8"), ensure_ascii=False)[1:-1].encode("utf-8")
        except UnicodeDecodeError:  # not chained: it holds the value
            raise SecretValueInvalid("JSON cannot carry the value", expected="UTF-8") from None
        return body[: place.start] + spelled + body[place.stop :]


def media_type(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The media type of a body that can be read as it is: one ``Content-Type``, UTF-8, no content coding."""
    fields = [(name.lower(), value) for name, value in headers]
    types = [value for name, value in fields if name == b"content-type"]
    if len(types) != 1 or any(name == b"content-encoding" for name, _ in fields):
        return None
    match = _MEDIA_TYPE.match(types[0])
    return None if match is None else match[1].lower()


def _steps(pointer: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def _read(body: bytes) -> object:
    """The value of strict JSON; None where it is none: members twice, other encodings, too deep, more than JSON."""
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except (
        ValueError,
        RecursionError,
    ):  # what is not UTF-8, no JSON, and numbers of thousands of digits among them
        return None


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is duplicated")
    return members


def _not_finite(_: str) -> NoReturn:
    raise ValueError("not a number of JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_finite)


def _value_at(value: object, steps: tuple[str, ...]) -> object:
    """The value to which the steps lead from an object; None where there is none, or another name is alike."""
    if not isinstance(value, dict):
        return None
    for step in steps:
        if isinstance(value, dict):
            if sum(name.casefold() == step.casefold() for name in value) != 1:
                return None
            value = value.get(step)
        elif isinstance(value, list) and _INDEX.match(step) is not None and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
