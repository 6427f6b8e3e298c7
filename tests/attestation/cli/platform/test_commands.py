from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.release_of_files import release_of
from tests.attestation.simulated.conftest import NOW, counting_bytes
from tests.attestation.simulated.served_platform import serving

from affiant.__main__ import cli
from affiant.attestation.encoding.keys import Signer, public_jwk
from affiant.attestation.release import manifest as release
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.served.reference import simulated_reference
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.folders import default_home


@pytest.fixture(autouse=True)
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> release.Release:
    """This build's manifest, without writing into the source tree."""
    path = tmp_path / "release.json"
    built = release_of(release.measure_files())
    path.write_bytes(built.to_bytes())
    monkeypatch.setattr(release, "_manifest_file", lambda: path)
    return built


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["platform", *map(str, arguments)])


def test_trust_is_written_before_any_platform_runs(tmp_path: Path, manifest: release.Release) -> None:
    result = run("trust", "--home", tmp_path / "home")
    assert result.exit_code == 0, result.output
    trusted = parse_trust_file(result.stdout.encode())
    _, reference = simulated_reference(tmp_path / "home", now=NOW, random_bytes=counting_bytes("never drawn"))
    values = parse_reference_values(reference)
    assert trusted.raw == result.stdout.encode()
    assert all(root in result.stdout for root in values.roots)
    assert {image.mrtd for image in values.images["gateway"]} == {manifest.images[Image.GATEWAY].mrtd}


def test_trust_accepts_an_erasure_authority_by_its_public_key(tmp_path: Path) -> None:
    key = public_jwk(Signer.generate().public_key)
    (tmp_path / "officer.jwk").write_text(json.dumps(key))
    result = run("trust", "--home", tmp_path / "home", "--erasure-authority", tmp_path / "officer.jwk")
    accepted = parse_trust_file(result.stdout.encode()).erasure_authorities
    assert accepted is not None
    assert [public_jwk(found) for _, found in accepted] == [key]
    (tmp_path / "officer.jwk").write_text('{"kty": "EC", "d": "private"}')
    refused = run("trust", "--home", tmp_path / "home", "--erasure-authority", tmp_path / "officer.jwk")
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_trust_accepts_whom_a_file_of_profile_signers_names(tmp_path: Path) -> None:
    entry = {"value": {"key": public_jwk(Signer.generate().public_key)}, "until": "2027-01-01T00:00:00Z"}
    document = {"typ": "affiant-profile-signers/1", "signers": [entry]}
    (tmp_path / "signers.json").write_text(json.dumps(document))
    result = run("trust", "--home", tmp_path / "home", "--profile-signers", tmp_path / "signers.json")
    accepted = parse_trust_file(result.stdout.encode()).profile_signers
    assert accepted is not None
    assert [each.to_json() for each in accepted] == [entry]
    (tmp_path / "signers.json").write_text(json.dumps({**document, "signers": []}))
    refused = run("trust", "--home", tmp_path / "home", "--profile-signers", tmp_path / "signers.json")
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_trust_is_the_same_before_during_and_after(tmp_path: Path) -> None:
    before = run("trust", "--home", tmp_path).stdout
    with serving(tmp_path) as served:
        assert run("trust", "--home", tmp_path).stdout == before
        root, _ = simulated_reference(tmp_path, now=NOW, random_bytes=counting_bytes("x"))
        assert served.client.root() == root
    assert run("trust", "--home", tmp_path).stdout == before


def test_trust_without_a_release_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "release.json").unlink()
    result = run("trust", "--home", tmp_path / "home")
    assert result.exit_code == 1
    assert "[release.missing]" in result.stderr
    assert result.stdout == ""
    assert not (tmp_path / "home").exists()


def test_status_names_root_and_tds(tmp_path: Path) -> None:
    with serving(tmp_path):
        result = run("status", "--home", tmp_path)
    shown = json.loads(result.stdout)
    assert (shown["simulated"], shown["tds"]) == (True, 0)
    assert shown["root"].startswith("sha256:")


def test_status_of_a_platform_that_does_not_run_is_refused(tmp_path: Path) -> None:
    result = run("status", "--home", tmp_path)
    assert result.exit_code == 1
    assert "[platform.unreachable]" in result.stderr
    assert "affiant platform serve" in result.stderr


@pytest.mark.parametrize("command", ["serve", "trust", "status"])
def test_help_gives_an_example(command: str) -> None:
    assert f"affiant platform {command}" in run(command, "--help").stdout


def test_the_dangerous_option_says_what_it_does() -> None:
    assert "refused" in run("serve", "--help").stdout.partition("--dangerous-revoke-pck")[2]


def test_home_comes_from_the_environment_or_the_xdg_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFFIANT_HOME", str(tmp_path / "ours"))
    assert run("trust").exit_code == 0
    assert (tmp_path / "ours" / "platform" / "keys.json").exists()
    monkeypatch.delenv("AFFIANT_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_home() == str(tmp_path / "state" / "affiant")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_home() == str(tmp_path / ".local" / "state" / "affiant")


@pytest.mark.parametrize("name", ["evidence", "scenarios"])
def test_a_wheel_says_that_the_fault_scenarios_are_in_the_source_tree(name: str) -> None:
    code = (
        "import sys; sys.modules['fault_scenarios'] = None\n"
        f"sys.argv = ['affiant', 'platform', {name!r}, '--output', 'x']\n"
        "from affiant.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "source tree and not in the wheel" in " ".join(done.stderr.split())
