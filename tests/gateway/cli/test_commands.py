"""``affiant gateway status`` and ``bundle``: over the operator's socket, without any proof."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import Running
from tests.gateway.session_client import SessionClient, opened

from affiant.__main__ import cli
from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.records.receipt import receipt_hash
from affiant.attestation.records.sealed_disclosures_key import disclosure_key_file
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.cli import commands


def affiant(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_status_says_where_the_gateway_is(running: Running, session: SessionClient) -> None:
    shown = affiant("gateway", "status", "--home", str(running.home), "--json")
    assert shown.exit_code == 0
    value = json.loads(shown.stdout)
    assert value["url"] == running.gateway.url and value["ready"] is True
    assert session.id in {entry["session"] for entry in value["sessions"]}
    text = affiant("gateway", "status", "--home", str(running.home))
    assert running.gateway.url in text.stdout and session.id in text.stdout
    assert f"TLS key       {value['spki']}" in text.stdout


def test_status_of_a_gateway_of_an_older_release_is_shown(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an upgrade the commands are the new ones already; the overview of old gateways names no drain."""
    ask = commands._ask

    def older(*asked: object, **more: object) -> bytes:
        members = json.loads(ask(*asked, **more))
        members.pop("drain", None)
        return json.dumps(members).encode()

    monkeypatch.setattr(commands, "_ask", older)
    shown = affiant("gateway", "status", "--home", str(running.home))
    assert shown.exit_code == 0 and f"{running.gateway.url}  ready\n" in shown.stdout


def test_a_bundle_is_the_one_that_the_session_gets(
    running: Running, session: SessionClient, openings: X25519PrivateKey
) -> None:
    session.say("hi")
    session.close()
    shown = affiant("gateway", "bundle", "--home", str(running.home), session.id)
    assert shown.exit_code == 0
    assert json.loads(shown.stdout) == session.bundle()
    assert opened(json.loads(shown.stdout), openings)


def test_a_bundle_with_the_starters_key_is_opened_for_the_verifier(
    running: Running, session: SessionClient, openings: X25519PrivateKey, tmp_path: Path
) -> None:
    session.say("hi")
    session.close()
    key = tmp_path / "openings.key"
    key.write_bytes(disclosure_key_file(openings.private_bytes_raw()))
    key.chmod(0o600)
    asked = ["gateway", "bundle", "--home", str(running.home), session.id, "--openings", str(key)]
    shown = affiant(*asked)
    assert shown.exit_code == 0
    bundle, sealed = parse_bundle(shown.stdout_bytes), session.bundle()
    found = {receipt_hash(text.partition("~")[0]): tuple(text.split("~")[1:-1]) for text in bundle.receipts}
    values = opened(sealed, openings)
    assert {rh: texts for rh, texts in found.items() if texts} == values
    assert f"{len(values)} opened" in shown.stderr
    key.chmod(0o644)
    assert affiant(*asked).exit_code == 1


def test_an_unknown_session_is_refused(running: Running) -> None:
    shown = affiant("gateway", "bundle", "--home", str(running.home), "A" * 22)
    assert shown.exit_code == 1 and "not_found" in shown.stderr and not shown.stdout


def test_without_a_gateway_the_command_says_so(tmp_path: Path, platform: PlatformClient) -> None:
    shown = affiant("gateway", "status", "--home", str(tmp_path))
    assert shown.exit_code == 1 and "[gateway.unreachable]" in shown.stderr


def test_a_state_folder_that_a_refused_gateway_made_is_private(tmp_path: Path) -> None:
    """Else every later command would refuse it."""
    before = os.umask(0o022)
    try:
        shown = affiant("gateway", "serve", "--home", str(tmp_path / "home"))
    finally:
        os.umask(before)
    assert shown.exit_code == 1 and "refused" in shown.stderr
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o700


def test_help_has_examples() -> None:
    for command in ("serve", "status", "bundle"):
        shown = affiant("gateway", command, "--help")
        assert shown.exit_code == 0 and "affiant gateway" in shown.stdout
