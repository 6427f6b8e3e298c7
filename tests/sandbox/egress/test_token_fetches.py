"""When tokens are fetched: once for however many wait, not again at once after a failure, never without a record."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.raising import raises_code
from tests.sandbox.egress.conftest import Chain

from affiant.errors import NotAllowedError
from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange
from affiant.sandbox.egress.decision import GrantedUse
from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.egress.records_of_egress import EgressRecords, PolicyFacts
from affiant.sandbox.egress.resolver import Resolver
from affiant.sandbox.egress.token_fetches import TokenFetch, TokenFetches
from affiant.sandbox.egress.upstream import Fetched, Sent
from affiant.secrets.injection.detection import SecretUse
from affiant.secrets.names.errors import TokenRejected, TokenResponseInvalid, TokenUnavailable

EXCHANGE = TokenExchange(
    GrantType.CLIENT_CREDENTIALS,
    "https://login.example.com/token",
    client_id="a",
    client_auth=ClientAuth.BASIC,
)
NOTHING = Sent(None, None)


@dataclass
class Broker:
    """What the proxy sees of a broker's tokens."""

    lifetime: int = 1000
    refusal: Exception | None = None
    fetches: list[tuple[str, str]] = field(default_factory=list)
    asked: int = 0
    fresh: dict[str, int] = field(default_factory=dict)

    async def token_is_fresh(self, name: str) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        self.fresh[name] = self.fresh.get(name, 0) - 1
        return self.fresh[name] >= 0

    async def fetch_token(self, name: str, address: str) -> Fetched:
        self.fetches.append((name, address))
        await asyncio.sleep(0.01)
        if self.refusal is None:
            self.fresh[name] = self.lifetime
        return Fetched(NOTHING, self.refusal)

    async def exchange(self, allowed, address, body):
        raise AssertionError("no request is sent here")


def fetch(name: str = "KEY") -> TokenFetch:
    use = GrantedUse(SecretUse(name, "header:authorization", 0), "secrets/0", f"local:{name}", EXCHANGE)
    return TokenFetch(use, EXCHANGE, "v1", None, None)


class Around:
    def __init__(self) -> None:
        self.chain = Chain()
        self.broker = Broker()
        self.tokens = TokenFetches()
        self.records = EgressRecords(
            self.chain, PolicyFacts("dev", "sha384:" + "0" * 96, "sha256:" + "0" * 64)
        )
        self.resolver = Resolver({"login.example.com": ("10.1.2.3",)})

    async def have(self, name: str = "KEY") -> None:
        await self.tokens.have(fetch(name), self.broker, self.resolver, self.records)


@pytest.fixture
def around() -> Around:
    return Around()


def test_a_hundred_that_wait_have_one_token_fetched(around) -> None:
    async def scenario() -> None:
        await asyncio.gather(*(around.have() for _ in range(100)))

    asyncio.run(scenario())
    assert around.broker.fetches == [("KEY", "10.1.2.3")]
    assert around.broker.asked == 100
    assert around.chain.kinds == ["secret", "egress.outcome.complete"]


def test_different_secrets_wait_for_no_other(around) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(5):
            await asyncio.gather(*(around.have(name) for name in ("A", "B", "A", "B")))

    asyncio.run(scenario())
    assert sorted(around.broker.fetches) == [("A", "10.1.2.3"), ("B", "10.1.2.3")]


@pytest.mark.parametrize(
    ("refusal", "end"),
    [
        (TokenRejected("x"), "failed"),
        (TokenUnavailable("x"), "failed"),
        (TokenResponseInvalid("x"), "refused"),
    ],
)
def test_a_hundred_that_wait_hear_of_one_failure(around, monkeypatch, refusal, end) -> None:
    around.broker.refusal = refusal

    async def scenario() -> list[object]:
        found = await asyncio.gather(*(around.have() for _ in range(100)), return_exceptions=True)
        assert len(around.broker.fetches) == 1
        assert around.chain.kinds == ["secret", f"egress.outcome.{end}"]
        around.broker.refusal = None
        loop, real = asyncio.get_running_loop(), asyncio.get_running_loop().time
        monkeypatch.setattr(loop, "time", lambda: real() + 10.1)
        await around.have()
        return found

    first, *others = asyncio.run(scenario())
    assert first is refusal
    assert {type(other) for other in others} == {TokenUnavailable}
    assert all(refusal.code in str(other) for other in others)
    assert len(around.broker.fetches) == 2


def test_a_fetch_that_a_narrowing_cut_is_tried_again_at_once(around) -> None:
    around.broker.refusal = NotAllowedError("narrowed", code="broker.request")

    async def scenario() -> None:
        with raises_code("broker.request"):
            await around.have()
        around.broker.refusal = None
        await around.have()

    asyncio.run(scenario())
    assert len(around.broker.fetches) == 2


def test_one_that_leaves_hands_its_turn_on_and_leaves_an_outcome(around) -> None:
    async def scenario() -> None:
        first = asyncio.create_task(around.have())
        second = asyncio.create_task(around.have())
        while not around.broker.fetches:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await second

    asyncio.run(scenario())
    assert len(around.broker.fetches) == 2
    assert around.chain.kinds == [
        "secret", "egress.outcome.aborted", "secret", "egress.outcome.complete",
    ]  # fmt: skip


def test_without_a_record_nothing_is_looked_up_or_fetched(around) -> None:
    around.chain.down = True
    with pytest.raises(RecordsUnavailable):
        asyncio.run(around.have())
    assert not around.broker.fetches
