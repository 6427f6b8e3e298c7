"""The erasures and holds of this log, of this boot and of earlier ones: read from the store once, then kept in memory.

The store is the operator's, who can hide a hold or an erasure of an earlier boot from this gateway, not from the log:
its leaf stays, and a verifier that is shown the record judges it. A hold counts whichever authority signed it: also
one that is not in the configuration any more. The end of a hold counts only if an authority of the configuration has
ordered it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.encoding.jws import MAX_PAYLOAD
from affiant.attestation.erasure.errors import OrderUnauthorized
from affiant.attestation.erasure.orders import verify_order
from affiant.attestation.schema.records import KINDS
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.errors import MalformedError

__all__ = ["OrderBook", "Ordered", "is_order", "payload_of"]


@dataclass(frozen=True, slots=True)
class Ordered:
    """One ``erasure`` or ``hold`` record."""

    jti: str
    chn: str
    seq: int
    rh: str
    kind: str
    payload: Mapping[str, Any] = field(repr=False)


def payload_of(jws: str) -> Mapping[str, Any]:
    """The claims of a record; not verified.

    Raises:
        MalformedError: not a record of ours.
    """
    parts = jws.split(".")
    if len(parts) != 3:
        raise MalformedError("not a record")
    return parse_object(from_b64u(parts[1]), limit=MAX_PAYLOAD)


def is_order(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the members of an erasure or a hold have their shapes."""
    row = KINDS[kind]
    try:
        for name, shape in row.required.items():
            shape.check(payload.get(name), name)
        for name, shape in row.optional.items():
            if name in payload:
                shape.check(payload[name], name)
    except ShapeMismatch:
        return False
    return payload.get("kind") == kind


class OrderBook:
    """What was ordered in this log so far.

    Args:
        authorities, origin: of the configuration.
    """

    def __init__(self, authorities: Sequence[ec.EllipticCurvePublicKey], origin: str) -> None:
        self._authorities, self._origin = authorities, origin
        self._by_aut: dict[str, Ordered] = {}
        self._levels: dict[tuple[str, int], int] = {}
        self._last_erased: dict[str, tuple[int, str]] = {}
        self._pruned: dict[str, int] = {}
        self._holds: dict[str, Ordered] = {}
        self._ended: set[str] = set()

    def demand(self, kind: str, members: Mapping[str, Any], *, latest: float) -> None:
        """Return if an authority of the configuration has ordered this.

        Raises:
            OrderUnauthorized: none has.
        """
        verify_order(members, kind=kind, origin=self._origin, authorities=self._authorities, latest=latest)

    def add(self, ordered: Ordered) -> None:
        """Take a record that is durable."""
        self._by_aut[str(ordered.payload.get("aut"))] = ordered
        if ordered.kind == "erasure":
            for item in ordered.payload["del"]:
                place = (item["chn"], item["seq"])
                if item["lvl"] == 3:
                    self._pruned[item["chn"]] = max(item["seq"], self._pruned.get(item["chn"], 0))
                    continue
                if item["lvl"] == 2:
                    last = (item["seq"], item["rh"])
                    self._last_erased[item["chn"]] = max(last, self._last_erased.get(item["chn"], last))
                self._levels[place] = max(item["lvl"], self._levels.get(place, 0))
        elif "rel" not in ordered.payload:
            self._holds[ordered.rh] = ordered
        elif self.is_by_authority(ordered):
            self._ended.add(ordered.payload["rel"])

    def is_by_authority(self, ordered: Ordered) -> bool:
        """Whether an authority of the configuration has signed it."""
        try:
            self.demand(ordered.kind, ordered.payload, latest=float("inf"))
        except (OrderUnauthorized, KeyError):
            return False
        return True

    def by_order(self, aut: str) -> Ordered | None:
        """The record of this very order."""
        return self._by_aut.get(aut)

    def erasures(self) -> Sequence[Ordered]:
        """Every erasure."""
        return [each for each in self._by_aut.values() if each.kind == "erasure"]

    def level_of(self, chn: str, seq: int) -> int:
        """The level at which a record was ordered to be erased; 0: it was not."""
        return 3 if self.is_pruned(chn, seq) else self._levels.get((chn, seq), 0)

    def is_pruned(self, chn: str, seq: int) -> bool:
        """Whether a chain was ordered to be pruned, up to this number at least."""
        return self._pruned.get(chn, -1) >= seq

    def last_erased(self, chn: str) -> tuple[int, str] | None:
        """Number and hash of the last record of a chain that was ordered to be erased as a whole."""
        return self._last_erased.get(chn)

    def holds(self) -> Sequence[Ordered]:
        """Every hold in force."""
        return [each for rh, each in self._holds.items() if rh not in self._ended]

    def hold(self, rh: str) -> Ordered | None:
        """The hold in force whose record has this hash."""
        return None if rh in self._ended else self._holds.get(rh)

    def hold_on(self, *targets: str) -> Ordered | None:
        """A hold in force on one of these: a session's id, a receipt hash."""
        return next(
            (
                each
                for rh, each in self._holds.items()
                if each.payload["tgt"] in targets and rh not in self._ended
            ),
            None,
        )
