"""Asking a witness: what counts is verified, one conflict is retried, everything else is a named refusal, soon."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.attestation.log.witness.conftest import FORK, KEYS, LOG, NOW, request
from tests.attestation.log_builder import LogBuilder, cosigner, mldsa_cosigner
from tests.raising import raises_code

from affiant.attestation.log.witness.checkpoint_request import parse_submission
from affiant.attestation.log.witness.client import Cosignatures, ask_witness
from affiant.attestation.log.witness.protocol import SIZE_TYPE
from affiant.attestation.log.witness.witness import Witness
from affiant.attestation.log_reading.bounded_http import HTTPSettings, make_client
from affiant.attestation.log_reading.errors import LogSettingsInvalid
from affiant.attestation.tlog.note import Note, NoteSignature, verify_note

Script = Callable[[bytes], tuple[int, str, bytes]]
TEXT = "text/plain; charset=utf-8"


@contextmanager
def answering(script: Script) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, media_type, body = script(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_arguments: object) -> None:
            """Clients that hang up are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(
    url: str,
    *,
    old: int = 0,
    size: int = 9,
    log: LogBuilder = LOG,
    keys: object = None,
    answer_s: float = 5.0,
) -> Cosignatures:
    async def call() -> Cosignatures:
        async with make_client(HTTPSettings()) as client:
            return await ask_witness(
                url,
                log.note(size),
                lambda begin: log.proof(begin, size),
                keys=KEYS.verifiers() if keys is None else keys,  # type: ignore[arg-type]
                old=old,
                now=NOW,
                client=client,
                answer_s=answer_s,
            )

    return asyncio.run(call())


def real(witness: Witness) -> Script:
    def answer(body: bytes) -> tuple[int, str, bytes]:
        found = witness.add_checkpoint(body, now=NOW)
        return found.status, found.media_type, found.body

    return answer


def test_a_real_witness_cosigns_and_a_wrong_size_is_retried_once(witness: Witness) -> None:
    with answering(real(witness)) as url:
        first = ask(url + "/")
        assert verify_note(Note(LOG.note(9).text, first.lines), KEYS.verifiers()) == KEYS.verifiers()
        assert first.seconds == NOW
        assert len(ask(url, old=0, size=20).lines) == 2  # it has 9
        assert len(ask(url, old=20, size=20).lines) == 2
        with raises_code("witness.ahead"):
            ask(url, old=9, size=12)
        with raises_code("witness.inconsistent"):
            ask(url, old=20, size=30, log=FORK)


def test_a_size_that_keeps_changing_is_a_conflict_after_two_questions() -> None:
    asked: list[int] = []

    def moving(body: bytes) -> tuple[int, str, bytes]:
        asked.append(parse_submission(body).old)
        return 409, SIZE_TYPE, f"{asked[-1] + 1}\n".encode()

    with answering(moving) as url, raises_code("witness.conflict"):
        ask(url)
    assert asked == [0, 1]
    with answering(lambda _body: (409, SIZE_TYPE, b"0\n")) as url, raises_code("witness.conflict"):
        ask(url)


@pytest.mark.parametrize(
    ("status", "media_type", "body", "code"),
    [
        (409, "text/plain", b"5\n", "witness.unreachable"),
        (409, SIZE_TYPE, b"5", "witness.unreachable"),
        (409, SIZE_TYPE, b"05\n", "witness.unreachable"),
        (409, SIZE_TYPE, b"-5\n", "witness.unreachable"),
        (409, SIZE_TYPE, b"99\n", "witness.ahead"),
        (422, TEXT, b"", "witness.inconsistent"),
        (403, TEXT, b"", "witness.refused"),
        (404, TEXT, b"", "witness.refused"),
        (400, TEXT, b"", "witness.refused"),
        (503, TEXT, b"", "witness.unreachable"),
        (302, TEXT, b"", "witness.unreachable"),
        (200, TEXT, b"", "witness.forged"),
        (200, TEXT, b"hello\n", "witness.forged"),
        (200, TEXT, b"\xff\n", "witness.forged"),
        (200, TEXT, b"x" * 100_000, "witness.unreachable"),
    ],
)
def test_every_other_answer_is_a_named_refusal(status: int, media_type: str, body: bytes, code: str) -> None:
    with answering(lambda _body: (status, media_type, body)) as url, raises_code(code):
        ask(url)


def test_forged_cosignatures_are_refused_and_those_of_strangers_ignored() -> None:
    text = LOG.note(9).text
    genuine = KEYS.cosign(text, NOW)
    strangers = (cosigner(5).sign(text), mldsa_cosigner(6).sign(text))

    def lines(*found: NoteSignature) -> Script:
        return lambda _body: (200, TEXT, "".join(each.line() for each in found).encode())

    with answering(lines(*strangers, genuine[0])) as url:
        assert ask(url).lines == (genuine[0],)
    forged = NoteSignature(genuine[0].key, genuine[0].signature[:-1] + b"\0")
    other_tree = KEYS.cosign(LOG.note(8).text, NOW)
    future = KEYS.cosign(text, NOW + 301)
    for bad in (strangers, (genuine[1], forged), other_tree, future):
        with answering(lines(*bad)) as url, raises_code("witness.forged"):
            ask(url)


def test_silence_ends_in_time() -> None:
    def silent(_body: bytes) -> tuple[int, str, bytes]:
        time.sleep(1.0)
        return 200, TEXT, b""

    start = time.monotonic()
    with answering(silent) as url, raises_code("witness.unreachable"):
        ask(url, answer_s=0.2)
    assert time.monotonic() - start < 5
    with raises_code("witness.unreachable"):
        ask("http://127.0.0.1:1")


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(LogSettingsInvalid):
        ask("file:///etc/passwd")


def test_the_body_is_the_protocols() -> None:
    seen: list[bytes] = []

    def keep(body: bytes) -> tuple[int, str, bytes]:
        seen.append(body)
        return 503, TEXT, b""

    with answering(keep) as url, raises_code("witness.unreachable"):
        ask(url, old=5)
    assert seen == [request(5, 9)]
