"""The README's commands are true: each ``$`` line of a console block is run, in order, as a new user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from affiant.sandbox.isolation.backends.backend import BackendName, probe

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def commands() -> list[tuple[str, int]]:
    """Each command with the exit code that the README says (`# exit N`; without: 0)."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                command, _, note = line[2:].partition("  # exit ")
                found.append((command, int(note or 0)))
    return found


def test_the_readme_has_a_section_for_each_of_its_readers() -> None:
    for reader in ("agent developers", "compliance teams", "security reviewers", "operators"):
        assert f"## For {reader}" in README
    assert len(commands()) >= 8


def test_make_knows_the_commands_that_the_readme_names() -> None:
    for target in re.findall(r"^make ([a-z-]+)", README, re.MULTILINE):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, target


@pytest.mark.timeout(300)
def test_every_command_does_what_the_readme_says(tmp_path: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {
        **os.environ,
        "AFFIANT_HOME": str(tmp_path / "home"),
        "PATH": f"{binaries}:{os.environ['PATH']}",
    }
    work = tmp_path / "work"
    work.mkdir()
    (work / "profiles.yaml").write_bytes((ROOT / "policy" / "profiles" / "seed-profiles.yaml").read_bytes())
    run = "affiant run" if _has_gvisor() else "affiant run --min-isolation namespace"
    for written, code in commands():
        command = written.replace("affiant run", run)
        done = subprocess.run(
            ["bash", "-c", command], cwd=work, env=environment, capture_output=True, check=False, timeout=120
        )
        assert done.returncode == code, f"{command}\n{done.stdout.decode()}{done.stderr.decode()}"


def _has_gvisor() -> bool:
    return probe()[BackendName.GVISOR].usable
