"""What ``affiant run`` says of the broker's memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from affiant.sandbox.session import foreground_command
from affiant.sandbox.session.foreground_command import RunOptions, RunOutcome, run_once
from affiant.sandbox.session.session import CommandResult
from affiant.sandbox.session.session_plan import SessionRequest


class OpenedSession:
    """A session that ends at once."""

    id, isolation, bundle_path, output = "A" * 22, "bwrap-landlock", Path("/b.json"), None

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
