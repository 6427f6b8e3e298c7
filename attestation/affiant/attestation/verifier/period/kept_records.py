"""Holds a long session's records on disk while they are judged: in memory is what orders and links them.

A check sees what it sees of any record. Payloads and disclosures are read again from the file where the receipt was
kept when its signature held. What checks ask for most and many records have in common (session, profile, attestation
result) is kept once for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import ReceiptText, VerifiedReceipt
from affiant.attestation.schema.disclosure import Disclosed
from affiant.attestation.verifier.period.log.spill import Spill
from affiant.attestation.verifier.period.work import Kept

__all__ = ["KeptRecords", "OnDisk"]

_PARSED: Final = 512
"""Payloads kept parsed: a few KiB each."""
_NOTHING: Final = Disclosed({})
_OFTEN: Final = ("agt", "pol", "att", "evd", "iso", "ph", "up", "mdl")
"""Members that most checks ask for."""
_HIDDEN: Final = "_sd"
"""Its digests differ in each record."""
_MOST_COMMON: Final = 4_096
"""Different sets of those members that are kept: a few KiB each. A record with a further one is read from the file."""


class Common(NamedTuple):
    """What records have in common.

    Args:
        names: of all their members.
        often: members of :data:`_OFTEN`, without digests of what is hidden (``_sd``), ``agt`` without its numbers.
        counted: names of those numbers, in their order.
    """

    names: frozenset[str]
    often: Mapping[str, object]
    counted: tuple[str, ...]


class OnDisk(Sequence[Kept]):
    """The receipts under one name of a spill, read when they are asked for."""

    def __init__(self, spill: Spill, name: str) -> None:
        self._spill, self._name = spill, name
        spill.settle()

    def __len__(self) -> int:
        return self._spill.count(self._name)

    def __getitem__(self, at: int | slice) -> Kept:  # type: ignore[override]
        assert isinstance(at, int)
        return self._spill.text(self._name, at)


def _bare(value: object) -> object:
    """``value`` without the digests of what is hidden; only a check that asks for these by name needs them."""
    if isinstance(value, dict):
        return {name: _bare(each) for name, each in value.items() if name != _HIDDEN}
    return [_bare(each) for each in value] if isinstance(value, list) else value


class KeptRecords:
    """The records of one session. ``recalled``: makes one of its receipt."""

    def __init__(self, texts: OnDisk, recalled: Callable[[Kept], VerifiedReceipt]) -> None:
        self._texts, self._recalled = texts, recalled
        self._common: dict[str, Common] = {}
        self.payload = lru_cache(_PARSED)(self._payload)
        self.whole = lru_cache(_PARSED // 8)(self._whole)

    def all(self) -> Sequence[VerifiedReceipt]:
        """Each, once read and judged by its disclosures as any other."""
        found: list[VerifiedReceipt] = []
        hashes: dict[str, str] = {}
        for at, kept in enumerate(self._texts):
            record = self._recalled(kept)
            before = hashes.get(record.chn)
            prev = before if before == record.prev else record.prev
            found.append(KeptReceipt(self, at, record, prev=prev))  # the hash before is in memory already
            hashes[record.chn] = record.rh
        return found

    def common(self, payload: Mapping[str, object]) -> tuple[Common | None, tuple[int, ...]]:
        """What ``payload`` has in common with others, and the numbers of its ``agt``; None: too many differ."""
        often = {name: _bare(payload[name]) for name in _OFTEN if name in payload}
        agent, numbers = often.get("agt"), dict[str, int]()
        if isinstance(agent, dict):
            numbers = {name: value for name, value in agent.items() if type(value) is int}
            often["agt"] = {name: value for name, value in agent.items() if name not in numbers}
        key = json.dumps([sorted(payload), often, list(numbers)])
        if (found := self._common.get(key)) is None:
            if len(self._common) >= _MOST_COMMON:
                return None, ()
            found = self._common[key] = Common(frozenset(payload), often, tuple(numbers))
        return found, tuple(numbers.values())

    def _whole(self, at: int) -> VerifiedReceipt:
        return self._recalled(self._texts[at])

    def _payload(self, at: int) -> Mapping[str, object]:
        found: Mapping[str, object] = json.loads(from_b64u(self._texts[at][1].split(".", 2)[1]))
        return found


class KeptReceipt(VerifiedReceipt):
    """A verified receipt of which only what orders and links it is in memory."""

    __slots__ = ("_at", "_bare", "_common", "_numbers", "_records")
    _at: int
    _bare: bool
    _common: Common | None
    _numbers: tuple[int, ...]
    _records: KeptRecords

    def __init__(self, records: KeptRecords, at: int, record: VerifiedReceipt, *, prev: str | None) -> None:
        common, numbers = records.common(record.payload)
        facts = {
            **{name: getattr(record, name) for name in ("rh", "kind", "role", "cls", "chn", "seq")},
            "prev": prev,
            "jti": record.jti,
            "iat": record.iat,
            "_records": records,
            "_at": at,
            "_bare": not record.disclosed.values,
            "_common": common,
            "_numbers": numbers,
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def member(self, first: str, *further: str) -> object:
        """As of any record."""
        common = self._common
        if common is None or first == _HIDDEN or _HIDDEN in further:
            return super().member(first, *further)
        if first not in common.names:
            return None
        if first not in common.often:
            return super().member(first, *further)
        value = common.often[first]
        if first == "agt" and common.counted:
            assert isinstance(value, dict)
            value = value | dict(zip(common.counted, self._numbers, strict=True))
        for name in further:
            if not isinstance(value, dict):
                return None
            value = value.get(name)
        return value

    @property
    def payload(self) -> Mapping[str, object]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of any record."""
        return self._records.payload(self._at)

    @property
    def disclosed(self) -> Disclosed:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of any record."""
        return _NOTHING if self._bare else self._records.whole(self._at).disclosed

    @property
    def text(self) -> ReceiptText:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of any record."""
        return self._records.whole(self._at).text
