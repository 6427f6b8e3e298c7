"""Finds parts of secrets: 12 bytes and more that a host cut out of its echo, which no whole encoding matches.

Only what is secret of a value counts: not the prefix of a token, the header and claims of a JOSE token, PEM's armour,
or the scheme, user and host of a URL. Where fewer than 12 bytes would be left, or a URL's password is shorter, all of
it counts. Looked for are the bytes as they are, and as URLs, JSON, HTML, hexadecimal digits and base64 spell them.

A part is never replaced, because a host that echoes what it is asked would then answer guesses: the agent appends one
character after the other to what it knows, and sees when the echo is replaced. It ends the answer instead, and the
broker counts how often (``partial_echoes``).

Every part has a run of 12 bytes of one spelling, and so a gram of 6 bytes at one of the places that lie 7 apart.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from affiant.secrets.names.errors import SecretPartialEcho
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.variants import HTML_WRITERS, JSON_WRITERS, PERCENT_WRITERS, base64_at

__all__ = ["LEAST_PART", "Parts", "secret_spans"]

LEAST_PART: Final = 12
"""Bytes that are secret; fewer pass."""

_LEAST_IN_BASE64: Final = LEAST_PART - 2
"""The first and the last of 12 bytes may share a character with a neighbour. Of 11 bytes, 10 are whole at times."""

_GRAM: Final = 6
_STEP: Final = LEAST_PART - _GRAM + 1

_PEM: Final = re.compile(rb"-----BEGIN [^\n]*-----\n(.*?)\n-----END [^\n]*-----\n?\Z", re.DOTALL)
_HOST: Final = rb"(?:\[[0-9A-Fa-f:.]*\]|[^][/?#@:,]*)(?::[0-9]{0,5})?"
_URL: Final = re.compile(
    rb"[A-Za-z][A-Za-z0-9+.-]*://(?:([^/?#:]*?)(?::(|[^/?#]{%d,}))?@)?%b(?:,%b)*(?=[/?#]|\Z)(.*)\Z"
    % (LEAST_PART, _HOST, _HOST),
    re.DOTALL,
)
"""RFC 3986, section 3.2, with several hosts, as database drivers list them. A password is long, and may hold ``@``."""
_JOSE: Final = re.compile(rb"eyJ[A-Za-z0-9_-]*\.(?:eyJ[A-Za-z0-9_-]*\.)?")
"""RFC 7515, section 3.1: header and claims are JSON objects, and so begin with ``{\"``."""
_PREFIX: Final = re.compile(rb"AKIA|ASIA|[A-Za-z]{2,10}[0-9]{0,2}[._-](?:[A-Za-z]{1,8}[0-9]{0,2}[._-]){0,2}")
"""``ghp_``, ``github_pat_``, ``sk-proj-``, ``sk-ant-api03-``, ``dop_v1_``, ``hvs.``, ``ya29.``."""


def secret_spans(value: bytes) -> tuple[range, ...]:
    """Where ``value`` is secret: the places that its form alone does not give away."""
    spans = tuple(_spans_by_form(value))
    return spans if sum(map(len, spans)) >= LEAST_PART else (range(len(value)),)


def _spans_by_form(value: bytes) -> Iterator[range]:
    if armour := _PEM.match(value):
        yield range(*armour.span(1))
    elif url := _URL.match(value):
        yield range(*url.span(2 if url[2] else 1))  # with an empty password, the user is the secret
        yield range(*url.span(3))
    else:
        head = _JOSE.match(value) or _PREFIX.match(value)
        yield range(0 if head is None else head.end(), len(value))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Spelling:
    """A value in one encoding.

    Args:
        starts, ends: of each of the value's units in the text, both growing.
        secret: of the first n units, how many bytes are secret.
    """

    text: bytes
    starts: Sequence[int]
    ends: Sequence[int]
    secret: Sequence[int]
    name: str
    least: int = LEAST_PART

    def is_part(self, start: int, end: int) -> bool:
        """Whether ``text[start:end]`` spells so many secret bytes whole that it is a part."""
        whole = self.secret[bisect_right(self.ends, end)] - self.secret[bisect_left(self.starts, start)]
        return whole >= self.least


class Parts:
    """Parts of some values, of none at first; its holders hold it as it is now."""

    __slots__ = ("_grams",)

    def __init__(self) -> None:
        self._grams: dict[bytes, list[tuple[_Spelling, int]]] = {}

    def know(self, secrets: Iterable[tuple[SecretValue, str]]) -> None:
        """Look for parts of these from now on.

        Args:
            secrets: pairs of a value and the name of its secret.
        """
        grams: dict[bytes, list[tuple[_Spelling, int]]] = {}
        for value, name in secrets:
            for spelling in _spellings(value.reveal(), name):
                for at in range(len(spelling.text) - _GRAM + 1):
                    grams.setdefault(spelling.text[at : at + _GRAM], []).append((spelling, at))
        self._grams = grams

    def __repr__(self) -> str:
        return "<Parts>"

    def require_none(self, data: bytes, *, before: int | None = None) -> None:
        """Refuse a part in ``data``.

        Args:
            before: one that begins there or later is left for later; None: none is.

        Raises:
            SecretPartialEcho: there is one.
        """
        grams, most = self._grams, len(data) if before is None else before
        if not grams or most <= 0 or len(data) < LEAST_PART:
            return
        places = range(0, len(data) - _GRAM + 1, _STEP)
        for place in [place for place in places if data[place : place + _GRAM] in grams]:
            for spelling, at in grams[data[place : place + _GRAM]]:
                back = _common(data, place - 1, spelling.text, at - 1, -1)
                on = _common(data, place + _GRAM, spelling.text, at + _GRAM, 1)
                if place - back < most and spelling.is_part(at - back, at + _GRAM + on):
                    raise SecretPartialEcho(
                        "the host sent a part of a secret back; the answer ends before it",
                        where=spelling.name,
                    )


def _common(data: bytes, here: int, text: bytes, there: int, step: int) -> int:
    """How many bytes agree from ``here`` and ``there`` on, in the direction of ``step``."""
    count = 0
    while 0 <= here < len(data) and 0 <= there < len(text) and data[here] == text[there]:
        here, there, count = here + step, there + step, count + 1
    return count


def _spellings(value: bytes, name: str) -> Iterator[_Spelling]:
    counts = bytearray(len(value))
    for span in secret_spans(value):
        counts[span.start : span.stop] = b"\1" * len(span)
    secret = (0, *accumulate(counts))
    seen: set[bytes] = set()
    units = [value[at : at + 1] for at in range(len(value))]
    yield from _by_piece(units, secret, name, seen)
    for write in (*PERCENT_WRITERS, bytes.hex, _upper_hex):
        yield from _by_piece([write(unit).encode() for unit in units], secret, name, seen)
    characters = _characters(value)
    at_characters = (0, *(secret[end] for end in accumulate(len(each) for each in characters)))
    for escapes in (*JSON_WRITERS, *HTML_WRITERS):
        pieces = [each.decode().translate(escapes).encode() for each in characters]
        yield from _by_piece(pieces, at_characters, name, seen)
    for offset in range(3):
        text = base64_at(value, offset)
        first = -(-8 * offset // 6)
        starts = [8 * (offset + at) // 6 - first for at in range(len(value))]
        ends = [-(-8 * (offset + at + 1) // 6) - first for at in range(len(value))]
        for alphabet in (text, text.translate(bytes.maketrans(b"+/", b"-_"))):
            if alphabet not in seen:
                seen.add(alphabet)
                yield _Spelling(alphabet, starts, ends, secret, name, _LEAST_IN_BASE64)


def _upper_hex(data: bytes) -> str:
    return data.hex().upper()


def _characters(value: bytes) -> list[bytes]:
    try:
        return [each.encode() for each in value.decode("utf-8")]
    except UnicodeDecodeError:
        return []


def _by_piece(
    pieces: Sequence[bytes], secret: Sequence[int], name: str, seen: set[bytes]
) -> Iterator[_Spelling]:
    """The encoding that writes each unit of the value as one of ``pieces``, if it is a new one."""
    text = b"".join(pieces)
    if text and text not in seen:
        seen.add(text)
        ends = list(accumulate(map(len, pieces)))
        yield _Spelling(text, [0, *ends[:-1]], ends, secret, name)
