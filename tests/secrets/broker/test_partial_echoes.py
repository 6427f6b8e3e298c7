"""What an agent learns of a secret from a host that gives back a part of what it is sent."""

from __future__ import annotations

import string
from urllib.parse import unquote

import pytest
from tests.raising import raises_code
from tests.secrets.conftest import fetched, request_to
from tests.secrets.upstream_server import answer, chunked

from affiant.errors import AffiantError
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import KeptGrant
from affiant.secrets.broker.partial_echoes import MOST_PARTIAL_ECHOES, PartialEchoes
from affiant.secrets.names.errors import SecretPartialEcho, SecretWithdrawn
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.parts import LEAST_PART

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6hJ8nC5dF3gA0pUiO"
HEAD = len("ghp_")
ALPHABET = string.ascii_letters + string.digits


def using(port: int, placeholder: str, target: str = "/", **changes):
    return request_to(
        port,
        (b"Authorization", b"Bearer " + placeholder.encode()),
        uses=(("TOKEN", "header:authorization"),),
        target=target.encode(),
        **changes,
    )


def cutting(received):
    """``/N``: the first N bytes of the credential, as a host whose error texts are short."""
    credential = (received.header("authorization") or b"").removeprefix(b"Bearer ")
    wanted = received.line.split()[1].removeprefix(b"/")
    return answer(credential[: int(wanted or b"0")])


async def code_of(client: BrokerClient, request) -> str | None:
    try:
        return (await fetched(client, request)).outcome.error_code
    except AffiantError as error:
        return error.code


def test_a_host_that_cuts_its_echo_gives_the_agent_eleven_secret_bytes_and_three_answers_end(
    harness, serve
) -> None:
    """Without this, the answer to ``/39`` held 39 of 40 bytes."""
    server = serve(cutting)
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> tuple[bytes, list[str | None]]:
        learned, codes = b"", []
        for size in range(1, len(VALUE)):
            try:
                got = await fetched(client, using(server.port, placeholder, f"/{size}"))
                learned = max(learned, got.body, key=len)
            except AffiantError as error:
                codes.append(error.code)
        return learned, codes

    learned, codes = harness.run(scenario)
    assert learned == VALUE[: HEAD + LEAST_PART - 1]
    assert codes[:3] == ["secret.partial_echo"] * MOST_PARTIAL_ECHOES
    assert set(codes[3:]) == {"secret.withdrawn"}
    assert len(server.received) == HEAD + LEAST_PART - 1 + MOST_PARTIAL_ECHOES


def test_guessing_byte_by_byte_is_answered_three_times(harness, serve) -> None:
    """A host that echoes the agent's guess tells right from wrong: a model read a token of 93 bytes in 83 requests."""

    def echoing(received):
        return answer(unquote(received.line.split()[1].decode()).encode())

    server = serve(echoing)
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> bytes:
        await fetched(client, using(server.port, placeholder))
        known = VALUE[: HEAD + LEAST_PART - 1]  # as learned above
        while len(known) < len(VALUE):
            answered = {}
            for letter in ALPHABET:
                guess = (known[-(LEAST_PART - 1) :].decode() + letter).encode()
                answered[letter] = await code_of(client, request_to(server.port, target=b"/" + guess))
                if answered[letter] == "secret.partial_echo":
                    break
            right = [letter for letter, code in answered.items() if code == "secret.partial_echo"]
            if not right:
                assert set(answered.values()) == {"secret.withdrawn"}
                return known
            known += right[0].encode()
        return known

    assert harness.run(scenario) == VALUE[: HEAD + LEAST_PART - 1 + MOST_PARTIAL_ECHOES]


