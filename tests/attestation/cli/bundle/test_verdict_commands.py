"""``affiant verify --sign`` and ``affiant verdict check`` as a user runs them."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.story import NOW, Story, trust_bytes

from affiant.__main__ import cli

AT = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
BUNDLE = "session.affiant.json"
SIGNED = f"{BUNDLE}.verdict.dsse.json"


def affiant(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / BUNDLE).write_bytes(Story().bytes())
    (tmp_path / "trust.json").write_bytes(trust_bytes())
    for name in ("auditor", "stranger"):
        make_key(tmp_path / f"{name}.pem", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    return tmp_path


def make_key(path: Path, *how: str) -> None:
    """As the documentation says it: with openssl."""
    private, public = str(path), str(path.with_suffix(".pub.pem"))
    for command in (["genpkey", *how, "-out", private], ["pkey", "-in", private, "-pubout", "-out", public]):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=20)
    path.chmod(0o600)


def sign(files: Path, *more: object, key: str = "auditor.pem") -> Result:
    trust = ("--trust", files / "trust.json", "--at", AT)
    return affiant("verify", files / BUNDLE, *trust, "--sign", files / key, *more)


def check(files: Path, *more: object, file: str = SIGNED) -> Result:
    return affiant("verdict", "check", files / file, *more)


def test_a_verdict_is_signed_beside_its_bundle_and_checked_again(files: Path) -> None:
    done = sign(files, "--json")
    assert done.exit_code == 40
    result = check(files, "--key", files / "auditor.pub.pem", "--bundle", files / BUNDLE)
    assert result.exit_code == 40, result.output
    assert "the signature holds under the key sha256:" in result.output
    assert "SIMULATED" in result.output
    for member in ("at", "trust", "outcome", "platform_class", "tier"):
        assert repr(json.loads(done.output)[member]) in result.output
    said = json.loads(check(files, "--key", files / "auditor.pub.pem", "--json").output)
    assert said["verdict"] == json.loads(done.output)
    name = "sha256:" + hashlib.sha256((files / BUNDLE).read_bytes()).hexdigest()
    assert said["bundle"] == {"name": name, "compared": False}


def test_an_ed25519_key_and_a_named_file_do_too(files: Path) -> None:
    make_key(files / "ed.pem", "-algorithm", "ED25519")
    assert sign(files, "--signed", files / "v.json", key="ed.pem").exit_code == 40
    assert check(files, "--key", files / "ed.pub.pem", file="v.json").exit_code == 40
    assert not (files / SIGNED).exists()


def test_without_a_key_nothing_is_proven_and_the_exit_code_says_so(files: Path) -> None:
    sign(files)
    result = check(files)
    assert result.exit_code == 30
    assert result.output.startswith("NOT VERIFIED")
    assert json.loads(check(files, "--json").output)["signer"] is None


def test_another_signer_another_bundle_and_a_changed_verdict_exit_with_1(files: Path) -> None:
    sign(files)
    (files / "other.json").write_bytes(b"{}")
    changed = json.loads((files / SIGNED).read_text())
    changed["payload"] = changed["payload"].replace("A", "B", 1)
    (files / "changed.json").write_text(json.dumps(changed))
    key = ("--key", files / "auditor.pub.pem")
    for result, code in (
        (check(files, "--key", files / "stranger.pub.pem"), "verdict.signature_invalid"),
        (check(files, *key, "--bundle", files / "other.json"), "verdict.bundle"),
        (check(files, *key, file=BUNDLE), "verdict.signature"),
    ):
        assert (result.exit_code, code in result.output) == (1, True), result.output
    assert check(files, *key, file="changed.json").exit_code == 1
    document = json.loads(check(files, *key, "--bundle", files / "other.json", "--json").output)
    assert document["refused"]["code"] == "verdict.bundle"
    assert document["verdict"] is None


def test_a_verdict_that_refuses_is_signed_as_what_it_is(files: Path) -> None:
    """A signature says whose verdict it is: the exit code never says better than the verdict."""
    (files / BUNDLE).write_bytes(b"no bundle")
    assert sign(files).exit_code == 20
    assert check(files, "--key", files / "auditor.pub.pem").exit_code == 20


def test_a_key_that_others_can_read_or_a_public_one_ends_before_anything_is_judged(files: Path) -> None:
    (files / "auditor.pem").chmod(0o644)
    for key in ("auditor.pem", "stranger.pub.pem"):
        result = sign(files, key=key)
        assert result.exit_code == 2
        assert "policy.signing_key" in result.output
    assert not (files / SIGNED).exists()
    assert check(files, "--key", files / "stranger.pem", file=BUNDLE).exit_code == 2


def test_options_that_do_not_fit_are_usage(files: Path) -> None:
    trust = ("--trust", files / "trust.json")
    assert affiant("verify", files / BUNDLE, *trust, "--signed", files / "v.json").exit_code == 2
    assert affiant("verify", files, *trust, "--sign", files / "auditor.pem").exit_code == 2
    for place in (BUNDLE, "auditor.pem", "trust.json"):
        before = (files / place).read_bytes()
        assert sign(files, "--signed", files / place).exit_code == 2
        assert (files / place).read_bytes() == before


def test_both_commands_show_examples() -> None:
    assert "--sign auditor.pem" in affiant("verify", "--help").output
    assert "affiant verdict check" in affiant("verdict", "check", "--help").output
