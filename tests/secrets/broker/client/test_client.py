from __future__ import annotations

import asyncio
import base64
import os
import socket

import pytest
from tests.raising import raises_code
from tests.secrets.conftest import HOST, fetched, pieces, request_to
from tests.secrets.upstream_server import answer

from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import Configuration, Grant
from affiant.secrets.injection.placeholder import Binding, Endpoint, mint_placeholder
from affiant.secrets.names.errors import BrokerGone, SecretTooWeak

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"
PLACES = frozenset({Endpoint(HOST, 443)})


def resolved(harness):
    async def scenario(_client: BrokerClient):
        return harness.resolution

    return harness.run(scenario)


def test_what_cannot_be_resolved_is_told_and_costs_the_others_nothing(harness) -> None:
    harness.grant("TOKEN", VALUE, 443)
    harness.grant("MISSING", None, 443)
    harness.grants.append(
        Grant(Binding("CLOUD", mint_placeholder(os.urandom), PLACES), "vault:kv/team/cloud#token")
    )
    harness.grants.append(Grant(Binding("ODD", mint_placeholder(os.urandom), PLACES), "env:HOME"))
    resolution = resolved(harness)
    assert resolution.resolved == {"TOKEN": "1"}
    assert {name: error.code for name, error in resolution.refused.items()} == {
        "MISSING": "secret.not_found",
        "CLOUD": "broker.configuration",
        "ODD": "secret.reference",
    }


def test_a_store_that_does_not_open_refuses_its_secrets_only(harness) -> None:
    harness.grant("TOKEN", VALUE, 443)
    harness.store.key_path.write_bytes(os.urandom(32))
    assert {name: error.code for name, error in resolved(harness).refused.items()} == {
        "TOKEN": "store.authentic"
    }


def test_without_a_store_there_are_no_secrets(harness) -> None:
    harness.grant("TOKEN", None, 443)
    assert resolved(harness).refused["TOKEN"].code == "secret.not_found"


def test_an_unresolved_placeholder_is_not_looked_for(harness, serve) -> None:
    """It was never given out (S16): it is text like any other."""
    server = serve(lambda received: answer(received.body))
    placeholder = harness.grant("MISSING", None, server.port)
    body = [placeholder.encode()]
    assert harness.fetch(request_to(server.port, method="POST", has_body=True), body).body == body[0]


def test_contradicting_grants_refuse_the_whole(harness) -> None:
    harness.grant("TOKEN", VALUE, 443)
    harness.grants.append(harness.grants[0])
    with raises_code("secret.grants"):
        resolved(harness)


def test_a_root_that_is_none_refuses_the_whole(harness) -> None:
    harness.roots = ("not a certificate",)
    with raises_code("broker.configuration"):
        resolved(harness)


def test_the_order_of_steps_is_kept(harness) -> None:
    async def scenario(client: BrokerClient) -> None:
        with raises_code("broker.state"):
            await client.configure(Configuration(grants=()))
        with raises_code("broker.state"):
            client.exchange(request_to(443, has_body=True))
        with raises_code("broker.state"):
            client.exchange(request_to(443), pieces([]))
        with raises_code("broker.state"):
            await client.exchange(request_to(443)).head()

    harness.run(scenario)


def test_an_unconfigured_broker_exchanges_nothing() -> None:
    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            async with BrokerClient(ours) as client:
                with raises_code("broker.state"):
                    await client.open_stream()
                with raises_code("broker.state"):
                    await client.gone()
                with raises_code("broker.configuration"):
                    await client.configure(Configuration(grants=(), local=True))
                theirs.close()
                with pytest.raises(BrokerGone):
                    await client.configure(Configuration(grants=()))

    asyncio.run(scenario())


@pytest.mark.parametrize("live", [False, True])
def test_text_is_redacted_through_the_broker(harness, live: bool) -> None:
    placeholder = harness.grant("TOKEN", VALUE, 443)
    text = b"out: " + VALUE + b" and " + base64.b64encode(VALUE) + b" and " + VALUE[:10]

    async def scenario(client: BrokerClient) -> None:
        async with client.redactor(live=live) as redactor:
            assert await redactor.feed(b"") == b""
            out = b"".join([await redactor.feed(text[at : at + 7]) for at in range(0, len(text), 7)])
            rest, count = await redactor.flush()
        assert out + rest == b"out: %b and %b and ghp_9sX2kQ" % (placeholder.encode(), placeholder.encode())
        assert count == 2

    harness.run(scenario)


