"""The page about agents: its examples are there, and the loop does what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from examples.agents.scripted_model import Model

from affiant.policy.loading.policy_file import policy_owners, read_policy_file
from affiant.sandbox.error_codes import ERROR_CODES

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "agents"
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
"""As a session sets it."""
PAGE = (ROOT / "docs" / "agents.md").read_text()


def test_every_agent_of_the_page_is_there_and_compiles():
    named = set(re.findall(r"`(\w+\.py)`", PAGE))
    assert named == {path.name for path in EXAMPLES.glob("*.py")}
    for name in named:
        compile((EXAMPLES / name).read_text(), name, "exec")


def test_the_codes_of_the_page_are_codes():
    assert set(re.findall(r"`(runtime\.\w+)`", PAGE)) <= set(ERROR_CODES)


def test_the_profiles_of_the_examples_can_be_enforced():
    file = read_policy_file(EXAMPLES / "profiles.yaml", owners=policy_owners(os.geteuid(), {}), floor=None)
    assert {"dev", "browser"} <= {file.profiles.profile(name).name for name in ("dev", "browser")}


@pytest.mark.parametrize(
    ("script", "package", "said"),
    [
        ("loop_agent.py", "openai", "2 notes.txt\n"),
        ("openai_agents_agent.py", "agents", (EXAMPLES / "notes.txt").read_text()),
    ],
)
def test_an_agent_asks_uses_its_tool_and_answers(tmp_path, script: str, package: str, said: str):
    pytest.importorskip(package, reason="its packages are not installed: make setup")
    shutil.copy(EXAMPLES / "notes.txt", tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        done = subprocess.run(
            [sys.executable, EXAMPLES / script],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100,
            env={"PATH": os.environ["PATH"], "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "x", **QUIET},
        )  # fmt: skip
        server.shutdown()
    assert done.stdout == f"The tool said: {said}\n"
