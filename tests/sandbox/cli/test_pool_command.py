"""The pool's options say what its supervisors are started for: nothing of a session, and nothing is missing."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest
from tests.sandbox.conftest import affiant

from affiant.sandbox.cli.commands import run, session_request
from affiant.sandbox.cli.pool_command import _OF_SESSION, pool
from affiant.sandbox.detached.supervisor_pool import require_poolable
from affiant.sandbox.session.session_plan import SessionRequest


def test_the_pool_takes_each_option_of_a_session_request_but_those_of_one_session() -> None:
    options = {param.name for param in pool.params}
    asked = set(inspect.signature(session_request).parameters)
    assert options - {"size", "home"} == asked - _OF_SESSION
    assert asked >= _OF_SESSION
    assert options - {"size"} <= {param.name for param in run.params}


def test_an_option_of_one_session_is_rejected() -> None:
    done = affiant("session", "pool", "--profile", __file__, "--agent", "a", "--input", ".")
    assert done.returncode == 2
    assert b"--input" in done.stderr


def test_without_root_there_is_no_pool(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("needs a user who is not root")
    done = affiant("session", "pool", "--profile", __file__, "--agent", "a", "--home", str(tmp_path / "home"))
    assert done.returncode == 1
    assert b"session.pool" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a pool needs root")
@pytest.mark.parametrize("image", ["file", "layout"])
def test_an_image_that_is_unpacked_for_each_session_has_no_pool(tmp_path: Path, image: str) -> None:
    rootfs = tmp_path / "image"
    if image == "file":
        rootfs.write_bytes(b"")
    else:
        rootfs.mkdir()
        (rootfs / "oci-layout").write_text("{}")
    with pytest.raises(Exception, match="no pool"):
        require_poolable(SessionRequest(profile=Path("p"), agent="a", rootfs=rootfs))
