"""The witness that a gateway starts for itself: real processes, and what comes of killing them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.session_client import SessionClient, admission_headers, admission_of, draft

from affiant.__main__ import cli
from affiant.attestation.log.witness.embedded import own_witness
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.attestation.tlog.quorum import OWN_WITNESS_URL


def witnesses_of(home: Path) -> list[int]:
    """The processes that serve this folder's witness."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue
        if b"witness" in arguments and os.fsencode(home / "witness" / "key") in arguments:
            found.append(int(entry.name))
    return found


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def state(running: Running) -> dict:
    shown = CliRunner().invoke(cli, ["gateway", "status", "--home", str(running.home), "--json"])
    return json.loads(shown.stdout)["log"]


def admit(running: Running, platform: PlatformClient) -> tuple[int, str]:
    made = draft(running.gateway)
    answer = running.gateway.ask(
        "POST", "/v1/sessions", admission_of(made, platform), admission_headers(made.nonce)
    )
    return answer.status, "" if answer.status < 300 else answer.code


def test_its_first_cosignature_is_there_before_a_session(
    running: Running, session: SessionClient, platform: PlatformClient
) -> None:
    found = state(running)
    assert found["witnesses"] == {OWN_WITNESS_URL: "cosigned"}
    assert found["cosigned"] > 0
    assert (running.home / "gateway" / "witness.sock").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_one_that_is_killed_comes_back_over_its_state(
    tmp_path: Path, platform: PlatformClient, platform_home: Path, openings: X25519PrivateKey
) -> None:
    """In a folder whose name is longer than a socket's address can be."""
    home = tmp_path / ("h" * 90)
    with serving_gateway(home, platform_home) as running:
        assert admit(running, platform)[0] == 201
        (first,) = witnesses_of(home)
        os.kill(first, signal.SIGKILL)
        assert within(20, lambda: [pid for pid in witnesses_of(home) if pid != first] != [])
        before = state(running)["cosigned"]
        session = SessionClient.start(running.gateway, platform, openings=openings)
        session.close()
        assert session.bundle()
        assert state(running)["cosigned"] > before
        assert running.stop() == 0
    assert within(5, lambda: not witnesses_of(home))
    with serving_gateway(home, platform_home) as again:
        assert admit(again, platform)[0] == 201


@pytest.mark.slow
def test_one_that_lost_its_state_while_it_was_down_admits_nobody(
    tmp_path: Path, platform: PlatformClient, platform_home: Path
) -> None:
    """Put an empty database in its place and it would cosign a second history: it refuses to start."""
    home = tmp_path / "home"
    own = own_witness(home, random_bytes=os.urandom)
    for part in own.folder.glob("state.sqlite*"):
        part.write_bytes(b"")
    with serving_gateway(home, platform_home) as running:
        assert admit(running, platform) == (503, "log.unwitnessed")
        assert running.stop() == 0
        assert running.child.stderr is not None
        assert "witness.state_lost" in running.child.stderr.read().decode()


def test_a_gateway_whose_witness_is_gone_says_so_and_does_not_start(
    tmp_path: Path, platform: PlatformClient, platform_home: Path
) -> None:
    home = tmp_path / "home"
    own_witness(home, random_bytes=os.urandom).state.unlink()
    with (
        pytest.raises(AssertionError, match=r"retired.*witness\.state_lost"),
        serving_gateway(home, platform_home),
    ):
        pass


@pytest.mark.slow
def test_it_ends_when_its_launcher_is_killed(
    tmp_path: Path, platform: PlatformClient, platform_home: Path
) -> None:
    home = tmp_path / "home"
    with serving_gateway(home, platform_home) as running:
        assert admit(running, platform)[0] == 201
        running.child.kill()
        assert within(10, lambda: not witnesses_of(home))
        assert within(10, lambda: not Path(f"/proc/{running.ready['pid']}").exists())
    with serving_gateway(home, platform_home) as again:
        assert admit(again, platform)[0] == 201


def test_a_second_gateway_of_the_folder_is_refused_and_leaves_the_first_its_witness(
    running: Running, platform: PlatformClient, platform_home: Path
) -> None:
    command = [sys.executable, "-m", "affiant", "gateway", "serve", "--home", str(running.home)]
    command += ["--platform", str(platform_socket(platform_home))]
    second = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert second.returncode == 1 and b"[store.locked]" in second.stderr
    assert admit(running, platform)[0] == 201
    assert len(witnesses_of(running.home)) == 1


def test_nobody_may_be_asked_instead(tmp_path: Path, platform: PlatformClient, platform_home: Path) -> None:
    home = tmp_path / "home"
    with serving_gateway(home, platform_home, "--witnesses", "none") as running:
        assert state(running)["witnesses"] == {} and not (home / "witness").exists()
        assert admit(running, platform)[0] == 201


def test_a_policy_file_cannot_name_it(tmp_path: Path) -> None:
    (tmp_path / "w.policy").write_text(own_witness(tmp_path / "home", random_bytes=os.urandom).policy)
    asked = ["gateway", "config", "--home", str(tmp_path / "home"), "--witnesses", str(tmp_path / "w.policy")]
    refused = CliRunner().invoke(cli, asked)
    assert refused.exit_code == 1 and "--witnesses self" in refused.stderr


def test_the_trust_file_and_the_configuration_name_the_same_before_either_has_run(tmp_path: Path) -> None:
    home = ["--home", str(tmp_path / "home")]
    trust = json.loads(CliRunner().invoke(cli, ["platform", "trust", *home]).stdout)
    config = json.loads(CliRunner().invoke(cli, ["gateway", "config", *home, "--json"]).stdout)
    assert [entry["value"] for entry in trust["gateway_configs"]] == [config["digest"]]
    (policy,) = (entry["value"] for entry in trust["witnesses"])
    assert policy.split("\n")[:-1] == config["config"]["witnesses"]
