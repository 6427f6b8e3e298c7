"""What ``affiant run`` says of the broker's memory, and of a session that ended otherwise than it should."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.errors import StateError
from affiant.sandbox.session import foreground_command
from affiant.sandbox.session.foreground_command import RunOptions, RunOutcome, run_once
from affiant.sandbox.session.session import CommandResult
from affiant.sandbox.session.session_plan import SessionRequest


class OpenedSession:
    """A session that ends at once."""

    id, isolation, bundle_path = "A" * 22, "bwrap-landlock", Path("/b.json")
    output = changes = commit = None

    async def run(self, _command, **_options) -> CommandResult:
        return CommandResult(exit_code=0)


def outcome_of(monkeypatch: pytest.MonkeyPatch, folder: Path, facts: dict[str, object]) -> RunOutcome:
    @asynccontextmanager
    async def opened(_request, *, progress, **_options):
        progress("secrets", facts)
        yield OpenedSession()

    monkeypatch.setattr(foreground_command.Session, "open", opened)
    request = SessionRequest(profile=folder / "p.yaml", agent="dev")
    return run_once(request, ["true"], RunOptions(home=folder, env={}))


@pytest.mark.parametrize(
    ("facts", "locked", "warns"),
    [
        ({"held": ["A"], "missing": {}, "memory_locked": False}, False, True),
        ({"held": ["A"], "missing": {}, "memory_locked": True}, True, False),
        ({"held": ["A"], "missing": {}}, False, True),
        ({"held": [], "missing": {"A": "secret.not_found"}, "memory_locked": False}, None, False),
    ],
)
def test_memory_that_is_not_locked_is_told_once_and_is_in_the_summary(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, facts, locked, warns
) -> None:
    outcome = outcome_of(monkeypatch, tmp_path, facts)
    assert outcome.to_json()["memory_locked"] is locked
    assert capfd.readouterr().err.count("memory is not locked") == warns


ID = "A" * 22
RECOVER = (
    f"affiant: session {ID} ended without a signed close. "
    f"Gather what was recorded: affiant session recover {ID}\n"
)


def opened_by(steps, error: Exception | None = None):
    """``Session.open`` that takes ``steps`` and ends with ``error``; None: it is interrupted first."""

    @asynccontextmanager
    async def opened(_request, *, progress, **_options):
        progress("planned", {"session": ID, "isolation": "gvisor"})
        try:
            if error is not None:
                raise error
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(20)
        finally:
            for name, detail in steps:
                progress(name, detail)
        yield OpenedSession()

    return opened


def ran(monkeypatch: pytest.MonkeyPatch, folder: Path, opened, **options) -> RunOutcome:
    monkeypatch.setattr(foreground_command.Session, "open", opened)
    request = SessionRequest(profile=folder / "p.yaml", agent="dev")
    return run_once(request, ["true"], RunOptions(home=folder, env={}, **options))


def test_an_interrupted_start_that_ends_as_lost_says_so_and_keeps_its_session(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = ran(monkeypatch, tmp_path, opened_by([("lost", {"session": ID})]))
    assert (outcome.exit_code, outcome.session, outcome.bundle) == (130, ID, None)
    assert RECOVER in capfd.readouterr().err


def test_an_interrupted_start_without_a_session_names_none(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert ran(monkeypatch, tmp_path, opened_by([])).session is None
    assert "recover" not in capfd.readouterr().err


def test_a_refused_start_that_ends_as_lost_says_so_and_names_its_session(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    opened = opened_by([("lost", {"session": ID})], StateError("no", code="service.silent"))
    with raises_code("service.silent") as refused:
        ran(monkeypatch, tmp_path, opened)
    assert refused.value.to_json()["where"] == f"session {ID}"
    assert RECOVER in capfd.readouterr().err


@pytest.mark.parametrize("there", [True, False])
def test_receipts_that_cannot_be_copied_are_named_and_the_first_error_stays(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, there: bool
) -> None:
    bundle = tmp_path / "receipts"
    if there:
        bundle.write_bytes(b"{}")
    (tmp_path / "taken").mkdir()
    opened = opened_by([("bundled", {"path": str(bundle)})], StateError("no", code="service.silent"))
    with raises_code("service.silent"):
        ran(monkeypatch, tmp_path, opened, bundle=tmp_path / "taken")
    assert f"affiant: receipts in {bundle}\n" in capfd.readouterr().err


def test_receipts_of_an_interrupted_start_that_cannot_be_copied_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened = opened_by([("bundled", {"path": str(tmp_path / "gone")})])
    with raises_code("session.output_path") as refused:
        ran(monkeypatch, tmp_path, opened, bundle=tmp_path / "copy")
    assert str(refused.value.hint) == f"The receipts are in {tmp_path / 'gone'}"
