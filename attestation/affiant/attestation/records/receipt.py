"""Signs and verifies receipts, each one record.

On the wire a receipt is ``JWS~disclosure~...~`` (SD-JWT, RFC 9901). Its receipt hash ``rh`` is SHA-256 of the
ASCII bytes of the JWS alone, so that disclosures can be withheld or destroyed without changing what links to it.

Verification keeps this order, and each step sees only what the one before let through:

1. size, parts and the byte-fixed header (``jws``);
2. the signature, under a key that a keyset statement names for this role;
3. the canonical form of the payload (RFC 8785);
4. the closed shape of its kind (``records``);
5. agreement of ``eat_profile``, ``cls`` and ``role`` with the keyset;
6. disclosures, each referenced once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.jws import SplitJWS
from affiant.attestation.schema.disclosure import Disclosed, open_disclosures
from affiant.attestation.schema.records import KINDS, shape_of
from affiant.attestation.schema.shapes import Obj, ShapeMismatch
from affiant.attestation.statements.statement import KeysetStatement
from affiant.attestation.tlog.entry import LogEntry
from affiant.errors import MalformedError, NotAuthenticError

__all__ = [
    "RECEIPT_TYPE",
    "Issued",
    "ReceiptText",
    "RoleMismatch",
    "VerifiedReceipt",
    "parse_receipt",
    "recall_receipt",
    "receipt_hash",
    "verify_receipt",
]

RECEIPT_TYPE: Final = "eat+jwt"

_MAX_SDJWT: Final = 64 * 1024
"""A receipt with all its disclosures; typical ones are under 8 KiB."""

_KIND: Final = re.compile(r'"kind":"([a-z-]+)"')
_DIGESTS: Final = re.compile(r'"_sd":\[([^]]*)]')


class RoleMismatch(NotAuthenticError):
    """A record's role, class, chain, issuer or kind does not agree with the keyset that signs it."""

    code = "sig.role"


@dataclass(frozen=True, slots=True)
class ReceiptText:
    """A receipt taken apart; nothing in it is trusted yet. ``rh`` is the receipt hash: 43 characters."""

    jws: str
    disclosures: tuple[str, ...]
    split: SplitJWS
    rh: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rh", receipt_hash(self.jws))

    @property
    def sdjwt(self) -> str:
        """The text with its disclosures."""
        return "~".join([self.jws, *self.disclosures, ""])


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """A receipt whose signature, form and agreement with its keyset were verified; made only here."""

    rh: str
    kind: str
    role: str
    cls: str
    chn: str
    seq: int
    prev: str
    jti: str
    iat: int
    payload: Mapping[str, object]
    disclosed: Disclosed
    text: ReceiptText

    @property
    def leaf(self) -> LogEntry:
        """What the transparency log holds of it."""
        return LogEntry(
            self.kind, from_b64u(self.chn, size=16), self.seq, self.iat, from_b64u(self.rh, size=32)
        )

    def member(self, first: str, *further: str) -> object:
        """A clear member of the payload by path, or None."""
        value = self.payload.get(first)
        for name in further:
            if type(value) is not dict and not isinstance(value, Mapping):  # asking an abstract class is slow
                return None
            value = value.get(name)
        return value

    def shown(self, path: str) -> object:
        """The member at ``path`` (``mov.dir``), clear or disclosed; None: neither."""
        clear = self.member(*path.split("."))
        return self.disclosed.get(path) if clear is None else clear


@dataclass(frozen=True, slots=True)
class Issued:
    """A freshly signed receipt: the JWS, its disclosures, and what the next record links to.

    Args:
        rh: the receipt hash, 43 characters.
    """

    jws: str
    disclosures: tuple[str, ...]
    payload: Mapping[str, object]
    rh: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rh", receipt_hash(self.jws))

    @property
    def leaf(self) -> LogEntry:
        """What the transparency log holds of it: the payload's members, and the hash of the JWS that signs them."""
        chn = from_b64u(str(self.payload["chn"]), size=16)
        seq, iat = _int(self.payload["seq"]), _int(self.payload["iat"])
        return LogEntry(str(self.payload["kind"]), chn, seq, iat, from_b64u(self.rh, size=32))

    @property
    def sdjwt(self) -> str:
        """The text with all disclosures."""
        return "~".join([self.jws, *self.disclosures, ""])


def receipt_hash(text: str) -> str:
    """SHA-256 of the JWS's ASCII bytes: 43 characters."""
    return b64u(hashlib.sha256(text.encode("ascii")).digest())


