"""How many sessions a caller gets, whatever names and keys it sends, and whenever it leaves."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.sandbox.detached.client import DetachedSession, KeptPiece
from affiant.sandbox.detached.kept_output import output_folder
from affiant.sandbox.detached.names import asked_launch
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, write_note
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_server import owned_sessions
from affiant.sandbox.session_server.documents import SessionAsked
from affiant.sandbox.session_server.owned_sessions import Bounds, OwnedSessions
from affiant.sandbox.session_state.session_folder import BUNDLE, HOST_SOCKET


class Hosts:
    """Session hosts of a state folder, as far as their records go."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.made: list[Launch] = []
        self.before: Callable[[], Awaitable[object]] = lambda: asyncio.sleep(0)
        """What a host waits for before it looks for the session that was asked for."""

    async def create(
        self, home: Home, request: SessionRequest, *, ttl_s: int | None
    ) -> tuple[DetachedSession, bool]:
        await self.before()
        running = asked_launch(home, request.name, request.key, request.owner)
        session = self.run(request) if running is None else running.session
        return DetachedSession(home, session), running is None

    def run(self, request: SessionRequest, *, ready: bool = True) -> str:
        launcher = ProcessName.of(os.getpid())
        assert launcher is not None
        session = f"{len(self.made):022d}"
        asked = Asked(
            agent="writer", profile="p", started=1, name=request.name, key=request.key, owner=request.owner
        )
        self.made.append(Launch(session, launcher, asked=asked))
        self.made[-1].write(self.home)
        self.home.session(session).mkdir()
        if ready:
            (self.home.session(session) / HOST_SOCKET).touch()
        return session

    def end(self) -> None:
        for launch in self.made:
            launch.remove(self.home)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    made = Hosts(open_home(tmp_path / "home"))
    monkeypatch.setattr(owned_sessions, "create_detached", made.create)
    return made


def sessions_of(hosts: Hosts, *, each: int = 2, together: int = 3) -> OwnedSessions:
    template = SessionRequest(profile=hosts.home.path / "p", agent="")
    return OwnedSessions(hosts.home, template, Bounds(each=each, together=together))


def named(name: str | None = None) -> SessionAsked:
    return SessionAsked(agent="writer", name=name)


def test_one_key_has_one_session_whatever_name_is_asked_for(hosts: Hosts) -> None:
    async def scenario() -> None:
        sessions = sessions_of(hosts)
        found = [await sessions.create("alice", named(f"n{number}"), "K") for number in range(5)]
        assert {session for session, _ in found} == {hosts.made[0].session}
        assert [created for _, created in found] == [True, False, False, False, False]
        at_once = await asyncio.gather(*(sessions.create("alice", named(f"m{n}"), "L") for n in range(5)))
        assert len({session for session, _ in at_once}) == 1
        assert len(hosts.made) == 2
        with raises_code("session.too_many"):
            await sessions.create("alice", named("n9"), "M")
        assert await sessions.create("alice", named("n9"), "K") == (hosts.made[0].session, False)

    asyncio.run(scenario())


def test_keys_are_each_caller_s_own_and_all_sessions_are_counted(hosts: Hosts) -> None:
    async def scenario() -> None:
        sessions = sessions_of(hosts)
        await sessions.create("alice", named(), "K")
        await sessions.create("bob", named(), "K")
        await sessions.create("alice", named(), None)
        assert [launch.asked.owner for launch in hosts.made if launch.asked] == ["alice", "bob", "alice"]
        with raises_code("session.too_many"):
            await sessions.create("carol", named(), "K")

    asyncio.run(scenario())


def test_a_session_of_the_same_key_that_is_being_closed_is_no_place_of_one_s_own(hosts: Hosts) -> None:
    async def scenario() -> None:
        sessions = sessions_of(hosts, each=1)
        request, _ = sessions._request("alice", named(), "K")
        hosts.run(request, ready=False)
        await sessions.create("alice", named(), None)
        with raises_code("session.too_many"):
            await sessions.create("alice", named(), "K")

    asyncio.run(scenario())


@pytest.mark.parametrize("key", [None, "K"])
def test_a_caller_that_leaves_at_once_takes_no_place_for_ever(hosts: Hosts, key: str | None) -> None:
    async def scenario() -> None:
        sessions = sessions_of(hosts, each=1)
        counted = sessions._counting.release

        def leave() -> None:
            counted()
            asking.cancel()

        sessions._counting.release = leave  # type: ignore[method-assign]
        asking = asyncio.create_task(sessions.create("alice", named(), key))
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.gather(*sessions._creating, return_exceptions=True)
        sessions._counting.release = counted  # type: ignore[method-assign]
        hosts.end()
        assert (await sessions.create("alice", named(), None))[1] is True

    asyncio.run(scenario())


