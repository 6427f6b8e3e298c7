"""``affiant quote policy statement``, ``publish`` and ``published`` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.signatures.sigstore.conftest import IDENTITY, ISSUER, POLICY, STATEMENT, Vendor
from tests.sigstore_authority.authority import Authority, encoded
from tests.sigstore_authority.serving import Deployment, serve

from affiant.__main__ import cli
from affiant.attestation.signatures.in_toto import PAYLOAD_TYPE


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["quote", "policy", *(str(each) for each in arguments)])


@pytest.fixture
def folder(vendor: Vendor, tmp_path: Path) -> Path:
    (tmp_path / "appraisal.yaml").write_bytes(POLICY.content)
    (tmp_path / "a.sigstore.json").write_bytes(encoded(vendor.sign()))
    (tmp_path / "trusted_root.json").write_bytes(encoded(vendor.authority.trusted_root()))
    return tmp_path


def shown(folder: Path, *more: object, signer: str = IDENTITY, issuer: str = ISSUER) -> Result:
    by = ("--signer", signer, "--signer-issuer", issuer, "--trusted-root", folder / "trusted_root.json")
    return run("published", folder / "a.sigstore.json", *by, *more)


# -- statement -----------------------------------------------------------------------------------------------------


def test_the_statement_is_what_a_signer_signs(folder: Path) -> None:
    result = run("statement", folder / "appraisal.yaml")
    assert (result.exit_code, result.output) == (0, STATEMENT.decode() + "\n")
    result = run("statement", folder / "appraisal.yaml", "--output", folder / "s.json")
    assert (result.exit_code, result.output) == (0, "")
    assert (folder / "s.json").read_bytes() == STATEMENT


def test_a_statement_is_written_over_nothing(folder: Path) -> None:
    for there in ("appraisal.yaml", "."):
        result = run("statement", folder / "appraisal.yaml", "-o", folder / there)
        assert result.exit_code == 2
        assert "[published.settings]" in result.output
    assert (folder / "appraisal.yaml").read_bytes() == POLICY.content


def test_a_file_that_would_be_refused_gets_no_statement(folder: Path) -> None:
    (folder / "appraisal.yaml").write_bytes(POLICY.content.replace(b"machines:", b"machine:"))
    result = run("statement", folder / "appraisal.yaml", "-o", folder / "s.json")
    assert result.exit_code == 1
    assert "appraisal.yaml:22:1" in result.output
    assert "[appraisal_policy.key]" in result.output
    assert not (folder / "s.json").exists()


# -- published -----------------------------------------------------------------------------------------------------


def test_it_shows_on_whose_word_the_file_rests(folder: Path) -> None:
    result = shown(folder)
    assert result.exit_code == 0, result.output
    for text in ("appraisal.yaml", POLICY.digest, IDENTITY, ISSUER, "2026-05-04T12:00:00Z, says the log"):
        assert text in result.output
    document = json.loads(shown(folder, "--json").output)
    assert (document["typ"], document["refused"]) == ("affiant-publication-verdict/1", None)
    assert document["published"]["signer"] == {"identity": IDENTITY, "issuer": ISSUER}


def test_it_extracts_the_exact_bytes_and_over_nothing(folder: Path) -> None:
    assert shown(folder, "--extract", folder / "mine.yaml").exit_code == 0
    assert (folder / "mine.yaml").read_bytes() == POLICY.content
    (folder / "mine.yaml").write_bytes(b"my own")
    assert shown(folder, "--extract", folder / "mine.yaml").exit_code == 2
    assert (folder / "mine.yaml").read_bytes() == b"my own"


def test_a_refusal_is_one_and_writes_nothing(folder: Path) -> None:
    result = shown(folder, "--extract", folder / "mine.yaml", signer="mallory@evil.example")
    assert result.exit_code == 1
    assert "[published.signer]" in result.output
    assert not (folder / "mine.yaml").exists()
    document = json.loads(shown(folder, "--json", signer="mallory@evil.example").output)
    assert (document["published"], document["refused"]["code"]) == (None, "published.signer")


@pytest.mark.parametrize("missing", ["--signer", "--signer-issuer", "--trusted-root"])
def test_all_three_options_are_demanded(folder: Path, missing: str) -> None:
    given = {"--signer": IDENTITY, "--signer-issuer": ISSUER, "--trusted-root": folder / "trusted_root.json"}
    del given[missing]
    result = run("published", folder / "a.sigstore.json", *(text for pair in given.items() for text in pair))
    assert result.exit_code == 2
    assert missing in result.output


def test_what_cannot_be_meant_is_usage(folder: Path) -> None:
    assert shown(folder, signer="").exit_code == 2
    (folder / "trusted_root.json").write_bytes(b"{}")
    result = shown(folder)
    assert result.exit_code == 2
    assert "[published.trusted_root]" in result.output


def test_a_hostile_name_does_nothing_to_the_terminal(folder: Path, vendor: Vendor) -> None:
    bundle = vendor.sign(identity="mallory@evil.example\x1bc")
    (folder / "a.sigstore.json").write_bytes(encoded(bundle))
    result = shown(folder)
    assert result.exit_code == 1
    assert "\x1b" not in result.output


# -- publish: the real client signs over HTTP ------------------------------------------------------------------------


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with serve(Authority()) as running:
        yield running


def publish(folder: Path, deployment: Deployment, token: str, *, tiled: bool = False) -> Result:
    (folder / "config.json").write_bytes(encoded(deployment.trust_config(tiled=tiled)))
    (folder / "token").write_text(token + "\n")
    config = ("--trust-config", folder / "config.json", "--identity-token-file", folder / "token")
    return run("publish", folder / "appraisal.yaml", "-o", folder / "new.sigstore.json", *config)


@pytest.mark.parametrize("tiled", [False, True], ids=["rekor v1", "rekor v2 and a timestamp"])
def test_what_is_published_is_what_its_reader_gets(folder: Path, deployment: Deployment, tiled: bool) -> None:
    result = publish(folder, deployment, deployment.token(IDENTITY), tiled=tiled)
    assert result.exit_code == 0, result.output
    assert f"signed by           {IDENTITY}" in result.output
    asked = ["/api/v2/signingCert", "/api/v1/timestamp", "/api/v2/log/entries"]
    assert deployment.asked == (asked if tiled else ["/api/v2/signingCert", "/api/v1/log/entries"])
    envelope = json.loads((folder / "new.sigstore.json").read_bytes())["dsseEnvelope"]
    assert envelope["payloadType"] == PAYLOAD_TYPE
    (folder / "new.sigstore.json").rename(folder / "a.sigstore.json")
    (folder / "trusted_root.json").write_bytes(encoded(deployment.authority.trusted_root()))
    read = shown(folder, "--extract", folder / "mine.yaml", issuer=deployment.issuer)
    assert read.exit_code == 0, read.output
    assert (folder / "mine.yaml").read_bytes() == POLICY.content


def test_the_token_can_come_from_standard_input(folder: Path, deployment: Deployment) -> None:
    (folder / "config.json").write_bytes(encoded(deployment.trust_config()))
    options = (
        "--trust-config",
        folder / "config.json",
        "--identity-token-file",
        "-",
        "-o",
        folder / "n.sigstore.json",
    )
    command = ["quote", "policy", "publish", folder / "appraisal.yaml", *options]
    result = CliRunner().invoke(cli, [str(each) for each in command], input=deployment.token(IDENTITY) + "\n")
    assert (result.exit_code, (folder / "n.sigstore.json").is_file()) == (0, True), result.output


def test_what_would_be_refused_is_not_signed(folder: Path, deployment: Deployment) -> None:
    (folder / "appraisal.yaml").write_bytes(b"typ: affiant-appraisal/1\n")
    assert publish(folder, deployment, deployment.token(IDENTITY)).exit_code == 1
    (folder / "appraisal.yaml").write_bytes(POLICY.content)
    (folder / "new.sigstore.json").write_bytes(b"mine")
    assert publish(folder, deployment, deployment.token(IDENTITY)).exit_code == 2
    assert deployment.asked == []
    assert (folder / "new.sigstore.json").read_bytes() == b"mine"


def test_a_token_that_cannot_be_used_is_usage_and_never_shown(folder: Path, deployment: Deployment) -> None:
    expired = deployment.token(IDENTITY, expires_in=-timedelta(minutes=1))
    elsewhere = deployment.token(IDENTITY, aud="other")
    for token in ("", "no token", "\xff", expired, elsewhere):
        result = publish(folder, deployment, token)
        assert result.exit_code == 2
        assert "[published.settings]" in result.output
        assert not token or token not in result.output
    assert deployment.asked == []


@pytest.mark.parametrize("path", ["/api/v2/signingCert", "/api/v1/log/entries"])
def test_a_service_that_refuses_is_a_refusal_without_the_token(
    folder: Path, deployment: Deployment, path: str
) -> None:
    deployment.failing.add(path)
    token = deployment.token(IDENTITY)
    result = publish(folder, deployment, token)
    assert result.exit_code == 1
    assert "[published.signing]" in result.output
    assert token.split(".")[1] not in result.output
    assert not (folder / "new.sigstore.json").exists()


def test_a_service_that_is_not_there_is_a_refusal(folder: Path, deployment: Deployment) -> None:
    token = deployment.token(IDENTITY)
    deployment.url = "http://127.0.0.1:1"
    result = publish(folder, deployment, token)
    assert (result.exit_code, "[published.signing]" in result.output) == (1, True)


def test_an_answer_that_readers_would_refuse_is_not_written(folder: Path, deployment: Deployment) -> None:
    """The services sign under other keys than the configuration's trusted root says."""
    config = deployment.trust_config()
    config["trustedRoot"]["tlogs"] = Authority().trusted_root()["tlogs"]
    deployment.trust_config = lambda **_: config  # type: ignore[method-assign]
    result = publish(folder, deployment, deployment.token(IDENTITY))
    assert (result.exit_code, "[published.not_logged]" in result.output) == (1, True)
    assert not (folder / "new.sigstore.json").exists()


def test_without_the_library_the_commands_say_what_to_install(folder: Path, vendor: Vendor) -> None:
    code = (
        "import sys; sys.modules['sigstore'] = None; sys.argv = ['affiant', *sys.argv[1:]]\n"
        "from affiant.__main__ import main; main()\n"
    )
    root = ("--trusted-root", folder / "trusted_root.json")
    commands = {
        "published": ("a.sigstore.json", "--signer", IDENTITY, "--signer-issuer", ISSUER, *root),
        "publish": (
            "appraisal.yaml",
            "-o",
            "n",
            "--trust-config",
            "appraisal.yaml",
            "--identity-token-file",
            "-",
        ),
        "statement": ("appraisal.yaml",),
    }
    for name, arguments in commands.items():
        command = [sys.executable, "-c", code, "quote", "policy", name, *(str(each) for each in arguments)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        if name == "statement":
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode == 2
            assert "pip install 'affiant[sigstore]'" in done.stderr
            assert "[published.extra]" in done.stderr
