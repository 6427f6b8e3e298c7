"""A journal that neither writes nor fails holds no session for ever, and what it writes later contradicts nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.narrowing_client import NARROW, NARROWEST, NarrowingClient, payload_of
from tests.gateway.session_client import SessionClient

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.errors import AffiantError
from affiant.gateway.admission.restrict import Restrictions
from affiant.gateway.sessions.sessions import Session, SessionState
from affiant.gateway.store.journal import Journal

WITHIN_S = 0.2


class Disk:
    """Writes what is committed, or nothing until it goes on."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        self.goes_on.clear()
        try:
            yield
        finally:
            self.goes_on.set()


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    made, commit = Disk(), Journal._commit

    def commit_on_it(self: Journal, group: Any) -> Any:
        assert made.goes_on.wait(30)
        return commit(self, group)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Journal, "_commit", commit_on_it)
        yield made


@pytest.fixture(scope="module")
def inside(
    platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory, disk: Disk
) -> Iterator[InProcess]:
    with in_process(platform, tmp_path_factory.mktemp("store"), drain_s=1) as gateway:
        service = gateway.service
        service.closing.grace_s = service.closing.recorded_s = WITHIN_S
        service.restrictions = replace(service.restrictions, grace_s=WITHIN_S, recorded_s=WITHIN_S)
        yield gateway


def session_of(inside: InProcess, client: SessionClient) -> Session:
    found = inside.service.sessions.by_id(client.id)
    assert found is not None
    return found


def until(holds: Any) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def kinds(client: NarrowingClient) -> list[str]:
    return [record["kind"] for record in client.own_records]


# -- a close -----------------------------------------------------------------------------------------------------------


def test_a_close_is_not_waited_for_without_bound_and_is_made_once(
    inside: InProcess, platform: PlatformClient, disk: Disk
) -> None:
    with NarrowingClient.admitted_by(inside, platform) as client:
        assert client.say("hello").status == 200
        session = session_of(inside, client)
        with disk.stalled():
            began = time.monotonic()
            answers = [client.close("done"), client.close("killed")]
            assert time.monotonic() - began < 3
            for answer in answers:
                assert (answer.status, answer.code) == (503, "session.not_closed")
                assert answer.headers["x-should-retry"] == "true"
            assert session.state is SessionState.CLOSING
            assert session.close_jws is None, "nobody is shown what is not durable"
        until(lambda: session.state is SessionState.CLOSED)
        closed = client.close("killed")
        assert closed.status == 200
        assert payload_of(closed.json()["close"])["why"] == "done"
        assert kinds(client) == ["session-start", "inference", "session-close"]
        assert client.say("hello").code == "session.closed"


def test_what_is_under_way_while_the_journal_stalls_is_given_up_and_goes_nowhere(
    inside: InProcess, platform: PlatformClient, disk: Disk
) -> None:
    with NarrowingClient.admitted_by(inside, platform) as client:
        session = session_of(inside, client)
        with disk.stalled():
            asking = threading.Thread(target=lambda: ignored(client))
            asking.start()
            until(lambda: session.under_way)
            assert client.close("killed").code == "session.not_closed"
            asking.join(5)
            assert not asking.is_alive(), "an answer was cut that could not be recorded"
        until(lambda: session.state is SessionState.CLOSED)
        assert kinds(client) == ["session-start", "refusal", "session-close"]


