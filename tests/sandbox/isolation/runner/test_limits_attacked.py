"""What an agent tries that wants more memory or more disk than it has, and what it can read of where its files lie."""

import asyncio
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.isolation.conftest import (
    ENV,
    communicate,
    no_memory_cgroup,
    run,
    sandbox,
    skip_without_upper_layer,
)

from affiant.sandbox.isolation.plan.errors import LimitExceeded
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.leftover_record import read_record
from affiant.sandbox.isolation.plan.plan import Command, DirectoryRoot, Limits, plan_sandbox

MIB = 1 << 20
WRITABLE = [("/w", "read-write")]
SMALL = Limits(files_bytes=32 * MIB, tmp_bytes=32 * MIB)
"""As a profile's `disk: 32Mi` gives them."""

UNMAPPED = """
import os, sys, time
held = [os.open("/dev/null", os.O_RDONLY) for _ in range(80)]
for n in range(20):
    try:
        fd = os.memfd_create(f"held-{n}")
    except OSError:
        sys.exit("no anonymous files")
    for _ in range(32):
        os.write(fd, bytes(1 << 20))
    held.append(fd)
print("held 640 MiB", flush=True)
time.sleep(30)
"""
"""Anonymous files that nobody maps, behind 80 other descriptors: 640 MiB."""

SHARED = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
held = 0
for n in range(20):
    found = libc.shmget(0, ctypes.c_size_t(32 << 20), 0o1600)
    if found < 0:
        sys.exit("no shared segments")
    at = libc.shmat(found, None, 0)
    ctypes.memset(at, 1, 32 << 20)
    libc.shmdt(ctypes.c_void_p(at))
    held += 32
print("held", held, "MiB", flush=True)
time.sleep(30)
"""
"""System V segments that are attached no more: 640 MiB."""


@pytest.mark.parametrize("program", [UNMAPPED, SHARED], ids=["anonymous files", "shared segments"])
def test_memory_that_nobody_maps_counts_or_cannot_be_had(backend, tmp_path, program):
    limits = Limits(memory_bytes=128 * MIB)
    try:
        result = run(tmp_path, backend, "python3", "-c", program, limits=limits)
    except LimitExceeded as ended:
        assert ended.where == "memory"
    else:
        assert "held" not in result.output, result.output
        assert "no anonymous files" in result.output or "no shared segments" in result.output


MAPPED = "import time; held = bytearray(b'x') * (400 << 20); print('held', flush=True); time.sleep(30)"
"""400 MiB that are mapped: under gVisor, a file of its kernel's that is mapped nowhere else."""


@pytest.mark.skipif(no_memory_cgroup() is not None, reason=str(no_memory_cgroup()))
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(UNMAPPED, id="unmapped", marks=pytest.mark.slow),
        pytest.param(SHARED, id="shared", marks=pytest.mark.slow),
        pytest.param(MAPPED, id="mapped"),
    ],
)
def test_where_a_cgroup_can_be_had_the_kernel_counts_all_memory_and_keeps_the_limit(
    backend, tmp_path, program
):
    limits = Limits(memory_bytes=128 * MIB)

    async def go():
        async with sandbox(tmp_path, backend, plan_sandbox("s", (), limits=limits)) as (client, proxy, _):
            assert proxy.memory == "cgroup"
            group = Path(read_record(tmp_path).memory)
            assert int((group / "memory.limit_in_bytes").read_text()) == limits.memory_bytes
            await communicate(client, Command(("python3", "-c", program), ENV))

    with pytest.raises(LimitExceeded, match="memory") as ended:
        asyncio.run(go())
    assert "the kernel ended a process" in ended.value.found


MANY = """
import itertools, os
piece = os.urandom(1 << 20)
for n in itertools.count():
    with open(f"/w/{n}", "wb", buffering=0) as file:
        for _ in range(4):
            file.write(piece)
    if n == 640:
        break
"""
"""2.5 GiB in files of 4 MiB, as fast as it goes."""

UNLINKED = """
import os, time
held = []
for n in range(16):
    fd = os.open(f"/w/{n}", os.O_RDWR | os.O_CREAT)
    os.unlink(f"/w/{n}")
    for _ in range(4):
        os.write(fd, bytes(1 << 20))
    held.append(fd)
time.sleep(30)
"""
"""64 MiB in files without a name."""


@pytest.mark.parametrize("program", [MANY, UNLINKED], ids=["many files", "files without a name"])
def test_the_workspace_is_bounded_in_all_its_files_together(backend, tmp_path, program):
    started = time.monotonic()
    with pytest.raises(LimitExceeded) as ended:
        run(
            tmp_path,
            backend,
            "python3",
            "-c",
            program,
            limits=Limits(files_bytes=32 * MIB, tmp_bytes=32 * MIB),
            files=WRITABLE,
        )
    assert ended.value.where == "files"
    assert time.monotonic() - started < 25
    left = sum(path.stat().st_blocks * 512 for path in (tmp_path / "files").rglob("*") if path.is_file())
    assert left < 1280 * MIB


