"""Who may approve, by the normal form of a profile: that one member of it, and nothing else.

The normal form (``policy/FORMAT.md``) holds the floor's approvers merged into the profile's, so that its member
``approval`` says all: ``{"everything", "methods"}``, and where somebody may approve also ``{"approvers", "quorum",
"ttl"}``. Whoever calls knows that these bytes have the digest that the manifest names; that they are a profile's in
everything else is not judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from affiant.attestation.canonical import parse_object
from affiant.attestation.shapes import Array, Int, Obj, Pattern, ShapeMismatch, Text

__all__ = ["NOBODY", "NamedApprovers", "read_approvers"]

_MAX_BYTES: Final = 1 << 20
_SEMANTICS: Final = "affiant.policy/1"
_SHAPE: Final = Obj(
    {
        "methods": Array(Text(64), most=1024),
        "approvers": Array(
            Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url (32 bytes)"), least=1, most=64
        ),
        "quorum": Int(1, 64),
        "ttl": Int(1),
    }
)


@dataclass(frozen=True, slots=True)
class NamedApprovers:
    """Thumbprints (RFC 7638) of the keys that may approve, and how many different ones must agree."""

    kids: frozenset[str]
    quorum: int


NOBODY: Final = NamedApprovers(frozenset(), 1)
"""Of a profile that names no approvers: no statement counts."""


def read_approvers(form: bytes) -> NamedApprovers:
    """Who may approve by the normal form ``form``.

    Raises:
        JSONError: not canonical JSON. ShapeMismatch: another version of the language, or another form of the member.
    """
    members = parse_object(form, limit=_MAX_BYTES)
    if members.get("semantics") != _SEMANTICS:
        raise ShapeMismatch("another version of the policy language", expected=_SEMANTICS, where="semantics")
    if "approval" not in members:
        return NOBODY
    approval = members["approval"]
    if not isinstance(approval, dict) or not isinstance(approval.get("everything"), bool):
        raise ShapeMismatch("not what needs approval", where="approval")
    said = {name: value for name, value in approval.items() if name != "everything"}
    if set(said) == {"methods"}:
        return NOBODY
    _SHAPE.check(said, "approval")
    approvers, quorum = said["approvers"], said["quorum"]
    assert isinstance(approvers, list)
    assert isinstance(quorum, int)
    return NamedApprovers(frozenset(approvers), quorum)
