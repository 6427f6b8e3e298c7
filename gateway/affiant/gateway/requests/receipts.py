"""Receipts as they are handed out: the supervisor gets all disclosures, an agent those that are its business."""

from __future__ import annotations

from typing import Final

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.encoding.canonical import parse_strict
from affiant.attestation.records.receipt import Issued

__all__ = ["for_agent"]

_WITHHELD: Final = frozenset({"user", "ten"})
"""Who stands behind the session: for the supervisor, never for the agent (trust rules, 10)."""


def for_agent(issued: Issued) -> str:
    """The receipt without the disclosures of user and tenant."""
    kept = (text for text in issued.disclosures if _name_of(text) not in _WITHHELD)
    return "~".join([issued.jws, *kept, ""])


def _name_of(disclosure: str) -> object:
    parts = parse_strict(from_b64u(disclosure))
    return parts[1] if isinstance(parts, list) else None