@pytest.mark.parametrize("live", [False, True])
def test_a_short_line_is_given_out_in_a_pause_where_a_person_reads_and_its_rest_is_redacted(
    harness, live: bool
) -> None:
    placeholder = harness.grant("TOKEN", VALUE, 443)
    first, rest = base64.encodebytes(bytes(54) + VALUE)[72:].splitlines(keepends=True)

    async def scenario(client: BrokerClient) -> tuple[bytes, bytes, int]:
        async with client.redactor(live=live) as redactor:
            assert await redactor.feed(first) == b""
            shown = await redactor.settle()
            assert await redactor.settle() == b""
            end = await redactor.feed(rest)
            more, count = await redactor.flush()
            return shown, end + more, count

    expected = (first if live else b"", placeholder.encode() + b"\n", 1)
    assert harness.run(scenario) == expected


def test_a_large_text_is_redacted_in_one_step(harness) -> None:
    placeholder = harness.grant("TOKEN", VALUE, 443)

    async def scenario(client: BrokerClient) -> None:
        async with client.redactor() as redactor:
            out = await redactor.feed(b"x" * 262_140 + VALUE * 50_000 + b"y" * 600_000)
            rest, count = await redactor.flush()
        assert out + rest == b"x" * 262_140 + placeholder.encode() * 50_000 + b"y" * 600_000
        assert count == 50_000

    harness.run(scenario)


def test_two_texts_do_not_mix(harness) -> None:
    harness.grant("TOKEN", VALUE, 443)

    async def scenario(client: BrokerClient) -> None:
        async with client.redactor() as one, client.redactor() as two:
            first = await one.feed(VALUE[:12])
            second = await two.feed(VALUE[12:])
            assert first + (await one.flush())[0] == VALUE[:12]
            assert second + (await two.flush())[0] == VALUE[12:]

    harness.run(scenario)


def test_cancelling_a_reader_loses_no_frame(harness, serve) -> None:
    server = serve(lambda _: [0.3, *answer(b"hello")])

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(request_to(server.port)) as exchange:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(exchange.head(), 0.05)
            assert (await exchange.head()).status == 200
            assert b"".join([chunk async for chunk in exchange.chunks()]) == b"hello"
            assert await exchange.outcome() == await exchange.outcome()

    harness.run(scenario)


def test_the_outcome_of_a_refusal_is_told_after_it(harness, serve) -> None:
    server = serve(lambda _: [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"])

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(request_to(server.port)) as exchange:
            outcome = await exchange.outcome()
            assert outcome.error_code == "upstream.truncated"
            assert (outcome.status, outcome.bytes_in) == (200, 3)
            assert outcome.request_complete
            assert outcome.sent_digest

    harness.run(scenario)


def test_a_weak_value_gets_no_placeholder(harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store written by something else may hold one."""
    harness.grant("TOKEN", VALUE, 443)
    with monkeypatch.context() as patch:
        patch.setattr("affiant.secrets.names.value.MIN_VALUE_BYTES", 1)
        patch.setattr("affiant.secrets.names.value.MIN_ESTIMATED_BITS", 0)
        harness.grant("WEAK", b"hunter2", 443)
    assert SecretTooWeak.code in {error.code for error in resolved(harness).refused.values()}


def test_fetching_twice_reads_the_store_once(harness, serve) -> None:
    """The session keeps what it was given: a later change of the store is for later sessions."""
    server = serve(lambda received: answer(received.head))
    placeholder = harness.grant("TOKEN", VALUE, server.port)
    request = request_to(
        server.port,
        (b"Authorization", b"Bearer " + placeholder.encode()),
        uses=(("TOKEN", "header:authorization"),),
    )

    async def scenario(client: BrokerClient) -> None:
        await fetched(client, request)
        harness.store.remove("TOKEN")
        await fetched(client, request)

    harness.run(scenario)
    assert [each.header("authorization") for each in server.received] == [b"Bearer " + VALUE] * 2
