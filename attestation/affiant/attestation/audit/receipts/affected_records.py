"""Conditions to records: each with what it rests on, through whom, and the verdict that its bundle had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from affiant.attestation.audit.receipts.conditions import Conditions, query_of
from affiant.attestation.audit.receipts.store import ReceiptStore
from affiant.printable import shown_time

__all__ = ["Coverage", "Found", "Signer", "count_of", "coverage_of", "find"]

_ROW: Final = (
    "receipts.receipt, receipts.rh, receipts.kind, receipts.role, receipts.at, receipts.session, receipts.profile, "
    "receipts.profile_id, receipts.model, receipts.bundle, receipts.gateway, receipts.session_party, "
    "receipts.gateway IN hit, receipts.session_party IN hit"
)
_BUNDLE: Final = ("digest", "name", "trust", "at", "tier", "level", "simulated", "refused")


@dataclass(frozen=True, slots=True)
class Signer:
    """One that a record rests on; members as of :class:`~.rows.PartyRow` and :class:`~.evidence_facts.EvidenceFacts`.

    Args:
        through: ``gateway`` or ``session``.
        hit: whether the conditions about evidence and keys hold of it.
    """

    through: str
    hit: bool
    kid: str
    keyset: str | None
    evidence: str
    refusal: str | None
    tcb_status: str | None
    mrseam: str | None
    mrtd: str | None
    fmspc: str | None
    ppid: str | None
    advisories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One record in one bundle. ``bundle``: digest, name, trust, at, tier, level, simulated, refused."""

    receipt: str
    rh: str
    kind: str
    role: str
    at: int
    session: str | None
    profile: str | None
    profile_id: str | None
    model: str | None
    bundle: Mapping[str, Any]
    rests_on: tuple[Signer, ...]

    def to_json(self) -> Mapping[str, object]:
        """One entry of the result document."""
        rests_on = [_members(each) | {"advisories": list(each.advisories)} for each in self.rests_on]
        return _members(self) | {"at": shown_time(self.at), "rests_on": rests_on}


def _members(one: Found | Signer) -> dict[str, object]:
    return {each.name: getattr(one, each.name) for each in fields(one)}


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was searched: a search finds nothing in what was not indexed, disclosed or proven."""

    bundles: int
    contraindicated: int
    receipts: int
    profile_ids: int
    """Records that disclose their profile's id."""
    unproven: int
    """Signers whose evidence is claimed or missing."""
    signers: int

    def to_json(self) -> Mapping[str, object]:
        """The member ``searched`` of the result document."""
        return {
            "bundles": self.bundles,
            "contraindicated": self.contraindicated,
            "receipts": self.receipts,
            "profile_id_disclosed": self.profile_ids,
            "signers": self.signers,
            "signers_unproven": self.unproven,
        }


def find(store: ReceiptStore, conditions: Conditions) -> Iterator[Found]:
    """Records that fulfil ``conditions``, the oldest first; a record in two bundles comes once for each.

    Raises:
        SettingsInvalid: conditions that cannot be meant. ``receipt_store.unusable``: the store cannot be read.
    """
    query = query_of(conditions)
    text = f"{query.hits} SELECT {_ROW} FROM receipts WHERE {query.where} ORDER BY at, rh, bundle"  # noqa: S608 - bound
    known = _Known(store)
    for row in store.stream(text, query.values):
        (*own, bundle, gateway, session, by_gateway, by_session) = row
        sides = (("gateway", gateway, by_gateway), ("session", session, by_session))
        rests_on = tuple(
            known.signer(through, int(str(number)), bool(hit))
            for through, number, hit in sides
            if number is not None and conditions.of in (None, through)
        )
        facts: tuple[Any, ...] = (*own, known.bundle(int(str(bundle))), rests_on)
        yield Found(*facts)


def count_of(store: ReceiptStore, conditions: Conditions) -> int:
    """How many different records :func:`find` would find."""
    query = query_of(conditions)
    text = f"{query.hits} SELECT count(DISTINCT rh) FROM receipts WHERE {query.where}"  # noqa: S608 - bound
    return int(str(store.read(text, query.values)[0][0]))


def coverage_of(store: ReceiptStore) -> Coverage:
    """What the store holds."""
    ((bundles, bad, receipts),) = store.read(
        "SELECT count(*), coalesce(sum(tier = 'contraindicated'), 0), coalesce(sum(receipts), 0) FROM bundles"
    )
    ((ids,),) = store.read("SELECT count(*) FROM receipts WHERE profile_id IS NOT NULL")
    ((signers, unproven),) = store.read(
        "SELECT count(*), coalesce(sum(evidence IN ('claimed', 'none')), 0) FROM parties"
    )
    return Coverage(*(int(str(each)) for each in (bundles, bad, receipts, ids, unproven, signers)))


class _Known:
    """Bundles and signers of a search, read once each: there are few of them beside the records."""

    def __init__(self, store: ReceiptStore) -> None:
        self._store = store
        self._bundles: dict[int, Mapping[str, Any]] = {}
        self._signers: dict[int, tuple[Any, ...]] = {}

    def bundle(self, number: int) -> Mapping[str, Any]:
        if number not in self._bundles:
            (row,) = self._store.read(f"SELECT {', '.join(_BUNDLE)} FROM bundles WHERE id = ?", (number,))  # noqa: S608
            members: dict[str, Any] = dict(zip(_BUNDLE, row, strict=True))
            members["simulated"] = bool(members["simulated"])
            self._bundles[number] = members | {"refused": str(members["refused"]).split()}
        return self._bundles[number]

    def signer(self, through: str, number: int, hit: bool) -> Signer:  # noqa: FBT001 - a column
        if number not in self._signers:
            query = (
                "SELECT kid, keyset, evidence, refusal, tcb_status, mrseam, mrtd, fmspc, ppid "
                "FROM parties WHERE id = ?"
            )
            (row,) = self._store.read(query, (number,))
            listed = self._store.read("SELECT advisory FROM advisories WHERE party = ? ORDER BY 1", (number,))
            self._signers[number] = (*row, tuple(str(name) for (name,) in listed))
        return Signer(through, hit, *self._signers[number])
