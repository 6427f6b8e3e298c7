"""Which connection is ended when there are too many: the oldest one of the address or session that has most."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.gateway.wire.connections import Connection, Connections, Listener, Turns, address_of
from affiant.gateway.wire.errors import Busy
from affiant.gateway.wire.tls import make_tls_identity

CROWD, OTHER = "192.0.2.1", "192.0.2.2"


class Table:
    """Connections by number, and which of them were ended."""

    def __init__(self, most: int) -> None:
        self.table = Connections(most)
        self.ended: list[int] = []

    def enter(self, address: str, number: int) -> Connection:
        return self.table.enter(address, lambda: self.ended.append(number))


def test_an_address_that_has_its_bound_ends_its_own_oldest() -> None:
    table = Table(16)
    for number in range(6):
        table.enter(CROWD, number)
    assert (table.ended, table.table.strangers) == ([0, 1], 4)


def test_where_strangers_have_their_part_the_address_with_most_gives_way() -> None:
    table = Table(16)
    for number in range(4):
        table.enter(CROWD, number)
    for number in range(10, 13):
        table.enter(OTHER, number)
    for number in range(20, 23):
        table.enter(f"198.51.100.{number}", number)
    assert table.ended == [0, 1] and table.table.strangers == 8


def test_no_stranger_ends_the_connection_of_a_session() -> None:
    table = Table(16)
    live = table.enter(CROWD, 0)
    live.prove("session")
    for number in range(1, 1000):
        table.enter(CROWD if number % 2 else f"198.51.100.{number % 250}", number)
    assert 0 not in table.ended
    assert (table.table.proven, table.table.strangers) == (1, 8)
    live.leave()
    live.leave()
    assert table.table.proven == 0


def test_a_newcomer_of_the_crowds_own_address_outlasts_what_is_older() -> None:
    table = Table(64)
    for number in range(100):
        table.enter(CROWD, number)
    newcomer = table.enter(CROWD, 1000)
    for number in range(100, 115):
        table.enter(CROWD, number)
    assert 1000 not in table.ended
    newcomer.prove("session")
    for number in range(200, 300):
        table.enter(CROWD, number)
    assert 1000 not in table.ended


def test_what_is_kept_is_not_ended() -> None:
    table = Table(16)
    kept = table.enter(CROWD, 0)
    with kept.keeping():
        for number in range(1, 50):
            table.enter(CROWD, number)
        assert 0 not in table.ended and table.table.strangers == 4
    table.enter(CROWD, 50)
    assert table.ended[-1] == 0


def test_sessions_share_their_part_and_none_takes_another_ones() -> None:
    table = Table(16)
    for number in range(20):
        table.enter(CROWD, number).prove("greedy")
    assert table.table.proven == 8
    modest = [table.enter(OTHER, number) for number in (100, 101, 102)]
    for connection in modest:
        connection.prove("modest")
    assert [connection.session for connection in modest] == ["modest"] * 3
    assert table.table.proven == 8
    for number in range(200, 300):
        table.enter(CROWD, number).prove("greedy")
    assert [connection.session for connection in modest] == ["modest"] * 3
    assert not {100, 101, 102} & set(table.ended)


def test_a_connection_that_proves_itself_is_not_ended_for_the_one_that_gives_way() -> None:
    """That one is a stranger of the same address again, which has all of its connections."""
    table = Table(16)
    for number in range(8):
        table.enter(CROWD, number).prove("greedy")
    newcomer = table.enter(CROWD, 100)
    for number in (101, 102, 103):
        table.enter(CROWD, number)
    newcomer.prove("modest")
    assert (newcomer.session, table.ended) == ("modest", [])
    assert (table.table.proven, table.table.strangers) == (8, 4)


def test_a_connection_that_was_ended_becomes_no_sessions() -> None:
    table = Table(16)
    gone = table.enter(CROWD, 0)
    for number in range(1, 9):
        table.enter(CROWD, number)
    assert 0 in table.ended
    gone.prove("session")
    assert (gone.session, table.table.proven) == (None, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "prove", "leave"]), st.integers(0, 5), st.integers(0, 30)),
        max_size=80,
    )
)
def test_connections_are_counted_as_they_come_and_go(acts: list[tuple[str, int, int]]) -> None:
    table = Table(8)
    known: list[Connection] = []
    for act, group, which in acts:
        if act == "enter" or not known:
            known.append(table.enter(f"192.0.2.{group}", len(known)))
        elif act == "prove":
            known[which % len(known)].prove(f"session {group}")
        else:
            known[which % len(known)].leave()
        counted = table.table
        assert counted.strangers == sum(map(len, counted._of_address.values())) <= 4
        assert counted.proven == sum(map(len, counted._of_session.values())) <= 4


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nothing", "nothing"),
    ],
)
def test_one_machine_is_one_address(host: str, group: str) -> None:
    assert address_of(host) == group


def scope_of(connection: Connection) -> dict:
    return {"state": {"connection": connection}}


def test_an_address_has_at_most_half_of_the_places_and_its_connections_are_kept_meanwhile() -> None:
    async def run() -> None:
        turns, table, let = Turns(1, 7), Table(64), asyncio.Event()
        began: list[str] = []

        async def ask(address: str) -> None:
            connection = table.enter(address, 0)
            async with turns.turn(scope_of(connection)):
                assert connection.kept == 1
                began.append(address)
                await let.wait()
            assert connection.kept == 0

        crowd = [asyncio.create_task(ask(CROWD)) for _ in range(6)]
        await asyncio.sleep(0)
        other = asyncio.create_task(ask(OTHER))
        await asyncio.sleep(0)
        assert began == [CROWD]
        assert [task.done() for task in crowd] == [False] * 4 + [True] * 2
        assert all(isinstance(task.exception(), Busy) for task in crowd[4:])
        let.set()
        await asyncio.gather(*crowd[:4], other)
        assert began == [CROWD] * 4 + [OTHER]
        await ask(CROWD)  # all places were given back

    asyncio.run(run())


class OutOfDescriptors:
    """A listening socket that cannot accept while ``full``."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.full = True

    def accept(self) -> tuple[socket.socket, object]:
        if self.full:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._listener.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._listener, name)


def test_where_descriptors_run_out_one_connection_ends_and_accepting_goes_on() -> None:
    class Served(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"served")

    async def run() -> None:
        tls = make_tls_identity(now=datetime.now(UTC), lifetime=timedelta(hours=1))
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        table = Table(64)
        for number in range(3):
            table.enter(CROWD, number)
        with socket.create_server(("127.0.0.1", 0)) as bound:
            scarce = OutOfDescriptors(bound)
            listener = Listener(scarce, table.table, lambda _: Served(), tls.context)  # type: ignore[arg-type]
            port = bound.getsockname()[1]
            opening = asyncio.create_task(asyncio.open_connection("127.0.0.1", port, ssl=trusting))
            async with asyncio.timeout(20):
                while not table.ended:
                    await asyncio.sleep(0.01)
                scarce.full = False
                reader, writer = await opening
                assert await reader.readexactly(6) == b"served"
            assert table.ended[0] == 0
            writer.transport.abort()
            listener.close()

    asyncio.run(run())
