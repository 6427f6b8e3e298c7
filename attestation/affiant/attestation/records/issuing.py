"""Signs one record: its closed shape, salted digests for what it hides, and the signer's signature."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.receipt import RECEIPT_TYPE, Issued
from affiant.attestation.schema.disclosure import disclosure_digest
from affiant.attestation.schema.records import PROFILES, objects_with_digests, shape_of
from affiant.attestation.schema.shapes import Obj, ShapeMismatch
from affiant.attestation.statements.statement import KeysetStatement

__all__ = ["conceal", "issue_receipt"]


def issue_receipt(
    *,
    signer: Signer,
    statement: KeysetStatement,
    kind: str,
    chn: str,
    seq: int,
    prev: str,
    evd: str,
    jti: str,
    now: datetime,
    members: Mapping[str, object],
    hidden: Mapping[str, Mapping[str, object]],
    random_bytes: Callable[[int], bytes],
) -> Issued:
    """Sign one record.

    Args:
        members: the kind's clear members, and optionally ``agt``, ``peer``, ``par``, ``lim``, ``eat_nonce``.
            Objects that hide something may be given without ``_sd``. One with it, and without hidden values, keeps
            it: others made those digests, and hold their disclosures.
        hidden: path of the object (``req``, ``sec[0]``, ``""`` for the payload) -> its hidden values.

    Raises:
        ShapeMismatch: the result would not be of this kind's closed shape; nothing is signed.
    """
    shape = shape_of(kind, role=statement.role, cls=statement.cls)
    payload: dict[str, object] = {
        **_thawed(members),
        "eat_profile": PROFILES[statement.cls],
        "iss": statement.iss,
        "jti": jti,
        "iat": int(now.timestamp()),
        "kind": kind,
        "cls": statement.cls,
        "role": statement.role,
        "chn": chn,
        "seq": seq,
        "prev": prev,
        "evd": evd,
    }
    if "_sd_alg" in shape.required:
        payload["_sd_alg"] = "sha-256"
    disclosures: list[str] = []
    unused = dict(hidden)
    for path, node, node_shape in objects_with_digests(payload, shape):
        if "_sd" in node and path not in unused:
            continue
        node["_sd"], made = conceal(node_shape, unused.pop(path, {}), random_bytes=random_bytes)
        disclosures += made
    if unused:
        raise ShapeMismatch("hidden values for objects that the record does not have", found=sorted(unused))
    shape.check(payload, kind)
    return Issued(jws.sign(signer, payload, typ=RECEIPT_TYPE), tuple(disclosures), payload)


def _thawed(value: Mapping[str, object]) -> dict[str, object]:
    """A deep copy made of dicts and lists, to which digests can be added."""
    return {name: _thaw(item) for name, item in value.items()}


def _thaw(value: object) -> object:
    if isinstance(value, Mapping):
        return _thawed(value)
    if isinstance(value, (list, tuple)):
        return [_thaw(item) for item in value]
    return value


def conceal(
    shape: Obj, values: Mapping[str, object], *, random_bytes: Callable[[int], bytes]
) -> tuple[list[str], list[str]]:
    """The ``_sd`` array and the disclosures for one object.

    Args:
        shape: the object's row in the table; every name in ``values`` must be one of its hidden members.
        values: hidden members that have a value now; members without one are covered by decoys.
        random_bytes: the operating system's generator; salts and decoys are never derived.
    """
    digests: list[str] = []
    disclosures: list[str] = []
    for name, value in values.items():
        hidden = shape.hidden.get(name)
        if hidden is None:
            raise ShapeMismatch("not a hidden member of this object", found=name)
        hidden.check(value, name)
        disclosure = b64u(canonical([b64u(random_bytes(16)), name, value]))
        disclosures.append(disclosure)
        digests.append(disclosure_digest(disclosure))
    if len(digests) > shape.sd:
        raise ShapeMismatch("more hidden members than digests", expected=shape.sd, found=len(digests))
    digests += [b64u(hashlib.sha256(random_bytes(32)).digest()) for _ in range(shape.sd - len(digests))]
    return sorted(digests), disclosures
