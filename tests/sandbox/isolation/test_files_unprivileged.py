"""Calls on files without root: in the runner's own user namespace, and still without a capability."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sandbox.isolation.conftest import FOUND
from tests.sandbox.isolation.test_unprivileged import PROGRAM, PYTHON, USER, reachable  # noqa: F401 - a fixture

from affiant.attestation.release.measured_files import installed_portions
from affiant.sandbox.isolation.plan.isolation_class import BackendName

CALLS = """
async def go():
    import io, tempfile
    from affiant.sandbox.isolation.plan.file_access import FileAct, FileCall
    from affiant.sandbox.workspace.tree import Entry, Kind
    from affiant.sandbox.workspace.tree_stream import TreeReader, TreeWriter
    process, control = client.spawn_runner(
        Settings(Path(sys.argv[1]), BackendName.BUBBLEWRAP, plan.HostUsr(), None)
    )
    said = []
    async with client.RunnerClient(control) as runner:
        grants = [plan.FileGrant("/w", plan.Access.READ_WRITE), plan.FileGrant("/w/none", plan.Access.NONE)]
        proxy = await runner.prepare(plan.plan_sandbox("s", grants), ca_bundle=b"")
        with tempfile.TemporaryFile() as given:
            writer = TreeWriter(given)
            for name in ("a", "none"):
                writer.entry(Entry(name, Kind.DIRECTORY, False, ""))
            writer.entry(Entry("none/x", Kind.FILE, False, ""))
            writer.content([b"x"])
            writer.end({})
            for act in (FileAct.PUT, FileAct.LIST):
                with tempfile.TemporaryFile() as out:
                    call = FileCall(act, "/w", length=10)
                    content = given.fileno() if act is FileAct.PUT else None
                    await runner.files(call, output=out.fileno(), content=content)
                    out.seek(0)
                    reader = TreeReader(out, contents=False)
                    said.append([[entry.path for entry, _ in reader], reader.result.get("error", {}).get("code")])
        proxy.listeners.proxy.close()
        await runner.cleanup()
    process.wait()
    print(json.dumps(said))

asyncio.run(go())
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming an ordinary user needs root")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
@pytest.mark.skipif(
    not FOUND[BackendName.BUBBLEWRAP].usable, reason="; ".join(FOUND[BackendName.BUBBLEWRAP].reasons)
)
@pytest.mark.skipif(
    sys.version_info[:2] < (3, 11) or not Path(PYTHON).exists(), reason="needs the system's Python 3.11"
)
def test_an_ordinary_user_moves_files_and_a_carve_out_holds(reachable):  # noqa: F811
    session_dir = reachable / "session"
    session_dir.mkdir()
    os.chown(session_dir, USER, USER)
    roots = []
    for portion in installed_portions():
        roots.append(str(reachable / "code" / portion.parent.name))
        shutil.copytree(portion, Path(roots[-1], "affiant"), ignore=shutil.ignore_patterns("__pycache__"))
    program = PROGRAM[: PROGRAM.index("async def go()")].format(roots=roots) + CALLS
    become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"]
    done = subprocess.run(
        [*become, PYTHON, "-c", program, str(session_dir)],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"},
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[[], "workspace.unwritable"], [["a"], None]]
