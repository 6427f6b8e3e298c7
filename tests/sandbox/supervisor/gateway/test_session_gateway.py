"""What a session's gateway answers, as the supervisor takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.proof import (
    MAC_PROOF_TYPE,
    PROOF_HEADER,
    MACKey,
    Request,
    proven_by,
    verify_proof,
)
from affiant.sandbox.base.errors import GatewayNotTheOne, GatewayUnreachable
from affiant.sandbox.supervisor.gateway import session_gateway
from affiant.sandbox.supervisor.gateway.session_gateway import SessionGateway

SESSION, KSD, NOW = "S" * 21 + "Q", "K" * 43, datetime(2026, 11, 23, 12, tzinfo=UTC)
PIECES = (b"a" * 600, b"b" * 600)


class Answer:
    """A bundle that comes in two pieces."""

    status = 200
    closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in PIECES:
            yield piece

    async def body(self, _limit: int) -> bytes:
        return b'{"error":{"code":"session.bundle_too_large","message":"m"}}'

    async def close(self) -> None:
        self.closed = True


def made(client: object, identity: object) -> SessionGateway:
    return SessionGateway(
        cast("Any", client), cast("Any", identity), session=SESSION, keyset_digest=KSD, clock=lambda: NOW
    )


def fetched(answer: Answer) -> bytes:
    async def answered(*_: object, **__: object) -> Answer:
        return answer

    signer = Signer.generate()

    async def all_of_it() -> bytes:
        client, identity = SimpleNamespace(request=answered), SimpleNamespace(signer=signer)
        gateway = made(client, identity)
        return b"".join([piece async for piece in gateway.bundle()])

    return asyncio.run(all_of_it())


def test_a_bundle_that_is_too_large_names_the_command_that_exports_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_gateway, "_MAX_BUNDLE", 1199)
    answer = Answer()
    with raises_code("session.bundle_too_large") as raised:
        fetched(answer)
    assert answer.closed
    assert f"affiant bundle export --session {SESSION} --openings" in str(raised.value.hint)
    monkeypatch.setattr(session_gateway, "_MAX_BUNDLE", 1200)
    assert fetched(Answer()) == b"".join(PIECES)


def test_a_bundle_that_the_gateway_finds_too_large_is_the_same() -> None:
    answer = Answer()
    answer.status = 409
    with raises_code("session.bundle_too_large"):
        fetched(answer)
    assert answer.closed


class Whole:
    """An answer that comes at once."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status, self._body, self.unaccounted = status, body, False

    async def body(self, _limit: int) -> bytes:
        return self._body

    async def close(self) -> None:
        pass


class Asked:
    """Notes how each request to a gateway is proven, and sends the response that the test gives."""

    def __init__(self, key: Callable[[], Whole]) -> None:
        self._key = key
        self.signer = Signer.generate()
        self.by: list[tuple[str, bool]] = []
        self.proofs: list[str] = []
        self.gateway = made(self, SimpleNamespace(signer=self.signer))

    async def request(
        self, method: str, target: str, headers: Sequence[tuple[bytes, bytes]], body: bytes, **_: object
    ) -> Whole:
        proof = dict(headers)[PROOF_HEADER.encode()].decode()
        self.by.append((target.rpartition("/")[2], proven_by(proof)[0] == MAC_PROOF_TYPE))
        self.proofs.append(proof)
        if target.endswith("/proof-key"):
            assert (method, target, body) == ("POST", f"/v1/sessions/{SESSION}/proof-key", b"")
            return self._key()
        return Whole(200, b'{"head":{"chn":"c","seq":0,"rh":"r"},"close":"j","result":"r"}')

    async def everything(self) -> None:
        await self.gateway.send("POST", "/v1/chat/completions", (), b"{}", cseq=0)
        await self.gateway.send("GET", "/v1/models", (), b"", cseq=None)
        await self.gateway.submit(cast("Any", SimpleNamespace(jws="j", openings=None)))
        await self.gateway.decisions(0)
        await self.gateway.restrict(b"{}")
        await self.gateway.is_to_close()
        await self.gateway.close("done")


KEY = bytes(range(32))
OFTEN = ("completions", "models", "records", "decisions")
SELDOM = ("narrow", "draining", "close")


def test_what_is_asked_often_is_proven_by_mac_and_what_may_follow_the_close_is_signed() -> None:
    asked = Asked(lambda: Whole(200, b'{"key":"%s"}' % b64u(KEY).encode()))

    async def scenario() -> None:
        assert await asked.gateway.ask_for_mac_key()
        await asked.everything()

    asyncio.run(scenario())
    assert asked.by == [("proof-key", False), *((name, name in OFTEN) for name in (*OFTEN, *SELDOM))]
    request = Request.of("POST", "/v1/chat/completions", b"{}")
    key = MACKey(KEY, session=SESSION)
    known: dict[str, Any] = {"session": SESSION, "keyset_digest": KSD, "counted": True, "now": NOW}
    assert verify_proof(asked.proofs[1], request, key=key, **known).cseq == 0


def _lost() -> Whole:
    raise GatewayUnreachable("the gateway broke its answer off")


@pytest.mark.parametrize(
    "answer",
    [
        lambda: Whole(404, b'{"error":{"code":"not_found","message":"m"}}'),
        lambda: Whole(404, b"no JSON"),
        lambda: Whole(409, b'{"error":{"code":"proof.key_given","message":"m"}}'),
        lambda: Whole(503, b""),
        lambda: Whole(200, b"{}"),
        lambda: Whole(200, b'{"key":7}'),
        lambda: Whole(200, b'{"key":"AAAA"}'),
        lambda: Whole(200, b'{"key":"%s"}' % b64u(bytes(33)).encode()),
        _lost,
    ],
)
def test_without_a_key_every_proof_is_signed(answer: Callable[[], Whole]) -> None:
    asked = Asked(answer)

    async def scenario() -> None:
        assert not await asked.gateway.ask_for_mac_key()
        await asked.everything()

    asyncio.run(scenario())
    assert asked.by == [(name, False) for name in ("proof-key", *OFTEN, *SELDOM)]


def test_another_gateway_is_asked_for_no_key() -> None:
    def other() -> Whole:
        raise GatewayNotTheOne("another key")

    with raises_code("session.gateway_mismatch"):
        asyncio.run(Asked(other).gateway.ask_for_mac_key())
