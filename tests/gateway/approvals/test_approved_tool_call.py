"""A person approves a call at the tool gate of a served gateway, from another process, by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.gateway.conftest import serving_gateway
from tests.gateway.session_client import SessionClient
from tests.gateway.tool_gate.conftest import SERVED, Agent, served_over_http

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.sandbox.base.privileges import is_root

pytestmark = pytest.mark.slow


def command(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    whole = [sys.executable, "-m", "affiant", "approvals", *arguments]
    return subprocess.run(whole, capture_output=True, stdin=subprocess.DEVNULL, check=False, cwd="/")


def test_a_person_reads_a_call_and_it_is_made_once_they_approve_it(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    key = tmp_path / "ann.key"
    kid = command("keygen", "-o", str(key)).stdout.decode().strip()
    profile = f"""
agent_configs:
  tester:
    tools: [{{name: add, server: web, approval: true, args: {{a: any, b: any}}}}]
    requires_human_approval: {{approvers: [{kid}]}}
"""
    home, servers = tmp_path / "gated", tmp_path / "tools.json"
    asks = ("--key", str(key), "--home", str(home))
    with served_over_http() as url:
        servers.write_text(json.dumps({"mcp_servers": {"web": {"url": url}}}))
        with (
            serving_gateway(home, platform_home, "--mcp-servers", str(servers)) as running,
            ThreadPoolExecutor(1) as pool,
        ):
            agent = Agent(SessionClient.start(running.gateway, platform, profile=profile.encode()))
            answer = pool.submit(agent.text, "add", a=1, b=2)
            until = time.monotonic() + 15
            while not (listed := command("list", "--json", *asks)).stdout or listed.returncode:
                assert time.monotonic() < until, listed.stderr
                time.sleep(0.2)
            (waiting,) = json.loads(listed.stdout)["approvals"]
            card = command("show", waiting["action"], *asks).stdout.decode().splitlines()
            assert {"tool     'add'", "server   'web'", '  | {"a":1,"b":2}'} <= set(card)
            assert not answer.done()
            approved = command("approve", waiting["action"], "--yes", *asks)
            assert approved.returncode == 0, approved.stderr
            assert answer.result(15) == "3"
            again = command("approve", waiting["action"], "--yes", *asks)
            assert b"[approval.used]" in again.stderr


@pytest.mark.skipif(not is_root(), reason="without root a tool server is no user of its own")
def test_a_person_reads_the_file_that_a_call_names_and_the_server_gets_that(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    """The server's process has a user of its own, who can change nothing of what it is given."""
    key, home, servers = tmp_path / "ann.key", tmp_path / "gated", tmp_path / "tools.json"
    kid = command("keygen", "-o", str(key)).stdout.decode().strip()
    asks = ("--key", str(key), "--home", str(home))
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        file = folder / "a.yaml"
        file.write_text("replicas: 2\n")
        file.chmod(0o644)
        profile = f"""
agent_configs:
  tester:
    tools: [{{name: read, server: local, approval: true, args: {{path: {{under: {folder}}}}}}}]
    filesystem_access: read:{folder}
    requires_human_approval: {{approvers: [{kid}]}}
"""
        local = {"command": [sys.executable, str(SERVED), "stdio"], "folders": [str(folder)]}
        servers.write_text(json.dumps({"mcp_servers": {"local": local}}))
        with (
            serving_gateway(home, platform_home, "--mcp-servers", str(servers)) as running,
            ThreadPoolExecutor(1) as pool,
        ):
            agent = Agent(SessionClient.start(running.gateway, platform, profile=profile.encode()))
            answer = pool.submit(agent.text, "read", path=str(file))
            until = time.monotonic() + 15
            while not (listed := command("list", "--json", *asks)).stdout or listed.returncode:
                assert time.monotonic() < until, listed.stderr
                time.sleep(0.2)
            (waiting,) = json.loads(listed.stdout)["approvals"]
            card = command("show", waiting["action"], *asks).stdout.decode().splitlines()
            assert {f"path     'path': '{file}'", "  | replicas: 2"} <= set(card)
            file.write_text("replicas: 2000\n")
            approved = command("approve", waiting["action"], "--yes", *asks)
            assert approved.returncode == 0, approved.stderr
            (told,) = json.loads(answer.result(15))["read"]
            assert (told["content"], told["could"]) == ("replicas: 2\n", [])
            assert not Path(told["path"]).exists()
            copies = Path(told["path"]).parents[1]
            assert copies.is_dir()
        assert not copies.exists(), "it goes with its gateway"
