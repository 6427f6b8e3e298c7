"""The page on ports of a session: its example runs."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.docs.console import ROOT

from affiant.sandbox import IsolationClass, SessionRequest

PAGE = ROOT / "docs" / "ports.md"


@pytest.mark.slow
def test_the_example_of_the_page_runs(warm, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("AFFIANT_HOME", str(warm.home))
    (profile,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "profiles.yaml").write_text(profile)
    found: dict[str, object] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), found)  # noqa: S102 - the example of our own page
    request = SessionRequest(
        profile=tmp_path / "profiles.yaml", agent="writer", min_isolation=IsolationClass(warm.isolation)
    )
    asyncio.run(found["main"](request))
    assert capsys.readouterr().out == "hello from the sandbox\n"
