"""Reads lines of ``receipts/`` and ``disclosures/`` piece by piece, each bounded and in canonical form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from affiant.attestation.bundle.period.errors import LineMalformed
from affiant.attestation.bundle.period.layout import LINES_PER_FILE, MAX_LINE
from affiant.attestation.encoding.binary_text import B64U_ALPHABET, b64u_sha256

__all__ = [
    "disclosures_line",
    "join_disclosures",
    "parse_disclosures",
    "parse_receipt_line",
    "receipt_line",
    "split_lines",
]

_QUOTE: Final = ord('"')
_DISCLOSURES: Final = re.compile(rb'\["[A-Za-z0-9_-]{43}"(?:,"[A-Za-z0-9_-]{1,22000}"){1,64}\]\Z')


def split_lines(pieces: Iterable[bytes], *, where: str) -> Iterator[bytes]:
    """The lines in ``pieces``, without their newlines.

    Raises:
        LineMalformed: one longer than 64 KiB, the last without a newline, or more than 100,000.
    """
    rest, count = b"", 0
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            count += 1
            if len(line) >= MAX_LINE or count > LINES_PER_FILE:
                raise LineMalformed("a line is too long, or there are too many", where=f"{where}:{count}")
            yield line
        if len(rest) >= MAX_LINE:
            raise LineMalformed("a line is too long", where=f"{where}:{count + 1}")
    if rest:
        raise LineMalformed("the last line has no newline", where=where)


def receipt_line(jws: str) -> bytes:
    """The line of one receipt, with its newline."""
    return b'"%s"\n' % jws.encode("ascii")


def parse_receipt_line(line: bytes, *, where: str) -> str:
    """The JWS in ``line``; of nothing but its characters anything is known.

    Raises:
        LineMalformed: not one JSON text of base64url in three parts.
    """
    jws = line[1:-1]
    quoted = len(line) > 1 and line[0] == line[-1] == _QUOTE
    if not quoted or jws.translate(None, B64U_ALPHABET) != b".." or not all(jws.split(b".")):
        raise LineMalformed("not a receipt", expected='"<JWS>"', where=where)
    return jws.decode("ascii")


def disclosures_line(rh: str, disclosures: Iterable[str]) -> bytes:
    """The line of one receipt's disclosures, with its newline."""
    return json.dumps([rh, *disclosures], separators=(",", ":")).encode("ascii") + b"\n"


def parse_disclosures(line: bytes, *, where: str) -> tuple[str, tuple[str, ...]]:
    """Receipt hash and disclosures.

    Raises:
        LineMalformed: another form.
    """
    if _DISCLOSURES.match(line) is None:
        raise LineMalformed(
            "not a line of disclosures", expected='["<hash>","<disclosure>",...]', where=where
        )
    rh, *disclosures = line[2:-2].decode("ascii").split('","')
    return rh, tuple(disclosures)


def join_disclosures(
    receipts: Iterable[str], disclosures: Iterator[tuple[str, tuple[str, ...]]], *, where: str
) -> Iterator[str]:
    """SD-JWT texts: each JWS with the disclosures that stand under its hash, in the same order.

    Raises:
        LineMalformed: disclosures of no receipt of this file, or in another order.
    """
    following = next(disclosures, None)
    for jws in receipts:
        if following is not None and b64u_sha256(jws.encode("ascii")) == following[0]:
            yield "~".join((jws, *following[1], ""))
            following = next(disclosures, None)
        else:
            yield jws + "~"
    if following is not None:
        raise LineMalformed("disclosures of a receipt that is not here, or out of order", where=where)
