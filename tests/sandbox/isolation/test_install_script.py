"""The set-up script: reads both source formats, leaves the machine's lists alone, and says what it would do."""

import os
import subprocess
from pathlib import Path

import pytest

from affiant.sandbox.isolation.backends.gvisor import dated_release

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


@pytest.mark.parametrize(
    ("version", "offered"),
    [
        ("runsc version 0.0~20240729.0", "20240729.0 is here, and Go can build"),
        ("runsc version go-20990101.0", ""),
        ("runsc version VERSION_MISSING", "none is here, and Go can build"),
    ],
)
def test_a_newer_gvisor_is_offered_where_go_is_and_nothing_is_built(version, offered):
    program = (
        f"have() {{ true; }}; is_root() {{ true; }}; runsc() {{ echo '{version}'; }}; go() {{ echo BUILT; }};"
    )
    said = bash(program + "offer_gvisor")
    assert (offered in said) if offered else said == ""
    assert "BUILT" not in said and ("make gvisor" in said) == bool(offered)
    assert bash(program + "have() { [[ $1 != go ]]; }; offer_gvisor") == ""
    unprivileged = bash(program + "is_root() { false; }; offer_gvisor")
    assert ("sudo make gvisor" in unprivileged) == bool(offered)


def test_go_is_found_where_its_own_archive_is_unpacked():
    looked = 'command() { [[ ":$PATH:" == *:/usr/local/go/bin:* ]]; }; '
    assert bash(looked + "have go && echo found").strip() == "found"
    assert "/usr/local/go/bin" in BUILD.read_text().split("main() {")[0]


BUILD = SCRIPT.with_name("build_gvisor.sh")


def build(tmp_path, **env):
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "AFFIANT_RUNSC_PLACE": str(tmp_path),
        **env,
    }
    return subprocess.run(
        ["bash", str(BUILD)], capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def test_gvisor_is_built_at_one_version_and_once(tmp_path):
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "go"
    fake.write_text(
        '#!/bin/bash\n[[ $1 == install ]] || exit 0\necho "$@" >>"$0.log"\n'
        "release=${5##*=}\n"
        'printf "#!/bin/sh\\necho runsc version ${release}\\n" >"$GOBIN/runsc"\n'
        'chmod +x "$GOBIN/runsc"\n'
    )
    fake.chmod(0o755)
    forbidden = build(tmp_path, AFFIANT_INSTALL="no")
    assert forbidden.returncode == 1 and not (tmp_path / "runsc").exists()
    for _ in range(2):
        done = build(tmp_path)
        assert done.returncode == 0, done.stderr
    (asked,) = (tmp_path / "bin" / "go.log").read_text().splitlines()
    version = asked.rpartition("@")[2]
    release = subprocess.run(
        ["bash", str(BUILD), "--release"], capture_output=True, text=True, check=True
    ).stdout
    assert version.startswith("v0.0.0-" + release.split(".")[0])
    assert f"version.version=go-{release.strip()}" in asked
    assert dated_release(f"runsc version go-{release}") == release.strip()
