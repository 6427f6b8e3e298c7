"""The encodings in which a host may give a secret back (negative tests S7 and S8).

As it is, lower and upper case, reversed; percent-encoded as little and as much as possible, as a form field;
JSON escapes (with and without ``\\/``, everything as ``\\u``); HTML (named, decimal and hexadecimal references);
hexadecimal, with and without blanks; UTF-16 in both byte orders; base64 in both alphabets at each of the three offsets,
which covers ``base64(user:secret)``.

Base64 carries 6 bits a character: at an offset, the characters that mix the secret's bits with those of its
neighbours are not in the encoding. So up to 4 bits at each end of such an echo can remain readable; where the
secret ends the encoding, the tail is spelled too and nothing remains at that end.

What a host computes (another encoding, encryption, every second character) is not found: absence is the first
defence, this is the second.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote_from_bytes, quote_plus

__all__ = ["variants"]

_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")

_JSON_WRITERS: Final = tuple(
    str.maketrans({"\\": "\\\\", '"': '\\"', **more})
    for more in (
        {},
        {"/": "\\/"},  # PHP
        {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"},  # Go
        {char: f"\\u{ord(char):04X}" for char in "\"&'+<>`"},  # .NET
    )
)
"""What common writers of JSON escape beside the backslash and the quotation mark."""

_HTML_WRITERS: Final = tuple(
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
    return frozenset({*_plain(value), *_percent(value), *_escaped(value), *_base64(value)})


def _plain(value: bytes) -> Iterator[bytes]:
    for cased in (value, value.lower(), value.upper()):
        yield cased
        yield cased[::-1]
        yield cased.hex().encode()
        yield cased.hex().upper().encode()
        yield cased.hex(" ").encode()  # as S3 shows the bytes that it expected to be signed
        yield cased.hex(" ").upper().encode()


def _percent(value: bytes) -> Iterator[bytes]:
    every = "".join(f"%{byte:02x}" for byte in value)
    for text in (
        quote_from_bytes(value, safe=""),
        quote_from_bytes(value, safe="/"),
        quote_from_bytes(value, safe="!'()*:@,;$"),
        quote_plus(value),
        every,
    ):
        for encoded in (text, text.replace("~", "%7E")):  # RFC 3986 leaves it, WHATWG's forms do not
            yield encoded.encode()
            yield _lower_escapes(encoded)
    yield every.upper().encode()


def _lower_escapes(text: str) -> bytes:
    """Percent escapes with lower-case digits, the rest as it is."""
    pieces = text.split("%")
    return "%".join([pieces[0], *(piece[:2].lower() + piece[2:] for piece in pieces[1:])]).encode()


def _escaped(value: bytes) -> Iterator[bytes]:
    """JSON, HTML and UTF-16, of the value read as UTF-8 and as Latin-1."""
    for text in _readings(value):
        yield from _json(text)
        yield from _html(text)
        yield text.encode("utf-16-le")
        yield text.encode("utf-16-be")


def _readings(value: bytes) -> Iterator[str]:
    yield value.decode("latin-1")
    try:
        yield value.decode("utf-8")
    except UnicodeDecodeError:
        return


def _json(text: str) -> Iterator[bytes]:
    for escapes in _JSON_WRITERS:
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
    for escapes in _HTML_WRITERS:
        yield text.translate(escapes).encode()
    for form in ("&#{};", "&#x{:x};", "&#x{:X};"):
        yield "".join(form.format(ord(char)) for char in text).encode()


def _base64(value: bytes) -> Iterator[bytes]:
    for encoded in _standard_base64(value):
        yield encoded
        yield encoded.translate(_URL_ALPHABET)


def _standard_base64(value: bytes) -> Iterator[bytes]:
    """RFC 4648 section 4, with 0, 1 and 2 unknown bytes in front of ``value``."""
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + value)
        first = -(-8 * offset // 6)
        yield encoded[first : 8 * (offset + len(value)) // 6]
        yield encoded[first:]
        yield encoded[first:].rstrip(b"=")
