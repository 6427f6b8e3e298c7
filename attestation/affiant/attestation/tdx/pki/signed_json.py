"""Verifies Intel's signed JSON: the exact bytes of the inner object, its signature, and a strict reader of its members.

A PCS body is ``{"tcbInfo":{...},"signature":"<128 hex>"}`` (or ``enclaveIdentity``). The signature covers the
inner object's exact text, so the text is cut out and never serialised again (point 15). The cut is sound: what
stands between the fixed beginning and the fixed end is itself read as one complete JSON object, so it is that
member's value and nothing else; a doubled member does not survive it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from affiant.attestation.encoding.canonical import JSONError, parse_object
from affiant.attestation.tdx.pki.certificates import Certificate
from affiant.attestation.tdx.pki.ecdsa import raw_signature_holds
from affiant.attestation.tdx.pki.times import parse_rfc3339_utc
from affiant.errors import MalformedError, NotAuthenticError

__all__ = ["Members", "SignedJSON", "cut_signed_json"]

MAX_BODY_BYTES: Final = 512 * 1024
_BEGIN: Final = r'[ \t\r\n]*\{{[ \t\r\n]*"{}"[ \t\r\n]*:[ \t\r\n]*'
_END: Final = re.compile(
    rb'[ \t\r\n]*,[ \t\r\n]*"signature"[ \t\r\n]*:[ \t\r\n]*"([0-9A-Fa-f]{128})"[ \t\r\n]*\}[ \t\r\n]*\Z'
)
_END_BYTES: Final = 256
"""How far from the end the signature member is looked for."""
_HEX: Final = re.compile(r"[0-9A-Fa-f]*\Z")


@dataclass(frozen=True, slots=True)
class SignedJSON:
    """The exact bytes that are signed, the 64 bytes r || s, and the members, strictly read."""

    name: str
    text: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    members: Members = field(repr=False, compare=False)
    """Read from ``text``, which is what counts."""

    def verify(self, signer: Certificate) -> None:
        """15: ``signer``'s key signed the exact text.

        Raises:
            ``collateral.signature``: it did not.
        """
        if not raw_signature_holds(signer.key, self.signature, self.text):
            raise NotAuthenticError(
                f"the signature over {self.name} does not hold",
                expected=f"signed by {signer.common_name!r}",
                code="collateral.signature",
            )


def cut_signed_json(body: bytes, *, member: str, refusal: type[MalformedError]) -> SignedJSON:
    """The signed object in the PCS ``body``, which is exactly ``member`` and then ``signature``.

    Raises:
        MalformedError: ``refusal``, if the body has another shape, or its object is not strict JSON
            (point 18: no duplicate member, no float, bounded size and depth).
    """
    if len(body) > MAX_BODY_BYTES:
        raise refusal(f"{member} is too large", expected=f"at most {MAX_BODY_BYTES} bytes", found=len(body))
    begin = re.match(_BEGIN.format(member).encode("ascii"), body)
    tail_at = max(0, len(body) - _END_BYTES)
    end = _END.search(body, tail_at)
    if begin is None or end is None or end.start() <= begin.end():
        raise refusal(
            "collateral body of another shape", expected=f'{{"{member}":{{...}},"signature":"<128 hex>"}}'
        )
    text = body[begin.end() : end.start()]
    try:
        members = parse_object(text, limit=MAX_BODY_BYTES, strict_form=False)
    except JSONError as error:
        raise refusal(f"{member} is not strict JSON") from error
    return SignedJSON(
        name=member,
        text=text,
        signature=bytes.fromhex(end.group(1).decode("ascii")),
        members=Members(members, member, refusal),
    )


class Members:
    """Typed access to the members of a JSON object; unknown members are ignored, as Intel adds some.

    Every accessor raises the document's own error, naming the member.
    """

    __slots__ = ("_members", "_refusal", "_where")

    def __init__(self, members: Mapping[str, Any], where: str, refusal: type[MalformedError]) -> None:
        self._members = members
        self._where = where
        self._refusal = refusal

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def refuse(self, name: str, expected: str) -> MalformedError:
        """The error for member ``name``, to be raised by the caller."""
        return self._refusal(
            "a member is absent or of another form", where=f"{self._where}.{name}", expected=expected
        )

    def text(self, name: str) -> str:
        """A string of at most 256 characters."""
        value = self._members.get(name)
        if not isinstance(value, str) or len(value) > 256:
            raise self.refuse(name, "a short text")
        return value

    def integer(self, name: str, *, maximum: int) -> int:
        """An integer in 0..``maximum``."""
        value = self._members.get(name)
        if type(value) is not int or not 0 <= value <= maximum:
            raise self.refuse(name, f"an integer in 0..{maximum}")
        return value

    def hexadecimal(self, name: str, *, size: int) -> bytes:
        """``size`` bytes in hexadecimal of either case; no spaces (``bytes.fromhex`` would ignore them)."""
        value = self._members.get(name)
        if not isinstance(value, str) or len(value) != 2 * size or _HEX.match(value) is None:
            raise self.refuse(name, f"{size} bytes in hexadecimal")
        return bytes.fromhex(value)

    def instant(self, name: str) -> datetime:
        """An RFC 3339 time in UTC."""
        try:
            return parse_rfc3339_utc(self._members.get(name))
        except ValueError as error:
            raise self.refuse(name, "an RFC 3339 time in UTC") from error

    def object(self, name: str) -> Members:
        """An object."""
        value = self._members.get(name)
        if not isinstance(value, dict):
            raise self.refuse(name, "an object")
        return Members(value, f"{self._where}.{name}", self._refusal)

    def objects(self, name: str, *, maximum: int) -> tuple[Members, ...]:
        """An array of at most ``maximum`` objects; it may be empty."""
        value = self._members.get(name)
        if (
            not isinstance(value, list)
            or len(value) > maximum
            or not all(isinstance(item, dict) for item in value)
        ):
            raise self.refuse(name, f"an array of at most {maximum} objects")
        return tuple(
            Members(item, f"{self._where}.{name}[{index}]", self._refusal) for index, item in enumerate(value)
        )

    def component_svns(self, name: str) -> tuple[int, ...]:
        """An array of exactly 16 objects, each with an ``svn`` in 0..255 (known mistake: zip over shorter
        arrays, or padding them with zero)."""
        value = self._members.get(name)
        if not isinstance(value, list) or len(value) != 16:
            raise self.refuse(name, "exactly 16 components")
        svns = tuple(item.get("svn", -1) if isinstance(item, dict) else -1 for item in value)
        if set(map(type, svns)) != {int} or not 0 <= min(svns) <= max(svns) <= 255:
            raise self.refuse(name, "16 components, each with an svn in 0..255")
        return svns

    def component_names(self, name: str) -> tuple[str, ...]:
        """What the 16 components of an array are called (``category: type``); empty where the document does
        not say. For a reader only: no check depends on it."""
        value = self._members.get(name)
        items = value if isinstance(value, list) else []
        words = [
            [item.get(key) for key in ("category", "type")] if isinstance(item, dict) else []
            for item in items
        ]
        return tuple(
            ": ".join(word for word in each if isinstance(word, str) and word)[:80] for each in words
        )

    def texts(self, name: str, *, maximum: int) -> tuple[str, ...]:
        """An array of at most ``maximum`` short texts; absent means none."""
        value = self._members.get(name, [])
        if not isinstance(value, list) or len(value) > maximum:
            raise self.refuse(name, f"an array of at most {maximum} texts")
        if not all(isinstance(item, str) and len(item) <= 64 for item in value):
            raise self.refuse(name, "texts of at most 64 characters")
        return tuple(value)
