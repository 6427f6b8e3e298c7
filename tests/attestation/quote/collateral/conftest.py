"""A simulated platform's collateral for what this tree must prove by itself, and Intel's recorded answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.attestation.quote.collateral.pcs_server import PCSServer, serve

from affiant.attestation.quote.collateral.issuer_header import decode_issuer_chain
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.pck import PCKCA
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.tcb.collateral import Collateral

VECTORS = Path(__file__).resolve().parents[5] / "shared" / "vectors" / "tdx"
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


def random_bytes(label: str) -> Callable[[int], bytes]:
    return lambda size: hashlib.shake_256(label.encode()).digest(size)


@dataclass(frozen=True)
class Simulated:
    """A simulated platform, its roots and what to ask for."""

    platform: SimulatedPlatform

    @property
    def trust(self) -> TrustRoots:
        return TrustRoots.pinned((self.platform.root_spki(),))

    @property
    def asked(self) -> Platform:
        machine = self.platform.machine
        return Platform(machine.fmspc, Authority.of(PCKCA(machine.issuer.value)))

    def collateral(
        self, *, issued: datetime = NOW, number: int | None = None, **changes: object
    ) -> Collateral:
        """As issued at an instant, under a TCB evaluation number, with fields of the platform changed."""
        platform = self.platform
        if number is not None:
            changes |= {
                "tcb_info": replace(platform.tcb_info, evaluation_number=number),
                "qe_identity": replace(platform.qe_identity, evaluation_number=number),
            }
        return replace(platform, **changes).collateral(issued)  # type: ignore[arg-type]

    def quote(self) -> bytes:
        """A quote of a TD on this platform."""
        registers = self.platform.launch(
            Image.SESSION, mrconfigid=b"\x01" * 48, mrtd=b"\x02" * 48, td_id=bytes(32)
        )
        return self.platform.quote(registers, bytes(64))


@pytest.fixture(scope="session")
def simulated() -> Simulated:
    return Simulated(
        SimulatedPlatform.create(now=NOW - timedelta(days=200), random_bytes=random_bytes("one"))
    )


@pytest.fixture(scope="session")
def other() -> Simulated:
    """The same names, other keys."""
    return Simulated(
        SimulatedPlatform.create(now=NOW - timedelta(days=200), random_bytes=random_bytes("two"))
    )


@pytest.fixture
def pcs(simulated: Simulated, tls: Path) -> Iterator[PCSServer]:
    """The provisioning service for the simulated platform."""
    with serve(simulated.collateral(), tls) as server:
        yield server


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the server's certificate and its authority."""
    return tmp_path_factory.mktemp("tls")


@dataclass(frozen=True)
class Recorded:
    """Intel's answers of January 2026, as they came."""

    folder: Path
    now: datetime = datetime(2026, 1, 20, tzinfo=UTC)
    platform: Platform = Platform(bytes.fromhex("90c06f000000"), Authority.PLATFORM)

    def body(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def header(self, name: str) -> str:
        return self.body(name).decode("ascii").strip()

    def collateral(self) -> Collateral:
        chains = {
            name: decode_issuer_chain(self.header(file), name=name)
            for name, file in (
                ("tcb_info", "tcb_info_90c06f000000_chain.txt"),
                ("qe_identity", "qe_identity_chain.txt"),
                ("pck_crl", "pck_crl_platform_chain.txt"),
            )
        }
        return Collateral(
            tcb_info=self.body("tcb_info_90c06f000000.json"),
            tcb_info_issuer_chain=chains["tcb_info"],
            qe_identity=self.body("qe_identity.json"),
            qe_identity_issuer_chain=chains["qe_identity"],
            root_ca_crl=self.body("root_ca.crl"),
            pck_crl=self.body("pck_crl_platform.crl"),
            pck_crl_issuer_chain=chains["pck_crl"],
        )


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    folder = VECTORS / "pcs" / "2026-01"
    if not folder.is_dir():
        pytest.skip("Intel's recorded answers (../shared/vectors/tdx/pcs) are not there")
    return Recorded(folder)
