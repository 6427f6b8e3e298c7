"""A session with more records than a single bundle holds: its receipts are an archive, wherever a bundle would be."""

from __future__ import annotations

import asyncio
import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.verifier_js.conftest import HOME, node
from tests.raising import raises_code
from tests.sandbox.conftest import affiant

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.sandbox import IsolationClass, Sandbox
from affiant.sandbox.base.errors import SessionBundleTooLarge
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session import session as session_module
from affiant.sandbox.session.recover_command import recover
from affiant.sandbox.session.session import Session
from affiant.sandbox.session_state.recovery import export_archive, gather_whole
from affiant.sandbox.session_state.session_folder import ARCHIVE, BUNDLE, SEALED
from affiant.sandbox.session_state.session_listing import find_session

PROFILE = """
agent_configs:
  dev:
    filesystem_access: [read-write:/workspace]
    resources: {memory: 512MiB, pids: 100}
"""
SMALL = 1000
"""Bytes that a single bundle may have here."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bundle is small enough: neither the supervisor's nor what the gateway gives on its operator socket."""
    monkeypatch.setattr(session_module, "gather_whole", partial(gather_whole, most=SMALL))
    finish = Session._finish

    async def finished(self: Session, why: Any) -> None:
        await finish(self, why)
        (self._opened.home.session(self.id) / SEALED).unlink()  # a supervisor leaves none that is too large
        raise SessionBundleTooLarge(self.id, limit=SMALL)

    monkeypatch.setattr(Session, "_finish", finished)


def closed(warm: Any, steps: list[tuple[str, dict[str, Any]]]) -> Sandbox:
    async def go() -> Sandbox:
        given = {"profile": PROFILE, "agent": "dev", "home": warm.home, "task": {"workflow": "nightly"}}
        isolation = IsolationClass(warm.isolation)
        async with Sandbox.create(**given, min_isolation=isolation) as sandbox:
            sandbox.session._progress = lambda name, detail: steps.append((name, dict(detail)))
            for word in ("one", "two", "three"):
                assert (await sandbox.run(["echo", word])).exit_code == 0
            return sandbox

    return asyncio.run(go())


def both_say(warm: Any, path: Path) -> list[dict[str, Any]]:
    trust = path.with_name("trust-of-test.json")
    warm.write_trust(trust)
    ours = affiant("verify", str(path), "--trust", str(trust), "--json")
    theirs = subprocess.run(
        [node(), str(HOME / "verify.mjs"), str(path), "--trust", str(trust), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [json.loads(each.stdout) for each in (ours, theirs)]


def test_its_receipts_are_an_archive_that_both_verifiers_take(warm: Any, small: None) -> None:
    steps: list[tuple[str, dict[str, Any]]] = []
    sandbox = closed(warm, steps)
    path = sandbox.bundle_path
    assert path.name == ARCHIVE and path.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in path.parent.glob("*bundle*")) == [ARCHIVE]
    assert not list(path.parent.glob(".archive*"))
    assert ("bundled", {"path": str(path), "archive": True}) in steps
    with raises_code("session.bundle_too_large") as raised:
        sandbox.session.bundle()
    assert raised.value.where == str(path)
    assert "PeriodBundle(session.bundle_path)" in str(raised.value.hint)
    assert "bundle export" not in str(raised.value), "it was exported"
    with PeriodBundle(path) as archive:
        assert archive.manifest.range.sessions == (sandbox.session.id,)
    for verdict in both_say(warm, path):
        assert not [row["code"] for row in verdict["checks"] if row["state"] == "refused"]
        assert verdict["summary"]["uses"]["command"] == {"echo": 3}
        assert verdict["summary"]["uses"]["workflow"] == {"nightly": 1}
        assert verdict["counts"]["sessions"]["closed"] == 1
    entry = find_session(open_home(warm.home), sandbox.session.id)
    assert (entry.bundle, entry.note.state.value) == (path, "closed")


@pytest.mark.slow
def test_recovering_writes_it_too_and_removing_copies_it(warm: Any, tmp_path: Path) -> None:
    sandbox = closed(warm, [])
    home, session = open_home(warm.home), sandbox.session.id
    assert sandbox.bundle_path.name == BUNDLE
    copy, entry = tmp_path / "copy.affiant.zip", find_session(home, session)
    done = recover(home, entry, given=None, bundle=copy, output=None, starting=pytest.fail, most=SMALL)
    assert (done.gathered.bundle, done.gathered.closed, done.gathered.left_out) == (None, "done", 0)
    assert copy.read_bytes() == done.gathered.path.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o600
    for verdict in both_say(warm, copy):
        assert not [row["code"] for row in verdict["checks"] if row["state"] == "refused"]
    (other := tmp_path / "other").write_bytes(b"another file")
    refused = affiant("session", "rm", session, "--home", str(warm.home), "--bundle", str(other))
    assert refused.returncode == 1 and home.session(session).is_dir()
    removed = affiant("session", "rm", session, "--home", str(warm.home), "--bundle", str(copy))
    assert removed.returncode == 0 and not home.session(session).exists()


def test_where_the_store_does_not_have_the_session_the_command_for_its_operator_is_named(warm: Any) -> None:
    home, session = open_home(warm.home), "S" * 22
    home.session(session).mkdir()
    because = SessionBundleTooLarge(session, limit=SMALL)
    with raises_code("session.bundle_too_large") as raised:
        export_archive(home, session, because)
    assert "their export as an archive failed" in raised.value.message
    assert "export.nothing" in str(raised.value.found)
    assert "affiant bundle export" in str(raised.value.hint)
    assert list(home.session(session).iterdir()) == []
    home.session(session).rmdir()