def test_one_file_cannot_grow_beyond_the_limit_even_between_two_looks(backend, tmp_path):
    program = "f = open('/w/x', 'wb', buffering=0)\nwhile True: f.write(bytes(1 << 20))"
    with pytest.raises(LimitExceeded):
        run(
            tmp_path,
            backend,
            "python3",
            "-c",
            program,
            limits=Limits(files_bytes=32 * MIB, tmp_bytes=32 * MIB),
            files=WRITABLE,
        )
    assert (tmp_path / "files/0/x").stat().st_size <= 33 * MIB


def test_files_that_are_there_already_count_before_the_command_runs(backend, tmp_path):
    (tmp_path / "files/0").mkdir(parents=True)
    (tmp_path / "files/0/input").write_bytes(bytes(9 * MIB))
    with raises_code("isolation.plan", match="before the command runs"):
        run(tmp_path, backend, "touch", "/w/ran", limits=Limits(files_bytes=8 * MIB), files=WRITABLE)
    assert not (tmp_path / "files/0/ran").exists()


def test_no_path_of_the_state_folder_shows_inside(backend, tmp_path):
    if backend is BackendName.BUBBLEWRAP:
        skip_without_upper_layer(tmp_path)
    files = [("/w", "read-write"), ("/w/.git", "none"), ("/w/a/b", "none"), ("/r", "read-only")]
    show = "for name in mountinfo mounts mountstats; do cat /proc/self/$name /proc/1/$name; done"
    shown = run(tmp_path, backend, "sh", "-c", show, files=files).output
    for part in (tmp_path.name, str(tmp_path.parent), "files/0", "session-0"):
        assert part not in shown, shown


def linked_copy(source, target):
    """One file in two places where that can be: nothing here writes to it."""
    try:
        os.link(source, target, follow_symlinks=True)
    except OSError:
        shutil.copy2(source, target)


def image_with_python(at):
    """An unpacked image in which bubblewrap can start a command: the machine's Python, a shell and cat."""
    library = Path("/usr/lib/python3.11")
    (at / "usr/bin").mkdir(parents=True)
    shutil.copytree(
        library,
        at / library.relative_to("/"),
        copy_function=linked_copy,
        ignore=shutil.ignore_patterns("dist-packages", "test", "__pycache__", "config-*", "site-packages"),
    )
    programs = ["/usr/bin/python3.11", "/usr/bin/dash", "/usr/bin/cat"]
    dynamic = [str(path) for path in library.glob("lib-dynload/_ctypes*.so")]
    said = subprocess.run(["ldd", *programs, *dynamic], capture_output=True, text=True, check=True).stdout
    for name in {*programs, *re.findall(r"(/\S+\.so\S*)(?= \()", said)}:
        place = at / "usr" / name.lstrip("/").removeprefix("usr/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            linked_copy(os.path.realpath(name), place)
    (at / "usr/bin/python3").symlink_to("python3.11")
    (at / "usr/bin/sh").symlink_to("dash")
    for name in ("bin", "lib", "lib64"):
        (at / name).symlink_to(f"usr/{name}")
    (at / "opt/tool").mkdir(parents=True)
    (at / "opt/tool/readme").write_text("of the image\n")
    return at


@pytest.mark.skipif(
    not Path("/usr/bin/python3.11").exists(), reason="the test's image is of Debian 12's Python"
)
def test_no_path_of_the_state_folder_shows_inside_of_an_image(backend, tmp_path):
    """``--rootfs`` with an archive unpacks it below the session's folder, which the agent's mounts are then made of."""
    image = DirectoryRoot(str(image_with_python(tmp_path / "rootfs")))
    plan = plan_sandbox("s", (), rootfs=image)
    inside = (
        "cat /opt/tool/readme; (: > /usr/x); (: > /opt/tool/x); cat /proc/self/mountinfo /proc/self/mounts"
    )

    async def go():
        async with sandbox(tmp_path, backend, plan, rootfs=image) as (client, proxy, _):
            assert proxy.paths == "hidden"
            return await communicate(client, Command(("sh", "-c", inside), ENV))

    _, shown = asyncio.run(go())
    assert shown.startswith("of the image\n")
    assert shown.count("Read-only file system") + shown.count("Permission denied") == 2
    for part in (tmp_path.name, "rootfs", "files/0", "session-0"):
        assert part not in shown.replace("rootfs / rootfs", ""), shown
    assert not (tmp_path / "rootfs/usr/x").exists()
    assert not list((tmp_path / "isolation").iterdir())
