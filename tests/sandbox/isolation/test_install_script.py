"""The set-up script: reads both source formats, leaves the machine's lists alone, and says what it would do."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "install_sandbox_runtime.sh"


def bash(program, stdin="", **env):
    done = subprocess.run(
        ["bash", "-c", f"source '{SCRIPT}'; {program}"],
        input=stdin,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **env},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_script_is_well_formed():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    assert SCRIPT.read_text().startswith("#!/usr/bin/env bash\n")


def test_no_host_is_named():
    assert "http" not in SCRIPT.read_text()


def test_one_line_sources_are_read():
    text = (
        "# deb http://commented/ x main\n"
        "deb http://a/debian bookworm main contrib # note\n"
        "deb [arch=amd64 signed-by=/k.gpg] https://b/debian bookworm-updates main\n"
        "deb-src http://a/debian bookworm main\n"
    )
    assert bash("one_line_sources", text).splitlines() == [
        "http://a/debian\tbookworm\tmain contrib\t",
        "https://b/debian\tbookworm-updates\tmain\t/k.gpg",
    ]


def test_deb822_sources_are_read():
    text = (
        "# a comment\nTypes: deb deb-src\nURIs: http://a/debian\nSuites: bookworm bookworm-updates\n"
        "Components: main\nSigned-By: /k.gpg\n\n"
        "Types: deb\nURIs: http://off/\nSuites: x\nComponents: main\nEnabled: no\n\n"
        "Types: deb-src\nURIs: http://src/\nSuites: x\nComponents: main\n"
    )
    assert bash("deb822_sources", text).splitlines() == [
        "http://a/debian\tbookworm\tmain\t/k.gpg",
        "http://a/debian\tbookworm-updates\tmain\t/k.gpg",
    ]


def test_backports_come_from_the_machines_own_mirror():
    entries = r"http://m/debian\tbookworm\tmain\t/k.gpg\nhttp://other/\tbookworm\tstable\t\n"
    sources = f"machine_sources() {{ printf '{entries}'; }}"
    assert bash(f"{sources}; private_list bookworm debian").splitlines() == [
        "deb [signed-by=/k.gpg] http://m/debian bookworm main",
        "deb [signed-by=/k.gpg] http://m/debian bookworm-backports main",
    ]
    assert "backports" not in bash(f"{sources}; private_list bookworm ubuntu")


@pytest.mark.parametrize(
    ("version", "year"),
    [("runsc version release-20240729.0", "2024"), ("0.0~20221219.0-1", "2022"), ("none", "0"), ("", "0")],
)
def test_the_year_of_a_version(version, year):
    assert bash(f"year_of '{version}'") == year


def test_nothing_is_installed_when_that_is_forbidden():
    said = bash(
        "missing_packages() { echo runsc; }; private_apt() { echo INSTALLED; }; main", AFFIANT_INSTALL="no"
    )
    assert "AFFIANT_INSTALL=no: nothing is installed" in said
    assert "INSTALLED" not in said


def test_without_root_the_one_command_is_named_and_the_fallback_said():
    program = (
        "missing_packages() { echo runsc; }; runsc_is_recent() { return 1; }; bwrap() { echo bubblewrap 1; };"
        "have() { [[ $1 == bwrap || $1 == apt-get ]]; }; is_root() { return 1; }; main"
    )
    said = bash(program)
    assert "run this one command" in said
    assert "sudo bash '" in said
    assert "falling back to bubblewrap" in said
