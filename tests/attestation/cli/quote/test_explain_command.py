"""``affiant quote explain`` as a user runs it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.tdx.conftest import NOW, quote_of

from affiant.__main__ import cli
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform


def run(platform: SimulatedPlatform, folder: Path, *more: str) -> Result:
    (folder / "quote.bin").write_bytes(quote_of(platform))
    (folder / "c.json").write_bytes(platform.collateral(NOW).to_bytes())
    root = platform.certificates.of(CertificateRole.ROOT).public_bytes(Encoding.DER)
    (folder / "root.der").write_bytes(root)
    arguments = [str(folder / "quote.bin"), "--collateral", str(folder / "c.json")]
    arguments += ["--root", str(folder / "root.der"), "--at", f"{NOW:%Y-%m-%dT%H:%M:%SZ}"]
    return CliRunner().invoke(cli, ["quote", "explain", *arguments, *more])


def behind(platform: SimulatedPlatform, status: str = "OutOfDate") -> SimulatedPlatform:
    own = platform.tcb_info.levels[0]
    top = replace(own, sgx_components=(own.sgx_components[0] + 1, *own.sgx_components[1:]))
    return replace(platform, tcb_info=replace(platform.tcb_info, levels=(top, replace(own, status=status))))


def test_what_decided_and_what_an_update_needs_is_said(platform: SimulatedPlatform, tmp_path: Path) -> None:
    result = run(behind(platform), tmp_path)
    assert result.exit_code == 40
    assert "TCB status OutOfDate" in result.output
    assert "PLATFORM  level 2 of 2" in result.output
    assert "SGX component 1: 3, needs 4" in result.output
    assert "SIMULATED" in result.output
    assert "verified" not in result.output.lower()


def test_the_document_says_the_same(platform: SimulatedPlatform, tmp_path: Path) -> None:
    document = json.loads(run(behind(platform), tmp_path, "--json").output)
    assert (document["typ"], document["merged"]) == ("affiant-quote-explanation/1", "OutOfDate")
    ladder = document["ladders"][0]
    gap = {"kind": "SGX component", "index": 1, "name": "", "found": 3, "required": 4}
    assert (ladder["matched"], ladder["decided_by"]) == (1, [gap])
    assert ladder["next_better"]["status"] == "UpToDate"


def test_a_revoked_level_is_explained_and_exits_with_20(platform: SimulatedPlatform, tmp_path: Path) -> None:
    result = run(behind(platform, "Revoked"), tmp_path)
    assert result.exit_code == 20
    assert "[tcb.revoked]" in result.output
    assert "needs 4" in result.output


def test_a_quote_that_does_not_hold_is_not_explained(platform: SimulatedPlatform, tmp_path: Path) -> None:
    result = run(platform, tmp_path, "--root", "intel")
    assert result.exit_code == 20
    assert "[root.untrusted]" in result.stderr
    assert json.loads(run(platform, tmp_path, "--root", "intel", "--json").stdout)["refused"]


def test_genuine_hardware_is_explained_with_0(vectors: Any) -> None:
    arguments = [str(vectors.root / "quotes/phala_emr_v4.bin"), "--at", "1792714008"]
    arguments += ["--collateral", str(vectors.root / "collateral/b0c06f_2026-10.json")]
    result = CliRunner().invoke(cli, ["quote", "explain", *arguments])
    assert result.exit_code == 0
    assert "OS/VMM: TDX Late Microcode Update" in result.output
    assert "SIMULATED" not in result.output
