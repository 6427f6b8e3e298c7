"""A broker that is narrowed holds less from then on, never more, and redacts what it held."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace

import pytest
from tests.raising import raises_code
from tests.secrets.conftest import HOST, fetched, request_to
from tests.secrets.upstream_server import answer

from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import BrokerStatus, Configuration, Grant, KeptGrant, Resolution
from affiant.secrets.broker.client.protocol import ControlChannel
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.placeholder import Endpoint
from affiant.secrets.names.errors import BrokerGone, PlaceholderMisplaced, SecretNotBound

VALUE, OTHER = b"ghp_9sX2kQ7vLm4TzR1bYwE6", b"glpat-7Qx2mN9rTv4LsK8dFz1B"


def echo(received):
    return answer(b"seen: " + (received.header("authorization") or b"nothing") + VALUE)


def kept(*grants: Grant, **changes) -> list[KeptGrant]:
    return [
        replace(KeptGrant(each.binding.name, each.binding.endpoints, each.max_uses), **changes)
        for each in grants
    ]


def using(port: int, name: str, placeholder: str):
    headers = (
        (b"Host", b"%s:%d" % (HOST.encode(), port)),
        (b"Authorization", b"Bearer " + placeholder.encode()),
    )
    return request_to(port, headers=headers, uses=((name, "header:authorization"),))


def test_what_is_not_kept_is_put_nowhere_any_more_and_still_redacted(harness, serve) -> None:
    server = serve(echo)
    first, second = (harness.grant(name, value, server.port) for name, value in (("A", VALUE), ("B", OTHER)))

    async def scenario(client: BrokerClient) -> None:
        for name, placeholder in (("A", first), ("B", second)):
            assert (await fetched(client, using(server.port, name, placeholder))).outcome.refusal is None
        await client.restrict(kept(harness.grants[1]))
        refused = await fetched_outcome(client, using(server.port, "A", first))
        assert isinstance(refused.refusal, SecretNotBound)
        found = await fetched(client, using(server.port, "B", second))
        assert found.body == b"seen: Bearer " + second.encode() + first.encode()  # no value, of neither
        await client.restrict([])
        for name, placeholder in (("A", first), ("B", second)):
            outcome = await fetched_outcome(client, using(server.port, name, placeholder))
            assert isinstance(outcome.refusal, SecretNotBound)

    harness.run(scenario)
    assert [each.header("authorization") for each in server.received] == [
        b"Bearer " + value for value in (VALUE, OTHER, OTHER)
    ]


def test_no_part_of_an_answer_is_asked_for_when_the_last_secret_is_not_kept(harness, serve) -> None:
    server = serve(echo)
    harness.grant("A", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        await client.restrict([])
        await fetched(client, request_to(server.port, (b"Range", b"bytes=0-9")))

    harness.run(scenario)
    assert server.received[0].header("range") is None


def test_what_is_on_its_way_is_cut_by_a_narrowing_and_not_by_one_that_is_refused(harness, serve) -> None:
    server = serve(lambda received: [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"one", 30.0])
    harness.grant("A", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(request_to(server.port)) as exchange:
            assert (await exchange.head()).status == 200
            with raises_code("secret.grants"):
                await client.restrict([KeptGrant("B", frozenset())])
            reading = asyncio.create_task(exchange.outcome())
            await asyncio.sleep(0.02)
            assert not reading.done()
            await client.restrict(kept(*harness.grants))
            outcome = await asyncio.wait_for(reading, 2)
            assert (outcome.error_code, outcome.status) == ("broker.request", 200)

    harness.run(scenario)


def test_a_body_that_began_before_a_narrowing_is_filled_with_what_is_left_after_it(harness, serve) -> None:
    server = serve(echo)
    surface = BodySurface(json="/token")
    placeholder = harness.grant("A", VALUE, server.port, surface=surface).encode()
    body = b'{"token": "%s"}' % placeholder
    headers = ((b"Host", b"%s:%d" % (HOST.encode(), server.port)), (b"Content-Type", b"application/json"))
    request = request_to(
        server.port, headers=headers, uses=(("A", surface.label),), method="POST", has_body=True
    )

    async def scenario(client: BrokerClient) -> None:
        async def pieces():
            yield body[:5]
            await asyncio.sleep(0.1)
            await client.restrict([])
            yield body[5:]

        async with client.exchange(request, pieces()) as exchange:
            assert isinstance((await exchange.outcome()).refusal, PlaceholderMisplaced)

    harness.run(scenario)
    assert not server.received


def test_a_request_whose_host_is_slow_to_be_connected_does_not_arrive_after_a_narrowing(harness) -> None:
    """Its supervisor has given it up before, which nobody notices until there is a connection."""

    async def scenario(client: BrokerClient, listener: socket.socket) -> bytes:
        port, loop = listener.getsockname()[1], asyncio.get_running_loop()
        request = using(port, "A", harness.grants[0].binding.placeholder)
        asking = asyncio.create_task(fetched_outcome(client, request))
        connection, _ = await loop.sock_accept(listener)
        with connection:
            connection.setblocking(False)
            assert (await loop.sock_recv(connection, 1 << 16))[:1] == b"\x16"  # a ClientHello
            await client.restrict(kept(*harness.grants))
            await client.restrict([])
            outcome = await asyncio.wait_for(asking, 5)
            assert outcome.error_code == "broker.request"
            assert (outcome.bytes_out, outcome.sent_digest) == (0, None)
            return await loop.sock_recv(connection, 1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        harness.grant("A", VALUE, listener.getsockname()[1])
        with contextlib.suppress(ConnectionResetError):
            assert harness.run(lambda client: scenario(client, listener)) == b""


async def fetched_outcome(client: BrokerClient, request):
    async with client.exchange(request) as exchange:
        return await exchange.outcome()


def test_a_place_that_is_not_kept_is_refused_and_another_stays(harness, serve) -> None:
    servers = [serve(echo), serve(echo)]
    placeholder = harness.grant("A", VALUE, servers[0].port)
    places = frozenset(Endpoint(HOST, each.port) for each in servers)
    harness.grants[0] = replace(
        harness.grants[0], binding=replace(harness.grants[0].binding, endpoints=places)
    )

    async def scenario(client: BrokerClient) -> None:
        await client.restrict(kept(*harness.grants, endpoints=frozenset({Endpoint(HOST, servers[1].port)})))
        first = await fetched_outcome(client, using(servers[0].port, "A", placeholder))
        assert isinstance(first.refusal, SecretNotBound)
        assert (await fetched(client, using(servers[1].port, "A", placeholder))).outcome.refusal is None

    harness.run(scenario)


def test_uses_go_on_from_where_they_were(harness, serve) -> None:
    server = serve(echo)
    placeholder = harness.grant("A", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        for _ in range(2):
            assert (await fetched(client, using(server.port, "A", placeholder))).outcome.refusal is None
        await client.restrict(kept(*harness.grants, max_uses=2))
        spent = await fetched_outcome(client, using(server.port, "A", placeholder))
        assert spent.error_code == "limit_secret_uses"

    harness.run(scenario)


WIDER = {
    "another secret": {"name": "B"},
    "another place": {"endpoints": frozenset({Endpoint(HOST, 1)})},
    "one more place": {"endpoints": frozenset({Endpoint(HOST, 443), Endpoint("b.example", 443)})},
    "more uses": {"max_uses": 4},
    "any number of uses": {"max_uses": None},
}


@pytest.mark.parametrize("changes", WIDER.values(), ids=WIDER)
def test_more_than_before_is_refused_and_changes_nothing(harness, changes) -> None:
    harness.grant("A", VALUE, 443)
    harness.grants[0] = replace(harness.grants[0], max_uses=3)

    async def scenario(client: BrokerClient) -> None:
        with raises_code("secret.grants"):
            await client.restrict(kept(*harness.grants, **changes))
        with raises_code("secret.grants"):
            await client.restrict(kept(*harness.grants, *harness.grants))
        await client.restrict(kept(*harness.grants))  # all of it is still there
        with raises_code("secret.grants"):
            await client.restrict(kept(*harness.grants, **changes))
        await client.restrict([])
        with raises_code("secret.grants"):  # and what is gone does not come back
            await client.restrict(kept(*harness.grants))

    harness.run(scenario)


def test_a_message_of_another_form_ends_the_broker(harness) -> None:
    harness.grant("A", VALUE, 443)

    async def scenario(client: BrokerClient) -> None:
        await client._channel.send({"op": "narrow", "grants": [], "more": 1})
        await client.gone()
        with pytest.raises(BrokerGone):
            await client.restrict([])

    with raises_code("broker.protocol"):
        harness.run(scenario)


def test_a_broker_that_is_not_configured_is_not_narrowed() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            async with BrokerClient(ours) as client:
                with raises_code("broker.state"):
                    await client.restrict([])

    asyncio.run(scenario())


@contextlib.asynccontextmanager
async def answered_by(scenario):
    """A client that was configured, and a broker that answers as ``scenario`` does, which gets its channel."""
    ours, theirs = socket.socketpair()
    channel = ControlChannel(theirs)
    status = BrokerStatus(pid=1, uid=1, dumpable=False, memory_locked=False)

    async def broker() -> None:
        await channel.receive()
        await channel.send({"configured": Resolution({}, {}, status).to_json()})
        await scenario(channel)
        channel.close()

    serving = asyncio.create_task(broker())
    async with BrokerClient(ours) as client:
        await client.configure(Configuration(grants=(), roots=(), local=False))
        yield client
    await asyncio.wait_for(serving, 5)


KEPT = KeptGrant("A", frozenset())
ANSWERS: dict[str, dict[str, object]] = {
    "less than asked for": {"narrowed": []},
    "more than asked for": {"narrowed": ["A", "B"]},
    "another": {"narrowed": ["B"]},
    "something else": {"configured": {}},
}


@pytest.mark.parametrize("answered", ANSWERS.values(), ids=ANSWERS)
def test_a_broker_that_holds_something_else_than_it_was_told_is_not_believed(answered) -> None:
    async def answers(channel: ControlChannel) -> None:
        await channel.receive()
        await channel.send(answered)
        await channel.receive()

    async def scenario() -> None:
        async with answered_by(answers) as client:
            with raises_code("broker.protocol"):
                await client.restrict([KEPT])

    asyncio.run(scenario())


def test_a_broker_that_ends_instead_of_an_answer_is_gone() -> None:
    async def ends(channel: ControlChannel) -> None:
        await channel.receive()

    async def scenario() -> None:
        async with answered_by(ends) as client:
            async with asyncio.timeout(5):
                with pytest.raises(BrokerGone):
                    await client.restrict([KEPT])

    asyncio.run(scenario())


def test_one_narrowing_at_a_time() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def waits(channel: ControlChannel) -> None:
        await channel.receive()
        asked.set()
        await go_on.wait()
        await channel.send({"narrowed": ["A"]})
        await channel.receive()

    async def scenario() -> None:
        async with answered_by(waits) as client:
            first = asyncio.create_task(client.restrict([KEPT]))
            await asked.wait()
            with raises_code("broker.state"):
                await client.restrict([])
            go_on.set()
            await asyncio.wait_for(first, 5)

    asyncio.run(scenario())


@pytest.mark.parametrize("after", ["configured", "narrowed"])
def test_a_broker_that_speaks_unasked_is_one_that_is_gone(after: str) -> None:
    async def speaks(channel: ControlChannel) -> None:
        if after == "narrowed":
            await channel.receive()
            await channel.send({"narrowed": ["A"]})
        await channel.send({"narrowed": ["A"]})
        await channel.receive()

    async def scenario() -> None:
        async with answered_by(speaks) as client, asyncio.timeout(5):
            if after == "narrowed":
                await client.restrict([KEPT])
            await client.gone()
            with pytest.raises(BrokerGone):
                await client.restrict([KEPT])

    asyncio.run(scenario())
