"""What the machine's kernel itself holds: read-only and carved-out mounts, before any backend is asked."""

import json
import os
import subprocess
import sys

import pytest
from tests.sandbox.isolation.conftest import skip_without_upper_layer

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root"),
]

PROGRAM = """
import errno, json, os, sys
from pathlib import Path
from affiant.sandbox.isolation.backends import mounts
from affiant.sandbox.isolation.plan import linux
from affiant.sandbox.base.privileges import Owner
from affiant.sandbox.isolation.plan.errors import SandboxFailed
from affiant.sandbox.isolation.plan.plan import Access, FileGrant, plan_sandbox
from affiant.sandbox.isolation.plan.rootfs import Shown

session, at, image = (Path(argument) for argument in sys.argv[1:4])
hidden = sys.argv[4] == "hidden"
linux.unshare(linux.CLONE_NEWNS)
linux.make_mounts_slave()
linux.mount("x", str(image / "inner"), "tmpfs")
entries = {"/w": "read-write", "/r": "read-only", "/r/out": "read-write", "/w/a/hole": "none"}
plan = plan_sandbox("s", [FileGrant(path, Access(access)) for path, access in entries.items()])
items = mounts.show_session(plan, session_dir=session, at=at, owner=Owner(7, 8), hidden=hidden)
shown = {item.target: item for item in items}
(root,) = mounts.show_image((Shown("/usr", str(image)),), at=at)
(session / "rootfs/usr/bin").mkdir(parents=True)
(session / "rootfs/usr/bin/sh").write_text("of the image")
(at / "second").mkdir()
parts = (Shown("/usr", str(session / "rootfs/usr")), Shown("/bin/sh", str(session / "rootfs/usr/bin/sh")))
unpacked = mounts.show_image(parts, at=at / "second", session_dir=session if hidden else None)

def write(path):
    try:
        Path(path, "new").touch()
        return "ok"
    except OSError as error:
        return errno.errorcode[error.errno]

print(json.dumps({
    "written": {target: write(item.source) for target, item in shown.items()},
    "hole": write(shown["/w"].source + "/a/hole"),
    "hole_again": write(shown["/w/a"].source + "/hole"),
    "image": [write(root.source), write(root.source + "/inner"), write(unpacked[0].source)],
    "unpacked": [Path(unpacked[0].source, "bin/sh").read_text(), Path(unpacked[1].source).read_text()],
    "show": [mounts.paths_show(session, at=at), mounts.paths_show(Path("/elsewhere/another"), at=at)],
    "table": Path("/proc/self/mountinfo").read_text().count("/session/"),
    "owner": [os.stat(shown["/w"].source).st_uid, os.stat(session / "files/1/a").st_gid],
    "left": [path.name for path in (mounts.remove_overlays(session, at=at), *session.glob("isolation/*"))[1:]],
}))
"""


@pytest.mark.parametrize("way", ["hidden", "bound"])
def test_read_only_and_carved_out_hold_for_root_of_the_machine(tmp_path, way):
    if way == "hidden":
        skip_without_upper_layer(tmp_path)
    for name in ("session", "at", "image/inner"):
        (tmp_path / name).mkdir(parents=True)
    arguments = [*(str(tmp_path / name) for name in ("session", "at", "image")), way]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["written"] == {"/r": "EROFS", "/w": "ok", "/r/out": "ok", "/w/a": "ok"}
    assert (facts["hole"], facts["hole_again"]) == ("EROFS", "EROFS")
    assert facts["image"] == ["EROFS", "EROFS", "EROFS"]
    assert facts["unpacked"] == ["of the image", "of the image"]
    assert facts["show"] == [way == "bound", False]
    assert facts["owner"] == [7, 8]
    assert (facts["table"] == 0) == (way == "hidden")
    assert facts["left"] == []
    assert list((tmp_path / "session" / "files" / "1" / "a" / "hole").iterdir()) == []
