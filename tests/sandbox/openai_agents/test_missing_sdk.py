"""Without the OpenAI Agents SDK everything else works, and its backend says what to install."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOM = ROOT / "sandbox/affiant/sandbox/openai_agents"
PACKAGES = ("attestation", "policy", "secrets", "sandbox", "gateway")


@pytest.mark.parametrize("absent", ["agents", "agents.sandbox"])
def test_a_missing_sdk_is_an_error_with_the_command_that_installs_it(absent: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{absent!r}] = None\n"
        "import affiant.sandbox, affiant.sandbox.openai_agents as adapter\n"
        "from affiant.errors import ConfigurationError\n"
        "try: adapter.AffiantSandboxClient\n"
        "except ConfigurationError as error: print(error.code, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("openai_agents.missing ")
    assert "pip install 'affiant[openai-agents]'" in done.stdout


@pytest.mark.slow
def test_nothing_outside_of_the_backend_imports_the_sdk() -> None:
    found = []
    for package in PACKAGES:
        for path in (ROOT / package / "affiant").rglob("*.py"):
            if ROOM in path.parents:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names.append(node.module or "")
                found += [str(path) for name in names if name.partition(".")[0] == "agents"]
                found += [str(path) for name in names if name.startswith("affiant.sandbox.openai_agents")]
    assert found == []
