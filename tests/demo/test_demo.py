"""``make demo``, as somebody with this checkout would run it: once, again, and then on with a command of their own."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from tests.demo.conftest import MakeCopy
from tests.demo.other_machines import NOBODY, unprivileged, without_gvisor
from tests.demo.source_copy import DemoRun, SourceCopy

from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it makes a mount namespace")


def _all_so(told: DemoRun) -> None:
    assert told.exit_code == 0, told.text
    assert told.lines("NO") == []
    assert len(told.lines("ok")) > 30
    assert f"All {len(told.lines('ok'))} lines are so" in told.text


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_line_of_the_demo_is_so(make_copy: MakeCopy) -> None:
    told = make_copy().demo()
    _all_so(told)
    assert "SIMULATED" in told.text.partition("\n")[0]
    gvisor = probe()[BackendName.GVISOR].usable
    assert ("isolation gvisor" if gvisor else "isolation bwrap-landlock") in told.text


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_runs_again_in_the_same_folder_and_then_what_it_says_to_run(make_copy: MakeCopy) -> None:
    copy = make_copy(prepared=False)
    _all_so(copy.demo())
    again = copy.demo()
    _all_so(again)
    verify, run = _suggested(again)
    judged = _affiant(copy, verify)
    assert judged.returncode == 40, judged.stdout + judged.stderr
    assert "SIMULATED" in judged.stdout
    own = _affiant(copy, run)
    assert own.returncode == 0, own.stdout + own.stderr
    assert "hello from the sandbox" in own.stdout


def _suggested(told: DemoRun) -> list[list[str]]:
    """The commands of the demo's last lines, as a shell would read them."""
    tail = told.text.partition("then run your own command:\n")[2].replace("\\\n", " ")
    return [shlex.split(line) for line in tail.splitlines()]


def _affiant(copy: SourceCopy, command: list[str]) -> subprocess.CompletedProcess[str]:
    assert command[0] == ".venv/bin/affiant"
    return subprocess.run(
        [str(copy.python), "-m", "affiant", *command[1:]],
        cwd=copy.tree,
        env=copy.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _fell_back(told: DemoRun, why: str) -> None:
    _all_so(told)
    assert why in told.text
    assert "falling back to bubblewrap; the receipts say bwrap-landlock" in told.text
    assert "isolation bwrap-landlock" in told.text
    assert "--min-isolation namespace" in " ".join(_suggested(told)[1]), "what it says to run is not refused"


@pytest.mark.slow
@pytest.mark.root
@as_root
@pytest.mark.timeout(600)
def test_without_gvisor_it_says_so_and_falls_back(make_copy: MakeCopy) -> None:
    _needs_bubblewrap()
    _fell_back(make_copy().demo(*without_gvisor()), "runsc is not installed")


@pytest.mark.slow
@pytest.mark.root
@as_root
@pytest.mark.timeout(600)
def test_without_root_it_says_so_and_falls_back(make_copy: MakeCopy) -> None:
    _needs_bubblewrap()
    copy = make_copy()
    for folder, _, names in os.walk(copy.folder):
        for path in (folder, *(os.path.join(folder, name) for name in names)):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    told = copy.demo(*unprivileged(copy.folder), str(copy.tree))
    _fell_back(told, "gVisor needs root")


def _needs_bubblewrap() -> None:
    found = probe()[BackendName.BUBBLEWRAP]
    if not found.usable:
        pytest.skip(f"no bubblewrap to fall back to: {'; '.join(found.reasons)}")
