"""bubblewrap without root: the same sandbox, made inside a user namespace of an ordinary user."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.isolation.conftest import FOUND, skip_without_upper_layer

from affiant.attestation.release.measured_files import installed_portions
from affiant.sandbox.isolation.backends.enclosure import remove_memory_group
from affiant.sandbox.isolation.plan.isolation_class import BackendName

PYTHON = "/usr/bin/python3"
USER = 54321

PROGRAM = """
import asyncio, json, os, sys
sys.path[:0] = {roots!r}
from pathlib import Path
from affiant.sandbox.isolation.plan import plan
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.runner import client
from affiant.sandbox.isolation.runner.runner_settings import Settings

def command(settings, *, control_fd):
    start = "import sys; sys.path[:0] = " + repr({roots!r})
    start += "; from affiant.sandbox.isolation.runner.runner import main; sys.exit(main())"
    options = ["--control-fd=%d" % control_fd, "--session-dir=%s" % settings.session_dir, "--backend=bwrap-landlock"]
    return (sys.executable, "-I", "-c", start, *options)

client.runner_command = command  # an ordinary user has no installed copy of the tree under test

async def go():
    process, control = client.spawn_runner(
        Settings(Path(sys.argv[1]), BackendName.BUBBLEWRAP, plan.HostUsr(), None)
    )
    async with client.RunnerClient(control) as runner:
        grants = [plan.FileGrant("/w", plan.Access.READ_WRITE), plan.FileGrant("/r", plan.Access.READ_ONLY)]
        proxy = await runner.prepare(plan.plan_sandbox("s", grants), ca_bundle=b"")
        inside = "id -u; touch /w/made; touch /r/not; ls /; cat /proc/net/route; grep -c . /proc/net/dev;"
        inside += "cat /proc/self/mountinfo; python3 -c 'import os; os.memfd_create(chr(97))'; exit 0"
        command = plan.Command(("/bin/sh", "-c", inside), {{"PATH": "/usr/bin"}})
        number = await runner.start(command, stdin=0, stdout=1, stderr=1)
        ended = (await runner.wait(number)).code
        proxy.listeners.proxy.close()
        await runner.cleanup()
    process.wait()
    print(json.dumps([ended, sorted(os.listdir(sys.argv[1] + "/files/0") + os.listdir(sys.argv[1] + "/files/1"))]))

asyncio.run(go())
"""


@pytest.fixture
def reachable(tmp_path):
    """A folder that an ordinary user can reach: the test's own, opened on the way for the test's time."""
    ours = [
        path for path in (tmp_path, *tmp_path.parents) if path.name.startswith(("popen-", "pytest-", "test_"))
    ]
    opened = {path: path.stat().st_mode & 0o777 for path in ours}
    for path, mode in opened.items():
        path.chmod(mode | 0o011)
    yield tmp_path
    for path, mode in opened.items():
        path.chmod(mode)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user needs root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
@pytest.mark.skipif(
    not FOUND[BackendName.BUBBLEWRAP].usable, reason="; ".join(FOUND[BackendName.BUBBLEWRAP].reasons)
)
@pytest.mark.skipif(
    sys.version_info[:2] < (3, 11) or not Path(PYTHON).exists(), reason="needs the system's Python 3.11"
)
def test_an_ordinary_user_gets_the_same_sandbox(reachable):
    session_dir = reachable / "session"
    session_dir.mkdir()
    os.chown(session_dir, USER, USER)
    roots = []
    for portion in installed_portions():  # copied: the checkout may lie where only root can enter
        roots.append(str(reachable / "code" / portion.parent.name))
        shutil.copytree(portion, Path(roots[-1], "affiant"), ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [
            "setpriv",
            f"--reuid={USER}",
            f"--regid={USER}",
            "--clear-groups",
            PYTHON,
            "-c",
            PROGRAM.format(roots=roots),
            str(session_dir),
        ],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1000"
    assert "Read-only file system" in done.stdout
    assert json.loads(lines[-1]) == [0, ["made"]]
    assert not {"root", "home", "work"} & set(lines)
    assert "PermissionError" in done.stdout  # no memory cgroup can be had here: no memory without a mapping
    assert list((session_dir / "isolation").iterdir()) == []
    skip_without_upper_layer(session_dir)
    assert str(session_dir) not in done.stdout


@pytest.mark.parametrize(
    "path", ["/etc", "/sys/fs/cgroup/affiant-0123456789abcdef/../..", "affiant-0123456789abcdef", ""]
)
def test_a_record_names_no_folder_that_is_removed_but_a_cgroup_of_ours(tmp_path, path):
    place = tmp_path / "affiant-0123456789abcdef"
    place.mkdir()
    remove_memory_group(path or str(place))
    assert place.is_dir()
    assert Path("/etc").is_dir()
