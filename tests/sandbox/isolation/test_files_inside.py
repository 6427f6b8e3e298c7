"""What a sandboxed agent can see of files, and do to them. One sandbox a backend, many claims."""

import os
from pathlib import Path

import pytest
from tests.sandbox.isolation.conftest import probe_inside

HERE = Path(__file__).parent
CARVED = ["/workspace/.git", "/workspace/a/b/secret", "/tmp/hole"]
FILES = [
    ("/workspace", "read-write"),
    ("/var/log", "read-only"),
    *((path, "none") for path in CARVED),
]


@pytest.fixture(scope="module")
def inside(backend, tmp_path_factory):
    session_dir = tmp_path_factory.mktemp("session")
    for number in (0, 1):
        (session_dir / "files" / str(number)).mkdir(parents=True)
    # entries are numbered in order: fewer segments first, then by name
    (session_dir / "files" / "1" / "input.txt").write_text("given\n")
    (session_dir / "files" / "0" / "data.txt").write_text("mine\n")
    hidden = ["/root", "/home", "/srv", "/mnt", "/boot", "/etc/shadow", "/etc/apt", str(session_dir)]
    hidden += [str(HERE), "/run/affiant/shown", "/run/dbus", "/proc/self/root/root", "/proc/1/root/root"]
    os.environ["AFFIANT_TEST_CANARY"] = "must-not-be-inherited"
    try:
        request = {"read_only": "/var/log", "read_write": "/workspace", "hidden": hidden, "carved": CARVED}
        return probe_inside(
            session_dir, backend, HERE / "probe_files.py", request, files=FILES, cwd="/workspace"
        )
    finally:
        del os.environ["AFFIANT_TEST_CANARY"]


def test_the_environment_is_the_given_one(inside):
    set_by_the_sandbox = {"HOME", "LC_CTYPE", "PWD"}
    assert set(inside.facts["environ"]) - set_by_the_sandbox == {"PATH"}
    assert "CANARY" not in str(inside.facts)


def test_the_agent_is_nobody_in_particular(inside):
    assert inside.facts["ids"][:2] == [1000, 1000]
    assert 0 not in inside.facts["ids"][2]
    status = dict(line.split(":\t", 1) for line in inside.facts["status"].splitlines() if ":\t" in line)
    assert "1000\t1000\t1000\t1000" in status["Uid"]


def test_nothing_of_the_machine_is_there_but_usr(inside):
    assert set(inside.facts["root"]) <= {
        *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "tmp", "usr"),
        *("var", "workspace"),
    }
    assert {path: result for path, result in inside.facts["hidden"].items() if result == "ok"} == {}


def test_etc_is_made_for_the_sandbox(inside):
    etc = inside.facts["etc"]
    assert etc["resolv.conf"] == ""
    assert etc["passwd"].count("\n") == 3
    assert "TEST BUNDLE" in etc["ssl/cert.pem"]


def test_only_processes_of_the_sandbox_are_seen(inside):
    assert 1 <= len(inside.facts["processes"]) <= 3
    assert not any("pytest" in line or "runner" in line for line in inside.facts["processes"])


def test_no_descriptor_is_inherited(inside):
    assert inside.facts["descriptors"] == 4  # three streams, and the one that lists them


def test_no_path_of_the_session_shows_in_mounts(inside):
    assert str(inside.session_dir) not in inside.facts["mounts"]


def test_a_listed_path_is_an_empty_directory_or_the_copy(inside):
    assert inside.facts["listed"] == ["input.txt"]


def test_read_only_is_read_only_in_every_way(inside):
    results = inside.facts["read_only"]
    assert results.pop("read") == "ok"
    assert "ok" not in results.values(), results
    assert (inside.session_dir / "files" / "1" / "input.txt").read_text() == "given\n"
    assert [path.name for path in (inside.session_dir / "files" / "1").iterdir()] == ["input.txt"]


def test_read_write_is_the_sessions_own_directory(inside):
    assert inside.facts["read_write"]["create"] == "ok"
    assert inside.facts["read_write"]["mkdir"] == "ok"
    assert inside.facts["read_write"]["device"] != "ok"
    assert (inside.session_dir / "files" / "0" / "made").exists()


def test_the_system_is_read_only(inside):
    assert "ok" not in inside.facts["system"].values(), inside.facts["system"]
    assert inside.facts["tmp"] == "ok"


def test_neither_mounts_nor_namespaces_can_be_made(inside):
    assert inside.facts["mount"] == -1
    assert inside.facts["unshare"] == -1


@pytest.mark.parametrize("path", CARVED)
def test_a_carve_out_is_empty_and_stays_so_however_it_is_approached(inside, path):
    carved = inside.facts["carved"][path]
    assert carved.pop("list") == []
    if path.startswith("/tmp"):
        carved.pop("rename_parent")
    assert "ok" not in carved.values(), carved
    assert not (inside.session_dir / "files" / "0" / "a.away").exists()
