"""Reads a quote from a file, or says what the file is instead.

Quotes travel raw, in hexadecimal and in base64. Each encoding is accepted if it is the only one that fits: a
quote's first bytes (version, key type, TEE) make sure that no two do. White space may stand around and between
lines; nothing else may.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.tdx.quote.quote import MAX_QUOTE_BYTES
from affiant.errors import MalformedError

__all__ = ["MAX_QUOTE_FILE", "NotAQuote", "QuoteFile", "name_of_format", "read_quote_file"]

MAX_QUOTE_FILE: Final = 2 * MAX_QUOTE_BYTES + 1024
"""Bytes of a file: the largest quote in hexadecimal, with room for line ends."""

_SPACE: Final = re.compile(rb"[ \t\r\n]+")
_HEX: Final = re.compile(rb"(?:0[xX])?([0-9a-fA-F]+)\Z")
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]+={0,2}\Z")
_BASE64URL: Final = re.compile(rb"[A-Za-z0-9_-]+={0,2}\Z")
_TEXT: Final = frozenset(b"\t\r\n") | frozenset(range(0x20, 0x7F))

_SIGNATURES: Final = (
    (b"-----BEGIN", "PEM text (a certificate, a chain or a key)"),
    (b"HCLA", "an Azure HCL report; the quote of such a machine is a document of its own"),
    (b"\x7fELF", "a program"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data; unpack it first"),
    (b"\xd2\x84", "a COSE document (as other TEEs send them)"),
    (b"\x30\x82", "DER (a certificate or a revocation list)"),
    (b"eyJ", "a JSON web token"),
)
_SPEC_ID: Final = b"Spec ID Event03\0"
_JSON_HINTS: Final = (
    (b'"affiant-bundle', "a bundle of receipts: check it with `affiant verify`"),
    (b'"affiant-dcap-collateral', "collateral: it goes to --collateral"),
    (b'"tcb_info_issuer_chain"', "collateral: it goes to --collateral"),
    (b'"affiant-reference-values', "reference values: they go to --reference"),
    (b'"affiant-eventlog', "an event log: `affiant quote eventlog` reads it"),
    (b'"affiant-azure-vtpm', "Azure's vTPM evidence, a profile of its own and no plain TDX quote"),
    (b'"event_payload"', "an event log: `affiant quote eventlog` reads it"),
    (b'"quote"', 'a JSON document with a member "quote": take that member\'s value out'),
)


class NotAQuote(MalformedError):
    """The file is no quote in any accepted encoding."""

    code = "quote.not_a_quote"


@dataclass(frozen=True, slots=True)
class QuoteFile:
    """The bytes of a quote, and how the file spelled them."""

    data: bytes
    encoding: str
    """``raw``, ``hexadecimal``, ``base64`` or ``base64url``."""
    file_digest: str
    """``sha256:`` name of the file as it lies there."""


def read_quote_file(content: bytes) -> QuoteFile:
    """The quote in a file's ``content``; whether it is one, its parser says.

    Raises:
        NotAQuote: empty, too large, something else that is named, or text that is no one encoding of bytes.
    """
    if not content:
        raise NotAQuote("the file is empty", expected="a quote")
    if (name := name_of_format(content)) is not None:
        raise NotAQuote("this is no quote", expected="a TDX quote, raw, hexadecimal or base64", found=name)
    if len(content) > MAX_QUOTE_FILE:
        raise NotAQuote("the file is too large for a quote", expected=f"at most {MAX_QUOTE_FILE} bytes")
    digest = sha256_name(content)
    if not _TEXT.issuperset(content):
        return QuoteFile(content, "raw", digest)
    spellings = _decode(_SPACE.sub(b"", content))
    if len(spellings) != 1:
        raise NotAQuote(
            "the text is not one encoding of a quote",
            expected="hexadecimal, or base64 with or without padding",
            found="text that is neither" if not spellings else " and ".join(spellings),
        )
    ((encoding, data),) = spellings.items()
    return QuoteFile(data, encoding, digest)


def _decode(text: bytes) -> dict[str, bytes]:
    """Every reading of ``text`` that is exact. Text of hexadecimal digits alone is never base64 of a quote:
    the base64 of a quote's header has other letters in it, whatever its version."""
    match = _HEX.match(text)
    if match is not None:
        digits = match.group(1).decode("ascii")
        return {"hexadecimal": bytes.fromhex(digits)} if len(digits) % 2 == 0 else {}
    found = {}
    for name, pattern, altchars in (("base64", _BASE64, None), ("base64url", _BASE64URL, b"-_")):
        if pattern.match(text) is not None and (data := _from_base64(text, altchars)) is not None:
            found[name] = data
    if len(found) == 2:  # neither + / nor - _ is in it: both alphabets say the same
        del found["base64url"]
    return found


def _from_base64(text: bytes, altchars: bytes | None) -> bytes | None:
    """The bytes, if ``text`` is their one encoding (with or without its padding)."""
    bare = text.rstrip(b"=")
    if len(bare) % 4 == 1 or (text != bare and len(text) % 4):
        return None
    try:
        data = base64.b64decode(bare + b"=" * (-len(bare) % 4), altchars=altchars)
    except binascii.Error:  # pragma: no cover - the pattern leaves nothing to refuse
        return None
    return data if base64.b64encode(data, altchars).rstrip(b"=") == bare else None


def name_of_format(content: bytes) -> str | None:
    """What ``content`` is, if it is something other than a quote that people have at hand; None: not known."""
    for signature, name in _SIGNATURES:
        if content.startswith(signature):
            return name
    if content[32:48] == _SPEC_ID:
        return "a TCG2 event log (CCEL): `affiant quote eventlog` reads it"
    if content.lstrip(b" \t\r\n")[:1] in (b"{", b"["):
        return next((name for mark, name in _JSON_HINTS if mark in content), "a JSON document")
    if len(content) == 1184 and content[0] in range(2, 6) and content[1:4] == bytes(3):
        return "an AMD SEV-SNP report (1184 bytes)"
    if len(content) == 432:
        return "an SGX report (432 bytes), which can be checked on its own CPU only"
    return None
