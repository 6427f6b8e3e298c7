"""Request bodies: bounded each, bounded together, and given back however a request ends."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.bundles.test_bundles import with_openings
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.in_process import InProcess, asgi, in_process, settings_for
from tests.gateway.inference.test_inference import records_of
from tests.gateway.session_client import Answer, SessionClient, admission_headers
from tests.gateway.upstream_server import completion, scripted_upstream, whole
from tests.raising import raises_code

from affiant.__main__ import cli
from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import simulated_trust_file
from affiant.errors import UnreachableError
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.process.server import gateway_app
from affiant.gateway.wire.bodies import MAX_ADMISSION, Bodies, Crowd, Memory, Share
from affiant.gateway.wire.http_request import ClientGone

CHAT, JSON = "/v1/chat/completions", "application/json"
KIB = 1 << 10
LARGEST, ALL = 32 * KIB, 128 * KIB


# -- the budget ------------------------------------------------------------------------------------------------------


def test_what_is_taken_is_given_back_and_never_more_is_lent_than_there_is() -> None:
    memory = Memory(10)
    with memory.share() as one, memory.share() as other:
        one.take(6)
        with raises_code("gateway.memory"):
            other.take(5)
        other.take(4)
        assert (memory.left, one.held, other.held) == (0, 6, 4)
        one.give_back()
        assert memory.left == 6
    assert memory.left == 10


def test_a_part_takes_from_the_whole_and_never_more_than_its_part() -> None:
    memory = Memory(10)
    part = Memory(4, within=memory)
    with part.share() as stranger, memory.share() as known:
        stranger.take(3)
        with raises_code("gateway.memory"):
            stranger.take(2)
        assert (part.left, memory.left) == (1, 7)
        known.take(7)
        with raises_code("gateway.memory"):
            stranger.take(1)
        assert (part.left, memory.left) == (0, 0)
    assert (part.left, memory.left) == (4, 10)


def test_responses_that_wait_take_no_more_than_half_of_what_there_is() -> None:
    bodies = Bodies(memory=100, seconds=1)
    with bodies.held.share() as held, bodies.memory.share() as request:
        held.take(50)
        with raises_code("gateway.memory"):
            held.take(1)
        request.take(50)
        with raises_code("gateway.memory"):
            request.take(1)
    assert bodies.memory.left == 100


def test_where_strangers_lack_memory_the_oldest_slow_body_of_the_address_with_most_gives_way() -> None:
    ended: list[str] = []
    crowd = Crowd(10 * MAX_ADMISSION, within=Memory(20 * MAX_ADMISSION))
    with ExitStack() as stack:

        def begun(whose: str, name: str, size: int) -> Share:
            share = stack.enter_context(crowd.share(whose))
            stack.enter_context(suppress(UnreachableError))
            stack.enter_context(share.interruptible(lambda: ended.append(name)))
            share.take(size * MAX_ADMISSION)
            return share

        for number in range(5):
            begun("flood", f"flood {number}", 1)
        begun("other", "other", 4)
        assert (ended, crowd.left) == ([], MAX_ADMISSION)
        begun("flood", "flood 5", 1)  # an address has half of it
        assert ended == ["flood 0"]
        late = begun("third", "third", 2)
        assert ended == ["flood 0", "flood 1"] and late.held == 2 * MAX_ADMISSION
        with pytest.raises(UnreachableError), crowd.share("fourth") as share:
            share.take(11 * MAX_ADMISSION)  # more than there is: nothing could give way for it
    assert crowd.left == 10 * MAX_ADMISSION


def test_a_body_that_came_whole_does_not_give_way() -> None:
    crowd = Crowd(4 * MAX_ADMISSION, within=Memory(4 * MAX_ADMISSION))
    with crowd.share("one") as whole, crowd.share("other") as late:
        with whole.interruptible(lambda: None):
            whole.take(2 * MAX_ADMISSION)
        with raises_code("gateway.memory"), late.interruptible(lambda: None):
            late.take(2 * MAX_ADMISSION)
            late.take(MAX_ADMISSION)
        assert whole.held == 2 * MAX_ADMISSION


def test_where_the_address_with_most_has_no_slow_body_another_address_gives_way() -> None:
    crowd = Crowd(10 * MAX_ADMISSION, within=Memory(20 * MAX_ADMISSION))
    ended: list[str] = []
    with crowd.share("most") as whole, crowd.share("slow") as slow, crowd.share("late") as late:
        with whole.interruptible(lambda: ended.append("most")):
            whole.take(4 * MAX_ADMISSION)
        with suppress(UnreachableError), slow.interruptible(lambda: ended.append("slow")):
            slow.take(3 * MAX_ADMISSION)
            late.take(4 * MAX_ADMISSION)
        assert (ended, late.held, whole.held) == (["slow"], 4 * MAX_ADMISSION, 4 * MAX_ADMISSION)


def test_a_body_whose_time_is_over_in_this_very_moment_gives_way_too() -> None:
    """The timeout has fired and the reading has not ended yet: the newcomer used to get the gateway's own error."""
    bodies = Bodies(memory=8 * MAX_ADMISSION, seconds=0.02)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        pieces = [b"x" * (MAX_ADMISSION // 2)]

        async def receive() -> dict:
            if pieces:
                return {"type": "http.request", "body": pieces.pop(), "more_body": True}
            await asyncio.Event().wait()
            raise AssertionError

        async def read() -> None:
            with bodies.strangers.share("slow") as share:
                await bodies.read({"headers": []}, receive, share, limit=MAX_ADMISSION)

        slow = asyncio.create_task(read())
        while bodies.strangers.left == bodies.strangers.size:
            await asyncio.sleep(0)
        with bodies.strangers.share("newcomer") as newcomer:
            taken: asyncio.Future[None] = loop.create_future()

            def take() -> None:
                newcomer.take(MAX_ADMISSION)
                taken.set_result(None)

            loop.call_later(0.03, take)
            time.sleep(0.1)  # noqa: ASYNC251 - so that both are due in one turn of the loop, the timeout first
            async with asyncio.timeout(5):
                await taken
            assert newcomer.held == MAX_ADMISSION
        with raises_code("gateway.memory"):
            await slow

    asyncio.run(run())


@pytest.mark.parametrize(
    ("pieces", "length", "refused"),
    [
        ([b"x" * 5] * 4, None, "gateway.memory"),
        ([b"x" * 5] * 4, 1, "gateway.memory"),
        ([b"x" * 30], None, "gateway.memory"),
        ([b"x" * 5, b"y" * 60] * 4, None, "request.too_large"),
        ([], 1000, "request.too_large"),
        ([b"x" * 5], 10, "request.timeout"),
        ([b"x" * 5, None], 10, None),
    ],
)
def test_a_body_counts_as_it_arrives_and_a_refused_one_holds_nothing(
    pieces: list[bytes | None], length: int | None, refused: str | None
) -> None:
    bodies = Bodies(memory=18, seconds=0.1)
    arriving = iter(pieces)

    async def receive() -> dict:
        with suppress(StopIteration):
            piece = next(arriving)
            if piece is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": True}
        await asyncio.Event().wait()
        raise AssertionError

    async def read() -> None:
        headers = [] if length is None else [(b"content-length", b"%d" % length)]
        with bodies.memory.share() as share:
            await bodies.read({"headers": headers}, receive, share, limit=30)

    with pytest.raises(ClientGone) if refused is None else raises_code(refused):
        asyncio.run(read())
    assert bodies.memory.left == 18


def test_a_body_that_is_hashed_but_not_kept_holds_nothing() -> None:
    bodies = Bodies(memory=18, seconds=1)
    pieces = [b"x" * 10, b"x" * 15, b""]

    async def receive() -> dict:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def read() -> int:
        with bodies.memory.share() as share:
            body = await bodies.read({"headers": []}, receive, share, limit=12)
            assert body.data is None
            with raises_code("request.too_large"):
                body.require(12)
            assert share.held == 0
            return body.size

    assert asyncio.run(read()) == 25


def test_settings_without_room_for_one_body_are_refused(platform: PlatformClient, tmp_path: Path) -> None:
    for body_max in (1, 8 << 20, 9 << 20):
        least = max(body_max, 8 << 20)  # the part for strangers must hold one admission
        settings_for(platform, tmp_path, body_max=body_max, bodies_max=least)
        with raises_code("gateway.settings"):
            settings_for(platform, tmp_path, body_max=body_max, bodies_max=least - 1)


# -- every ending, in a gateway whose messages the test sends ----------------------------------------------------------


@pytest.fixture
def small(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    """Bodies of at most 32 KiB, 128 KiB together; an upstream that takes its time."""
    with scripted_upstream(lambda _: [0.3, *whole(completion())]) as upstream:
        configs = upstream_configs([UpstreamChoice(upstream.url)])
        with in_process(
            platform, tmp_path / "store", upstreams=configs, body_max=LARGEST, drain_s=1
        ) as inside:
            bounded(inside, seconds=30)
            yield inside


def bounded(inside: InProcess, *, seconds: float) -> None:
    """Bounds that are smaller than settings accept."""
    inside.service.bodies = Bodies(memory=ALL, seconds=seconds)
    inside.app = gateway_app(inside.service)


def request_of(size: int) -> bytes:
    """A request of exactly ``size`` bytes."""
    empty = json.dumps({"model": "m", "messages": [{"role": "user", "content": ""}]}).encode()
    return empty.replace(b'""', b'"' + b"x" * (size - len(empty)) + b'"')


async def post(
    inside: InProcess,
    session: SessionClient,
    body: bytes,
    pieces: Sequence[bytes] | None = None,
    **more: object,
) -> Answer:
    proof = session.proof("POST", CHAT, body, content_type=JSON, counted=True)
    given = {"Content-Type": JSON, PROOF_HEADER: proof}
    return await asgi(inside.app, "POST", CHAT, body, given, pieces=pieces, **more)


def refusals(session: SessionClient, key: X25519PrivateKey) -> list[VerifiedReceipt]:
    found: list[VerifiedReceipt] = []

    def any_is_durable() -> bool:
        found[:] = [record for record in records_of(session, key) if record.kind == "refusal"]
        return bool(found)

    until(any_is_durable)  # who has left is not waited for
    return found


@contextmanager
def filled(inside: InProcess, session: SessionClient, size: int = LARGEST) -> Iterator[None]:
    """While half-sent bodies take all memory."""
    gone = asyncio.Event()

    async def fill() -> list[asyncio.Task[Answer]]:
        count = inside.service.bodies.memory.left // size
        made = [
            asyncio.create_task(
                post(inside, session, request_of(size), [request_of(size)], ends=False, gone=gone)
            )
            for _ in range(count)
        ]
        async with asyncio.timeout(10):
            while inside.service.bodies.memory.left:
                await asyncio.sleep(0.01)
        return made

    async def leave(made: list[asyncio.Task[Answer]]) -> None:
        gone.set()
        await asyncio.gather(*made)

    made = inside.run(fill())
    try:
        yield
    finally:
        inside.run(leave(made))


def test_a_request_for_which_no_memory_is_left_is_told_so_and_recorded(
    small: InProcess, platform: PlatformClient, openings: X25519PrivateKey
) -> None:
    session = SessionClient.start(small, platform, openings=openings)
    other = SessionClient.start(small, platform, openings=openings)
    with filled(small, session):
        answer = other.chat(request_of(KIB))
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "gateway.memory", "1")
        assert small.ask("POST", "/v1/sessions", b"x", admission_headers(small.nonce())).status == 503
        assert other.submit(other.exec_record()).code == "gateway.memory"
    (record,) = refusals(other, openings)
    assert (record.jti, record.member("rsn")) == (answer.headers["affiant-receipt-id"], "gateway.memory")
    assert (record.member("agt", "cseq"), record.member("lim")) == (0, ["body-unread"])
    assert record.disclosed.get("req.dig") is None
    assert small.service.bodies.memory.left == ALL
    assert other.chat(request_of(LARGEST)).status == 200


def test_a_late_body_is_told_so_and_recorded(
    small: InProcess, platform: PlatformClient, openings: X25519PrivateKey
) -> None:
    bounded(small, seconds=0.3)
    session = SessionClient.start(small, platform, openings=openings)
    whole_body = request_of(KIB)
    answer = small.run(post(small, session, whole_body, [whole_body[:100]], ends=False, gone=_later(1.0)))
    assert (answer.status, answer.code) == (408, "request.timeout")
    (record,) = refusals(session, openings)
    assert (record.member("agt", "cseq"), record.member("lim")) == (0, ["body-unread"])
    assert small.service.bodies.memory.left == ALL


class _later(asyncio.Event):
    """A client that closes its connection after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def wait(self) -> bool:
        await asyncio.sleep(self._seconds)
        return True


ENDINGS: dict[str, Callable[[InProcess, SessionClient], object]] = {
    "answered": lambda g, s: s.chat(request_of(2 * KIB)),
    "refused": lambda g, s: s.chat(b"x" * LARGEST),
    "too large": lambda g, s: s.chat(b"x" * (LARGEST + 1)),
    "too large by far": lambda g, s: s.chat(b"x" * (9 * LARGEST)),
    "another body than was signed for": lambda g, s: g.run(post(g, s, b"a", [b"b" * 100])),
    "gone amid its body": lambda g, s: g.run(post(g, s, b"a", [b"b" * 100], ends=False, gone=_later(0.05))),
    "gone before its answer": lambda g, s: g.run(
        post(g, s, request_of(KIB), [request_of(KIB)], gone=_later(0.05))
    ),
    "a client that cannot be written to": lambda g, s: g.run(_unwritable(g, s)),
    "cancelled amid its body": lambda g, s: g.run(_cancelled(g, s, ends=False)),
    "cancelled before its answer": lambda g, s: g.run(_cancelled(g, s, ends=True)),
    "a submission": lambda g, s: s.submit(s.exec_record()),
    "an admission that is refused": lambda g, s: g.ask(
        "POST", "/v1/sessions", b"x" * 1000, admission_headers(g.nonce())
    ),
    "evidence": lambda g, s: g.ask("POST", "/.well-known/affiant/attest", b"{" * 1000),
}


async def _unwritable(inside: InProcess, session: SessionClient) -> None:
    async def broken(message: dict) -> None:
        raise OSError("the connection is gone")

    with suppress(OSError):
        await post(inside, session, request_of(KIB), [request_of(KIB)], send=broken)


async def _cancelled(inside: InProcess, session: SessionClient, *, ends: bool) -> None:
    task = asyncio.create_task(post(inside, session, request_of(KIB), [request_of(KIB)], ends=ends))
    await asyncio.sleep(0.1)
    assert inside.service.bodies.memory.left < ALL
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("name", ENDINGS)
def test_however_a_request_ends_its_memory_is_given_back(
    small: InProcess, platform: PlatformClient, name: str
) -> None:
    session = SessionClient.start(small, platform)
    ENDINGS[name](small, session)
    assert small.service.bodies.memory.left == ALL
    assert small.service.bodies.strangers.left == ALL // 8


def test_who_nobody_knows_cannot_take_what_sessions_need(small: InProcess, platform: PlatformClient) -> None:
    session = SessionClient.start(small, platform)
    nonce = small.nonce()

    async def crowd() -> Answer:
        given, gone = admission_headers(nonce), asyncio.Event()
        half = [
            asyncio.create_task(
                asgi(
                    small.app,
                    "POST",
                    "/v1/sessions",
                    b"",
                    given,
                    pieces=[b"x" * 8_000] * 2,
                    ends=False,
                    gone=gone,
                )
            )
            for _ in range(8)
        ]
        await asyncio.sleep(0.1)
        assert small.service.bodies.memory.left == ALL - 16_000
        answer = await post(small, session, request_of(LARGEST))
        gone.set()
        await asyncio.gather(*half)
        return answer

    assert small.run(crowd()).status == 200
    assert small.service.bodies.memory.left == ALL


# -- no signed request without its record ------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [9 * LARGEST, None], ids=["announced", "in chunks"])
def test_a_body_that_is_not_read_to_its_end_still_has_its_record_and_counter(
    small: InProcess, platform: PlatformClient, openings: X25519PrivateKey, length: int | None
) -> None:
    session = SessionClient.start(small, platform, openings=openings)
    body = b"x" * (9 * LARGEST)
    answer = small.run(post(small, session, body, [body[:LARGEST]] * 9, length=length))
    assert (answer.status, answer.code) == (413, "request.too_large")
    (record,) = refusals(session, openings)
    assert (record.jti, record.member("rsn")) == (answer.headers["affiant-receipt-id"], "request.too_large")
    assert (record.member("agt", "cseq"), record.member("lim")) == (0, ["body-unread"])
    assert record.disclosed.get("req.dig") is None and record.disclosed.get("req.len") is None


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_client_that_leaves_amid_its_body_has_a_record_that_leaves_the_counter_to_its_supervisor(
    small: InProcess, platform: PlatformClient, openings: X25519PrivateKey, cancelled: bool
) -> None:
    session = SessionClient.start(small, platform, openings=openings)
    if cancelled:
        small.run(_cancelled(small, session, ends=False))
    else:
        small.run(post(small, session, b"body", [b"bo"], ends=False, gone=_later(0.05)))
    (record,) = refusals(session, openings)
    assert (record.member("rsn"), record.member("lim")) == ("request.abandoned", ["body-unread"])
    assert record.member("agt", "cseq") is None and record.member("agt", "seq") == 1
    assert session.close().status == 200


def test_what_an_outsider_repeats_of_a_request_is_not_the_sessions(
    small: InProcess, platform: PlatformClient, openings: X25519PrivateKey
) -> None:
    session = SessionClient.start(small, platform, openings=openings)
    proof = session.proof("POST", CHAT, b"body", content_type=JSON, counted=True)
    given = {"Content-Type": JSON, PROOF_HEADER: proof}
    first = small.run(
        asgi(small.app, "POST", CHAT, b"", given, pieces=[b"x"], ends=False, length=9 * LARGEST)
    )
    again = small.run(
        asgi(small.app, "POST", CHAT, b"", given, pieces=[b"x"], ends=False, length=9 * LARGEST)
    )
    assert (first.code, again.code) == ("request.too_large", "proof.replayed")
    one, two = refusals(session, openings)
    assert (one.member("agt", "cseq"), two.member("agt", "cseq")) == (0, None)


def test_a_slow_body_does_not_push_its_counter_out_of_the_window(
    small: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(small, platform)

    async def race() -> Answer:
        slow, ready, never = request_of(KIB), asyncio.Event(), asyncio.Event()
        waited = iter((ready, never))

        async def receive() -> dict:
            await next(waited).wait()
            return {"type": "http.request", "body": slow, "more_body": False}

        proof = session.proof("POST", CHAT, slow, content_type=JSON, counted=True)
        sent: list[dict] = []

        async def send(message: dict) -> None:
            sent.append(message)

        scope = {
            "type": "http", "method": "POST", "path": CHAT, "raw_path": CHAT.encode(), "query_string": b"",
            "headers": [(b"content-type", JSON.encode()), (PROOF_HEADER.lower().encode(), proof.encode())],
        }  # fmt: skip
        task = asyncio.create_task(small.app(scope, receive, send))
        await asyncio.sleep(0)
        for _ in range(64):
            assert (await post(small, session, b"x")).status == 400
        ready.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(task, 2)
        return Answer(sent[0]["status"], {}, b"".join(message.get("body", b"") for message in sent[1:]))

    assert small.run(race()).status == 200


def test_what_a_closed_session_is_refused_names_no_receipt_that_could_hold_its_counter(
    small: InProcess, platform: PlatformClient
) -> None:
    session = SessionClient.start(small, platform)
    session.close()
    answer = session.chat(request_of(KIB))
    assert answer.code == "session.closed" and "affiant-receipt-id" not in answer.headers


def test_a_head_that_no_proof_can_be_judged_by_names_no_receipt(session: SessionClient) -> None:
    answer = session.ask("POST", CHAT, b"{}", content_type="application/json; x=\xe9", counted=True)
    assert (answer.status, answer.code) == (400, "request.malformed")
    assert "affiant-receipt-id" not in answer.headers  # so the supervisor records the counter itself


def test_a_mistake_of_ours_amid_a_body_has_its_record_and_counter(
    small: InProcess, platform: PlatformClient, openings: X25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = SessionClient.start(small, platform, openings=openings)

    async def broken(*arguments: object, **more: object) -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as changed:
        changed.setattr(Bodies, "read", broken)
        answer = small.run(post(small, session, b"{}"))
    (record,) = refusals(session, openings)
    assert (answer.status, answer.headers["affiant-receipt-id"]) == (500, record.jti)
    assert (record.member("agt", "cseq"), record.member("lim")) == (0, ["body-unread"])


def test_gateway_and_supervisor_account_for_every_counter_once(
    small: InProcess, platform: PlatformClient, tmp_path: Path
) -> None:
    """Ordinary refusals and clients that leave: neither a gap nor a warning in the verdict."""
    key = X25519PrivateKey.generate()
    session = SessionClient.start(small, platform, openings=key)
    bounded(small, seconds=0.3)
    gone = {"ends": False, "gone": _later(0.05)}
    answers = [
        session.chat(request_of(KIB)),
        session.chat(b"x" * (LARGEST + 1)),
        session.chat(b"x" * (9 * LARGEST)),
        small.run(post(small, session, b"", [b"x" * LARGEST] * 9, length=None)),
        small.run(post(small, session, b"body", [b"bo"], **gone)),
        small.run(post(small, session, b"signed for", [b"sent"])),
        small.run(post(small, session, b"body", [b"bo"], ends=False, gone=_later(1.0))),
        session.chat(request_of(KIB)),
    ]
    assert [answer.status for answer in answers] == [200, 413, 413, 413, 0, 401, 408, 200]
    for cseq, answer in enumerate(answers):  # as the supervisor's route does
        unreceipted = "affiant-receipt-id" not in answer.headers
        if answer.status == 401 or unreceipted:
            session.submit(_refusal(session, cseq, answer))
    session.submit(session.end_record())
    assert session.close().status == 200
    checks = _verified(small, session, key, tmp_path)
    refused = {code for code, check in checks.items() if check["tier"] == "contraindicated"}
    assert refused == {"conf.accepted"}  # these bounds are not the ones that the trust file names
    for code in ("session.counter", "session.order", "session.close", "session.peer", "chain.contiguous"):
        assert checks[code]["tier"] == "affirming", checks[code]


def _refusal(session: SessionClient, cseq: int, answer: Answer):
    reason = "gateway.proof_refused" if answer.status == 401 else "gateway.unreachable"
    members = {"rsn": reason, "act": {"typ": "inference", "end": "refused"}}
    members |= {"agt": session.agt(cseq=cseq), "peer": session.head}
    return session.chain.issue("refusal", members)


def _verified(inside: InProcess, session: SessionClient, key: X25519PrivateKey, folder: Path) -> dict:
    reference = inside.service.admissions.appraiser.reference.raw
    (folder / "trust.json").write_bytes(simulated_trust_file(reference, datetime.now(UTC)))
    (folder / "bundle.json").write_text(json.dumps(with_openings(session.bundle(), key)))
    paths = [str(folder / "bundle.json"), "--trust", str(folder / "trust.json")]
    shown = CliRunner().invoke(cli, ["verify", *paths, "--session", session.id, "--json"])
    return {check["code"]: check for check in json.loads(shown.output)["checks"]}


# -- a real server -----------------------------------------------------------------------------------------------------


def begun(session: SessionClient, *headers: tuple[str, str], body: bytes = b"") -> HTTPSConnection:
    """A request whose head has been sent."""
    connection = session.gateway.connect()
    connection.putrequest("POST", CHAT)
    connection.putheader("Content-Type", JSON)
    connection.putheader(PROOF_HEADER, session.proof("POST", CHAT, body, content_type=JSON, counted=True))
    for name, value in headers:
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def resident(running: Running) -> int:
    """Bytes of the server's memory that are in use."""
    status = Path(f"/proc/{running.ready['pid']}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) * KIB


@pytest.mark.slow
def test_a_crowd_of_half_sent_bodies_is_refused_and_takes_a_bounded_memory(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    body = request_of(4 << 20)
    with ExitStack() as stack, serving_gateway(tmp_path, platform_home, "--body-memory", "8") as running:
        session = SessionClient.start(running.gateway, platform)
        assert session.chat(body).status == 200
        before = resident(running)
        crowd = [begun(session, FRAMING[number % 2], body=body) for number in range(24)]
        for connection in crowd:
            stack.callback(connection.close)
        codes: list[str] = []
        threads = [
            threading.Thread(target=send_half, args=(connection, number % 2 == 1, body, codes))
            for number, connection in enumerate(crowd)
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(codes) == 22)  # two have room, and are waited for
        assert set(codes) == {"gateway.memory"}
        assert resident(running) - before < 48 << 20  # of 96 MiB that were sent
        for connection in crowd:
            with suppress(OSError, AttributeError):  # http.client lets go of what the server closes
                connection.sock.shutdown(socket.SHUT_RDWR)  # all of them leave
        for thread in threads:
            thread.join(10)
        until(lambda: session.chat(body).status == 200)
        with ThreadPoolExecutor(2) as pool:  # both have room: nothing stayed taken
            assert [answer.status for answer in pool.map(session.chat, [body] * 2)] == [200] * 2
        assert session.close().status == 200


FRAMING = (("Content-Length", str(4 << 20)), ("Transfer-Encoding", "chunked"))


def send_half(connection: HTTPSConnection, chunked: bool, body: bytes, codes: list[str]) -> None:
    """All but the last KiB of ``body``; the code of the answer, if one comes."""
    half = body[:-KIB]
    with suppress(OSError, ssl.SSLError, HTTPException):
        connection.send(b"%x\r\n%s" % (len(body), half) if chunked else half)
        answer = connection.getresponse()
        codes.append(json.loads(answer.read())["error"]["code"])


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("connection_header", ["close", "keep-alive"])
def test_a_client_that_sends_all_before_it_reads_finds_the_answer(
    session: SessionClient, connection_header: str
) -> None:
    size = 80 << 20
    connection = begun(session, ("Content-Length", str(size)), ("Connection", connection_header))
    piece = b"x" * (1 << 20)
    for _ in range(size // len(piece)):
        connection.send(piece)
    answer = connection.getresponse()
    assert answer.status == 413 and json.loads(answer.read())["error"]["code"] == "request.too_large"
    connection.close()


def test_a_body_to_an_open_endpoint_is_bounded(session: SessionClient) -> None:
    for target in ("/.well-known/affiant/attest", "/v1/sessions"):
        connection = session.gateway.connect()
        connection.putrequest("POST", target)
        for name, value in admission_headers(session.gateway.nonce()).items():
            connection.putheader(name, value)
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        piece = b"%x\r\n" % (1 << 20) + b"x" * (1 << 20) + b"\r\n"
        with suppress(OSError, ssl.SSLError):
            for _ in range(16):
                connection.send(piece)
        assert connection.getresponse().status in {413, 429}
        connection.close()
