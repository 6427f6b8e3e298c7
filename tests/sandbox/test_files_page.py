"""The page on files of a session: its example runs, and its record verifies."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.docs.console import ROOT

from affiant.sandbox import IsolationClass, SessionRequest
from affiant.sandbox.session_state.session_folder import BUNDLE

PAGE = ROOT / "docs" / "files.md"


def test_the_example_of_the_page_runs(warm, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("AFFIANT_HOME", str(warm.home))
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: dict[str, object] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), found)  # noqa: S102 - the example of our own page
    request = SessionRequest(
        profile=warm.folder / "profiles.yaml", agent="writer", min_isolation=IsolationClass(warm.isolation)
    )
    asyncio.run(found["main"](request, tmp_path / "results"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["file in.txt 5", "file out.txt 5", "HELLO"]
    assert lines[3].startswith("2 files 10 bytes sha256:")
    assert (tmp_path / "results/out.txt").read_text() == "HELLO"
    bundle = max((warm.home / "sessions").glob(f"*/{BUNDLE}"), key=lambda path: path.stat().st_mtime)
    verdict = warm.verdict(bundle)
    assert re.search(r"session\.intents +held", verdict), verdict
