"""Reads who may approve from the normal form of a profile, and nothing else of it.

The normal form (``policy/FORMAT.md``) holds the floor's approvers merged into the profile's, so that its member
``approval`` says all: ``{"everything", "methods"}``; where somebody may approve also ``{"approvers", "quorum",
"ttl"}``, and where identities may ``{"identities", "trusted_root"}``. Whoever calls knows that these bytes have the
digest that the manifest names; that they are a profile's in everything else is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.schema.shapes import Array, Int, Obj, Pattern, Shape, ShapeMismatch, Text
from affiant.attestation.signatures.approvers.identities import (
    NO_IDENTITIES,
    ApproverIdentity,
    NamedIdentities,
)

__all__ = ["NOBODY", "NamedApprovers", "read_approvers"]

_MAX_BYTES: Final = 1 << 20
_SEMANTICS: Final = "affiant.policy/1"
_KEYS: Final = Pattern(r"[A-Za-z0-9_-]{43}", "43 characters of base64url (32 bytes)")
_COMMON: Final[Mapping[str, Shape]] = {
    "methods": Array(Text(64), most=1024),
    "quorum": Int(1, 64),
    "ttl": Int(1),
}
_SHAPE: Final = Obj({**_COMMON, "approvers": Array(_KEYS, least=1, most=64)})
_IDENTITY: Final = Obj({"issuer": Text(255), "subject": Text(255)})
_WITH_IDENTITIES: Final = Obj(
    {**_COMMON, "approvers": Array(_KEYS, most=64), "identities": Array(_IDENTITY, least=1, most=64)}
)


@dataclass(frozen=True, slots=True)
class NamedApprovers:
    """Who may approve: thumbprints (RFC 7638) of keys, names of identities; and how many different ones must agree."""

    kids: frozenset[str]
    quorum: int
    identities: NamedIdentities = NO_IDENTITIES


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
    said = {name: value for name, value in approval.items() if name not in ("everything", "trusted_root")}
    if set(said) == {"methods"} and "trusted_root" not in approval:
        return NOBODY
    identities = _identities(said, approval["trusted_root"]) if "trusted_root" in approval else NO_IDENTITIES
    (_WITH_IDENTITIES if identities.who else _SHAPE).check(said, "approval")
    approvers, quorum = said["approvers"], said["quorum"]
    assert isinstance(approvers, list)
    assert isinstance(quorum, int)
    return NamedApprovers(frozenset(approvers) | identities.names, quorum, identities)


def _identities(said: Mapping[str, object], trusted_root: object) -> NamedIdentities:
    """Those of the member, in their form; the trusted root is read where something is verified under it."""
    if not isinstance(trusted_root, dict):
        raise ShapeMismatch("identities without a trusted root", where="approval.trusted_root")
    _WITH_IDENTITIES.check(said, "approval")
    listed = said["identities"]
    assert isinstance(listed, list)
    who = frozenset(ApproverIdentity(each["issuer"], each["subject"]) for each in listed)
    return NamedIdentities(who, canonical(trusted_root))
