"""The page on sessions that an agent starts: its example runs, and with the MCP SDK's own client too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import prepared_runtime
from tests.docs.console import ROOT
from tests.sandbox.conftest import Machine

from affiant.sandbox.egress.sessions_route import SESSIONS_ORIGINS
from affiant.sandbox.supervisor.children.session_tools import TOOLS

TEXT = (ROOT / "docs" / "child-sessions.md").read_text()
(PROFILE,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
EXAMPLE = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
SDK = """
import asyncio, json
from mcp import Client

async def main():
    async with Client("http://sessions.affiant.internal/mcp") as client:
        print(json.dumps([tool.name for tool in (await client.list_tools()).tools]))
        made = (await client.call_tool("session_create", {"agent": "counter"})).structured_content
        ran = await client.call_tool("session_run", {"session": made["session"], "command": ["echo", "hello"]})
        print(json.dumps(ran.structured_content["stdout"]))
        outside = {"session": made["session"], "path": "/etc/x", "content": "x"}
        failed = await client.call_tool("session_write_file", outside)
        print(json.dumps(failed.is_error))
        try:
            await client.call_tool("session_create", {"agent": "lead"})
        except Exception as error:
            print(json.dumps(str(error)))

asyncio.run(main())
"""


def test_the_page_lists_the_tools_and_their_address() -> None:
    assert re.findall(r"^\| `(session_[a-z_]+)` \|", TEXT, re.MULTILINE) == list(TOOLS)
    assert {origin.host for origin in SESSIONS_ORIGINS} == {"sessions.affiant.internal"}


def ran(warm: Machine, tmp_path: Path, code: str, *options: str) -> list[str]:
    (tmp_path / "profiles.yaml").write_text(PROFILE)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "affiant", "run", "--home", str(warm.home), "--agent", "lead"),
            *("--profile", str(tmp_path / "profiles.yaml"), "--min-isolation", warm.isolation, *options),
            *("--", "python3", "-c", code),
        ],
        capture_output=True,
        timeout=110,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return done.stdout.decode().splitlines()


@pytest.mark.slow
def test_the_example_of_the_page_runs(warm: Machine, tmp_path: Path) -> None:
    assert ran(warm, tmp_path, EXAMPLE) == ["2 lines"]


@pytest.mark.slow
def test_the_sdks_client_starts_a_session(warm: Machine, tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="mcp is not installed: make setup")
    if not prepared_runtime.fits():
        pytest.skip("the SDK's packages do not fit the sandbox's python3")
    runtime = prepared_runtime.make_runtime(warm.folder / "tool-runtime", "mcp")
    listed, hello, failed, denied = (
        json.loads(line) for line in ran(warm, tmp_path, SDK, "--runtime", str(runtime))
    )
    assert listed == ["session_create", "session_run", "session_write_file", "session_close"]
    assert (hello, failed) == ("hello\n", True)
    assert "may start" in denied
