"""``affiant quote verify`` with collateral from the cache: offline, with the memory of what was seen."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding
from tdx.conftest import NOW, quote_of, trust_of

from affiant.__main__ import cli
from affiant.attestation.collateral.cache import CollateralCache
from affiant.attestation.collateral.entry import Source
from affiant.attestation.simulated.pki import CertificateRole
from affiant.attestation.simulated.platform import SimulatedPlatform
from affiant.attestation.tdx.collateral_verification import verify_collateral

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
