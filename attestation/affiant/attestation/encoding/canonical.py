"""Writes canonical JSON (RFC 8785) over a closed set of values, and reads nothing else.

Values are ``dict`` with ``str`` keys, ``list`` or ``tuple``, ``str``, ``int`` within +-(2**53 - 1), ``bool``
and ``None``; there are no floating-point numbers in any document of ours, so the number rules of RFC 8785
reduce to decimal integers. Members are sorted by UTF-16 code units (section 3.2.3).

:func:`parse_canonical` refuses every text that is not byte for byte the canonical form of its own value. That
one comparison closes duplicate members, white space, number encodings, escapes and lone surrogates together.
:func:`parse_strict` is for documents that people write: any layout, but no duplicate members, no floats, and
bounded size and depth.

>>> canonical({"b": 1, "a": [True, None]})
b'{"a":[true,null],"b":1}'
>>> parse_canonical(b'{"a":1,"a":2}')
Traceback (most recent call last):
    ...
affiant.attestation.encoding.canonical.JSONError: a member stands twice; found 'a'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Final, NoReturn

from affiant.errors import MalformedError

__all__ = [
    "MAX_INTEGER",
    "JSONError",
    "canonical",
    "parse_canonical",
    "parse_object",
    "parse_strict",
    "sorted_json",
]

MAX_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly (RFC 8785, section 3.2.2.3; RFC 7493)."""