def test_what_comes_after_requests_were_given_up_has_no_record_and_keeps_no_close_back(
    inside: InProcess, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(inside, platform) as client:
        session = session_of(inside, client)
        inside.run(begun(session))
        assert client.close("killed").code == "session.not_closed"
        late = client.say("hello")
        assert (late.code, "affiant-receipt-id" in late.headers) == ("session.closed", False)
        inside.run(ended(session))
        until(lambda: session.state is SessionState.CLOSED)
        assert kinds(client) == ["session-start", "session-close"]


async def begun(session: Session) -> None:
    """A request that does not end, whatever is done to its task."""
    session.begin()


async def ended(session: Session) -> None:
    session.end()


def ignored(client: SessionClient) -> None:
    try:
        client.say("hello")
    except BaseException:
        return


# -- a narrowing -------------------------------------------------------------------------------------------------------


def not_narrowed(inside: InProcess, client: NarrowingClient) -> None:
    """The session is what it was, goes on so, and is not narrowed any more."""
    session = session_of(inside, client)
    assert (session.admitted.epoch, session.held) == (0, False)
    assert client.say("hello").status == 200
    assert client.narrow(NARROWEST, extend=False).code == "narrowing.out_of_turn"
    client.close("policy")
    assert {record["pol"]["epoch"] for record in client.own_records if "pol" in record} == {0}
    assert kinds(client)[-1] == "session-close"


def test_a_narrowing_whose_evidence_cannot_be_kept_is_not_made(
    inside: InProcess, platform: PlatformClient, disk: Disk
) -> None:
    with NarrowingClient.admitted_by(inside, platform) as client:
        with disk.stalled():
            answer = client.narrow(NARROW)
            assert (answer.status, answer.code) == (503, "journal.unavailable")
            assert "affiant-receipt-id" not in answer.headers
        not_narrowed(inside, client)


def test_a_request_that_is_refused_meanwhile_and_has_no_record_yet_makes_it_fail_not_wait(
    inside: InProcess, platform: PlatformClient, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes after what was under way was given up, so that nobody gives it up; its record waits for the journal."""
    settle, asking = Restrictions._settle, []

    with NarrowingClient.admitted_by(inside, platform) as client:
        session = session_of(inside, client)

        async def settled(restrictions: Restrictions, which: Session) -> None:
            disk.goes_on.clear()
            give_up = session.give_up

            def given_up() -> None:
                give_up()
                asking.append(threading.Thread(target=lambda: ignored(client)))
                asking[0].start()

            async def under_way() -> None:
                session.begin()
                try:
                    await asyncio.sleep(60)
                finally:
                    while session.under_way < 2:
                        await asyncio.sleep(0.01)
                    session.end()

            monkeypatch.setattr(session, "give_up", given_up)
            one = asyncio.create_task(under_way())
            await asyncio.sleep(0)
            await settle(restrictions, which)
            assert one.cancelled()

        monkeypatch.setattr(Restrictions, "_settle", settled)
        monkeypatch.setattr("affiant.gateway.service.control_plane.DURABLE_WITHIN_S", WITHIN_S)
        began = time.monotonic()
        answer = client.narrow(NARROW)
        assert (answer.status, answer.code) == (503, "journal.unavailable"), "its refusal cannot be recorded"
        assert time.monotonic() - began < 5
        disk.goes_on.set()
        asking[0].join(5)
        not_narrowed(inside, client)
        assert [record["rsn"] for record in client.own_records if record["kind"] == "refusal"] == [
            "session.narrowing",
            "narrowing.unsettled",
            "narrowing.out_of_turn",
        ]


def test_a_request_that_does_not_end_when_it_is_given_up_makes_a_narrowing_fail(
    inside: InProcess, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(inside, platform) as client:
        session = session_of(inside, client)
        inside.run(begun(session))
        answer = client.narrow(NARROW)
        assert (answer.status, answer.code) == (409, "narrowing.unsettled")
        inside.run(ended(session))
        not_narrowed(inside, client)


# -- the chain's end, after which nothing comes ----------------------------------------------------------------------


def test_a_chain_is_not_ended_before_a_close_that_is_on_its_way_nor_waited_for_without_bound(
    inside: InProcess, platform: PlatformClient, disk: Disk
) -> None:
    with NarrowingClient.admitted_by(inside, platform) as client:
        session = session_of(inside, client)
        count = inside.service.recorder.count
        with disk.stalled():
            with pytest.raises(AffiantError) as refused:
                inside.run(inside.service.closing.end())
            assert refused.value.code == "journal.unavailable"
        until(lambda: session.state is SessionState.CLOSED)
        assert inside.service.recorder.count == count + 1, "the close, and no end"
        with disk.stalled(), pytest.raises(AffiantError) as refused:  # now it is, and not waited for
            inside.run(inside.service.closing.end())
        assert refused.value.code == "journal.unavailable"
        assert inside.service.recorder.count == count + 2
