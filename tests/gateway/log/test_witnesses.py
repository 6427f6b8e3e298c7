"""A round of witnesses: whoever is slow, silent, mistaken or a liar delays little and counts for nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import QuorumMissed
from affiant.attestation.tlog.note import Note, signed
from affiant.attestation.tlog.note_signing import Cosigner, LogSigner
from affiant.attestation.tlog.quorum import Witnessed, parse_witness_policy
from affiant.gateway.log.witnesses import WitnessBounds, Witnesses

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LOG = LogSigner("log.example/one", Ed25519PrivateKey.from_private_bytes(b"l" * 32))
KEYS = {name: Ed25519PrivateKey.from_private_bytes(name.encode() * 32) for name in "abcx"}
NOTE = signed(Checkpoint("log.example/one", 7, bytes(32)).to_text(), LOG)

Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Whole(httpx.AsyncByteStream):
    """A body as a server's: read once, in one piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data


def client_of(handle: Answer) -> httpx.AsyncClient:
    async def streamed(request: httpx.Request) -> httpx.Response:
        made = await handle(request)
        return httpx.Response(made.status_code, headers=made.headers, stream=Whole(made.content))

    return httpx.AsyncClient(transport=httpx.MockTransport(streamed))


def cosigner(name: str, seconds: int = int(NOW.timestamp())) -> Cosigner:
    return Cosigner(f"witness.example/{name}", KEYS[name], seconds)


def honest(name: str, *, seconds: int = int(NOW.timestamp()), after: float = 0.0) -> Answer:
    async def answer(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(after)
        text = request.content.decode().partition("\n\n")[2].partition("\n\n")[0] + "\n"
        assert parse_checkpoint(text).size == 7
        note = Note(text, (cosigner(name, seconds).sign(text),))
        return httpx.Response(200, content=note.to_bytes().decode().partition("\n\n")[2].encode())

    return answer


def forged(name: str) -> Answer:
    """A line under ``name``'s key, signed by another."""

    async def answer(request: httpx.Request) -> httpx.Response:
        line = cosigner("x").sign(NOTE.text)
        own = cosigner(name).sign(NOTE.text)
        note = Note(NOTE.text, (type(own)(own.key, line.signature),))
        return httpx.Response(200, content=note.to_bytes().decode().partition("\n\n")[2].encode())

    return answer


def with_status(status: int, body: bytes = b"", media_type: str = "text/plain") -> Answer:
    async def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, content=body, headers={"content-type": media_type})

    return answer


def fails(_request: httpx.Request) -> Coroutine[Any, Any, httpx.Response]:
    raise httpx.ConnectError("refused")


def breaks_our_code(_request: httpx.Request) -> Coroutine[Any, Any, httpx.Response]:
    raise ZeroDivisionError


def cosigned(answers: dict[str, Answer], quorum: int, **bounds: float) -> tuple[Witnessed, Witnesses, float]:
    async def handle(request: httpx.Request) -> httpx.Response:
        return await answers[request.url.host.partition(".")[0]](request)

    async def main() -> tuple[Witnessed, Witnesses, float]:
        rows = [f"witness {n} {cosigner(n).verifier.vkey()} https://{n}.example/" for n in answers]
        rows += [f"group all {quorum} {' '.join(answers)}", "quorum all", ""]
        policy = parse_witness_policy("\n".join(rows).encode())
        client = client_of(handle)
        limits = WitnessBounds(**{"answer_s": 5.0, "grace_s": 0.1, **bounds})
        witnesses = Witnesses(policy, LOG.verifier, client=client, clock=lambda: NOW, bounds=limits)
        made.append(witnesses)
        begun = time.monotonic()
        try:
            return await witnesses.cosign(NOTE, 7, lambda _old: ()), witnesses, time.monotonic() - begun
        finally:
            await witnesses.close()

    made: list[Witnesses] = []
    try:
        return asyncio.run(main())
    except QuorumMissed as error:
        error.__notes__ = [str(dict(made[0].report()))]
        raise


def test_a_quorum_is_given_with_every_line_that_came() -> None:
    found, witnesses, _ = cosigned({n: honest(n) for n in "abc"}, 2)
    assert set(found.times) == {"a", "b", "c"}
    assert set(witnesses.report().values()) == {"cosigned"}


def test_a_witness_that_hangs_delays_a_quorum_by_its_grace_alone() -> None:
    found, witnesses, took = cosigned({"a": honest("a"), "b": honest("b"), "c": honest("c", after=60)}, 2)
    assert set(found.times) == {"a", "b"}
    assert took < 4
    assert witnesses.report()["https://c.example/"] == "not asked"


def test_without_a_quorum_the_slow_are_waited_for_within_their_bound() -> None:
    found, _, took = cosigned({"a": honest("a"), "b": honest("b", after=0.5)}, 2, grace_s=0.05)
    assert set(found.times) == {"a", "b"}
    assert took >= 0.5


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (forged("b"), "witness.forged"),
        (honest("b", seconds=int(NOW.timestamp()) + 3600), "witness.forged"),
        (with_status(200), "witness.forged"),
        (with_status(200, b"x" * 100_000), "witness.unreachable"),
        (with_status(302), "witness.unreachable"),
        (with_status(403), "witness.refused"),
        (with_status(404), "witness.refused"),
        (with_status(409, b"9\n", "text/x.tlog.size"), "witness.ahead"),
        (with_status(409, b"garbage"), "witness.unreachable"),
        (with_status(422), "witness.inconsistent"),
        (with_status(500), "witness.unreachable"),
        (fails, "witness.unreachable"),
        (breaks_our_code, "fault"),
    ],
)
def test_what_is_no_cosignature_counts_for_nothing_and_is_named(
    answer: Answer, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(QuorumMissed) as caught:
        cosigned({"a": honest("a"), "b": answer}, 2)
    assert f"'https://b.example/': '{code}'" in caught.value.__notes__[0]
    assert [record.levelno for record in caplog.records if record.name == "affiant.gateway"] == [
        logging.ERROR
    ]
    found, _, _ = cosigned({"a": honest("a"), "b": answer, "c": honest("c")}, 2)
    assert set(found.times) == {"a", "c"}


def test_one_witness_with_two_keys_is_asked_once() -> None:
    asked = []

    async def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url)
        lines = Note(NOTE.text, tuple(cosigner(n).sign(NOTE.text) for n in "ab"))
        return httpx.Response(200, content=lines.to_bytes().decode().partition("\n\n")[2].encode())

    async def main() -> Witnessed:
        rows = [f"witness {n} {cosigner(n).verifier.vkey()} https://one.example/" for n in "ab"]
        policy = parse_witness_policy("\n".join([*rows, "group all all a b", "quorum all", ""]).encode())
        client = client_of(handle)
        witnesses = Witnesses(policy, LOG.verifier, client=client, clock=lambda: NOW, bounds=WitnessBounds())
        try:
            return await witnesses.cosign(NOTE, 7, lambda _old: ())
        finally:
            await witnesses.close()

    assert set(asyncio.run(main()).times) == {"a", "b"}
    assert len(asked) == 1
