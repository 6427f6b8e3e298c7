"""The record table as this generator needs it, transcribed from ``docs/formats/records.md``.

Leaf codes; which kinds are a session's; which objects carry how many digests, and what they may hide.
"""

from __future__ import annotations

from typing import Any

__all__ = ["DIGESTS", "LEAF", "OF_SESSION", "PROFILES", "objects_with_digests"]

PROFILES = {
    "hardware": "tag:affiant.dev,2026:receipt/1",
    "simulated": "tag:affiant.dev,2026:receipt/1/simulated",
}
LEAF = {
    "boot": 1,
    "inference": 2,
    "refusal": 3,
    "tool": 4,
    "secret": 5,
    "egress": 6,
    "approval": 7,
    "epoch": 8,
    "end": 9,
    "erasure": 10,
    "session-start": 11,
    "session-close": 12,
    "snapshot": 13,
    "fork": 14,
    "handoff": 15,
    "policy": 16,
    "gap": 17,
    "hold": 18,
    "exec": 19,
    "file": 20,
    "port": 21,
}
OF_SESSION = frozenset(LEAF) - {"boot", "epoch", "end", "erasure", "gap", "hold"}
"""Kinds that carry ``agt``, ``_sd_alg`` and the payload's own digest."""
DIGESTS = {"agt": 3, "pol": 2, "req": 3, "res": 4, "mdl": 1, "fet": 1, "act": 5, "use": 2, "ini": 1, "sec": 2}
DIGESTS |= {"mov": 4, "prt": 3, "tsk": 4}
"""Member -> digests that its object always carries; ``sec``: each of its elements."""


def objects_with_digests(payload: dict[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
    """Path, object and number of digests, for every object of the payload that carries some."""
    found: list[tuple[str, dict[str, Any], int]] = []
    if payload["kind"] in OF_SESSION:
        found.append(("", payload, 1))
    for name, count in DIGESTS.items():
        value = payload.get(name)
        if isinstance(value, dict):
            found.append((name, value, count))
        elif isinstance(value, list):
            found += [(f"{name}[{index}]", item, count) for index, item in enumerate(value)]
    return found
