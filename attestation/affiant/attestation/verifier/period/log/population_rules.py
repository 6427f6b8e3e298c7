"""Rules over all records at once, in memory that a million of them fit into."""

from __future__ import annotations

from itertools import pairwise

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.verifier.checks.chain_checks import RecordRepeated
from affiant.attestation.verifier.checks.evidence_checks import PeerUnbound

__all__ = ["IdsOnce", "OneSessionEach"]

_ID: int = 16


class IdsOnce:
    """``chain.ids``: no two records have one id. 16 bytes each, sorted in 256 parts at the end."""

    __slots__ = ("_parts", "count")

    def __init__(self) -> None:
        self._parts = [bytearray() for _ in range(256)]
        self.count = 0

    def take(self, jti: str) -> None:
        """Remember one; ``jti`` was held against the profile: 22 characters, 16 bytes."""
        raw = from_b64u(jti, size=_ID)
        self._parts[raw[0]] += raw
        self.count += 1

    def repeated(self) -> list[RecordRepeated]:
        """One refusal for each id that stands twice."""
        found = []
        for part in self._parts:
            ids = sorted(bytes(part[at : at + _ID]) for at in range(0, len(part), _ID))
            found += [
                RecordRepeated("one id in two records", where=b64u(one))
                for one, other in pairwise(ids)
                if one == other
            ]
        return found


class OneSessionEach:
    """``peer.bound``, over everything: no key and no evidence of a session stands under another session's id."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def take(self, session: str, key: str, evidence: str, *, jti: str) -> None:
        """Raises :class:`PeerUnbound`."""
        for name in (key, evidence):
            if self._owners.setdefault(name, session) != session:
                raise PeerUnbound("a session's key under another session's id", where=jti)
