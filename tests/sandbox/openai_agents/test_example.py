"""The example with its loop outside plays, and its bundle holds."""

from __future__ import annotations

import asyncio
import re
import runpy
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from examples.agents.scripted_model import Model

from affiant.sandbox import IsolationClass

pytest.importorskip("agents.sandbox", reason="needs affiant[openai-agents]")

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "agents"
PAGE = ROOT / "docs" / "openai-agents.md"


def test_the_pages_examples_use_names_that_are_there() -> None:
    """They are run up to the call of a model, which a test does not have."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block.replace("asyncio.run(main())", ""), str(PAGE), "exec"), {})  # noqa: S102 - our own page


def test_the_example_counts_lines_in_a_session_and_its_bundle_holds(
    warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "x")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        example = runpy.run_path(str(EXAMPLES / "openai_sandbox_agent.py"))
        more = {"home": warm.home, "min_isolation": IsolationClass(warm.isolation)}
        asyncio.run(example["main"](str(EXAMPLES / "profiles.yaml"), **more))
        server.shutdown()
    told = capsys.readouterr().out
    assert re.search(r"The tool said: .*Process exited with code 0.*2 notes\.txt", told, re.DOTALL)
    (bundle,) = re.findall(r"^Receipts: (\S+)$", told, re.MULTILINE)
    warm.verdict(Path(bundle))
