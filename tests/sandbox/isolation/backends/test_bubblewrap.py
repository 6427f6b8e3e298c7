"""What is written for bwrap and the confining step. Pure; the running of it is in test_runner."""

import json
import os
from pathlib import Path

from affiant.sandbox.isolation.backends.bubblewrap import (
    bwrap_arguments,
    close_all,
    confine_order,
    open_launch,
)
from affiant.sandbox.isolation.plan.plan import Access, Command, FileGrant, plan_sandbox
from affiant.sandbox.isolation.plan.rootfs import Shown

PLAN = plan_sandbox(
    "s",
    [FileGrant("/w", Access.READ_WRITE), FileGrant("/r", Access.READ_ONLY), FileGrant("/w/h", Access.NONE)],
)
SHOWN = (Shown("/usr", "/m/usr"), Shown("/w", "/m/w", writable=True), Shown("/r", "/m/r"))
COMMAND = Command(("agent", "--secret-looking=x"), {"A": "b"}, "/w")


def arguments(root):
    return bwrap_arguments(
        PLAN, COMMAND, SHOWN, root=root, seccomp_fd=10, script_fd=11, order_fd=12, report_fd=13
    )


def skeleton(tmp_path):
    for name in ("etc", "usr", "w", "r", "proc", "dev", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    return tmp_path


def test_namespaces_capabilities_and_filter_are_always_there(tmp_path):
    words = arguments(skeleton(tmp_path))
    for word in (
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--disable-userns",
        "--assert-userns-disabled",
    ):
        assert word in words
    assert words[words.index("--cap-drop") + 1] == "ALL"
    assert words[words.index("--seccomp") + 1] == "10"
    assert "--die-with-parent" in words
    assert "--new-session" in words
    assert "--clearenv" in words
    assert "--share-net" not in words


def test_the_root_becomes_read_only_after_everything_is_mounted(tmp_path):
    words = arguments(skeleton(tmp_path))
    root = next(at for at, word in enumerate(words) if word == "--remount-ro" and words[at + 1] == "/")
    assert max(at for at, word in enumerate(words) if word in {"--bind", "--ro-bind", "--tmpfs"}) < root


def test_only_writable_entries_are_bound_writable(tmp_path):
    words = arguments(skeleton(tmp_path))
    assert [words[at + 2] for at, word in enumerate(words) if word == "--bind"] == ["/w"]
    hole = next(at for at, word in enumerate(words) if word == "--tmpfs" and words[at + 1] == "/w/h")
    assert words[hole + 2 : hole + 4] == ("--remount-ro", "/w/h")


def test_neither_command_nor_environment_is_on_a_command_line(tmp_path):
    launch = open_launch("bwrap", PLAN, COMMAND, SHOWN, root=skeleton(tmp_path), filter_program=b"\0" * 8)
    try:
        assert "secret-looking" not in " ".join(launch.argv)
        assert launch.argv[:2] == ("bwrap", "--args")
        assert str(tmp_path) not in " ".join(launch.argv)
        assert launch.argv[4] == "/usr/bin/python3"
    finally:
        close_all((*launch.descriptors, launch.status, launch.report))


def test_landlock_gives_writing_where_the_plan_does(tmp_path):
    order = json.loads(confine_order(PLAN, COMMAND, status_fd=9))
    writable = {path for path in order["write"] if not path.startswith("/dev/")}
    assert writable == {"/w", "/tmp"}
    assert order["read"] == ["/"]
    assert order["env"] == {"A": "b"}
    assert order["limits"]["RLIMIT_CORE"] == 0


def test_descriptors_close_on_exec_until_they_are_passed(tmp_path):
    launch = open_launch("bwrap", PLAN, COMMAND, SHOWN, root=skeleton(tmp_path), filter_program=b"\0" * 8)
    try:
        assert not any(os.get_inheritable(fd) for fd in (*launch.descriptors, launch.status, launch.report))
    finally:
        close_all((*launch.descriptors, launch.status, launch.report))


def test_the_confining_step_uses_the_standard_library_alone():
    source = Path(
        __import__("affiant.sandbox.isolation.backends.confine", fromlist=["x"]).__file__
    ).read_text()
    assert "import affiant" not in source
    assert "from affiant" not in source
