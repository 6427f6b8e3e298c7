"""Computes what a ``session-close`` record sums up: counts, head and Merkle root over one session's gateway records.

Shared by the gateway that writes it and the verifier that recomputes it. The root is RFC 9162 over the receipt
hashes (32 bytes each) in the order of ``agt.seq``, the close record itself not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from affiant.attestation.encoding import merkle
from affiant.attestation.encoding.binary_text import b64u, from_b64u

__all__ = ["outcome_of", "session_counts", "session_root"]


def outcome_of(kind: str, payload: Mapping[str, object]) -> str:
    """The name a record is counted under: ``inference.complete``, ``egress.outcome``, or its kind alone."""
    if kind == "inference":
        res = payload["res"]
        assert isinstance(res, Mapping)
        return f"inference.{res['end']}"
    phase = payload.get("ph")
    return f"{kind}.{phase}" if isinstance(phase, str) else kind


def session_counts(records: Iterable[tuple[str, Mapping[str, object]]]) -> Mapping[str, int]:
    """``out``: how many of each outcome, over (kind, payload) of the session's gateway records."""
    counts: dict[str, int] = {}
    for kind, payload in records:
        name = outcome_of(kind, payload)
        counts[name] = counts.get(name, 0) + 1
    return counts


def session_root(hashes: Mapping[int, str]) -> str:
    """``root``: 43 characters over ``agt.seq`` -> ``rh`` of the session's gateway records."""
    return b64u(merkle.root([from_b64u(hashes[seq], size=32) for seq in sorted(hashes)]))
