"""A gateway that demands signed profiles, and `affiant run` with and without a signature."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.gateway.conftest import Running, serving_gateway

from affiant.__main__ import cli


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    private = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path_factory.mktemp("key") / "key.pem"
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    path.chmod(0o600)
    pem = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    signers = {"typ": "affiant-profile-signers/1", "signers": [{"value": {"key": pem}}]}
    (path.parent / "signers.json").write_text(json.dumps(signers))
    return path


@pytest.fixture(scope="module")
def demanding(warm, tmp_path_factory: pytest.TempPathFactory, key: Path) -> Iterator[Running]:
    """A gateway of its own beside the state folder's, on the same platform."""
    signers = key.parent / "signers.json"
    home = tmp_path_factory.mktemp("gateway")
    with serving_gateway(home, warm.home, "--profile-signers", str(signers)) as running:
        yield running


@pytest.mark.slow
def test_only_a_signed_profile_runs_and_its_receipts_hold(
    warm, demanding: Running, key: Path, tmp_path: Path
):
    pinned = ("--gateway", demanding.gateway.url, "--gateway-config", demanding.ready["config"])
    refused = warm.run("true", options=pinned)
    assert refused.returncode == 125
    assert b"policy.unsigned" in refused.stderr

    profiles, signature = warm.folder / "profiles.yaml", tmp_path / "signature.json"
    call("policy", "sign", str(profiles), "--key", str(key), "-o", str(signature), code=0)
    options = ("--policy-signature", str(signature), "--bundle", str(tmp_path / "b"), *pinned)
    ran = warm.run("true", options=options)
    assert ran.returncode == 0, ran.stderr

    trust = tmp_path / "trust.json"
    named = (
        "--gateway-config",
        demanding.ready["config"],
        "--profile-signers",
        str(key.parent / "signers.json"),
    )
    trust.write_text(call("platform", "trust", "--home", str(warm.home), *named, code=0))
    rows = json.loads(call("verify", str(tmp_path / "b"), "--trust", str(trust), "--json", code=40))["checks"]
    (found,) = [each for each in rows if each["code"] == "pol.accepted"]
    assert found["state"] == "held" and "signed" in found["detail"]


def call(*arguments: str, code: int) -> str:
    done = CliRunner().invoke(cli, list(arguments))
    assert done.exit_code == code, done.output
    return done.stdout
