"""An agent in its sandbox uses the MCP SDK's own client, through the proxy and the tool gate, on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import prepared_runtime
from tests.gateway.conftest import serving_gateway
from tests.sandbox.conftest import affiant

pytest.importorskip("mcp", reason="mcp is not installed: make setup")
pytestmark = pytest.mark.slow

SERVED = Path(__file__).parents[1] / "gateway/tool_gate/served.py"
PROFILES = """
agent_configs:
  tooled:
    tools:
      - {name: add, server: web, args: {a: {max: 100}, b: any}}
      - {name: count, server: local}
      - {name: echo, server: web}
      - {name: surroundings, server: local}
    secrets_access: [{name: DEPLOY_KEY, ref: 'local:DEPLOY_KEY', hosts: [api.example.com]}]
    network_egress: [{host: api.example.com, methods: [GET]}]
"""
AGENT = """
import asyncio, json, os
from mcp import Client

async def main():
    async with Client("http://gateway.affiant.internal/mcp") as client:
        print(json.dumps([tool.name for tool in (await client.list_tools()).tools]))
        print((await client.call_tool("add", {"a": 1, "b": 2})).structured_content["result"])
        print([(await client.call_tool("count", {})).structured_content["result"] for _ in range(2)])
        try:
            await client.call_tool("add", {"a": 101, "b": 2})
        except Exception as error:
            print("refused:", error)
        placeholder = os.environ["DEPLOY_KEY"]
        echoed = await client.call_tool("echo", {"text": placeholder})
        print(echoed.structured_content["result"] == placeholder)
        seen = json.loads((await client.call_tool("surroundings", {"path": "HOME_OF_GATEWAY"})).content[0].text)
        print(json.dumps(seen))

asyncio.run(main())
"""


@contextmanager
def _web() -> Iterator[str]:
    command = [sys.executable, str(SERVED), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"
        finally:
            child.kill()


def test_an_agent_uses_tools_through_the_gate_and_every_call_has_its_receipts(warm, tmp_path):
    if not prepared_runtime.fits():
        pytest.skip("the SDK's packages do not fit the sandbox's python3")
    runtime = prepared_runtime.make_runtime(warm.folder / "tool-runtime", "mcp")
    (warm.folder / "tools.yaml").write_text(PROFILES)
    key = "never-to-be-seen-0123456789abcdef"
    kept = affiant("secret", "set", "DEPLOY_KEY", home=warm.home, stdin=key.encode())
    assert kept.returncode == 0, kept.stderr
    with _web() as url:
        servers = warm.folder / "tools.json"
        local = {"command": [sys.executable, str(SERVED), "stdio"]}
        servers.write_text(json.dumps({"mcp_servers": {"web": {"url": url}, "local": local}}))
        home = warm.folder / "gated"
        with serving_gateway(home, warm.home, "--mcp-servers", str(servers)) as gateway:
            bundle = tmp_path / "b.json"
            code = AGENT.replace("HOME_OF_GATEWAY", str(home / "gateway"))
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "affiant", "run", "--home", str(warm.home)),
                    *("--profile", str(warm.folder / "tools.yaml"), "--agent", "tooled"),
                    *("--min-isolation", warm.isolation, "--runtime", str(runtime)),
                    *("--gateway", gateway.ready["url"], "--gateway-config", gateway.ready["config"]),
                    *("--bundle", str(bundle), "--", "python3", "-c", code),
                ],
                capture_output=True,
                timeout=110,
                check=False,
                cwd="/",
            )
            assert done.returncode == 0, done.stderr.decode()[-3000:]
            listed, added, counted, refused, echoed, seen = done.stdout.decode().splitlines()
            config = gateway.ready["config"]
            trust = affiant("platform", "trust", "--home", str(warm.home), "--gateway-config", config).stdout
    assert json.loads(listed) == ["add", "count", "echo", "surroundings"]
    assert (added, counted) == ("3", "[1, 2]")
    assert "does not allow" in refused
    assert echoed == "True" and key not in done.stdout.decode()  # a placeholder is nothing but that to a tool
    found = json.loads(seen)
    assert "DEPLOY_KEY" not in found["environment"] and "AFFIANT_HOME" not in found["environment"]
    if os.geteuid() == 0:
        assert (
            60706 <= found["uid"] <= 61183 and found["groups"] == [] and found["seen"] == ["PermissionError"]
        )
    (tmp_path / "trust.json").write_bytes(trust)
    verdict = affiant("verify", str(bundle), "--trust", str(tmp_path / "trust.json"), "--json")
    told = json.loads(verdict.stdout)
    assert verdict.returncode == 40, verdict.stdout
    assert [check for check in told["checks"] if check.get("tier") == "contraindicated"] == []
    by_code = {check["code"]: check["tier"] for check in told["checks"]}
    assert by_code["session.counter"] == by_code["session.intents"] == "affirming"
    assert key.encode() not in bundle.read_bytes()
