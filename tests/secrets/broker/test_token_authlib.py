"""The same requests, taken or refused by an authorization server that is not ours: Authlib's, over TLS."""

from __future__ import annotations

import json
import secrets as randomness
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from tests.secrets.conftest import Harness
from tests.secrets.token_server import TOKEN_HOST, TokenServer
from tests.secrets.upstream_server import Received, answer

from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange
from affiant.secrets.broker.client.token_client import fetch_token, token_is_fresh
from affiant.secrets.injection.surface import Surface
from affiant.secrets.names.errors import TokenRejected

pytest.importorskip("authlib", reason="Authlib is not installed")

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7523 import JWTBearerGrant
from joserfc.jwk import import_key

BEARER = Surface.injected("authorization", "Bearer {}")
CLIENT_ID = "acme:agent/1"


class Client(ClientMixin):
    """One client, whose secret or key the test sets."""

    secret = ""
    public_key: object = None
    scopes = frozenset({"read", "write"})

    def get_client_id(self) -> str:
        return CLIENT_ID

    def check_client_secret(self, client_secret: str) -> bool:
        return randomness.compare_digest(client_secret.encode(), self.secret.encode())

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method.startswith("client_secret_")

    def check_grant_type(self, grant_type: str) -> bool:
        return True

    def get_allowed_scope(self, scope: str | None) -> str:
        return " ".join(sorted(self.scopes & set((scope or "").split())))


class Credentials(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]  # noqa: RUF012 - Authlib's own


class Assertion(JWTBearerGrant):
    def resolve_issuer_client(self, issuer: str) -> Client | None:
        return self.server.client if issuer == CLIENT_ID else None

    def resolve_client_public_key(self, client: Client) -> object:
        return client.public_key

    def get_audiences(self) -> list[str]:
        return [self.request.uri]


class Server(AuthorizationServer):
    """Authlib's server without a framework: requests in, what is sent back out."""

    def __init__(self) -> None:
        super().__init__(scopes_supported=["read", "write"])
        self.client = Client()
        self.issued: list[dict[str, object]] = []
        self.register_grant(Credentials)
        self.register_grant(Assertion)
        generator = BearerTokenGenerator(lambda **_: randomness.token_urlsafe(32))
        self.register_token_generator("default", generator)

    def query_client(self, client_id: str) -> Client | None:
        return self.client if client_id == CLIENT_ID else None

    def save_token(self, token: dict[str, object], request: object) -> None:
        self.issued.append(token)

    def send_signal(self, *_: object, **__: object) -> None:
        pass

    def create_oauth2_request(self, request: tuple[str, Received]) -> OAuth2Request:
        uri, received = request
        form = dict(parse_qsl(received.body.decode("ascii"), strict_parsing=True))
        lines = (line.partition(": ") for line in received.head.decode("ascii").split("\r\n")[1:])
        made = Request("POST", uri, headers={name: value for name, _, value in lines})
        made.payload = BasicOAuth2Payload(form)
        return made

    def handle_response(self, status: int, body: object, headers: list[tuple[str, str]]) -> object:
        fields = [f"{name}: {value}".encode() for name, value in headers]
        return answer(json.dumps(body).encode(), *fields, status=b"%d Status" % status)


class Request(OAuth2Request):
    @property
    def form(self) -> dict[str, str]:
        return self.payload.data


@pytest.fixture
def server(authority, tmp_path: Path) -> Iterator[tuple[Server, TokenServer]]:
    ours = Server()
    with TokenServer(authority.leaf(tmp_path, TOKEN_HOST)) as endpoint:
        endpoint.instead = lambda received: ours.create_token_response((endpoint.url, received))
        yield ours, endpoint


def fetched(harness: Harness, exchange: TokenExchange, value: bytes):
    harness.grant("KEY", value, 1, surface=BEARER, exchange=exchange)

    async def scenario(client):
        outcome = await fetch_token(client, "KEY", "127.0.0.1")
        assert await token_is_fresh(client, "KEY") == (outcome.refusal is None)
        return outcome

    return harness.run(scenario)


