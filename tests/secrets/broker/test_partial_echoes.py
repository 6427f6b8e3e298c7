"""What an agent learns of a secret from a host that gives back a part of what it is sent."""

from __future__ import annotations

import asyncio
import string
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.raising import raises_code
from tests.secrets.aws_verifier import SECRET_ACCESS_KEY, SESSION_TOKEN, agent_signed, key
from tests.secrets.conftest import HOST, fetched, request_to
from tests.secrets.token_server import TOKEN_HOST, TokenServer
from tests.secrets.upstream_server import UpstreamServer, answer, chunked

from affiant.errors import AffiantError
from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import KeptGrant
from affiant.secrets.broker.client.token_client import fetch_token
from affiant.secrets.broker.partial_echoes import MOST_PARTIAL_ECHOES, PartialEchoes
from affiant.secrets.injection.signing_surface import SigningSurface
from affiant.secrets.injection.surface import Surface
from affiant.secrets.names.errors import SecretPartialEcho, SecretWithdrawn
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.parts import LEAST_PART

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6hJ8nC5dF3gA0pUiO"
HEAD = len("ghp_")
ALPHABET = string.ascii_letters + string.digits


def using(port: int, placeholder: str, target: str = "/", *, name: str = "TOKEN", **changes):
    return request_to(
        port,
        (b"Authorization", b"Bearer " + placeholder.encode()),
        uses=((name, "header:authorization"),),
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
    assert server.connections == len(server.received), "a host is not even connected for a withdrawn secret"


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
    echoes.require("a.example", [(SecretValue(tokens[0]), "TOKEN")])
    with pytest.raises(SecretPartialEcho) as found:
        echoes.parts("a.example").require_none(tokens[-1][:-1])
    for _ in range(MOST_PARTIAL_ECHOES):
        counted = echoes.counted(found.value)
    assert "withdrawn" in str(counted)
    for host, names in (("a.example", ()), ("b.example", ("TOKEN",))):
        with pytest.raises(SecretWithdrawn):
            echoes.require(host, [(SecretValue(VALUE), name) for name in names])
    echoes.require("b.example", [(SecretValue(VALUE), "OTHER")])


# --- requests that are open when the secret is withdrawn -------------------------------------------------


def echoing_body(received):
    return answer(received.body or b"thanks")


async def opened(
    client: BrokerClient, stack: AsyncExitStack, port: int, last: asyncio.Event, guess: bytes
) -> asyncio.Task[str | None]:
    """A request whose head the host has, and whose body ends with ``guess`` once ``last`` is set."""

    async def body() -> AsyncIterator[bytes]:
        yield b"."
        await last.wait()
        yield guess

    request = request_to(port, method="POST", has_body=True)
    exchange = await stack.enter_async_context(client.exchange(request, body()))
    return asyncio.create_task(outcome_code(exchange))


async def outcome_code(exchange) -> str | None:
    return (await exchange.outcome()).error_code


async def arrived(server: UpstreamServer, connections: int) -> None:
    while server.connections < connections:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("at_once", [False, True])
def test_requests_that_were_open_before_answer_no_guess_more_than_the_others(
    harness, serve, at_once: bool
) -> None:
    """A model read a token of 40 bytes by 30 requests that it had opened before: each answered one guess."""
    server, opened_before = serve(echoing_body), 8
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> list[str | None]:
        await fetched(client, using(server.port, placeholder))
        lasts = [asyncio.Event() for _ in range(opened_before)]
        async with AsyncExitStack() as stack:
            tasks = [await opened(client, stack, server.port, last, VALUE[:-1]) for last in lasts]
            await arrived(server, 1 + opened_before)
            if at_once:
                for last in lasts:
                    last.set()
                return list(await asyncio.gather(*tasks))
            codes = []
            for last, task in zip(lasts, tasks, strict=True):
                last.set()
                codes.append(await task)
            return codes

    codes = harness.run(scenario)
    assert Counter(codes) == {
        "secret.partial_echo": MOST_PARTIAL_ECHOES,
        "secret.withdrawn": opened_before - MOST_PARTIAL_ECHOES,
    }
    if not at_once:
        assert len(server.received) == 1 + MOST_PARTIAL_ECHOES, "the others' bodies did not arrive"


@pytest.mark.parametrize("rest", [VALUE[:-1], b"something else"])
def test_an_answer_that_is_under_way_goes_on_for_no_host_of_a_withdrawn_secret(
    harness, serve, rest: bytes
) -> None:
    """Also where the guess is wrong: else the end of the answer would tell."""
    go_on = threading.Event()

    def script(received) -> Iterator[bytes]:
        if received.line.split()[1] != b"/slow":
            yield from cutting(received)
            return
        first, *more = chunked([b"." * 900, rest + b"." * 900])
        yield first
        go_on.wait(30)
        yield from more

    server = serve(script)
    placeholder = harness.grant("TOKEN", VALUE, server.port)

    async def scenario(client: BrokerClient) -> None:
        async with client.exchange(using(server.port, placeholder, "/slow")) as exchange:
            await exchange.head()
            for _ in range(MOST_PARTIAL_ECHOES):
                assert await code_of(client, using(server.port, placeholder, "/30")) == "secret.partial_echo"
            go_on.set()
            with raises_code("secret.withdrawn"):
                async for chunk in exchange.chunks():
                    raise AssertionError(chunk)

    harness.run(scenario)


def test_a_request_whose_host_is_slow_to_be_connected_is_not_sent_once_the_secret_is_withdrawn(
    harness, serve
) -> None:
    go_on = threading.Event()
    server, slow = serve(cutting), serve(cutting, tls_after=go_on)
    placeholder = granted_at(harness, "TOKEN", VALUE, server.port, slow.port)

    async def scenario(client: BrokerClient) -> None:
        waiting = asyncio.create_task(code_of(client, using(slow.port, placeholder)))
        await arrived(slow, 1)
        for _ in range(MOST_PARTIAL_ECHOES):
            assert await code_of(client, using(server.port, placeholder, "/30")) == "secret.partial_echo"
        go_on.set()
        assert await waiting == "secret.withdrawn"

    harness.run(scenario)
    assert slow.received == []


# --- which value, under which name ----------------------------------------------------------------------


def granted_at(harness, name: str, value: bytes, *ports: int, **more) -> str:
    placeholder = harness.grant(name, value, ports[0], **more)
    binding = harness.grants[-1].binding
    places = frozenset(replace(place, port=port) for place in binding.endpoints for port in ports)
    harness.grants[-1] = replace(harness.grants[-1], binding=replace(binding, endpoints=places))
    return placeholder


@pytest.mark.parametrize("reference", [None, "local:TOKEN"])
def test_one_value_under_two_names_is_one_secret(harness, serve, reference: str | None) -> None:
    """Without this, the echoes of the one were not looked at for the other."""
    server = serve(cutting)
    names = {name: harness.grant(name, VALUE, server.port) for name in ("TOKEN", "AGAIN")}
    if reference is not None:
        harness.grants[1] = replace(harness.grants[1], reference=reference)

    async def scenario(client: BrokerClient) -> list[str | None]:
        await fetched(client, using(server.port, names["TOKEN"]))
        codes = []
        for name in ("AGAIN", "TOKEN", "AGAIN", "AGAIN", "TOKEN", "AGAIN"):
            request = using(server.port, names[name], "/30", name=name)
            codes.append(await code_of(client, request))
        return codes

    codes = harness.run(scenario)
    assert codes == ["secret.partial_echo"] * MOST_PARTIAL_ECHOES + ["secret.withdrawn"] * 3


def test_one_value_at_two_hosts_under_two_names_is_withdrawn_from_both(
    harness, serve, authority, tmp_path
) -> None:
    other = "api.example.org"
    servers = {HOST: serve(cutting), other: serve(cutting, tls=authority.leaf(tmp_path, other))}
    names = {
        host: harness.grant(f"TOKEN_{at}", VALUE, server.port, host=host)
        for at, (host, server) in enumerate(servers.items())
    }

    def to(host: str, target: str):
        port = servers[host].port
        fields = (
            (b"Host", b"%s:%d" % (host.encode(), port)),
            (b"Authorization", b"Bearer " + names[host].encode()),
        )
        name = f"TOKEN_{list(servers).index(host)}"
        return request_to(
            port, headers=fields, host=host, target=target.encode(), uses=((name, "header:authorization"),)
        )

    async def scenario(client: BrokerClient) -> list[str | None]:
        return [await code_of(client, to(host, "/30")) for host in (HOST, other, other, HOST, other)]

    codes = harness.run(scenario)
    assert codes == ["secret.partial_echo"] * MOST_PARTIAL_ECHOES + ["secret.withdrawn"] * 2


def came_back(echoes: PartialEchoes, host: str, part: bytes) -> None:
    with pytest.raises(SecretPartialEcho) as found:
        echoes.parts(host).require_none(part)
    for _ in range(MOST_PARTIAL_ECHOES):
        echoes.counted(found.value)


def test_a_withdrawn_value_goes_under_no_other_name_to_a_new_host() -> None:
    echoes = PartialEchoes()
    echoes.sent("a.example", [(SecretValue(VALUE), "TOKEN")])
    echoes.require("b.example", [(SecretValue(VALUE), "AGAIN")])
    came_back(echoes, "a.example", VALUE[:-1])
    with pytest.raises(SecretWithdrawn):
        echoes.require("b.example", [(SecretValue(VALUE), "AGAIN")])


def test_a_name_whose_tokens_came_back_gets_no_new_one_for_a_value_of_another_name() -> None:
    echoes = PartialEchoes()
    echoes.sent("login.example", [(SecretValue(CREDENTIAL), "FIRST")])
    echoes.sent("login.example", [(SecretValue(CREDENTIAL), "SECOND")])
    echoes.sent("a.example", [(SecretValue(VALUE), "SECOND")])
    came_back(echoes, "a.example", VALUE[:-1])
    echoes.require("login.example", [(SecretValue(CREDENTIAL), "FIRST")])
    with pytest.raises(SecretWithdrawn):
        echoes.require("login.example", [(SecretValue(CREDENTIAL), "SECOND")])


def test_of_a_key_that_signs_only_its_session_token_is_sent_and_so_looked_for(harness, serve) -> None:
    """The secret key is not: a host that never saw it must not confirm a guess of it."""
    parts = {b"/token": SESSION_TOKEN.encode()[:-2], b"/key": SECRET_ACCESS_KEY.encode()[:-2]}
    server, surface = (
        serve(lambda received: answer(parts[received.line.split()[1]])),
        SigningSurface("eu-central-1", "s3"),
    )
    placeholder = harness.grant("AWS", key(session_token=SESSION_TOKEN), server.port, surface=surface)

    def signed(target: bytes):
        url = f"https://{HOST}:{server.port}{target.decode()}"
        headers = agent_signed(
            placeholder, "GET", url, headers={}, body=b"", service="s3", region="eu-central-1"
        )
        return request_to(server.port, *headers, uses=(("AWS", surface.label),), target=target)

    async def scenario(client: BrokerClient) -> None:
        assert (await fetched(client, signed(b"/key"))).body == parts[b"/key"]
        assert await code_of(client, signed(b"/token")) == "secret.partial_echo"

    harness.run(scenario)


# --- tokens ---------------------------------------------------------------------------------------------

CREDENTIAL = b"cs-Hk3wP8dNq5VyJ2fXgT7/+"


@pytest.fixture
def issuer(authority, tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(authority.leaf(tmp_path, TOKEN_HOST), client_secret=CREDENTIAL.decode()) as server:
        yield server


def exchanged(harness, issuer: TokenServer, *ports: int) -> str:
    exchange = TokenExchange(
        GrantType.CLIENT_CREDENTIALS, issuer.url, client_id="acme-agent", client_auth=ClientAuth.BASIC
    )
    surface = Surface.injected("authorization", "Bearer {}")
    return granted_at(harness, "TOKEN", CREDENTIAL, *ports, surface=surface, exchange=exchange)


def cutting_token(received):
    credential = (received.header("authorization") or b"").removeprefix(b"Bearer ")
    return answer(credential[:-1])


def test_a_part_of_a_token_ends_the_answer_and_the_third_withdraws_its_secret(harness, serve, issuer) -> None:
    server = serve(cutting_token)
    placeholder = exchanged(harness, issuer, server.port)

    async def scenario(client: BrokerClient) -> None:
        for _ in range(MOST_PARTIAL_ECHOES):
            assert (await fetch_token(client, "TOKEN", "127.0.0.1")).refusal is None
            assert await code_of(client, using(server.port, placeholder)) == "secret.partial_echo"
        assert await code_of(client, using(server.port, placeholder)) == "secret.withdrawn"
        outcome = await fetch_token(client, "TOKEN", "127.0.0.1")
        assert (outcome.error_code, outcome.sent_digest) == ("secret.withdrawn", None)

    harness.run(scenario)
    assert len(issuer.received) == len(server.received) == MOST_PARTIAL_ECHOES
    assert issuer.connections == MOST_PARTIAL_ECHOES, "the token endpoint is not even connected"


def test_a_part_of_the_credential_ends_an_answer_of_the_token_endpoint(harness, serve, issuer) -> None:
    exchanged(harness, issuer, 1)
    server = serve(lambda _: answer(CREDENTIAL[:-2]), tls=issuer.certificate)
    fields = ((b"Host", b"%s:%d" % (TOKEN_HOST.encode(), server.port)),)

    async def scenario(client: BrokerClient) -> None:
        request = request_to(server.port, headers=fields, host=TOKEN_HOST)
        assert (await fetched(client, request)).body == CREDENTIAL[:-2]
        assert (await fetch_token(client, "TOKEN", "127.0.0.1")).refusal is None
        assert await code_of(client, request) == "secret.partial_echo"

    harness.run(scenario)


def test_the_token_that_was_put_into_a_request_is_looked_for_when_there_is_another_by_then(
    harness, serve, issuer
) -> None:
    go_on = threading.Event()
    server = serve(cutting_token, tls_after=go_on)
    placeholder = exchanged(harness, issuer, server.port)

    async def scenario(client: BrokerClient) -> None:
        await fetch_token(client, "TOKEN", "127.0.0.1")
        waiting = asyncio.create_task(code_of(client, using(server.port, placeholder)))
        await arrived(server, 1)
        await fetch_token(client, "TOKEN", "127.0.0.1")
        go_on.set()
        assert await waiting == "secret.partial_echo"

    harness.run(scenario)
    first, second = issuer.tokens
    assert first != second
    assert server.received[0].header("authorization") == b"Bearer " + first.encode()
