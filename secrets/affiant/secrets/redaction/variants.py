"""The encodings in which a host may give a secret back (negative tests S7 and S8).

As it is, lower and upper case, reversed; percent-encoded as little and as much as possible, as a form field;
JSON escapes (with and without ``\\/``, everything as ``\\u``); HTML (named, decimal and hexadecimal references);
percent escapes, JSON escapes and named HTML references a second time (JSON as a text in JSON);
hexadecimal, with blanks, with colons, and without; the bytes as decimal numbers, as in ``[104, 105]``; UTF-16 and
UTF-32 in both byte orders; base64 in both alphabets at each of the three offsets, which covers ``base64(user:secret)``;
base64 in lines of 60, 64 or 76 characters, that end in LF, in CRLF, or in the two characters of JSON's escape for LF.

Base64 carries 6 bits a character: at an offset, the characters that mix the secret's bits with those of its
neighbours are not in the encoding. So up to 4 bits at each end of such an echo can remain readable; where the
secret ends the encoding, the tail is spelled too and nothing remains at that end.

What a host computes (another encoding, encryption, every second character) is not found: absence is the first
defence, this is the second.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from urllib.parse import quote_from_bytes, quote_plus

__all__ = ["HTML_WRITERS", "JSON_WRITERS", "PERCENT_WRITERS", "base64_at", "variants"]

_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")

_LINE_LENGTHS: Final = (60, 64, 76)
"""GitHub's contents; PEM (RFC 7468); MIME (RFC 2045)."""
_LINE_ENDS: Final = (b"\n", b"\r\n", b"\\n")

PERCENT_WRITERS: Final[tuple[Callable[[bytes], str], ...]] = (
    partial(quote_from_bytes, safe=""),
    partial(quote_from_bytes, safe="/"),
    partial(quote_from_bytes, safe="!'()*:@,;$"),
    quote_plus,
)
"""What common writers of URLs and forms escape."""

JSON_WRITERS: Final = tuple(
    str.maketrans({"\\": "\\\\", '"': '\\"', **more})
    for more in (
        {},
        {"/": "\\/"},  # PHP
        {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"},  # Go
        {char: f"\\u{ord(char):04X}" for char in "\"&'+<>`"},  # .NET
    )
)
"""What common writers of JSON escape beside the backslash and the quotation mark."""

HTML_WRITERS: Final = tuple(
    str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **more})
    for more in (
        {},
        {'"': "&quot;"},
        {'"': "&quot;", "'": "&#x27;"},  # Python
        {'"': "&quot;", "'": "&#39;"},  # most template engines
        {'"': "&quot;", "'": "&#039;"},  # PHP
        {'"': "&#34;", "'": "&#39;"},  # Jinja
        {'"': "&#34;", "'": "&#39;", "+": "&#43;"},  # Go
    )
)
"""What common writers of HTML escape, and how."""


def variants(value: bytes) -> frozenset[bytes]:
    """Every encoding of ``value`` that is looked for, each at least as many bytes long as ``value``."""
    return frozenset(
        {*_plain(value), *_percent(value), *_escaped(value), *_base64(value), *_base64_in_lines(value)}
    )


def _plain(value: bytes) -> Iterator[bytes]:
    for cased in (value, value.lower(), value.upper()):
        yield cased
        yield cased[::-1]
        for digits in (
            cased.hex(),
            cased.hex(" "),
            cased.hex(":"),
        ):  # S3 shows what it expected to be signed with blanks
            yield digits.encode()
            yield digits.upper().encode()
    for separator in (",", ", ", " "):
        yield separator.join(map(str, value)).encode()


def _percent(value: bytes) -> Iterator[bytes]:
    every = "".join(f"%{byte:02x}" for byte in value)
    for text in (*(write(value) for write in PERCENT_WRITERS), every, every.upper()):
        for plain in (text, text.replace("~", "%7E")):  # RFC 3986 leaves it, WHATWG's forms do not
            for encoded in (plain, _lower_escapes(plain)):
                yield encoded.encode()
                yield encoded.replace("%", "%25").encode()


def _lower_escapes(text: str) -> str:
    """Percent escapes with lower-case digits, the rest as it is."""
    pieces = text.split("%")
    return "%".join([pieces[0], *(piece[:2].lower() + piece[2:] for piece in pieces[1:])])


def _escaped(value: bytes) -> Iterator[bytes]:
    """JSON, HTML, UTF-16 and UTF-32, of the value read as UTF-8 and as Latin-1."""
    for text in _readings(value):
        for escaped in _json(text):
            yield escaped
            yield escaped.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        yield from _html(text)
        for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
            yield text.encode(encoding)


def _readings(value: bytes) -> Iterator[str]:
    yield value.decode("latin-1")
    try:
        yield value.decode("utf-8")
    except UnicodeDecodeError:
        return


def _json(text: str) -> Iterator[bytes]:
    for escapes in JSON_WRITERS:
        escaped = text.translate(escapes)
        yield escaped.encode()
        yield "".join(char if char.isascii() else _units(char, "\\u{:04x}") for char in escaped).encode()
    yield _units(text, "\\u{:04x}").encode()
    yield _units(text, "\\u{:04X}").encode()


def _units(text: str, form: str) -> str:
    """Every UTF-16 code unit of ``text`` by ``form`` (RFC 8259, section 7)."""
    units = text.encode("utf-16-be")
    return "".join(form.format(int.from_bytes(units[at : at + 2], "big")) for at in range(0, len(units), 2))


def _html(text: str) -> Iterator[bytes]:
    for escapes in HTML_WRITERS:
        escaped = text.translate(escapes)
        yield escaped.encode()
        yield escaped.replace("&", "&amp;").encode()
    for form in ("&#{};", "&#x{:x};", "&#x{:X};"):
        yield "".join(form.format(ord(char)) for char in text).encode()


def _base64(value: bytes) -> Iterator[bytes]:
    for offset in range(3):
        for encoded in _standard_base64(value, offset):
            yield encoded
            yield encoded.translate(_URL_ALPHABET)


def _standard_base64(value: bytes, offset: int) -> Iterator[bytes]:
    """RFC 4648 section 4, with ``offset`` unknown bytes in front of ``value``."""
    yield base64_at(value, offset)
    encoded = base64.b64encode(bytes(offset) + value)[_first_of(offset) :]
    yield encoded
    yield encoded.rstrip(b"=")


def base64_at(value: bytes, offset: int) -> bytes:
    """The characters that ``value`` alone decides, with 0, 1 or 2 unknown bytes in front of it."""
    return base64.b64encode(bytes(offset) + value)[_first_of(offset) : 8 * (offset + len(value)) // 6]


def _first_of(offset: int) -> int:
    return -(-8 * offset // 6)


def _base64_in_lines(value: bytes) -> Iterator[bytes]:
    """With a line's end at every place where one can be: a line begins with a whole group of 4 characters."""
    for offset in range(3):
        encoded = base64_at(value, offset)
        for length in _LINE_LENGTHS:
            for first in range(4 - _first_of(offset), min(length, len(encoded) - 1) + 1, 4):
                lines = [
                    encoded[:first],
                    *(encoded[at : at + length] for at in range(first, len(encoded), length)),
                ]
                yield from (end.join(lines) for end in _LINE_ENDS)
