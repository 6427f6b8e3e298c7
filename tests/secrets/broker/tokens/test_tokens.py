"""The tokens of one session: used until shortly before their end, given up for a reason, and gone when withdrawn."""

from __future__ import annotations

import asyncio

import pytest
from tests.raising import raises_code

from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange
from affiant.secrets.broker.tokens.token_response import IssuedToken
from affiant.secrets.broker.tokens.tokens import Credential, Instants, Tokens
from affiant.secrets.names.errors import TokenUnavailable
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.incremental import REMEMBERED, GrowingRedactor
from affiant.secrets.redaction.redaction import RedactionStream

EXCHANGE = TokenExchange(
    GrantType.CLIENT_CREDENTIALS,
    "https://login.example.test/token",
    client_id="a",
    client_auth=ClientAuth.BASIC,
)
SECRET = SecretValue(b"cs-Hk3wP8dNq5VyJ2fXgT7")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def token(number: int = 0) -> SecretValue:
    return SecretValue(b"at-9sX2kQ7vLm4TzR1bYwE6-%03d" % number)


def kept(tokens: Tokens, name: str, issued: IssuedToken, *, asked_at: float) -> None:
    asyncio.run(tokens.keep(name, issued, asked_at=asked_at))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(clock: Clock) -> Tokens:
    credentials = {name: Credential(SECRET, EXCHANGE, f"affiant-ph-{name * 32}") for name in "AB"}
    redactor = GrowingRedactor((each.value, each.placeholder) for each in credentials.values())
    return Tokens(credentials, redactor, Instants(clock, lambda: 0.0, bytes))


@pytest.mark.parametrize(
    ("lifetime", "used_for"),
    [(3600, 3540), (300, 240), (299, 239.2), (10, 8), (1, 0.8), (10**7, 86400), (None, 300)],
)
def test_a_token_is_used_until_shortly_before_its_end(tokens, clock, lifetime, used_for) -> None:
    assert not tokens.is_fresh("A")
    kept(tokens, "A", IssuedToken(token(), lifetime), asked_at=clock.now)
    assert tokens.value("A").reveal() == token().reveal()
    assert not tokens.is_fresh("B")
    clock.now += used_for - 0.01
    assert tokens.is_fresh("A")
    clock.now += 0.02
    assert not tokens.is_fresh("A")
    with pytest.raises(TokenUnavailable):
        tokens.value("A")


def test_a_tokens_time_counts_from_when_it_was_asked_for(tokens, clock) -> None:
    kept(tokens, "A", IssuedToken(token(), 100), asked_at=clock.now - 90)
    assert not tokens.is_fresh("A")


def test_a_token_that_a_host_does_not_take_is_given_up_unless_it_is_new(tokens, clock) -> None:
    kept(tokens, "A", IssuedToken(token(), 3600), asked_at=clock.now)
    clock.now += 59
    tokens.rejected(["A", "B", "C"])
    assert tokens.is_fresh("A")
    clock.now += 1
    tokens.rejected(["A", "B", "C"])
    assert not tokens.is_fresh("A")


def test_what_is_withdrawn_has_neither_credential_nor_token_and_is_still_replaced(tokens, clock) -> None:
    kept(tokens, "A", IssuedToken(token(), 3600), asked_at=clock.now)
    kept(tokens, "B", IssuedToken(token(1), 3600), asked_at=clock.now)
    left = tokens.restricted({"B"})
    assert "A" not in left and left.value("B").reveal() == token(1).reveal()
    for ask in (left.credential, left.is_fresh, left.value):
        with raises_code("secret.not_found"):
            ask("A")
    assert set(left._held) == {"B"}, "a token that is withdrawn is held nowhere"
    assert left.redactor.redact(token().reveal()).replaced == 1
    assert tokens.is_fresh("A"), "a narrowing that is refused leaves everything as it was"


def test_a_stream_that_began_before_replaces_what_came_to_be_known(tokens, clock) -> None:
    stream = RedactionStream(tokens.redactor)
    out = stream.feed(b"before ")
    kept(tokens, "A", IssuedToken(token(), 3600), asked_at=clock.now)
    out += (
        stream.feed(token().reveal()[:9]) + stream.feed(token().reveal()[9:]) + stream.feed(SECRET.reveal())
    )
    out += stream.flush()
    placeholder = tokens.credentials["A"].placeholder.encode()
    assert out == b"before " + placeholder * 2


def known(tokens: Tokens, number: int) -> bool:
    return tokens.redactor.redact(token(number).reveal()).replaced == 1


def test_a_token_is_replaced_in_answers_until_it_has_ended(tokens, clock) -> None:
    kept(tokens, "A", IssuedToken(token(0), 100), asked_at=clock.now)
    kept(tokens, "A", IssuedToken(token(1), None), asked_at=clock.now)
    clock.now += 159
    kept(tokens, "B", IssuedToken(token(2), 100), asked_at=clock.now)
    assert [known(tokens, number) for number in range(3)] == [True] * 3
    clock.now += 2
    kept(tokens, "B", IssuedToken(token(3), 100), asked_at=clock.now)
    assert [known(tokens, number) for number in range(4)] == [False, True, True, True]
    clock.now += 3600
    kept(tokens, "B", IssuedToken(token(4), 100), asked_at=clock.now)
    assert [known(tokens, number) for number in range(5)] == [False] * 4 + [True]
    assert tokens.redactor.redact(SECRET.reveal()).replaced == 1
    assert len(tokens._ends) == 1


def test_an_agent_that_makes_hosts_say_401_has_no_token_forgotten(tokens, clock) -> None:
    fetched = 0
    for _ in range(20):
        if not tokens.is_fresh("A"):
            kept(tokens, "A", IssuedToken(token(fetched), 36_000), asked_at=clock.now)
            fetched += 1
        clock.now += 61
        tokens.rejected(["A"])
    assert fetched == 8
    assert all(known(tokens, number) for number in range(fetched))
    assert tokens.is_fresh("A")


@pytest.mark.parametrize("lifetime", [None, 1, 100, 10_000])
def test_no_honest_issuer_makes_a_token_be_forgotten_before_its_end(tokens, clock, lifetime) -> None:
    began: dict[int, float] = {}
    for number in range(20):
        kept(tokens, "A", IssuedToken(token(number), lifetime), asked_at=clock.now)
        began[number] = clock.now
        while tokens.is_fresh("A"):
            clock.now += 0.5 if lifetime and lifetime < 50 else 5
    ends = {number: at + (lifetime or 3600) for number, at in began.items()}
    assert all(known(tokens, number) for number, end in ends.items() if end > clock.now)
    assert sum(known(tokens, number) for number in ends) <= REMEMBERED


def test_tokens_that_come_at_once_are_all_known(tokens, clock) -> None:
    async def scenario() -> None:
        await asyncio.gather(
            *(
                tokens.keep(name, IssuedToken(token(number), 3600), asked_at=clock.now)
                for number, name in enumerate("ABABAB")
            )
        )

    asyncio.run(scenario())
    assert [tokens.redactor.redact(token(number).reveal()).replaced for number in range(6)] == [1] * 6


def test_nothing_shows_a_token(tokens, clock) -> None:
    kept(tokens, "A", IssuedToken(token(), 3600), asked_at=clock.now)
    assert "9sX2k" not in repr(tokens) and "Hk3w" not in repr(tokens)
