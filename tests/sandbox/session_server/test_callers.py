"""Who may call: one token, or tokens of one issuer; whatever else comes is nobody."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Callable
from http.client import BadStatusLine, IncompleteRead

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from affiant.errors import AffiantError, ConfigurationError
from affiant.sandbox.session_server.callers import IssuerKeys, OpenIDCallers, TokenCallers

TOKEN = "t" * 40
ISSUER = "https://id.example"
KEY = ec.generate_private_key(ec.SECP256R1())
OTHER = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)


def jwk(key, kid: str) -> dict:
    of_curve = isinstance(key, ec.EllipticCurvePrivateKey)
    kind = jwt.algorithms.ECAlgorithm if of_curve else jwt.algorithms.RSAAlgorithm
    return {**json.loads(kind.to_jwk(key.public_key())), "kid": kid}


def claims(**more) -> dict:
    now = int(time.time())
    every = {"iss": ISSUER, "aud": "affiant", "sub": "alice", "iat": now, "exp": now + 60, **more}
    return {name: value for name, value in every.items() if value is not None}


class Issuer:
    """The documents of an issuer, and how often they were asked for."""

    def __init__(self, keys: list[dict], issuer: str = ISSUER) -> None:
        self.keys = keys
        self.issuer = issuer
        self.asked: list[str] = []
        self.now = 0.0

    def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        if url == f"{ISSUER}/.well-known/openid-configuration":
            return json.dumps({"issuer": self.issuer, "jwks_uri": f"{ISSUER}/keys"}).encode()
        assert url == f"{ISSUER}/keys"
        return json.dumps({"keys": self.keys}).encode()

    def callers(self, subjects: frozenset[str] = frozenset({"alice"})) -> OpenIDCallers:
        keys = IssuerKeys(ISSUER, self.fetch, lambda: self.now)
        return OpenIDCallers(ISSUER, "affiant", subjects, keys)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer([jwk(KEY, "k1"), jwk(RSA, "r1"), {**jwk(RSA, "p1"), "alg": "PS256"}])


def asked(callers: TokenCallers | OpenIDCallers, header: str | None) -> str:
    return asyncio.run(callers.owner(header))


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(AffiantError) as found:
        work()
    assert TOKEN not in str(found.value) and "eyJ" not in str(found.value)
    return found.value.code


def test_the_token_is_taken_and_nothing_beside_it() -> None:
    callers = TokenCallers(TOKEN.encode())
    assert asked(callers, f"Bearer {TOKEN}") == asked(callers, f"bearer {TOKEN}") == "token"
    near = (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN} ", f"Bearer  {TOKEN}")
    far = (
        None,
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}, {TOKEN}",
        "Bearer \u00fc",
    )
    for header in (*near, *far):
        assert refused(lambda header=header: asked(callers, header)) == "session.caller"


def test_a_listed_subject_of_the_issuer_is_who_it_is(issuer: Issuer) -> None:
    for key, kid, algorithm in ((KEY, "k1", "ES256"), (RSA, "r1", "RS256"), (RSA, "p1", "PS256")):
        token = jwt.encode(claims(), key, algorithm, headers={"kid": kid})
        assert asked(issuer.callers(), f"Bearer {token}") == f"{ISSUER}#alice"
        several = jwt.encode(claims(aud=["other", "affiant"]), key, algorithm, headers={"kid": kid})
        assert asked(issuer.callers(), f"Bearer {several}") == f"{ISSUER}#alice"


@pytest.mark.parametrize(
    "more",
    [
        {"iss": "https://id.example.evil"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"nbf": 2**33},
        {"iat": 2**33},
        {"sub": None},
        {"sub": ""},
        {"sub": "a" * 256},
        {"sub": "a\nb"},
    ],
)
def test_claims_that_do_not_hold_are_nobody(issuer: Issuer, more: dict) -> None:
    token = jwt.encode(claims(**more), KEY, "ES256", headers={"kid": "k1"})
    subjects = frozenset({"alice", "", "a\nb", "a" * 256})
    assert refused(lambda: asked(issuer.callers(subjects), f"Bearer {token}")) == "session.caller"


def signed_with_a_public_key(made: dict) -> str:
    """A token whose secret is the issuer's public key, as text: PyJWT itself makes none."""
    parts = ({"alg": "HS256", "kid": "k1"}, made)
    text = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    tag = base64.urlsafe_b64encode(hmac.digest(pem, text, "sha256")).rstrip(b"=")
    return b".".join((text, tag)).decode()


def test_signatures_of_other_keys_and_weak_algorithms_are_nobody(issuer: Issuer) -> None:
    made = claims()
    tokens = [
        jwt.encode(made, OTHER, "ES256", headers={"kid": "k1"}),
        jwt.encode(made, None, "none", headers={"kid": "k1"}),
        signed_with_a_public_key(made),
        jwt.encode(made, KEY, "ES256"),
        jwt.encode(made, KEY, "ES256", headers={"kid": "r1"}),
        jwt.encode(made, RSA, "RS512", headers={"kid": "r1"}),
        jwt.encode(made, KEY, "ES256", headers={"kid": "k1"})[:-8] + "AAAAAAAA",
        "not.a.token",
        "e" * 20_000,
    ]
    for token in tokens:
        assert refused(lambda token=token: asked(issuer.callers(), f"Bearer {token}")) == "session.caller"