_STRUCTURE: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Strings as a whole (so that brackets in them do not count), and brackets."""

_STRING: Final = re.compile(rb'"[^"]*"')
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))

_ASTRAL: Final = frozenset(range(0xF0, 0x100))

_MAX_DEPTH: Final = 32
"""Deeper than any document of ours; far below what exhausts a stack (CWE-674)."""


class JSONError(MalformedError):
    """A document is not strict JSON, or not its own canonical form."""

    code = "fmt.json"


def canonical(value: object) -> bytes:
    """The RFC 8785 bytes of ``value``.

    Raises:
        JSONError: a value outside the closed set (a float, a huge integer, a lone surrogate, a non-text key).
    """
    kind = type(value)
    if kind is str:
        return _utf8(encode_basestring(value))  # type: ignore[arg-type]
    if kind is int and -MAX_INTEGER <= value <= MAX_INTEGER:  # type: ignore[operator]
        return str(value).encode("ascii")
    if _is_plain(value, 0):
        return _utf8(_ENCODER.encode(value))
    return _utf8(_UNSORTED.encode(_sorted(value, 0)))


def sorted_json(value: object) -> str:
    """Compact JSON text of ``value``, members sorted by code points; empty where there is none.

    It is the canonical form only where the caller shows that, by what the text matches: nothing is judged here.
    """
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return ""


def _utf8(text: str) -> bytes:
    """The bytes of JSON text.

    Raises:
        JSONError: it holds a lone surrogate.
    """
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise JSONError("text holds a lone surrogate") from error


def _is_plain(value: object, depth: int) -> bool:
    """Whether ``value`` is of the closed set by its exact types, with names that :data:`_ENCODER` sorts as we do.

    False says nothing but that it takes the long way, which judges it: nothing is refused here.
    """
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return -MAX_INTEGER <= value <= MAX_INTEGER  # type: ignore[operator]
    if depth == _MAX_DEPTH:
        return False
    if kind is dict:
        for name, item in value.items():  # type: ignore[attr-defined]
            if type(name) is not str or not name.isascii() or not _is_plain(item, depth + 1):
                return False
        return True
    if kind is list or kind is tuple:
        return all(_is_plain(item, depth + 1) for item in value)  # type: ignore[attr-defined]
    return False


def _sorted(value: object, depth: int) -> object:
    if depth > _MAX_DEPTH:
        raise JSONError("nested too deep", expected=f"at most {_MAX_DEPTH} levels")
    match value:
        case None | bool() | str():
            return value
        case int():
            if abs(value) > MAX_INTEGER:
                raise JSONError("integer beyond 2**53 - 1")
            return value
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise JSONError("member name is not text")
            return {key: _sorted(value[key], depth + 1) for key in sorted(value, key=_utf16)}
        case list() | tuple():
            return [_sorted(item, depth + 1) for item in value]
        case _:
            raise JSONError(
                "value has no canonical form",
                expected="object, array, text, integer, true, false or null",
                found=type(value).__name__,
            )


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def parse_canonical(data: bytes, *, limit: int = 1 << 20) -> object:
    """The value of ``data``, which must be byte for byte its own canonical form.

    Raises:
        JSONError: anything else, or more than ``limit`` bytes.
    """
    value = _read(data, _PLAIN, limit=limit)  # of two members of one name it keeps one: the comparison fails
    if _canonical_again(value, data) != data:
        parse_strict(data, limit=limit)
        raise JSONError("not the canonical form of its own value (RFC 8785)")
    return value


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
)
"""Sorts by code points, which is the order of UTF-16 code units as long as all names lie in the basic plane."""

_UNSORTED: Final = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False
)


def _canonical_again(value: object, data: bytes) -> bytes:
    """As :func:`canonical`, for a value that :func:`parse_strict` has just read from ``data``.

    Its types and numbers are already of the closed set; only names beyond the basic plane (a UTF-8 lead byte
    of F0 or more) sort differently and take the long way.
    """
    if not data.isascii() and not _ASTRAL.isdisjoint(data):
        return canonical(value)
    return _utf8(_ENCODER.encode(value))


def parse_strict(data: bytes, *, limit: int = 1 << 20) -> object:
    """The value of a JSON document in any layout; no duplicate members, no floats, bounded size and depth.

    Raises:
        JSONError: not such a document.
    """
    return _read(data, _STRICT, limit=limit)


def _read(data: bytes, decoder: json.JSONDecoder, *, limit: int) -> object:
    if len(data) > limit:
        raise JSONError("document too large", expected=f"at most {limit} bytes", found=f"{len(data)} bytes")
    _bound_depth(data)
    try:
        return decoder.decode(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise JSONError("not UTF-8") from error
    except json.JSONDecodeError as error:
        raise JSONError(
            f"not JSON: {error.msg}", where=f"line {error.lineno} column {error.colno}"
        ) from error


def parse_object(data: bytes, *, limit: int = 1 << 20, strict_form: bool = True) -> Mapping[str, object]:
    """As :func:`parse_canonical` (or, without ``strict_form``, :func:`parse_strict`), for an object."""
    value = parse_canonical(data, limit=limit) if strict_form else parse_strict(data, limit=limit)
    if not isinstance(value, dict):
        raise JSONError("not an object", found=type(value).__name__)
    return value


def _bound_depth(data: bytes) -> None:
    """Refuse deep nesting before the recursive reader sees it (CWE-674), in linear time."""
    if data.count(b"[") + data.count(b"{") <= _MAX_DEPTH or _shallow(data):
        return
    depth = 0
    for match in _STRUCTURE.finditer(data):
        mark = match.group()[0]
        if mark in (0x5B, 0x7B):
            depth += 1
            if depth > _MAX_DEPTH:
                raise JSONError("nested too deep", expected=f"at most {_MAX_DEPTH} levels")
        elif mark in (0x5D, 0x7D):
            depth -= 1


def _shallow(data: bytes) -> bool:
    """Whether at most ``_MAX_DEPTH`` rounds of cancelling pairs leave nothing: the fast answer for honest text.

    False says nothing; it sends the text the long way.
    """
    if b"\\" in data:
        return False
    marks = _STRING.sub(b"", data).translate(None, _NO_BRACKET)
    for _ in range(_MAX_DEPTH):
        if not marks:
            return True
        marks = marks.replace(b"[]", b"").replace(b"{}", b"")
    return not marks


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise JSONError("a member stands twice", found=repr(name[:40]))
            seen.add(name)
    return members


def _no_float(text: str) -> NoReturn:
    raise JSONError("not an integer", found=text[:24])


def _integer(text: str) -> int:
    if len(text) > 17 or abs(value := int(text)) > MAX_INTEGER:
        raise JSONError("integer beyond 2**53 - 1")
    return value


_PLAIN: Final = json.JSONDecoder(parse_float=_no_float, parse_constant=_no_float, parse_int=_integer)
_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_no_float, parse_constant=_no_float, parse_int=_integer
)
