"""Closing a session that has ended, or is just being closed by its host, is no error; one that went wrong is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.processes.test_launch_records import own_name

from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session_state.session_folder import BUNDLE

SESSION = "A" * 22


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = open_home(tmp_path / "home")
    made.session(SESSION).mkdir()
    return made


def ended(home: Home, state: SessionState = SessionState.CLOSED, code: str | None = None) -> None:
    (home.session(SESSION) / BUNDLE).write_text("{}")
    write_note(home, SessionNote(session=SESSION, state=state, ended=2, code=code))


@pytest.mark.parametrize("code", [None, "session.expired"])
def test_a_session_that_ended_in_order_needs_no_closing(home: Home, code: str | None) -> None:
    ended(home, code=code)
    assert asyncio.run(DetachedSession(home, SESSION).close()) == home.session(SESSION) / BUNDLE


def test_a_session_that_ended_by_an_error_says_which(home: Home) -> None:
    ended(home, code="gateway.unreachable")
    with raises_code("gateway.unreachable", match=f"affiant session show {SESSION}"):
        asyncio.run(DetachedSession(home, SESSION).close())


def test_a_session_without_a_signed_close_or_bundle_is_not_taken_for_closed(home: Home) -> None:
    with raises_code("session.not_open"):
        asyncio.run(DetachedSession(home, SESSION).close())
    ended(home, SessionState.LOST)
    with raises_code("session.not_open"):
        asyncio.run(DetachedSession(home, SESSION).close())


def test_a_session_that_its_host_is_closing_is_waited_for(home: Home) -> None:
    launch = Launch(SESSION, own_name(), asked=Asked(agent="a", profile="p", started=1))
    launch.write(home)
    unopened, session = DetachedSession(home, SESSION), DetachedSession(home, SESSION)
    session._facts = {"session": SESSION}  # as opened() has it

    async def scenario() -> Path:
        with raises_code("session.not_open"):  # it may be a session that no host holds
            await unopened.close()
        closing = asyncio.create_task(session.close())
        for _ in range(5):
            await asyncio.sleep(0.02)
        assert not closing.done()
        ended(home)
        launch.remove(home)
        async with asyncio.timeout(20):
            return await closing

    assert asyncio.run(scenario()) == home.session(SESSION) / BUNDLE
