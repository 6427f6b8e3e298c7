"""The console blocks of a page, run literally, in a fresh copy of the tree and in one shell.

A line that begins with ``$ `` is a command; what follows it is its here-document, up to a line ``END``, and then lines
that its output must have. ``  # exit N`` behind a command is its exit code; without it: 0.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName

ROOT: Final = Path(__file__).resolve().parents[2]
NOT_IN_A_CLONE: Final = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", ".demo", "release.json", "results"
)
MARK: Final = "--- next command of the page"
NOT_AS_SAID: Final = 99


@dataclass(frozen=True)
class Command:
    """A command of a console block. ``code``: what `# exit N` says, else 0. ``shown``: the output in the block."""

    text: str
    code: int
    shown: tuple[str, ...]


def commands(section: str) -> list[Command]:
    """The ``$`` lines of a section's console blocks, each with its here-document, if it has one, and its output."""
    found: list[Command] = []
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        for text in re.findall(r"^\$ (.*?)(?=^\$ |\Z)", block, re.MULTILINE | re.DOTALL):
            command, _, rest = text.partition("\n")
            if "<<'END'" in command:
                document, end, rest = rest.partition("\nEND\n")
                assert end, f"a here-document without its end: {command}"
                command = f"{command}\n{document}\nEND"
            command, _, code = command.partition("  # exit ")
            found.append(Command(command, int(code or 0), tuple(rest.splitlines())))
    return found


def fresh_copy(clone: Path) -> Path:
    """What a clone has after `make setup`: the files that git knows, and `.venv`.

    Without git: all files but those that commands make.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    if listed.returncode == 0:
        for name in filter(None, listed.stdout.split("\0")):
            if (ROOT / name).exists():  # else it was deleted, and that is not committed yet
                (clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, clone / name)
    else:
        shutil.copytree(ROOT, clone, ignore=NOT_IN_A_CLONE)
    (clone / ".venv").symlink_to(sys.prefix)
    return clone


def play(steps: Sequence[Command], folder: Path, *, home: Path) -> None:
    """Run each command in one shell, so that one finds what another exported or started.

    ``make`` is left out: :func:`fresh_copy` has done what it would do. Without gVisor, sessions run as the page says
    for that: with ``--min-isolation namespace``.
    """
    steps = [step for step in steps if not step.text.startswith("make ")]
    script = ["trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"]
    for step in steps:
        text = (
            step.text
            if has_gvisor()
            else step.text.replace("affiant run", "affiant run --min-isolation namespace")
        )
        script += [
            text,
            f"code=$?; [ $code = {step.code} ] || {{ echo exit code $code, not {step.code} >&2; exit {NOT_AS_SAID}; }}",
        ]
        script.append(f"echo '{MARK}'")
    environment = {**os.environ, "AFFIANT_HOME": str(home)}
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        written, errors = shell.communicate(timeout=240)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
    outputs = written.split(f"{MARK}\n")
    assert shell.returncode == 0, f"{steps[len(outputs) - 1].text}\n{outputs[-1]}\n{errors}"
    for step, output in zip(steps, outputs, strict=False):
        assert set(step.shown) <= set(output.splitlines()), f"{step.text}\n{output}"


def has_gvisor() -> bool:
    return probe()[BackendName.GVISOR].usable
