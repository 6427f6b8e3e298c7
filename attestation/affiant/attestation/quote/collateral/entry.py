"""Describes one entry of the cache: which stored items make up the collateral of a platform, and their origin.

Format ``affiant-collateral-entry/1``, RFC 8785 JSON. It is a note, not evidence: whoever reads collateral through
it verifies the items again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.attestation.encoding.binary_text import from_hex
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.attestation.tdx.pki.times import parse_rfc3339_utc
from affiant.attestation.tdx.tcb.collateral import ITEMS

__all__ = ["Entry", "Source", "parse_entry"]

_TYP: Final = "affiant-collateral-entry/1"
MAX_ENTRY: Final = 8192


@dataclass(frozen=True, slots=True)
class Source:
    """Where collateral came from.

    Args:
        service: base address, or ``file``.
        edition: as asked for: ``standard``, ``early``, ``evaluation 18``.
        fetched: the time at which it was verified.
    """

    service: str
    edition: str
    fetched: datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """What is stored of one platform under one root.

    Args:
        root: SHA-256 (32 bytes) of the root's DER SubjectPublicKeyInfo.
        expires: the last time at which every part holds.
        digest: the collateral's, 43 characters.
        items: item name -> SHA-256 (32 bytes) of its exact bytes.
    """

    platform: Platform
    root: bytes
    source: Source
    expires: datetime
    evaluation_number: int
    digest: str
    items: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The entry's file name; one for each platform and root."""
        return f"{self.platform.fmspc.hex()}-{self.platform.authority}-{self.root.hex()}.json"

    def to_bytes(self) -> bytes:
        """The document."""
        return canonical(
            {
                "typ": _TYP,
                "fmspc": self.platform.fmspc.hex(),
                "authority": str(self.platform.authority),
                "root": self.root.hex(),
                "service": self.source.service,
                "edition": self.source.edition,
                "fetched": f"{self.source.fetched:%Y-%m-%dT%H:%M:%SZ}",
                "expires": f"{self.expires:%Y-%m-%dT%H:%M:%SZ}",
                "evaluation_number": self.evaluation_number,
                "digest": self.digest,
                "items": {name: digest.hex() for name, digest in self.items.items()},
            }
        )


def parse_entry(data: bytes) -> Entry:
    """What :meth:`Entry.to_bytes` wrote.

    Raises:
        AffiantError: not canonical JSON, or a member of another form.
        ValueError: another form, or no time.
    """
    match parse_object(data, limit=MAX_ENTRY):
        case {
            "typ": str() as typ,
            "fmspc": str() as fmspc,
            "authority": str() as authority,
            "root": str() as root,
            "service": str() as service,
            "edition": str() as edition,
            "fetched": fetched,
            "expires": expires,
            "evaluation_number": int() as number,
            "digest": str() as digest,
            "items": dict() as items,
            **rest,
        } if typ == _TYP and not rest and items.keys() == set(ITEMS):
            return Entry(
                platform=Platform(from_hex(fmspc), Authority(authority)),
                root=from_hex(root, size=32),
                source=Source(service, edition, parse_rfc3339_utc(fetched)),
                expires=parse_rfc3339_utc(expires),
                evaluation_number=number,
                digest=digest,
                items={name: from_hex(str(items[name]), size=32) for name in ITEMS},
            )
        case _:
            raise ValueError("another form")