def test_a_subject_that_is_not_listed_is_known_and_not_let_in(issuer: Issuer) -> None:
    token = jwt.encode(claims(sub="mallory"), KEY, "ES256", headers={"kid": "k1"})
    assert refused(lambda: asked(issuer.callers(), f"Bearer {token}")) == "session.caller_unlisted"


def test_unknown_keys_ask_the_issuer_once_in_a_while_and_a_new_key_is_found(issuer: Issuer) -> None:
    callers = issuer.callers()

    async def scenario() -> None:
        good = jwt.encode(claims(exp=2**32), KEY, "ES256", headers={"kid": "k1"})
        rotated = jwt.encode(claims(exp=2**32), OTHER, "ES256", headers={"kid": "k2"})
        assert await callers.owner(f"Bearer {good}")
        for _ in range(5):
            with pytest.raises(AffiantError):
                await callers.owner(f"Bearer {rotated}")
        assert len(issuer.asked) == 2, "one look: the document and the keys"
        issuer.keys.append(jwk(OTHER, "k2"))
        issuer.now = 31
        assert await callers.owner(f"Bearer {rotated}")
        issuer.keys = [jwk(OTHER, "k2")]
        issuer.now = 31 + 3601
        with pytest.raises(AffiantError):
            await callers.owner(f"Bearer {good}")  # the issuer has withdrawn it

    asyncio.run(scenario())


def test_a_known_key_waits_for_no_stranger_s(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        callers, asked, answered = issuer.callers(), threading.Event(), threading.Event()
        good = jwt.encode(claims(), KEY, "ES256", headers={"kid": "k1"})
        assert await callers.owner(f"Bearer {good}")
        documents = issuer.fetch

        def slow(url: str) -> bytes:
            asked.set()
            assert answered.wait(20)
            return documents(url)

        monkeypatch.setattr(issuer, "fetch", slow)
        callers = issuer.callers()
        callers._keys._keys = {"k1": jwt.PyJWK(jwk(KEY, "k1"))}
        callers._keys._asked, callers._keys._as_of, issuer.now = 0.0, 0.0, 31.0
        stranger = jwt.encode(claims(), OTHER, "ES256", headers={"kid": "k9"})
        waiting = asyncio.create_task(callers.owner(f"Bearer {stranger}"))
        assert await asyncio.to_thread(asked.wait, 20)
        assert await callers.owner(f"Bearer {good}") == f"{ISSUER}#alice"
        assert not waiting.done()
        answered.set()
        with pytest.raises(AffiantError):
            await waiting

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "broken", ["issuer", "json", "gone", "empty", "deep", "cut", "not http", "other url", "silent"]
)
def test_an_issuer_that_cannot_be_asked_lets_no_one_in(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    ends = threading.Event()
    errors = {
        "gone": OSError(),
        "cut": IncompleteRead(b""),
        "not http": BadStatusLine("SSH-2.0"),
        "other url": ConfigurationError("not https", code="session.server"),
    }

    def fetch(url: str) -> bytes:
        if broken in errors:
            raise errors[broken]
        if broken == "silent":
            assert ends.wait(20)
        return {"json": b"<html>", "deep": b"[" * 100_000}.get(broken, b"{}")

    if broken == "issuer":
        issuer.issuer = "https://id.example.evil"
    else:
        monkeypatch.setattr(issuer, "fetch", fetch)
    keys = IssuerKeys(ISSUER, issuer.fetch, lambda: issuer.now, within_s=0.05 if broken == "silent" else 20)
    callers = OpenIDCallers(ISSUER, "affiant", frozenset({"alice"}), keys)
    token = jwt.encode(claims(), KEY, "ES256", headers={"kid": "k1"})

    async def scenario() -> list[str]:
        found = []
        for _ in range(3):  # it is asked once in a while, and its keys are unknown meanwhile too
            with pytest.raises(AffiantError) as error:
                await callers.owner(f"Bearer {token}")
            found.append(error.value.code)
        ends.set()
        return found

    assert asyncio.run(scenario()) == ["session.issuer"] * 3


def test_a_withdrawn_key_is_no_one_s_for_long_although_the_issuer_does_not_answer(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    callers = issuer.callers()
    token = f"Bearer {jwt.encode(claims(exp=2**32), KEY, 'ES256', headers={'kid': 'k1'})}"
    asked: list[str] = []
    documents = issuer.fetch

    def gone(url: str) -> bytes:
        asked.append(url)
        raise OSError

    async def accepted(now: float) -> str:
        issuer.now = now
        try:
            return await callers.owner(token)
        except AffiantError as error:
            return error.code

    async def scenario() -> None:
        assert await accepted(0) == f"{ISSUER}#alice"
        monkeypatch.setattr(callers._keys, "_fetch", gone)
        for now in (3601, 3602, 3700, 7199):
            assert await accepted(now) == f"{ISSUER}#alice"
        assert len(asked) == 3, "it is asked again, at most every 30 seconds"
        for now in (7200, 7201, 7300, 100_000):
            assert await accepted(now) == "session.issuer"
        monkeypatch.setattr(callers._keys, "_fetch", documents)
        issuer.keys = [jwk(OTHER, "k2")]
        assert await accepted(100_031) == "session.caller"
        issuer.keys = [jwk(KEY, "k1")]
        assert await accepted(100_062) == f"{ISSUER}#alice"

    asyncio.run(scenario())
