"""``affiant gateway status`` and ``bundle``: over the operator's socket, without any proof."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import Running
from tests.gateway.session_client import SessionClient, opened

from affiant.attestation.simulated.client import PlatformClient


def affiant(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "affiant", *arguments], capture_output=True, timeout=60, check=False
    )


def test_status_says_where_the_gateway_is(running: Running, session: SessionClient) -> None:
    shown = affiant("gateway", "status", "--home", str(running.home), "--json")
    assert shown.returncode == 0
    value = json.loads(shown.stdout)
    assert value["url"] == running.gateway.url and value["ready"] is True
    assert session.id in {entry["session"] for entry in value["sessions"]}
    text = affiant("gateway", "status", "--home", str(running.home))
    assert running.gateway.url in text.stdout.decode() and session.id in text.stdout.decode()


def test_a_bundle_is_the_one_that_the_session_gets(
    running: Running, session: SessionClient, openings: X25519PrivateKey
) -> None:
    session.say("hi")
    session.close()
    shown = affiant("gateway", "bundle", "--home", str(running.home), session.id)
    assert shown.returncode == 0
    assert json.loads(shown.stdout) == session.bundle()
    assert opened(json.loads(shown.stdout), openings)


def test_an_unknown_session_is_refused(running: Running) -> None:
    shown = affiant("gateway", "bundle", "--home", str(running.home), "A" * 22)
    assert shown.returncode == 1 and b"not_found" in shown.stderr and not shown.stdout


def test_without_a_gateway_the_command_says_so(tmp_path: Path, platform: PlatformClient) -> None:
    shown = affiant("gateway", "status", "--home", str(tmp_path))
    assert shown.returncode == 1 and b"[gateway.unreachable]" in shown.stderr


def test_help_has_examples() -> None:
    for command in ("serve", "status", "bundle"):
        shown = affiant("gateway", command, "--help")
        assert shown.returncode == 0 and b"affiant gateway" in shown.stdout
