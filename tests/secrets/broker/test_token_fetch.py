"""Tokens fetched by a real broker from a token endpoint over TLS, honest, hostile, slow, or somebody else's."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.raising import raises_code
from tests.secrets.conftest import Harness, fetched, request_to
from tests.secrets.token_server import PATH, TOKEN_HOST, TokenServer, json_answer
from tests.secrets.upstream_server import answer

from affiant.policy.model.token_exchange import ClientAuth, GrantType, SubjectTokenType, TokenExchange
from affiant.secrets.broker import token_fetch
from affiant.secrets.broker.client.client import BrokerClient
from affiant.secrets.broker.client.messages import Configuration, KeptGrant, UpstreamOutcome
from affiant.secrets.broker.client.token_client import fetch_token, token_is_fresh
from affiant.secrets.broker.session import open_session
from affiant.secrets.broker.tokens.tokens import Instants
from affiant.secrets.injection.surface import Surface
from affiant.secrets.names.errors import (
    PlaceholderMisplaced,
    SecretNotBound,
    SecretValueInvalid,
    TokenRejected,
    TokenResponseInvalid,
    TokenUnavailable,
)
from affiant.secrets.store.private_files import open_private_file

VALUE = b"cs-Hk3wP8dNq5VyJ2fXgT7/+"
BEARER = Surface.injected("authorization", "Bearer {}")
USE = (("KEY", "header:authorization"),)


def echo(received):
    return answer(received.head + received.body, b"X-Echo: " + (received.header("authorization") or b""))


@pytest.fixture
def issuer(authority, tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(authority.leaf(tmp_path, TOKEN_HOST), client_secret=VALUE.decode()) as server:
        yield server


def client_of(issuer: TokenServer, **members: object) -> TokenExchange:
    return TokenExchange(
        GrantType.CLIENT_CREDENTIALS,
        issuer.url,
        **{"client_id": "acme-agent", "client_auth": ClientAuth.BASIC, **members},
    )


def granted(harness: Harness, exchange: TokenExchange, port: int = 1, value: bytes = VALUE) -> bytes:
    return harness.grant("KEY", value, port, surface=BEARER, exchange=exchange).encode()


def fetch(harness: Harness, address: str = "127.0.0.1") -> UpstreamOutcome:
    async def scenario(client: BrokerClient) -> UpstreamOutcome:
        outcome = await fetch_token(client, "KEY", address)
        assert await token_is_fresh(client, "KEY") == (outcome.refusal is None)
        return outcome

    return harness.run(scenario)


def bearer(placeholder: bytes) -> tuple[bytes, bytes]:
    return (b"Authorization", b"Bearer " + placeholder)


@pytest.mark.parametrize("own_process", [False, True])
def test_the_token_stands_in_requests_and_its_echo_is_the_placeholder(
    harness, serve, issuer, own_process
) -> None:
    server = serve(echo)
    placeholder = granted(harness, client_of(issuer), server.port)
    harness.own_process = own_process

    async def scenario(client: BrokerClient):
        assert not await token_is_fresh(client, "KEY")
        outcome = await fetch_token(client, "KEY", "127.0.0.1")
        assert (outcome.refusal, outcome.status, outcome.request_complete) == (None, 200, True)
        assert await token_is_fresh(client, "KEY")
        return outcome, await fetched(client, request_to(server.port, bearer(placeholder), uses=USE))

    outcome, got = harness.run(scenario)
    (token,) = issuer.tokens
    assert server.received[0].headers("authorization") == [b"Bearer " + token.encode()]
    seen = got.body + b"".join(value for _, value in got.head.headers)
    assert token.encode() not in seen and seen.count(placeholder) == 2
    told = (
        json.dumps(outcome.to_json()) + json.dumps(got.outcome.to_json()) + repr(outcome) + repr(got.outcome)
    )
    assert token not in told and "Hk3w" not in told
    assert harness.stderr == b""


def test_every_spelling_of_a_token_that_comes_back_is_replaced(harness, serve, issuer) -> None:
    def spelled(received):
        token = (received.header("authorization") or b"").removeprefix(b"Bearer ")
        return answer(
            b"|".join(
                [
                    token,
                    token[::-1],
                    token.hex().encode(),
                    base64.b64encode(b"a" + token),
                    token.upper(),
                    token.decode().encode("utf-16-le"),
                ]
            ),
            b"Set-Cookie: t=" + token,
            b"Location: https://x/?t=" + token,
        )

    server = serve(spelled)
    placeholder = granted(harness, client_of(issuer), server.port)

    async def scenario(client: BrokerClient):
        await fetch_token(client, "KEY", "127.0.0.1")
        return await fetched(client, request_to(server.port, bearer(placeholder), uses=USE))

    got = harness.run(scenario)
    assert got.outcome.redactions == 8
    token = issuer.tokens[0].encode()
    assert token not in got.body and token[::-1] not in got.body


def test_without_a_token_nothing_is_sent_and_the_credential_never(harness, serve, issuer) -> None:
    server = serve(echo)
    placeholder = granted(harness, client_of(issuer), server.port)
    with pytest.raises(TokenUnavailable):
        harness.fetch(request_to(server.port, bearer(placeholder), uses=USE))
    assert not server.received and not issuer.received


@pytest.mark.parametrize(
    "header",
    [
        (b"Authorization", b"token %s"),
        (b"Authorization", b"bearer %s"),
        (b"Authorization", b"Bearer %s "),
        (b"Authorization", b"Bearer  %s"),
        (b"Authorization", b"%s"),
        (b"X-Key", b"Bearer %s"),
    ],
)
def test_the_placeholder_stands_for_a_token_as_bearer_credentials_only(
    harness, serve, issuer, header
) -> None:
    server = serve(echo)
    placeholder = granted(harness, client_of(issuer), server.port)
    name, value = header
    basic = (b"Authorization", b"Basic " + base64.b64encode(b"u:" + placeholder))
    with pytest.raises(PlaceholderMisplaced):
        harness.fetch(request_to(server.port, (name, value % placeholder), uses=USE))
    with pytest.raises(PlaceholderMisplaced):
        harness.fetch(request_to(server.port, basic, uses=USE))
    assert not server.received


def test_the_token_endpoint_itself_is_no_host_of_the_secret(harness, serve, issuer) -> None:
    placeholder = granted(harness, client_of(issuer))

    async def scenario(client: BrokerClient):
        await fetch_token(client, "KEY", "127.0.0.1")
        request = request_to(
            issuer.port,
            host=TOKEN_HOST,
            headers=((b"Host", b"%s:%d" % (TOKEN_HOST.encode(), issuer.port)), bearer(placeholder)),
            uses=USE,
        )
        await fetched(client, request)

    with pytest.raises(SecretNotBound):
        harness.run(scenario)
    assert len(issuer.received) == 1


@pytest.mark.parametrize("auth", list(ClientAuth))
def test_a_wrong_secret_is_refused_in_the_standards_word(harness, issuer, auth) -> None:
    issuer.client_secret = "another"
    granted(harness, client_of(issuer, client_auth=auth))
    outcome = fetch(harness)
    assert isinstance(outcome.refusal, TokenRejected) and outcome.status == 401
    assert "invalid_client" in str(outcome.refusal) and "repeated" not in str(outcome.refusal)


KEY = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_an_assertion_is_taken_and_the_key_goes_nowhere(harness, issuer) -> None:
    issuer.public_key = KEY.public_key()
    granted(
        harness,
        TokenExchange(GrantType.JWT_BEARER, issuer.url, issuer="me", audience=issuer.url, scope="a"),
        value=PEM,
    )
    assert fetch(harness).refusal is None
    (claims,) = issuer.claims
    assert (claims["iss"], claims["scope"]) == ("me", "a") and abs(int(str(claims["iat"])) - time.time()) < 30
    sent = issuer.received[0].head + issuer.received[0].body
    assert not any(line in sent for line in PEM.splitlines() if len(line) > 20)


def test_two_assertions_are_two(harness, issuer) -> None:
    issuer.public_key = KEY.public_key()
    granted(
        harness, TokenExchange(GrantType.JWT_BEARER, issuer.url, issuer="me", audience=issuer.url), value=PEM
    )

    async def scenario(client: BrokerClient) -> None:
        for _ in range(2):
            await fetch_token(client, "KEY", "127.0.0.1")

    harness.run(scenario)
    assert len({claims["jti"] for claims in issuer.claims}) == 2


def test_a_subject_token_is_exchanged(harness, issuer) -> None:
    issuer.subject_token = VALUE.decode()
    granted(
        harness,
        TokenExchange(
            GrantType.TOKEN_EXCHANGE, issuer.url, subject_token_type=SubjectTokenType.JWT, audience="billing"
        ),
    )
    assert fetch(harness).refusal is None
    assert issuer.forms[0]["audience"] == "billing"


@pytest.mark.parametrize(
    ("grant", "value"),
    [(GrantType.CLIENT_CREDENTIALS, PEM), (GrantType.JWT_BEARER, VALUE)],
)
def test_a_secret_that_fits_not_its_grant_has_no_placeholder(harness, issuer, grant, value) -> None:
    exchange = (
        client_of(issuer)
        if grant is GrantType.CLIENT_CREDENTIALS
        else TokenExchange(grant, issuer.url, issuer="me", audience="x")
    )
    granted(harness, exchange, value=value)

    async def scenario(client: BrokerClient) -> None:
        assert isinstance(harness.resolution.refused["KEY"], SecretValueInvalid)
        with raises_code("secret.not_found"):
            await token_is_fresh(client, "KEY")
        assert (await fetch_token(client, "KEY", "127.0.0.1")).error_code == "secret.not_found"

    harness.run(scenario)


def test_a_private_key_is_put_into_no_request(harness, serve) -> None:
    harness.grant("KEY", PEM, serve(echo).port)

    async def scenario(client: BrokerClient) -> None:
        assert isinstance(harness.resolution.refused["KEY"], SecretValueInvalid)

    harness.run(scenario)


# -- hostile, slow, and somebody else ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [b"301 Moved", b"302 Found", b"307 Temporary", b"308 Permanent"])
def test_a_redirect_is_not_followed(harness, serve, issuer, status) -> None:
    elsewhere = serve(echo)
    issuer.instead = lambda _: answer(
        b"", b"Location: https://%s:%d/" % (TOKEN_HOST.encode(), elsewhere.port), status=status
    )
    granted(harness, client_of(issuer))
    assert isinstance(fetch(harness).refusal, TokenResponseInvalid)
    assert elsewhere.connections == 0 and len(issuer.received) == 1


LONG = b"x" * (1 << 17)


@pytest.mark.parametrize(
    "pieces",
    [
        json_answer(b'{"access_token": "at-9sX2kQ7vLm4TzR1bYwE6", "token_type": "Bearer", "x": "%s"}' % LONG),
        [
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
            *[b"10000\r\n%s\r\n" % (b" " * 65536)] * 8,
        ],
        json_answer(b'{"access_token": "at-9sX2kQ7vLm4TzR1bYwE6\\r\\nX-Evil: 1", "token_type": "Bearer"}'),
        json_answer(b"{}", b"Content-Encoding: gzip"),
    ],
)
def test_an_answer_beyond_its_bounds_is_refused(harness, issuer, pieces) -> None:
    issuer.instead = lambda _: pieces
    granted(harness, client_of(issuer))
    outcome = fetch(harness)
    assert isinstance(outcome.refusal, TokenResponseInvalid)
    assert "9sX2k" not in str(outcome.refusal)


@pytest.mark.parametrize(
    "pieces",
    [
        [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"],
        [b"not HTTP\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\n" + b"X: " + LONG + b"\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"],
        [],
    ],
)
def test_what_is_no_whole_answer_is_no_token(harness, issuer, pieces) -> None:
    issuer.instead = lambda _: pieces
    granted(harness, client_of(issuer))
    assert isinstance(fetch(harness).refusal, (TokenUnavailable, TokenResponseInvalid))


@pytest.mark.parametrize(
    "pieces",
    [
        [5.0],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", *[b"x", 0.1] * 50],
        [b"HTTP/1.1 100 C\r\n\r\n", 5.0],
    ],
)
def test_all_of_it_ends_in_time(harness, issuer, pieces, monkeypatch) -> None:
    monkeypatch.setattr(token_fetch, "_WITHIN_S", 0.4)
    issuer.instead = lambda _: pieces
    granted(harness, client_of(issuer))
    began = time.monotonic()
    assert isinstance(fetch(harness).refusal, TokenUnavailable)
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("leaf", ["another name", "expired", "self-signed"])
def test_a_token_endpoint_whose_certificate_does_not_hold_gets_nothing(
    harness, authority, tmp_path, leaf
) -> None:
    certificate = {
        "another name": lambda: authority.leaf(tmp_path, "evil.example.test"),
        "expired": lambda: authority.leaf(tmp_path, TOKEN_HOST, expired=True),
        "self-signed": lambda: authority.leaf(tmp_path, TOKEN_HOST, self_signed=True),
    }[leaf]()
    with TokenServer(certificate, client_secret=VALUE.decode()) as issuer:
        granted(harness, client_of(issuer))
        outcome = fetch(harness)
        assert isinstance(outcome.refusal, TokenUnavailable)
        assert "upstream.certificate" in str(outcome.refusal)
        assert not issuer.received and outcome.bytes_out == 0


def test_nobody_there_is_said_and_nothing_is_looked_up(harness, issuer) -> None:
    granted(harness, replace(client_of(issuer), url=f"https://{TOKEN_HOST}:1{PATH}"))
    assert isinstance(fetch(harness).refusal, TokenUnavailable)
    for address in ("login.example.test", "localhost", "127.1", "fe80::1%lo", ""):
        outcome = fetch(harness, address)
        assert outcome.error_code == "broker.protocol"
    assert not issuer.received


# -- time, uses and narrowings -----------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_token_is_not_used_after_its_time(harness, serve, issuer) -> None:
    server, clock = serve(echo), Clock()
    harness.instants = Instants(clock, time.time, os.urandom)
    placeholder = granted(harness, client_of(issuer), server.port)
    issuer.lifetime = 100

    async def scenario(client: BrokerClient) -> None:
        await fetch_token(client, "KEY", "127.0.0.1")
        request = request_to(server.port, bearer(placeholder), uses=USE)
        await fetched(client, request)
        clock.now += 81
        assert not await token_is_fresh(client, "KEY")
        with pytest.raises(TokenUnavailable):
            await fetched(client, request)
        await fetch_token(client, "KEY", "127.0.0.1")
        await fetched(client, request)

    harness.run(scenario)
    assert [each.header("authorization") for each in server.received] == [
        b"Bearer " + t.encode() for t in issuer.tokens
    ]


def test_a_401_ends_a_token_once_and_does_not_loop(harness, serve, issuer) -> None:
    server, clock = serve(lambda _: answer(b"", status=b"401 Unauthorized")), Clock()
    harness.instants = Instants(clock, time.time, os.urandom)
    placeholder = granted(harness, client_of(issuer), server.port)

    async def scenario(client: BrokerClient) -> None:
        await fetch_token(client, "KEY", "127.0.0.1")
        request = request_to(server.port, bearer(placeholder), uses=USE)
        for _ in range(3):
            assert (await fetched(client, request)).head.status == 401
            assert await token_is_fresh(client, "KEY")
        clock.now += 60
        assert (await fetched(client, request)).head.status == 401
        assert not await token_is_fresh(client, "KEY")

    harness.run(scenario)
    assert len(issuer.tokens) == 1


def test_without_a_use_left_no_token_is_asked_for(harness, serve, issuer) -> None:
    server = serve(echo)
    placeholder = granted(harness, client_of(issuer), server.port)
    harness.grants[0] = replace(harness.grants[0], max_uses=1)

    async def scenario(client: BrokerClient) -> None:
        await fetch_token(client, "KEY", "127.0.0.1")
        await fetched(client, request_to(server.port, bearer(placeholder), uses=USE))
        with raises_code("limit_secret_uses"):
            await token_is_fresh(client, "KEY")

    harness.run(scenario)


def test_what_is_withdrawn_is_neither_fetched_nor_used_any_more(harness, serve, issuer) -> None:
    server = serve(echo)
    placeholder = granted(harness, client_of(issuer), server.port)

    async def scenario(client: BrokerClient) -> bytes:
        await fetch_token(client, "KEY", "127.0.0.1")
        await client.restrict([])
        request = request_to(server.port, bearer(placeholder), uses=USE)
        with pytest.raises(SecretNotBound):
            await fetched(client, request)
        with raises_code("secret.not_found"):
            await token_is_fresh(client, "KEY")
        assert (await fetch_token(client, "KEY", "127.0.0.1")).error_code == "secret.not_found"
        # a host that was sent the token may send it back
        token = issuer.tokens[0].encode()
        async with client.redactor() as redaction:
            return await redaction.feed(token) + (await redaction.flush())[0]

    assert harness.run(scenario) == placeholder
    assert len(issuer.received) == 1 and not server.received


def test_a_kept_secret_keeps_its_token_through_a_narrowing(harness, serve, issuer) -> None:
    server = serve(echo)
    placeholder = granted(harness, client_of(issuer), server.port)

    async def scenario(client: BrokerClient) -> None:
        await fetch_token(client, "KEY", "127.0.0.1")
        await client.restrict([KeptGrant("KEY", harness.grants[0].binding.endpoints)])
        assert await token_is_fresh(client, "KEY")
        await fetched(client, request_to(server.port, bearer(placeholder), uses=USE))

    harness.run(scenario)
    assert len(issuer.tokens) == 1


@pytest.mark.parametrize("kept", [False, True])
def test_a_fetch_that_is_on_its_way_is_cut_by_a_narrowing(harness, issuer, kept) -> None:
    granted(harness, client_of(issuer))
    issuer.instead = lambda _: [5.0]

    async def scenario(client: BrokerClient) -> None:
        fetching = asyncio.create_task(fetch_token(client, "KEY", "127.0.0.1"))
        while not issuer.received:
            await asyncio.sleep(0.01)
        await client.restrict([KeptGrant("KEY", harness.grants[0].binding.endpoints)] if kept else [])
        outcome = await asyncio.wait_for(fetching, 2)
        assert outcome.error_code == "broker.request"
        assert outcome.request_complete and outcome.sent_digest is not None

    harness.run(scenario)


def test_a_fetch_that_nobody_waits_for_any_more_is_given_up(harness, issuer) -> None:
    granted(harness, client_of(issuer))
    issuer.instead = lambda _: [
        0.3,
        *json_answer({"access_token": "at-9sX2kQ7vLm4TzR1bYwE6", "token_type": "Bearer"}),
    ]

    async def scenario(client: BrokerClient) -> None:
        fetching = asyncio.create_task(fetch_token(client, "KEY", "127.0.0.1"))
        while not issuer.received:
            await asyncio.sleep(0.01)
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        await asyncio.sleep(0.5)
        assert not await token_is_fresh(client, "KEY")

    harness.run(scenario)


def test_what_is_exchanged_is_in_no_table_from_which_requests_are_filled(harness, issuer) -> None:
    granted(harness, client_of(issuer))
    harness.grant("PLAIN", b"ghp_9sX2kQ7vLm4TzR1bYwE6", 1)
    configuration = Configuration(tuple(harness.grants), roots=harness.roots, local=True)
    paths = (harness.store.path, harness.store.key_path)
    session = open_session(
        configuration, tuple(map(open_private_file, paths)), instants=harness.instants
    ).session
    assert (set(session.values), set(session.tokens.credentials)) == ({"PLAIN"}, {"KEY"})
    assert session.names == {"KEY", "PLAIN"}
    with pytest.raises(TokenUnavailable):
        session.value("KEY")
