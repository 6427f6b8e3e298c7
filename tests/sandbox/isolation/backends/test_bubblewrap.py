"""What is written for bwrap. Pure; the running of it is in test_runner."""

import os

from affiant.sandbox.isolation.backends.bubblewrap import (
    bwrap_arguments,
    close_all,
    landlock_of,
    open_launch,
)
from affiant.sandbox.isolation.backends.entering import Confinement
from affiant.sandbox.isolation.plan.plan import Access, FileGrant, plan_sandbox
from affiant.sandbox.isolation.plan.rootfs import Shown

PLAN = plan_sandbox(
    "s",
    [FileGrant("/w", Access.READ_WRITE), FileGrant("/r", Access.READ_ONLY), FileGrant("/w/h", Access.NONE)],
)
SHOWN = (Shown("/usr", "/m/usr"), Shown("/w", "/m/w", writable=True), Shown("/r", "/m/r"))
CONFINEMENT = Confinement("x86_64", PLAN.limits, b"\0" * 8, landlock_of(PLAN, 7))


def arguments(root):
    return bwrap_arguments(PLAN, SHOWN, root=root, first_fd=11)


def skeleton(tmp_path):
    for name in ("etc", "usr", "w", "r", "proc", "dev", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin").symlink_to("usr/bin")
    return tmp_path


def test_namespaces_and_capabilities_are_always_taken(tmp_path):
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


def launched(tmp_path):
    return open_launch("bwrap", PLAN, SHOWN, root=skeleton(tmp_path), confinement=CONFINEMENT)


def test_no_path_of_the_machine_is_on_a_command_line(tmp_path):
    launch = launched(tmp_path)
    try:
        assert launch.argv[:2] == ("bwrap", "--args")
        assert str(tmp_path) not in " ".join(launch.argv)
        assert launch.argv[3:] == ("--", "/run/affiant/first")
    finally:
        close_all((*launch.descriptors, launch.report))


def test_landlock_gives_writing_where_the_plan_does():
    landlock = landlock_of(PLAN, 7)
    assert {path for path in landlock.folders if not path.startswith("/dev/")} == {"/w", "/tmp"}
    assert all(path.startswith("/dev/") for path in landlock.files)


def test_descriptors_close_on_exec_until_they_are_passed(tmp_path):
    launch = launched(tmp_path)
    try:
        assert not any(os.get_inheritable(fd) for fd in (*launch.descriptors, launch.report))
    finally:
        close_all((*launch.descriptors, launch.report))