def client_of(endpoint: TokenServer, auth: ClientAuth, scope: str | None = None) -> TokenExchange:
    return TokenExchange(
        GrantType.CLIENT_CREDENTIALS, endpoint.url, client_id=CLIENT_ID, client_auth=auth, scope=scope
    )


@pytest.mark.parametrize("auth", list(ClientAuth))
@pytest.mark.parametrize(
    "secret", [b"cs-Hk3wP8dNq5VyJ2fXgT7", b"p/9sX2k+Q7v:Lm4 &TzR=1b%41YwE6", "pä9sX2kQ7vLm4ß".encode()]
)
def test_a_client_is_known_by_its_secret_whatever_stands_in_it(harness, server, auth, secret) -> None:
    ours, endpoint = server
    ours.client.secret = secret.decode()
    outcome = fetched(harness, client_of(endpoint, auth, "write read"), secret)
    assert outcome.refusal is None, outcome.refusal
    assert ours.issued[0]["scope"] == "read write"


@pytest.mark.parametrize("auth", list(ClientAuth))
def test_another_secret_and_another_scope_are_refused(harness, server, auth) -> None:
    ours, endpoint = server
    ours.client.secret = "cs-Hk3wP8dNq5VyJ2fXgT7"
    outcome = fetched(harness, client_of(endpoint, auth), b"cs-Hk3wP8dNq5VyJ2fXgT8")
    assert isinstance(outcome.refusal, TokenRejected) and "invalid_client" in str(outcome.refusal)


def test_a_scope_that_is_not_there_is_refused_in_its_word(harness, server) -> None:
    ours, endpoint = server
    ours.client.secret = "cs-Hk3wP8dNq5VyJ2fXgT7"
    outcome = fetched(harness, client_of(endpoint, ClientAuth.BASIC, "admin"), b"cs-Hk3wP8dNq5VyJ2fXgT7")
    assert isinstance(outcome.refusal, TokenRejected) and "invalid_scope" in str(outcome.refusal)


def pem_of(key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_of(key) -> object:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return import_key(public, "RSA" if isinstance(key, rsa.RSAPrivateKey) else "EC")


KEYS = (rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1()))
"""Of the algorithms that this server takes by itself; the others are verified by PyJWT beside this."""


@pytest.mark.parametrize("key", KEYS, ids=["RS256", "ES256"])
def test_an_assertion_is_taken_under_the_clients_key(harness, server, key) -> None:
    ours, endpoint = server
    ours.client.public_key = public_of(key)
    exchange = TokenExchange(
        GrantType.JWT_BEARER, endpoint.url, issuer=CLIENT_ID, audience=endpoint.url, scope="read"
    )
    outcome = fetched(harness, exchange, pem_of(key))
    assert outcome.refusal is None, outcome.refusal
    assert ours.issued[0]["scope"] == "read"


def test_an_assertion_by_another_key_is_refused(harness, server) -> None:
    ours, endpoint = server
    ours.client.public_key = public_of(ec.generate_private_key(ec.SECP256R1()))
    exchange = TokenExchange(GrantType.JWT_BEARER, endpoint.url, issuer=CLIENT_ID, audience=endpoint.url)
    outcome = fetched(harness, exchange, pem_of(KEYS[1]))
    assert isinstance(outcome.refusal, TokenRejected) and not ours.issued


def test_an_assertion_for_somebody_else_is_refused(harness, server) -> None:
    ours, endpoint = server
    ours.client.public_key = public_of(KEYS[1])
    exchange = TokenExchange(GrantType.JWT_BEARER, endpoint.url, issuer=CLIENT_ID, audience="https://other/")
    outcome = fetched(harness, exchange, pem_of(KEYS[1]))
    assert isinstance(outcome.refusal, TokenRejected) and "invalid_grant" in str(outcome.refusal)
