"""Real quotes and collateral, where the collection of vectors lies beside the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from affiant.attestation.tdx.collateral import Collateral
from affiant.attestation.tdx.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.quote import TDQuote, parse_quote
from affiant.attestation.tdx.roots import TrustRoots

VECTORS = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "tdx"
ABSENT = "the TDX vectors (../shared/vectors/tdx) are not there"


@dataclass(frozen=True)
class Vectors:
    """Read access to the collection."""

    root: Path

    @property
    def expected(self) -> Any:
        return json.loads((self.root / "expected.json").read_text())

    def bytes(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def quote(self, name: str) -> bytes:
        return self.bytes(f"quotes/{name}.bin")

    def trust(self, root: str) -> TrustRoots:
        return TrustRoots.intel() if root == "intel" else TrustRoots.pinned((self.bytes(root),))

    def members(self, name: str) -> dict[str, str]:
        members: dict[str, str] = json.loads(self.bytes(name))
        return members

    def collateral(self, name: str) -> Collateral:
        return collateral_of(self.members(name))


def collateral_of(item: dict[str, str]) -> Collateral:
    """The PCS bodies are put together again around the exact signed text."""
    return Collateral(
        tcb_info=f'{{"tcbInfo":{item["tcb_info"]},"signature":"{item["tcb_info_signature"]}"}}'.encode(),
        tcb_info_issuer_chain=item["tcb_info_issuer_chain"].encode(),
        qe_identity=(
            f'{{"enclaveIdentity":{item["qe_identity"]},"signature":"{item["qe_identity_signature"]}"}}'
        ).encode(),
        qe_identity_issuer_chain=item["qe_identity_issuer_chain"].encode(),
        root_ca_crl=bytes.fromhex(item["root_ca_crl"]),
        pck_crl=bytes.fromhex(item["pck_crl"]),
        pck_crl_issuer_chain=item["pck_crl_issuer_chain"].encode(),
    )


@dataclass(frozen=True)
class Genuine:
    """One genuine quote with its collateral, and the instant at which both hold."""

    raw: bytes
    quote: TDQuote
    collateral: Collateral
    verified: VerifiedCollateral
    now: datetime


@pytest.fixture(scope="session")
def vectors() -> Vectors:
    if not VECTORS.is_dir():
        pytest.skip(ABSENT)
    return Vectors(VECTORS)


def _genuine(vectors: Vectors, quote: str, collateral: str, now: int) -> Genuine:
    raw, items, instant = (
        vectors.quote(quote),
        vectors.collateral(collateral),
        datetime.fromtimestamp(now, UTC),
    )
    return Genuine(
        raw=raw,
        quote=parse_quote(raw),
        collateral=items,
        verified=verify_collateral(items, now=instant, trust=TrustRoots.intel()),
        now=instant,
    )


@pytest.fixture(scope="session")
def v4(vectors: Vectors) -> Genuine:
    """A v4 quote of bare metal, UpToDate."""
    return _genuine(vectors, "phala_emr_v4", "collateral/b0c06f_2025-06.json", 1751624191)


@pytest.fixture(scope="session")
def v5(vectors: Vectors) -> Genuine:
    """A v5 quote with a TD 1.5 body, UpToDate."""
    return _genuine(vectors, "google_v5_emr", "collateral/90c06f_2026-02-18.json", 1772707803)


@pytest.fixture(scope="session")
def reassemble() -> Callable[[dict[str, str]], Collateral]:
    return collateral_of
