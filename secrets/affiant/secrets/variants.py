"""The spellings under which a host may give a secret back (negative tests S7 and S8).

As it is, lower and upper case, reversed; percent-encoded as little and as much as possible, as a form field;
JSON escapes (with and without ``\\/``, everything as ``\\u``); HTML (named, decimal and hexadecimal references);
hexadecimal; UTF-16 in both byte orders; base64 in both alphabets at each of the three offsets, which covers
``base64(user:secret)``.

Base64 carries 6 bits a character: at an offset, the characters that mix the secret's bits with those of its
neighbours are not in the spelling. So up to 4 bits at each end of such an echo can remain readable; where the
secret ends the encoding, the tail is spelled too and nothing remains at that end.

What a host computes (another encoding, encryption, every second character) is not found: absence is the first
defence, this is the second.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote_from_bytes, quote_plus

__all__ = ["variants"]

_URL_ALPHABET: Final = bytes.maketrans(b"+/", b"-_")


def variants(value: bytes) -> frozenset[bytes]:
    """Every spelling of ``value`` that is looked for, each at least as many bytes long as ``value``."""
    return frozenset({*_plain(value), *_percent(value), *_escaped(value), *_base64(value)})


def _plain(value: bytes) -> Iterator[bytes]:
    for cased in (value, value.lower(), value.upper()):
        yield cased
        yield cased[::-1]
        yield cased.hex().encode()
        yield cased.hex().upper().encode()


def _percent(value: bytes) -> Iterator[bytes]:
    every = "".join(f"%{byte:02x}" for byte in value)
    for text in (
        quote_from_bytes(value, safe=""),
        quote_from_bytes(value, safe="/"),
        quote_from_bytes(value, safe="!'()*:@,;$"),
        quote_plus(value),
        every,
    ):
        yield text.encode()
        yield _lower_escapes(text)
    yield every.upper().encode()


def _lower_escapes(text: str) -> bytes:
    """Percent escapes with lower-case digits, the rest as it is."""
    pieces = text.split("%")
    return "%".join([pieces[0], *(piece[:2].lower() + piece[2:] for piece in pieces[1:])]).encode()


def _escaped(value: bytes) -> Iterator[bytes]:
    """JSON, HTML and UTF-16, of the value read as UTF-8 and as Latin-1."""
    for text in {value.decode("utf-8", "replace"), value.decode("latin-1")}:
        if "\ufffd" in text:
            continue
        for ascii_only in (False, True):
            escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            yield escaped.encode()
            yield escaped.replace("/", "\\/").encode()
        units = text.encode("utf-16-be")
        numbers = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
        yield "".join(f"\\u{number:04x}" for number in numbers).encode()
        yield "".join(f"\\u{number:04X}" for number in numbers).encode()
        yield html.escape(text, quote=True).encode()
        yield html.escape(text, quote=True).replace("&#x27;", "&#39;").encode()
        yield html.escape(text, quote=False).encode()
        yield "".join(f"&#{ord(char)};" for char in text).encode()
        yield "".join(f"&#x{ord(char):x};" for char in text).encode()
        yield "".join(f"&#x{ord(char):X};" for char in text).encode()
        yield units
        yield text.encode("utf-16-le")


def _base64(value: bytes) -> Iterator[bytes]:
    for spelling in _standard_base64(value):
        yield spelling
        yield spelling.translate(_URL_ALPHABET)


def _standard_base64(value: bytes) -> Iterator[bytes]:
    """RFC 4648 section 4, with 0, 1 and 2 unknown bytes in front of ``value``."""
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + value)
        first = -(-8 * offset // 6)
        yield encoded[first : 8 * (offset + len(value)) // 6]
        yield encoded[first:]
        yield encoded[first:].rstrip(b"=")
