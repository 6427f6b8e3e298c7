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


def test_the_loop_asks_runs_a_command_and_answers(tmp_path):
    pytest.importorskip("openai", reason="openai is not installed: make setup")
    shutil.copy(EXAMPLES / "notes.txt", tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        done = subprocess.run(
            [sys.executable, EXAMPLES / "loop_agent.py"],
            cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100,
            env={"PATH": os.environ["PATH"], "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "x"},
        )  # fmt: skip
        server.shutdown()
    assert done.stdout == "The tool said: 2 notes.txt\n\n"
