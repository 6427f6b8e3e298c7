"""Real quotes and collateral, where the collection of vectors lies beside the repository."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.release_of_files import release_of

from affiant.attestation.release.boot import Image, boot_log
from affiant.attestation.release.manifest import Release, reference_values
from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.simulated.platform.registers import extend
from affiant.attestation.tdx.appraise.appraisal import Appraisal, appraise
from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
from affiant.attestation.tdx.event_log.eventlog import (
    SESSION_EVENT_ORDER,
    Event,
    EventLog,
    LoggedEvent,
    event_digest,
    parse_event_log,
)
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import TDQuote, parse_quote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote

VECTORS = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "tdx"
ABSENT = "the TDX vectors (../shared/vectors/tdx) are not there"


@dataclass(frozen=True)
class Vectors:
    """Read access to the collection."""

    root: Path

    @property
    def expected(self) -> Any:
        return json.loads((self.root / "expected.json").read_text())

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def quote(self, name: str) -> bytes:
        return self.read(f"quotes/{name}.bin")

    def trust(self, root: str) -> TrustRoots:
        return TrustRoots.intel() if root == "intel" else TrustRoots.pinned((self.read(root),))

    def members(self, name: str) -> dict[str, str]:
        members: dict[str, str] = json.loads(self.read(name))
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


# -- the simulated platform, whose every fault can be had on demand ----------------------------------------------

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
MRCONFIGID = hashlib.sha384(b"initdata").digest()
REPORT_DATA = hashlib.sha512(b"statement").digest()
RELEASE: Release = release_of([("affiant/a.py", "00" * 32)])
BOOT_EVENTS = tuple(Event(name, {"number": number}) for number, name in enumerate(SESSION_EVENT_ORDER))


def random_bytes(label: str) -> Callable[[int], bytes]:
    return lambda size: hashlib.shake_256(label.encode()).digest(size)


def key_of(platform: SimulatedPlatform, role: Role) -> Any:
    return derive_key(platform.seed, role)


def trust_of(platform: SimulatedPlatform) -> TrustRoots:
    return TrustRoots.pinned((platform.root_spki(),))


def quote_of(
    platform: SimulatedPlatform,
    *,
    layout: QuoteLayout = QuoteLayout.V4,
    report_data: bytes = REPORT_DATA,
    mrconfigid: bytes = MRCONFIGID,
    image: Image = Image.SESSION,
    events: tuple[Event, ...] = BOOT_EVENTS,
    mrtd: bytes = RELEASE.images[Image.GATEWAY].mrtd,
    td: dict[str, bytes] | None = None,
    **options: Any,
) -> bytes:
    registers = platform.launch(image, mrconfigid=mrconfigid, mrtd=mrtd, td_id=bytes(32), **(td or {}))
    for event in events:
        registers = extend(registers, 3, event_digest(event))
    return platform.quote(registers, report_data, layout=layout, **options)


def log_of(events: tuple[Event, ...] = BOOT_EVENTS, image: Image = Image.SESSION) -> EventLog:
    booted = parse_event_log(boot_log(image)).entries
    return EventLog((*booted, *(LoggedEvent(3, event) for event in events)))


def reference_of(platform: SimulatedPlatform) -> ReferenceValues:
    return parse_reference_values(reference_values(RELEASE, platform.root_spki()))


def verify(
    platform: SimulatedPlatform,
    quote: bytes | None = None,
    *,
    collateral: Collateral | None = None,
    trust: TrustRoots | None = None,
    now: datetime = NOW,
    issued: datetime = NOW,
    **options: Any,
) -> VerifiedQuote:
    """The whole way from a platform's quote and collateral to a verified quote."""
    verified = verify_collateral(
        collateral or platform.collateral(issued), now=now, trust=trust or trust_of(platform)
    )
    return verify_quote(parse_quote(quote or quote_of(platform)), verified, now=now, **options)


def appraise_session(platform: SimulatedPlatform, quote: bytes | None = None, **options: Any) -> Appraisal:
    arguments: dict[str, Any] = {
        "image": "session",
        "mrconfigid": MRCONFIGID,
        "report_data": REPORT_DATA,
        "log": log_of(),
        "expected_rtmr3": BOOT_EVENTS,
    } | options
    reference = arguments.pop("reference", None) or reference_of(platform)
    return appraise(verify(platform, quote), reference, **arguments)


@pytest.fixture(scope="session")
def platform() -> SimulatedPlatform:
    return SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))


@pytest.fixture(scope="session")
def other_platform() -> SimulatedPlatform:
    """The same names, other keys."""
    return SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("another platform"))
