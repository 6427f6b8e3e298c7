"""Encodes and decodes base64url, hexadecimal and digests, each with exactly one accepted encoding.

Python's own decoders ignore trailing bits, foreign characters and spaces; every decoder here rejects them, so that two
different texts never mean the same bytes (RFC 4648, section 3.5; RFC 7515, section 2).

>>> b64u(b"\\x00" * 16)
'AAAAAAAAAAAAAAAAAAAAAA'
>>> from_b64u("AB")
Traceback (most recent call last):
    ...
affiant.attestation.encoding.binary_text.EncodingError: not base64url: unused bits are set or a character is foreign
"""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Sequence
from typing import Final

from affiant.errors import MalformedError

__all__ = [
    "B64U_ALPHABET",
    "EncodingError",
    "b64u",
    "b64u_each",
    "b64u_sha256",
    "from_b64u",
    "from_hex",
    "is_sha256_name",
    "sha256_name",
    "sha384_name",
]


class EncodingError(MalformedError):
    """Text is not the one accepted encoding of its bytes."""

    code = "fmt.encoding"


_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
B64U_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
"""Characters in the order of their values (RFC 4648, section 5)."""
_LAST: Final = (B64U_ALPHABET, b"", B64U_ALPHABET[::16], B64U_ALPHABET[::4])
"""Last characters by the length modulo 4: of two over, four bits are unused; of three over, two."""
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*\Z")
_SHA256_NAME: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")


def b64u(data: bytes) -> str:
    """Base64url without padding (RFC 7515, section 2)."""
    return _standard(data).translate(_TO_URL).decode("ascii")


def b64u_each(pieces: Sequence[bytes], *, size: int) -> list[str]:
    """As :func:`b64u` of each of ``pieces``, all of ``size`` bytes, in one pass."""
    gap = bytes(-size % 3)  # whole groups of three bytes are four characters each
    text = b64u(gap.join([*pieces, b""]))
    step, length = 4 * (size + len(gap)) // 3, -(-size * 8 // 6)
    return [text[at : at + length] for at in range(0, len(text), step)]


def from_b64u(text: str, *, size: int | None = None) -> bytes:
    """The bytes of unpadded base64url ``text``; ``size`` demands an exact number of bytes.

    Raises:
        EncodingError: padding, foreign characters, unused bits that are set, or another size.
    """
    try:
        given = text.encode("ascii")
        standard = given.translate(_TO_STANDARD)  # the alphabet of RFC 4648, section 4
        data = binascii.a2b_base64(standard + b"=" * (-len(given) % 4), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise EncodingError("not base64url: of no length that it has, or a character is foreign") from error
    # What the decoder lets pass: the other alphabet, padding of the text's own, and bits of the last character that
    # stand for nothing.
    if b"+" in given or b"/" in given or b"=" in given or given[-1:] not in _LAST[len(given) % 4]:
        raise EncodingError("not base64url: unused bits are set or a character is foreign")
    if size is not None and len(data) != size:
        raise EncodingError("base64url of another size", expected=f"{size} bytes", found=f"{len(data)} bytes")
    return data


def _standard(data: bytes) -> bytes:
    return binascii.b2a_base64(data, newline=False).rstrip(b"=")


def from_hex(text: str, *, size: int | None = None) -> bytes:
    """The bytes of lower-case hexadecimal ``text``, without spaces.

    Raises:
        EncodingError: upper case, spaces, an odd count, or another size.
    """
    if _HEX.match(text) is None:
        raise EncodingError("not lower-case hexadecimal")
    if size is not None and len(text) != 2 * size:
        raise EncodingError(
            "hexadecimal of another size", expected=f"{size} bytes", found=f"{len(text) // 2} bytes"
        )
    return bytes.fromhex(text)


def b64u_sha256(data: bytes) -> str:
    """SHA-256 of ``data`` as 43 characters: the form of every internal link."""
    return b64u(hashlib.sha256(data).digest())


def sha256_name(data: bytes) -> str:
    """``sha256:<64 hex>``: the form of what a person compares with ``sha256sum``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def sha384_name(data: bytes) -> str:
    """``sha384:<96 hex>``: the form of policy digests."""
    return "sha384:" + hashlib.sha384(data).hexdigest()


def is_sha256_name(text: str) -> bool:
    """Whether ``text`` is spelled ``sha256:<64 lower-case hex>``."""
    return _SHA256_NAME.match(text) is not None
