"""What goes to a token endpoint: the credential, once, in its place; and in its record the placeholder."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, unquote_plus

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from affiant.policy.model.token_exchange import ClientAuth, GrantType, SubjectTokenType, TokenExchange
from affiant.secrets.broker.tokens.token_request import require_credential, token_request
from affiant.secrets.names.errors import SecretValueInvalid
from affiant.secrets.names.value import SecretValue

URL = "https://login.example.test/oauth2/token"
PLACEHOLDER = "affiant-ph-0123456789ABCDEFGHIJKLMNOPQRSTUV"
NOW = 1_800_000_000
SECRET = SecretValue(b"p/9sX2k+Q7v:Lm4&TzR=1bYwE6%")


def made(exchange: TokenExchange, value: SecretValue = SECRET):
    return token_request(
        exchange, value, placeholder=PLACEHOLDER, now=NOW, random_bytes=lambda size: bytes(range(size))
    )


def form(body: bytes) -> dict[str, str]:
    fields = parse_qs(body.decode("ascii"), strict_parsing=True)
    assert all(len(values) == 1 for values in fields.values())
    return {name: values[0] for name, values in fields.items()}


def header(request, name: bytes) -> bytes | None:
    found = [value for field, value in request.headers if field == name]
    assert len(found) <= 1
    return found[0] if found else None


def client(**members: object) -> TokenExchange:
    return TokenExchange(
        GrantType.CLIENT_CREDENTIALS,
        URL,
        **{"client_id": "acme:agent", "client_auth": ClientAuth.BASIC, **members},
    )


@given(
    st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x2FF, exclude_characters="\x7f"),
        min_size=16,
        max_size=40,
    )
)
def test_basic_credentials_are_escaped_as_a_form_is_before(text: str) -> None:
    try:
        value = SecretValue(f"9sX2kQ7vLm4TzR1b{text}".encode())
    except SecretValueInvalid:
        return
    sent, recorded = made(client(), value)
    for request, password in ((sent, value.reveal().decode()), (recorded, PLACEHOLDER)):
        credential = header(request, b"Authorization")
        assert credential is not None and credential.startswith(b"Basic ")
        name, _, shown = base64.b64decode(credential[6:], validate=True).decode("ascii").partition(":")
        assert (unquote_plus(name), unquote_plus(shown)) == ("acme:agent", password)
        assert form(request.body) == {"grant_type": "client_credentials"}


def test_a_client_shows_its_secret_in_the_form_where_that_is_asked() -> None:
    sent, recorded = made(client(client_auth=ClientAuth.POST, scope="a b", audience="x", resource="urn:x"))
    told = {
        "grant_type": "client_credentials",
        "client_id": "acme:agent",
        "audience": "x",
        "resource": "urn:x",
        "scope": "a b",
    }
    assert form(sent.body) == {**told, "client_secret": SECRET.reveal().decode()}
    assert form(recorded.body) == {**told, "client_secret": PLACEHOLDER}
    assert header(sent, b"Authorization") is None
    assert header(sent, b"Content-Length") == b"%d" % len(sent.body)


def test_a_subject_token_is_exchanged_for_an_access_token() -> None:
    exchange = TokenExchange(
        GrantType.TOKEN_EXCHANGE, URL, client_id="c", subject_token_type=SubjectTokenType.JWT, audience="b"
    )
    sent, recorded = made(exchange)
    told = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "requested_token_type": "urn:ietf:params:oauth:token-type:access_token",
        "client_id": "c",
        "audience": "b",
    }
    assert form(sent.body) == {**told, "subject_token": SECRET.reveal().decode()}
    assert form(recorded.body) == {**told, "subject_token": PLACEHOLDER}


def pem(key, *, traditional: bool = False, password: bytes | None = None) -> bytes:
    kind = PrivateFormat.TraditionalOpenSSL if traditional else PrivateFormat.PKCS8
    return key.private_bytes(
        Encoding.PEM, kind, NoEncryption() if password is None else BestAvailableEncryption(password)
    )


RSA = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("key", "algorithm"),
    [
        (RSA, "RS256"),
        (P256, "ES256"),
        (ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (ec.generate_private_key(ec.SECP521R1()), "ES512"),
        (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
    ],
)
@pytest.mark.parametrize("traditional", [False, True])
def test_an_assertion_is_signed_as_its_key_says(key, algorithm: str, traditional: bool) -> None:
    if traditional and algorithm == "EdDSA":
        return
    exchange = TokenExchange(
        GrantType.JWT_BEARER, URL, issuer="me", subject="you", audience="them", key_id="k1", scope="a b"
    )
    sent, recorded = made(exchange, SecretValue(pem(key, traditional=traditional)))
    fields = form(sent.body)
    assertion = fields.pop("assertion")
    assert fields == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "scope": "a b"}
    assert jwt.get_unverified_header(assertion) == {"alg": algorithm, "typ": "JWT", "kid": "k1"}
    claims = jwt.decode(
        assertion,
        key.public_key(),
        [algorithm],
        audience="them",
        options={"verify_exp": False, "verify_iat": False},
    )
    assert claims == {
        "iss": "me",
        "sub": "you",
        "aud": "them",
        "scope": "a b",
        "iat": NOW,
        "exp": NOW + 300,
        "jti": "AAECAwQFBgcICQoLDA0ODw",
    }
    assert form(recorded.body)["assertion"] == PLACEHOLDER
    assert b"BEGIN" not in sent.body + recorded.body


def test_what_was_not_asked_for_stands_in_no_assertion() -> None:
    exchange = TokenExchange(GrantType.JWT_BEARER, URL, issuer="me", audience=URL)
    assertion = form(made(exchange, SecretValue(pem(P256)))[0].body)["assertion"]
    claims = jwt.decode(assertion, options={"verify_signature": False})
    assert set(claims) == {"iss", "aud", "iat", "exp", "jti"}
    assert jwt.get_unverified_header(assertion) == {"alg": "ES256", "typ": "JWT"}


@pytest.mark.parametrize(
    "value",
    [
        b"9sX2kQ7vLm4TzR1bYwE6",
        pem(rsa.generate_private_key(65537, 1024)),
        pem(ed448.Ed448PrivateKey.generate()),
        pem(ec.generate_private_key(ec.SECP256K1())),
        pem(P256).replace(b"M", b"N"),
    ],
)
def test_no_other_value_signs_anything(value: bytes) -> None:
    exchange = TokenExchange(GrantType.JWT_BEARER, URL, issuer="me", audience=URL)
    with pytest.raises(SecretValueInvalid) as refused:
        require_credential(exchange, SecretValue(value))
    assert refused.value.__cause__ is None
    assert value[len(value) // 2 :][:9].decode("latin-1") not in f"{refused.value!r}{refused.value}"


SUBJECT = TokenExchange(GrantType.TOKEN_EXCHANGE, URL, subject_token_type=SubjectTokenType.JWT)


@pytest.mark.parametrize("exchange", [client(), SUBJECT])
def test_a_private_key_is_sent_nowhere(exchange: TokenExchange) -> None:
    with pytest.raises(SecretValueInvalid):
        made(exchange, SecretValue(pem(P256)))


@pytest.mark.parametrize(
    "value",
    [
        pem(P256, password=b"x"),
        pem(P256) + pem(P256),
        b"# mine\n" + pem(P256),
        pem(P256) + b"X-Evil: 1\n",
        pem(P256).replace(b"\n", b"\r\n"),
        pem(P256).replace(b"-----END", b"\n-----END"),
        P256.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        b"9sX2kQ7vLm4TzR1bYwE6\nX-Evil: 1",
    ],
)
def test_of_values_with_line_breaks_only_one_private_key_is_a_value_at_all(value: bytes) -> None:
    with pytest.raises(SecretValueInvalid):
        SecretValue(value)