@pytest.mark.parametrize("size", [1, 3, 7, 64])
@pytest.mark.parametrize("cut", [slice(0, -1), slice(1, None), slice(8, 30)])
def test_no_byte_of_a_part_reaches_the_agent_however_it_is_chunked(
    harness, serve, size: int, cut: slice
) -> None:
    body = b"." * 600 + VALUE[cut] + b"." * 600
    server = serve(lambda _: chunked([body[at : at + size] for at in range(0, len(body), size)]))
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> bytes:
        async with client.exchange(using(server.port, placeholder)) as exchange:
            assert (await exchange.head()).status == 200
            out = b""
            with raises_code("secret.partial_echo"):
                async for chunk in exchange.chunks():
                    out += chunk
            outcome = await exchange.outcome()
            assert (outcome.status, outcome.error_code) == (200, "secret.partial_echo")
            return out

    assert set(harness.run(scenario)) <= {ord(".")}


def test_a_part_in_a_header_or_a_trailer_ends_the_answer_too(harness, serve) -> None:
    header = serve(lambda _: answer(b"x", b"X-Hint: " + VALUE[:-2]))
    trailer = serve(lambda _: chunked([b"x"], trailers=b"X-Hint: " + VALUE[:-2] + b"\r\n"))
    for server in (header, trailer):
        placeholder = harness.grant("TOKEN", VALUE, server.port)
        with raises_code("secret.partial_echo"):
            harness.fetch(using(server.port, placeholder))
        harness.grants.clear()


def test_a_part_is_looked_for_only_where_the_secret_was_sent(harness, serve) -> None:
    """Else any host would tell a guess of a secret from another text."""
    server = serve(lambda _: answer(VALUE[:-1]))
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        assert (await fetched(client, request_to(server.port))).body == VALUE[:-1]
        assert await code_of(client, using(server.port, placeholder)) == "secret.partial_echo"
        assert await code_of(client, request_to(server.port)) == "secret.partial_echo"

    harness.run(scenario)


def test_an_answer_that_began_before_the_secret_was_sent_holds_no_part_of_it(harness, serve) -> None:
    def script(received):
        if received.header("authorization"):
            return answer(b"thanks")
        return chunked([b"." * 900, VALUE[:-1] + b"." * 900], pause=0.5)

    server = serve(script)
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(request_to(server.port)) as exchange:
            await exchange.head()
            await fetched(client, using(server.port, placeholder))
            with raises_code("secret.partial_echo"):
                async for chunk in exchange.chunks():
                    assert VALUE[:12] not in chunk

    harness.run(scenario)


def test_a_restriction_of_the_profile_gives_a_withdrawn_secret_back_to_no_one(harness, serve) -> None:
    server = serve(cutting)
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        for _ in range(MOST_PARTIAL_ECHOES):
            assert await code_of(client, using(server.port, placeholder, "/30")) == "secret.partial_echo"
        grant = harness.grants[0]
        await client.restrict([KeptGrant(grant.binding.name, grant.binding.endpoints, grant.max_uses)])
        assert await code_of(client, using(server.port, placeholder)) == "secret.withdrawn"
        assert await code_of(client, request_to(server.port)) == "secret.withdrawn"

    harness.run(scenario)
    assert len(server.received) == MOST_PARTIAL_ECHOES


def test_only_the_newest_tokens_of_a_secret_are_looked_for() -> None:
    echoes = PartialEchoes()
    tokens = [b"t0k3n-%02d-" % number + VALUE[10:30] + b"%02d" % number for number in range(20)]
    echoes.sent("a.example", [(SecretValue(token), "TOKEN") for token in tokens])
    echoes.require("a.example", ["TOKEN"])
    with pytest.raises(SecretPartialEcho) as found:
        echoes.parts("a.example").require_none(tokens[-1][:-1])
    for _ in range(MOST_PARTIAL_ECHOES):
        counted = echoes.counted(found.value)
    assert "withdrawn" in str(counted)
    for host, names in (("a.example", ()), ("b.example", ("TOKEN",))):
        with pytest.raises(SecretWithdrawn):
            echoes.require(host, names)
    echoes.require("b.example", ("OTHER",))