def test_a_session_that_is_ready_while_sessions_are_counted_is_counted(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        sessions, ready = sessions_of(hosts, each=1), asyncio.Event()
        hosts.before = ready.wait
        first = asyncio.create_task(sessions.create("alice", named(), None))
        while not sessions._creating:
            await asyncio.sleep(0)

        async def looked(work: Callable[[Home], object], *args: Home) -> object:
            seen = work(*args)
            ready.set()
            await first
            return seen

        monkeypatch.setattr(owned_sessions.asyncio, "to_thread", looked)
        with raises_code("session.too_many"):
            await sessions.create("alice", named(), None)

    asyncio.run(scenario())


def test_of_requests_with_one_key_at_once_one_has_created_the_session(hosts: Hosts) -> None:
    async def scenario() -> None:
        sessions, all_asked = sessions_of(hosts), asyncio.Event()
        hosts.before = all_asked.wait
        asking = [asyncio.create_task(sessions.create("alice", named(), "K")) for _ in range(3)]
        while len(sessions._creating) < 3:
            await asyncio.sleep(0)
        all_asked.set()
        assert sorted(created for _, created in await asyncio.gather(*asking)) == [False, False, True]

    asyncio.run(scenario())


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_bundle_that_is_no_plain_file_is_not_read(hosts: Hosts, what: str) -> None:
    session, secret = "a" * 22, hosts.home.path / "secret"
    secret.write_text("a file of the operator's")
    folder = hosts.home.session(session)
    folder.mkdir()
    asked = Asked(agent="writer", profile="p", started=1, owner="alice")
    write_note(hosts.home, SessionNote(session=session, state=SessionState.CLOSED, asked=asked))
    place = folder / BUNDLE
    {
        "link": lambda: place.symlink_to(secret),
        "pipe": lambda: os.mkfifo(place),
        "folder": place.mkdir,
    }[what]()

    async def scenario() -> None:
        sessions = sessions_of(hosts)
        for work in (sessions.bundle, sessions.stop):
            with pytest.raises(AffiantError) as refused:
                await work("alice", session)
            assert refused.value.code in ("session.bundle", "session.not_gathered")
        with pytest.raises(AffiantError):
            await sessions.remove("alice", session, f"sha256:{'0' * 64}")

    asyncio.run(scenario())


def test_a_bundle_is_read_from_the_file_that_was_judged(hosts: Hosts) -> None:
    session = "a" * 22
    folder = hosts.home.session(session)
    folder.mkdir()
    asked = Asked(agent="writer", profile="p", started=1, owner="alice")
    write_note(hosts.home, SessionNote(session=session, state=SessionState.CLOSED, asked=asked))
    (folder / BUNDLE).write_bytes(b"{}")

    async def scenario() -> None:
        opened, is_archive = await sessions_of(hosts).bundle("alice", session)
        (folder / BUNDLE).unlink()
        with opened:
            assert (opened.read(), is_archive) == (b"{}", False)

    asyncio.run(scenario())


def test_kept_output_of_an_ended_session_says_that_it_is_not_all(hosts: Hosts) -> None:
    session, folder = "a" * 22, output_folder(hosts.home, "a" * 22)
    hosts.home.session(session).mkdir()
    asked = Asked(agent="writer", profile="p", started=1, owner="alice")
    write_note(hosts.home, SessionNote(session=session, state=SessionState.CLOSED, asked=asked))
    folder.mkdir(parents=True)
    (folder / "1.stdout").write_bytes(b"the end")
    (folder / "1.stderr").write_bytes(b"")

    def facts(**more: object) -> None:
        document = {"code": 3, "dropped": {"stdout": 100, "stderr": 0}, "failed": None, **more}
        (folder / "1.json").write_text(json.dumps(document))

    def kept(stdout_at: int) -> tuple[KeptPiece, str | None]:
        return asyncio.run(sessions_of(hosts).kept("alice", session, 1, (stdout_at, 0), wait=False))

    piece, why = kept(0)
    assert (piece.stdout, piece.ended, why) == (
        b"the end",
        True,
        "the session host was killed: the output may go on",
    )
    facts()
    piece, why = kept(90)
    assert (piece.stdout, piece.at, piece.exit_code, piece.missing) == (b"the end", (107, 0), 3, 10)
    assert why is not None and why.startswith("10 bytes of the output are not kept")
    piece, why = kept(104)
    assert (piece.stdout, piece.at, why) == (b"end", (107, 0), None)
    facts(failed="No space left on device")
    assert kept(104)[1] == "the rest of the output is not kept: No space left on device"
