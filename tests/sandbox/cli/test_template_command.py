"""``affiant session template``: serves until it is told to end, once for a state folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.sandbox.conftest import affiant, all_gone, family

from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.template_service import template_socket


def test_it_serves_until_sigterm_and_leaves_no_process(tmp_path: Path, release: None) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-m", "affiant", "session", "template", "--home", str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        assert ready[:2] == [b"template", b"process"], process.stderr
        assert template_socket(open_home(home)).stat().st_mode & 0o777 == 0o600
        assert template_socket(open_home(home)).parent.stat().st_mode & 0o777 == 0o700
        refused = affiant("session", "template", "--home", str(home))
        assert refused.returncode == 1
        assert b"store.locked" in refused.stderr
        below = family(process.pid)
        assert int(ready[2]) in {each.pid for each in below}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert all_gone(below, 5)


def test_a_template_process_that_dies_ends_the_command_with_an_error(tmp_path: Path, release: None) -> None:
    command = [sys.executable, "-m", "affiant", "session", "template", "--home", str(tmp_path / "home")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        os.kill(int(process.stdout.readline().split()[2]), signal.SIGKILL)
        assert process.wait(20) == 1
        assert process.stderr is not None
        said = process.stderr.read()
    assert b"the template process has ended; found exit status -9" in said
    assert b"[service.failed]" in said


def test_a_template_process_that_cannot_be_started_is_an_error_in_words(
    tmp_path: Path, release: None
) -> None:
    home = open_home(tmp_path / "home")
    (home.path / "template").write_text("in the way")
    done = affiant("session", "template", "--home", str(home.path))
    assert done.returncode == 1
    assert b"template: cannot start the template process; found File exists" in done.stderr
    assert b"[service.failed]" in done.stderr


def test_a_killed_command_takes_the_template_process_with_it(tmp_path: Path, release: None) -> None:
    command = [sys.executable, "-m", "affiant", "session", "template", "--home", str(tmp_path / "home")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        below = family(process.pid)
        assert len(below) == 2
        process.kill()
    assert all_gone(below, 5)
