"""``docs/operating.md`` is true: its blocks run in their order, and systemd accepts its units."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.console import ROOT, Command, commands, fresh_copy, play

PAGE = (ROOT / "docs" / "operating.md").read_text()
UNITS = dict(
    re.findall(
        r"^```ini\n# /etc/systemd/system/([a-z-]+\.service)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_gateway_is_run_restarted_backed_up_and_restored_as_the_page_says(tmp_path: Path) -> None:
    path = Command('export PATH="$PWD/.venv/bin:$PATH"', 0, ())
    play([path, *commands(PAGE)], fresh_copy(tmp_path / "clone"), home=tmp_path / "home")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    assert sorted(UNITS) == ["affiant-gateway.service", "affiant-platform.service"]
    installed = str(Path(sys.executable).parent)
    for name, text in UNITS.items():
        assert "/opt/affiant/bin/affiant" in text
        (tmp_path / name).write_text(text.replace("/opt/affiant/bin", installed))
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in UNITS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_its_links_lead_somewhere() -> None:
    for page, _, anchor in (target.partition("#") for target in re.findall(r"\]\(([^)]+)\)", PAGE)):
        text = (ROOT / "docs" / page).read_text()
        headings = {
            re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        }
        assert not anchor or anchor in headings, f"{page}#{anchor}"
