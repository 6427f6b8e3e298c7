"""Secrets out of Vault: bound in the manifest, read by the broker alone, never inside."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.sandbox.conftest import affiant

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.statements.evidence import parse_evidence
from affiant.attestation.statements.manifest import parse_manifest

ROOT = Path(__file__).resolve().parents[2]
VALUE = "hv-" + os.urandom(20).hex()
USE = """
import os, urllib.request
request = urllib.request.Request(os.environ["API"], headers={"Authorization": "Bearer " + os.environ["CLOUD_TOKEN"]})
print(urllib.request.urlopen(request, timeout=20).read().decode())
"""


def load(path: str) -> ModuleType:
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def api():
    with load("examples/demo/stand_in.py").StandIn(("api.vault.test",), "127.0.0.1", (0,)) as stand_in:
        stand_in.port = stand_in.bound_ports[0]
        yield stand_in


@pytest.fixture
def vault(tmp_path):
    stand_in = load("examples/demo/stand_in.py").StandIn(("vault.test",), "127.0.0.1", (0,))
    authority, chain = stand_in._certificates()
    (tmp_path / "vault.pem").write_bytes(chain)
    (tmp_path / "vault-ca.pem").write_bytes(authority)
    with load("tests/secrets/vault_server.py").VaultServer(tmp_path / "vault.pem") as server:
        server.put("kv", "team/cloud", token=VALUE)
        token = tmp_path / "token"
        token.touch(0o600)
        token.write_text(server.token())
        yield server


def arguments(tmp_path: Path, api, vault, isolation: str) -> list[str]:
    (tmp_path / "api-ca.pem").write_bytes(api.ca_pem)
    (tmp_path / "profiles.yaml").write_text(
        f"""agent_configs:
  cloud:
    network_egress:
      - {{host: api.vault.test, port: {api.port}, address: 127.0.0.1/32, methods: [GET]}}
    secrets_access:
      - {{name: CLOUD_TOKEN, ref: "vault:kv/team/cloud#token"}}
"""
    )
    return [
        *(
            sys.executable,
            "-m",
            "affiant",
            "run",
            "--profile",
            str(tmp_path / "profiles.yaml"),
            "--agent",
            "cloud",
        ),
        *("--min-isolation", isolation, "--extra-ca", str(tmp_path / "api-ca.pem")),
        *("--host", "api.vault.test=127.0.0.1/32", "--bundle", str(tmp_path / "b.json")),
        *("--vault", vault.address, "--vault-ca", str(tmp_path / "vault-ca.pem")),
        *("--vault-token-file", str(tmp_path / "token"), "--env", f"API=https://api.vault.test:{api.port}/"),
        *("--", "python3", "-c", USE),
    ]


def run(command: list[str], home: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "AFFIANT_HOME": str(home)}
    return subprocess.run(command, capture_output=True, check=False, timeout=90, env=environment, cwd="/")


def test_a_secret_out_of_vault_is_used_and_stays_outside(warm, tmp_path, api, vault):
    done = run(arguments(tmp_path, api, vault, warm.isolation), warm.home)
    assert done.returncode == 0, done.stderr
    assert [received.authorization for received in api.received] == [f"Bearer {VALUE}"]
    assert VALUE.encode() not in done.stdout + done.stderr + (tmp_path / "b.json").read_bytes()
    assert b"affiant-ph-" in done.stdout
    bundle = parse_bundle((tmp_path / "b.json").read_bytes())
    manifests = [m for raw in bundle.evidence.values() if (m := parse_evidence(raw).manifest) is not None]
    assert [parse_manifest(raw).vault["address"] for raw in manifests] == [vault.address]


@pytest.mark.slow
def test_a_vault_that_cannot_be_reached_leaves_the_secret_without_a_placeholder(warm, tmp_path, api, vault):
    vault.fault = "sealed"
    done = run(arguments(tmp_path, api, vault, warm.isolation), warm.home)
    assert done.returncode == 1
    assert b"KeyError: 'CLOUD_TOKEN'" in done.stdout + done.stderr
    assert not api.received


def test_a_token_file_that_others_can_read_is_refused(warm, tmp_path, api, vault):
    (tmp_path / "token").chmod(0o644)
    done = run(arguments(tmp_path, api, vault, warm.isolation), warm.home)
    assert done.returncode == 125
    assert b"[store.permissions]" in done.stderr


@pytest.mark.parametrize("missing", ["--vault", "--vault-ca", "--vault-token-file"])
def test_vault_options_belong_together(warm, tmp_path, api, vault, missing):
    command = arguments(tmp_path, api, vault, warm.isolation)
    at = command.index(missing)
    assert affiant(*command[3:at], *command[at + 2 :], home=warm.home).returncode == 2
