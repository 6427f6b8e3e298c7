"""A person approves a call at the tool gate of a served gateway, from another process, by the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.gateway.conftest import serving_gateway
from tests.gateway.session_client import SessionClient
from tests.gateway.tool_gate.conftest import Agent, served_over_http

from affiant.attestation.simulated.client import PlatformClient

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
