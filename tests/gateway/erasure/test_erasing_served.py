"""The commands against real processes: an authority orders, the operator hands it over, a verifier reads the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.session_client import SessionClient

from affiant.__main__ import cli
from affiant.attestation.simulated.served.client import PlatformClient


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.mark.slow
def test_from_the_order_to_the_verdict_over_a_kill(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    home, key, jwk = tmp_path / "home", tmp_path / "officer.key", tmp_path / "officer.jwk"
    jwk.write_text(run("erase", "keygen", "-o", key).output)
    authority = ("--erasure-authority", str(jwk))
    with serving_gateway(home, platform_home, *authority) as running:
        session = SessionClient.start(running.gateway, platform, openings=X25519PrivateKey.generate())
        session.say("a secret question")
        session.submit(session.end_record())
        session.close()
        before = tmp_path / "before.affiant.json"
        before.write_text(json.dumps(session.bundle()["bundle"]))
        running.kill()
    more = (
        "--session",
        session.id,
        "--level",
        2,
        "--basis",
        "Art. 17",
        "--key",
        key,
        "-o",
        tmp_path / "r.json",
    )
    assert run("erase", "make", before, *more).exit_code == 0
    with serving_gateway(home, platform_home, *authority) as running:
        done = run("erase", "--home", home, "--request", tmp_path / "r.json", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["orders"][0]["new"]
        running.kill()
    with serving_gateway(home, platform_home, *authority) as running:
        config = running.ready["config"]
        again = run("erase", "--home", home, "--request", tmp_path / "r.json")
        assert again.exit_code == 0
        assert {("new", "no"), ("erased", "0")} <= {tuple(line.split()) for line in again.output.splitlines()}
        after = run("gateway", "bundle", "--home", home, session.id)
        (tmp_path / "after.affiant.json").write_text(json.dumps(json.loads(after.output)["bundle"]))
    document = json.loads(run("platform", "trust", "--home", platform_home).output)
    document["gateway_configs"] = [{"value": config}]
    document["erasure_authorities"] = [{"value": json.loads(jwk.read_text())}]
    (tmp_path / "trust.json").write_text(json.dumps(document))
    shown = run("verify", tmp_path / "after.affiant.json", "--trust", tmp_path / "trust.json", "--json")
    rows = {check["code"]: check for check in json.loads(shown.output)["checks"]}
    assert [row for row in rows.values() if row["state"] == "refused"] == []
    assert rows["chain.contiguous"]["tier"] == "warning" and shown.exit_code == 40