def parse_receipt(text: str) -> ReceiptText:
    """Take a receipt apart.

    Raises:
        ``fmt.receipt``: size, characters, or no trailing ``~``.
        JWSMalformed: the part before the first ``~`` is not one of our JWS.
    """
    if len(text) > _MAX_SDJWT or not text.isascii():
        raise MalformedError(
            "not a receipt", expected=f"at most {_MAX_SDJWT} ASCII characters", code="fmt.receipt"
        )
    head, mark, tail = text.partition("~")
    if not mark or (tail and not tail.endswith("~")):
        raise MalformedError(
            "not an SD-JWT", expected="a '~' after the JWS and after each disclosure", code="fmt.receipt"
        )
    disclosures = tuple(tail.split("~")[:-1]) if tail else ()
    for disclosure in disclosures:
        from_b64u(disclosure)
    return ReceiptText(jws=head, disclosures=disclosures, split=jws.split(head, typ=RECEIPT_TYPE))


def verify_receipt(text: ReceiptText, statement: KeysetStatement) -> VerifiedReceipt:
    """Return the receipt as verified under ``statement``, or refuse it.

    Whether the statement itself is bound to evidence is not asked here.

    Raises:
        RoleMismatch: the key is not this keyset's receipt key, or role, class, issuer, chain or kind differ.
        SignatureInvalid, JSONError, ShapeMismatch, DisclosureInvalid: as the numbered steps say.
    """
    if text.split.kid != statement.receipt_kid:
        raise RoleMismatch("signed by another key", expected=statement.receipt_kid, found=text.split.kid)
    jws.demand_signed(text.split, statement.receipt_key, kid=statement.receipt_kid)
    usual = _usual_payload(text.split.payload, statement)
    payload, shape = _checked_payload(text.split, statement) if usual is None else usual
    if payload["iss"] != statement.iss or payload["chn"] not in statement.chn:
        raise RoleMismatch("issuer or chain is not in the keyset")
    if usual is not None and not text.disclosures:
        return _verified(text, statement, payload, Disclosed({}))
    return _verified(text, statement, payload, open_disclosures(payload, shape, text.disclosures))


def _usual_payload(payload: bytes, statement: KeysetStatement) -> tuple[Mapping[str, object], Obj] | None:
    """A payload and its shape, where its text alone shows that steps 3 to 5 hold, and that no digest stands twice.

    None says nothing: :func:`_checked_payload` judges, and names what is wrong.
    """
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
    named = _KIND.search(text)  # the shape that it leads to has this kind, role and class
    if named is None or named[1] not in KINDS or statement.role not in KINDS[named[1]].signers:
        return None
    shape = shape_of(named[1], role=statement.role, cls=statement.cls)
    if not shape.admits(text):
        return None
    found: list[str] = []
    for array in _DIGESTS.findall(text):
        digests = array.split(",")
        if digests != sorted(digests):
            return None
        found += digests
    if len(set(found)) != len(found):
        return None
    return json.loads(text), shape


def _checked_payload(split: SplitJWS, statement: KeysetStatement) -> tuple[Mapping[str, object], Obj]:
    """A payload and its shape: steps 3 to 5, one after another."""
    payload = jws.payload_of(split)
    kind = payload.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ShapeMismatch("a kind that the profile does not list", where="kind")
    if statement.role not in KINDS[kind].signers:
        raise RoleMismatch(f"a record of kind {kind} signed by a {statement.role} key")
    if payload.get("role") != statement.role or payload.get("cls") != statement.cls:
        raise RoleMismatch("role or class differs from the keyset's")
    shape = shape_of(kind, role=statement.role, cls=statement.cls)
    shape.check(payload, kind)
    return payload, shape


def recall_receipt(text: ReceiptText, statement: KeysetStatement, *, rh: str) -> VerifiedReceipt:
    """A receipt that was verified before under ``statement``, made again from the same bytes without its signature.

    Args:
        rh: what the verification before gave. Only a caller that kept it where no other program writes may pass it.

    Raises:
        RoleMismatch: these are other bytes.
        DisclosureInvalid, ShapeMismatch: the disclosures, which ``rh`` does not cover, are judged again.
    """
    if text.rh != rh or text.split.kid != statement.receipt_kid:
        raise RoleMismatch("another receipt than was verified", expected=rh, found=text.rh)
    payload = json.loads(text.split.payload.decode("utf-8"))  # canonical, as it was then: one reading
    if not text.disclosures:
        return _verified(text, statement, payload, Disclosed({}))
    shape = shape_of(str(payload["kind"]), role=statement.role, cls=statement.cls)
    return _verified(text, statement, payload, open_disclosures(payload, shape, text.disclosures))


def _verified(
    text: ReceiptText, statement: KeysetStatement, payload: Mapping[str, object], disclosed: Disclosed
) -> VerifiedReceipt:
    return VerifiedReceipt(
        rh=text.rh,
        kind=str(payload["kind"]),
        role=statement.role,
        cls=statement.cls,
        chn=str(payload["chn"]),
        seq=_int(payload["seq"]),
        prev=str(payload["prev"]),
        jti=str(payload["jti"]),
        iat=_int(payload["iat"]),
        payload=payload,
        disclosed=disclosed,
        text=text,
    )


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
