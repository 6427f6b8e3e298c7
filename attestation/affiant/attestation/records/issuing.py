"""Signs one record: its closed shape, salted digests for what it hides, and the signer's signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u, b64u_each
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.receipt import RECEIPT_TYPE, Issued
from affiant.attestation.schema.records import PROFILES, objects_with_digests, shape_of
from affiant.attestation.schema.shapes import Obj, ShapeMismatch
from affiant.attestation.statements.statement import KeysetStatement

__all__ = ["Concealed", "conceal", "issue_receipt"]


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
    unused, nodes, concealing = dict(hidden), [], []
    found = objects_with_digests(payload, shape)
    for path, node, node_shape in found:
        if "_sd" not in node or path in unused:
            nodes.append(node)
            concealing.append((node_shape, unused.pop(path, _NOTHING)))
    if unused:
        raise ShapeMismatch("hidden values for objects that the record does not have", found=sorted(unused))
    concealed = conceal(concealing, random_bytes=random_bytes)
    for node, digests in zip(nodes, concealed.digests, strict=True):
        node["_sd"] = digests
    body = shape.encode(payload, kind, ordered=len(concealing) == len(found))
    signed = jws.sign_canonical(signer, body, typ=RECEIPT_TYPE)
    return Issued(signed, tuple(concealed.disclosures), payload)


_NOTHING: Final[Mapping[str, object]] = {}
_SCALARS: Final = frozenset((str, int, bool, type(None)))


def _thawed(value: Mapping[str, object]) -> dict[str, object]:
    """A deep copy made of dicts and lists, to which digests can be added."""
    return {name: item if type(item) in _SCALARS else _thaw(item) for name, item in value.items()}


def _thaw(value: object) -> object:
    if isinstance(value, (dict, Mapping)):  # in this order: asking an abstract class is slow
        return _thawed(value)
    if isinstance(value, (list, tuple)):
        return [_thaw(item) for item in value]
    return value


class Concealed(NamedTuple):
    """What :func:`conceal` made of the objects given.

    Args:
        digests: the ``_sd`` array of each object.
        disclosures: of all objects, one after another.
    """

    digests: list[list[str]]
    disclosures: list[str]


_SALT: Final = 16
_DECOY: Final = 32
"""Bytes of randomness."""


def conceal(
    objects: Sequence[tuple[Obj, Mapping[str, object]]], *, random_bytes: Callable[[int], bytes]
) -> Concealed:
    """The ``_sd`` arrays and the disclosures of a whole record.

    Args:
        objects: each with its row in the table and the hidden members that have a value now; the names must be hidden
            members of that row. Members without a value are covered by decoys.
        random_bytes: the operating system's generator, asked once; salts and decoys are never derived.
    """
    entries = []
    for shape, values in objects:
        if len(values) > shape.sd:
            raise ShapeMismatch("more hidden members than digests", expected=shape.sd, found=len(values))
        for name, value in values.items():
            hidden = shape.hidden.get(name)
            if hidden is None:
                raise ShapeMismatch("not a hidden member of this object", found=name)
            hidden.check(value, name)
            entries.append((name, value))
    end = _SALT * len(entries)
    random = random_bytes(end + _DECOY * (sum(shape.sd for shape, _ in objects) - len(entries)))
    salts = b64u_each([random[at : at + _SALT] for at in range(0, end, _SALT)], size=_SALT)
    disclosures = [
        b64u(f'["{salt}","{name}",'.encode("ascii") + canonical(value) + b"]")
        for salt, (name, value) in zip(salts, entries, strict=True)
    ]
    hashed = [sha256(disclosure.encode("ascii")).digest() for disclosure in disclosures]
    hashed += [sha256(random[at : at + _DECOY]).digest() for at in range(end, len(random), _DECOY)]
    digests = b64u_each(hashed, size=32)
    real, decoys = iter(digests), iter(digests[len(entries) :])
    return Concealed(
        [
            sorted([*islice(real, len(values)), *islice(decoys, shape.sd - len(values))])
            for shape, values in objects
        ],
        disclosures,
    )
