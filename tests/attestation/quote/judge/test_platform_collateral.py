"""The collateral of a quote's platform, from a folder of answers or from the cache, which remembers what it saw."""

from __future__ import annotations

import base64
import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote as url_encode

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.tdx.conftest import NOW, quote_of, trust_of, verify

from affiant.__main__ import cli
from affiant.attestation.quote.collateral.cache import CollateralCache
from affiant.attestation.quote.collateral.entry import Source
from affiant.attestation.quote.collateral.errors import CollateralAbsent
from affiant.attestation.quote.collateral.files import read_collateral
from affiant.attestation.release.platform_identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.quote.errors import CollateralMalformed
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral

AT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"


def store(folder: Path, platform: SimulatedPlatform, issued: datetime) -> None:
    verified = verify_collateral(platform.collateral(issued), now=issued, trust=trust_of(platform))
    CollateralCache(folder).store(verified, Source("https://pccs.example", "standard", issued))


@pytest.fixture
def home(platform: SimulatedPlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFFIANT_HOME", str(tmp_path))
    root = platform.certificates.of(CertificateRole.ROOT).public_bytes(Encoding.DER)
    (tmp_path / "root.der").write_bytes(root)
    (tmp_path / "quote.bin").write_bytes(quote_of(platform))
    return tmp_path


def run(home: Path, *more: str, at: str = AT) -> Result:
    arguments = [str(home / "quote.bin"), "--root", str(home / "root.der"), "--at", at]
    return CliRunner().invoke(cli, ["quote", "verify", *arguments, *more])


def point(document: dict[str, object], number: int) -> list[str]:
    made, missing = document["checks_made"], document["checks_not_made"]
    assert isinstance(made, list)
    assert isinstance(missing, list)
    return [row["outcome"] for row in (*made, *missing) if row["point"] == number]


def test_the_default_cache_is_used_and_the_step_back_check_is_made(
    home: Path, platform: SimulatedPlatform
) -> None:
    store(home / "collateral", platform, NOW)
    before = sorted((file, file.stat().st_mtime_ns) for file in (home / "collateral").rglob("*"))
    document = json.loads(run(home, "--json").output)
    assert document["exit_code"] == 40
    assert point(document, 22) == ["held"]
    assert set(document["inputs"]) >= {"collateral", "tcb_info", "pck_crl"}
    assert sorted((file, file.stat().st_mtime_ns) for file in (home / "collateral").rglob("*")) == before


def test_a_cache_may_be_named(home: Path, platform: SimulatedPlatform) -> None:
    store(home / "elsewhere", platform, NOW)
    result = run(home, "--cache", str(home / "elsewhere"))
    assert result.exit_code == 40, result.output
    assert "collateral.rollback" not in result.output.split("CHECKS NOT MADE")[1]


def test_older_collateral_than_was_seen_is_refused(home: Path, platform: SimulatedPlatform) -> None:
    """Somebody puts an older entry and its items back; the memory of the newest stays."""
    later = NOW + timedelta(days=1)
    store(home / "old", platform, NOW)
    store(home / "collateral", platform, later)
    for folder in ("items", "platforms"):
        for file in (home / "old" / folder).iterdir():
            (home / "collateral" / folder / file.name).write_bytes(file.read_bytes())
    result = run(home, at=f"{later:%Y-%m-%dT%H:%M:%SZ}")
    assert result.exit_code == 20
    assert "[collateral.rollback]" in result.output


def test_without_the_memory_the_check_is_not_made_and_said_so(
    home: Path, platform: SimulatedPlatform
) -> None:
    store(home / "collateral", platform, NOW)
    for file in (home / "collateral" / "newest").iterdir():
        file.unlink()
    document = json.loads(run(home, "--json").output)
    assert (document["exit_code"], point(document, 22)) == (40, ["not_made"])


def test_a_cache_without_the_platform_is_usage_and_says_what_to_do(
    home: Path, other_platform: SimulatedPlatform
) -> None:
    for folder in (home / "collateral", home / "none"):
        result = run(home, "--cache", str(folder))
        assert result.exit_code == 2
        assert "affiant collateral fetch" in result.output
        assert not (home / "none").exists()
    store(home / "collateral", other_platform, NOW)
    assert run(home).exit_code == 2


def test_expired_and_damaged_entries_are_refused(home: Path, platform: SimulatedPlatform) -> None:
    store(home / "collateral", platform, NOW)
    late = run(home, at="2026-08-01T00:00:00Z")
    assert late.exit_code == 20
    assert "expired" in late.output
    for item in (home / "collateral" / "items").iterdir():
        item.write_bytes(b"{}")
    damaged = run(home)
    assert damaged.exit_code == 20
    assert "[collateral.damaged]" in damaged.output


def test_explain_reads_the_cache_as_verify_does(home: Path, platform: SimulatedPlatform) -> None:
    arguments = ["quote", "explain", str(home / "quote.bin"), "--root", str(home / "root.der"), "--at", AT]
    absent = CliRunner().invoke(cli, arguments)
    assert (absent.exit_code, "collateral.absent" in absent.output) == (2, True)
    store(home / "collateral", platform, NOW)
    explained = CliRunner().invoke(cli, arguments)
    assert explained.exit_code == 40, explained.output
    assert "TCB status UpToDate" in explained.output


# -- a folder of answers ---------------------------------------------------------------------------------------


def pem_list(der: bytes) -> bytes:
    return b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(der) + b"-----END X509 CRL-----\n"


def write_folder(folder: Path, collateral: Collateral, *, fmspc: str, ca: str = "platform") -> Path:
    folder.mkdir()
    (folder / f"tcb_info_{fmspc}.json").write_bytes(collateral.tcb_info)
    (folder / f"tcb_info_{fmspc}_chain.txt").write_text(url_encode(collateral.tcb_info_issuer_chain))
    (folder / "qe_identity.json").write_bytes(collateral.qe_identity)
    (folder / "qe_identity_chain.pem").write_bytes(collateral.qe_identity_issuer_chain)
    (folder / "root_ca_crl.hex").write_text(collateral.root_ca_crl.hex() + "\n")
    (folder / f"pck_crl_{ca}.pem").write_bytes(pem_list(collateral.pck_crl))
    (folder / f"pck_crl_{ca}_chain.pem").write_bytes(collateral.pck_crl_issuer_chain)
    return folder


@pytest.fixture
def folder(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    return write_folder(tmp_path / "collateral", platform.collateral(NOW), fmspc=platform.machine.fmspc.hex())


def test_a_folder_of_answers_gives_the_items_exactly(platform: SimulatedPlatform, folder: Path) -> None:
    quote = parse_quote(quote_of(platform))
    assert read_collateral(folder, quote) == platform.collateral(NOW)


def test_files_of_other_platforms_beside_it_are_not_taken(platform: SimulatedPlatform, folder: Path) -> None:
    (folder / "tcb_info_00806f050000.json").write_bytes(b"{}")
    (folder / "pck_crl_processor.crl").write_bytes(b"")
    (folder / "README.txt").write_bytes(b"")
    assert read_collateral(folder, parse_quote(quote_of(platform))) == platform.collateral(NOW)


def test_the_authority_of_the_quote_chooses_the_list(tmp_path: Path) -> None:
    machine = MachineIdentity(issuer=PCKIssuer.PROCESSOR)
    processor = SimulatedPlatform.create(now=NOW, random_bytes=bytes, machine=machine)
    folder = write_folder(
        tmp_path / "c", processor.collateral(NOW), fmspc=machine.fmspc.hex(), ca="processor"
    )
    found = read_collateral(folder, parse_quote(quote_of(processor)))
    assert verify(processor, collateral=found).fmspc == machine.fmspc


@pytest.mark.parametrize(
    "name",
    ["qe_identity.json", "qe_identity_chain.pem", "root_ca_crl.hex", "pck_crl_platform.pem"],
)
def test_an_absent_file_is_named(platform: SimulatedPlatform, folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CollateralAbsent, match=name.rpartition(".")[0]):
        read_collateral(folder, parse_quote(quote_of(platform)))


def test_two_files_for_one_item_are_refused(platform: SimulatedPlatform, folder: Path) -> None:
    shutil.copy(folder / "pck_crl_platform.pem", folder / "pck_crl_platform.crl")
    with pytest.raises(CollateralAbsent, match="two files"):
        read_collateral(folder, parse_quote(quote_of(platform)))


def test_one_collateral_json_in_a_folder_is_enough(platform: SimulatedPlatform, tmp_path: Path) -> None:
    collateral = platform.collateral(NOW)
    (tmp_path / "collateral.json").write_bytes(collateral.to_bytes())
    assert read_collateral(tmp_path, parse_quote(quote_of(platform))) == collateral


def test_a_list_that_is_no_base64_is_refused(platform: SimulatedPlatform, folder: Path) -> None:
    (folder / "pck_crl_platform.pem").write_bytes(b"-----BEGIN X509 CRL-----\nAAA\n-----END X509 CRL-----\n")
    with pytest.raises(CollateralMalformed):
        read_collateral(folder, parse_quote(quote_of(platform)))


def test_the_recorded_answers_of_the_service_are_read(vectors: Any) -> None:
    quote = parse_quote(vectors.quote("dstack_16cpu_v4"))
    found = read_collateral(vectors.root / "pcs" / "2026-01", quote)
    assert found.tcb_info == vectors.read("pcs/2026-01/tcb_info_90c06f000000.json")
    assert found.tcb_info_issuer_chain.startswith(b"-----BEGIN CERTIFICATE-----\n")
    assert found.pck_crl == vectors.read("pcs/2026-01/pck_crl_platform.crl")
