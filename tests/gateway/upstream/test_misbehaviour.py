"""Whatever an upstream sends, its client gets exact bytes or a well-formed error, and the request has one true record.

One session asks for each kind in turn, over real sockets, at a gateway process whose upstream takes one request at a
time; after each kind the slot is free, and a plain request is answered. In the end the bundle holds.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.bundles.test_bundles import with_openings
from tests.gateway.conftest import serving_gateway
from tests.gateway.inference.test_inference import DONE, FINISH, event, records_of, sha
from tests.gateway.leaving import Place
from tests.gateway.session_client import PROFILE, Answer, SessionClient
from tests.gateway.test_narrowed_bundles import trust_for
from tests.gateway.test_stalled_clients import until
from tests.gateway.upstream_server import (
    STREAM_HEAD,
    Received,
    Step,
    chunk,
    completion,
    scripted_upstream,
    streamed,
    whole,
)

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import EVENT_MAX
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.policy.loading.load import load_profiles

BODY: Final = json.dumps(completion()).encode()
JSON: Final = b"content-type: application/json\r\n"
CHUNKED: Final = b"HTTP/1.1 200 OK\r\n" + JSON + b"transfer-encoding: chunked\r\n\r\n"
FAILED: Final = b'{"error":{"message":"x"}}'
BEYOND: Final = BODY[:-1] + b', "x": 1e999}'
HTML: Final = b"<html><h1>no</h1></html>"
ONE: Final = event("one")


@dataclass(frozen=True, slots=True)
class Expected:
    """``body``: exact bytes that the client gets; None: an error with ``code``, after the events of ``begun``."""

    status: int = 502
    code: str = "upstream.malformed"
    body: bytes | None = None
    begun: bytes = b""
    end: str = "upstream_abort"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the upstream sends, to a request for a stream or not, and what must become of it."""

    steps: Iterable[Step]
    expected: Expected
    stream: bool = False


def passed(body: bytes = BODY, status: int = 200) -> Expected:
    return Expected(status, "", body, end="complete")


def refused(code: str, status: int = 502) -> Expected:
    return Expected(status, code)


def cut(code: str = "upstream.cut", *, begun: bytes = ONE) -> Expected:
    """A stream that has begun."""
    return Expected(200, code, begun=begun)


def said(*fields: str, body: bytes = BODY, line: str = "HTTP/1.1 200 OK") -> list[Step]:
    """A response with these very header lines, and ``body`` as it is."""
    lines = "\r\n".join((line, *fields, ""))
    return [lines.encode("latin-1") + JSON + b"\r\n" + body]


def of_length(size: object, body: bytes = BODY) -> list[Step]:
    return said(f"content-length: {size}", body=body)


def for_ever(*steps: Step) -> Iterator[Step]:
    while True:
        yield from steps


class Repeated:
    """Steps that are made anew each time: some never end."""

    def __init__(self, first: Sequence[Step], *then: Step) -> None:
        self._first, self._then = first, then

    def __iter__(self) -> Iterator[Step]:
        yield from self._first
        yield from for_ever(*self._then)


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def framed_by_length(data: bytes) -> list[Step]:
    head = STREAM_HEAD.replace(b"transfer-encoding: chunked", b"content-length: %d" % len(data))
    return [head + data]


MALFORMED, CUT, ANSWER = refused("upstream.malformed"), refused("upstream.cut"), refused("upstream.answer")
UNAUTHORIZED = refused("upstream.unauthorized")
LARGE: Final = event("x" * (EVENT_MAX - len(event(""))))
ERROR: Final = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
CR_ONLY: Final = (ONE + FINISH + DONE).replace(b"\n", b"\r")

KINDS: Final[Mapping[str, Kind]] = {
    # -- lengths
    "a length that is too short": Kind(of_length(10), ANSWER),
    "a length after which more comes": Kind(of_length(len(BODY), BODY + b"more"), passed()),
    "a length that is too long": Kind(of_length(len(BODY) + 1), CUT),
    "two lengths": Kind(said("content-length: 2", f"content-length: {len(BODY)}"), MALFORMED),
    "two lengths in one line": Kind(of_length(f"2, {len(BODY)}"), MALFORMED),
    "a negative length": Kind(of_length(-1), MALFORMED),
    "a length with a sign": Kind(of_length(f"+{len(BODY)}"), MALFORMED),
    "a length that is none": Kind(of_length("many"), MALFORMED),
    "a length beyond 64 bits": Kind(of_length(1 << 65), MALFORMED),
    "a length and chunks": Kind(
        said(f"content-length: {len(BODY)}", "transfer-encoding: chunked", body=chunk(BODY) + b"0\r\n\r\n"),
        MALFORMED,
    ),
    # -- chunks
    "a chunk of garbage": Kind([CHUNKED, b"zz\r\n"], MALFORMED),
    "a chunk of a negative size": Kind([CHUNKED, b"-5\r\nhello\r\n0\r\n\r\n"], MALFORMED),
    "a chunk beyond 64 bits": Kind([CHUNKED, b"fffffffffffffffff\r\n"], MALFORMED),
    "a chunk of all that 64 bits hold": Kind([CHUNKED, b"fffffffffffffff0\r\n", BODY], CUT),
    "no last chunk": Kind([CHUNKED, chunk(BODY)], CUT),
    "a chunk that is longer than its size": Kind([CHUNKED, b"2\r\n{}}\r\n0\r\n\r\n"], MALFORMED),
    "chunks with extensions": Kind(
        [CHUNKED, b"%x;name=value\r\n" % len(BODY), BODY, b"\r\n0;last\r\n\r\n"], passed()
    ),
    "chunks with trailers": Kind([CHUNKED, chunk(BODY), b"0\r\nx-usage: 7\r\n\r\n"], passed()),
    "a length in a trailer": Kind([CHUNKED, chunk(BODY), b"0\r\ncontent-length: 3\r\n\r\n"], MALFORMED),
    "trailers without end": Kind(Repeated([CHUNKED, chunk(BODY), b"0\r\n"], b"x: y\r\n" * 1000), MALFORMED),
    "another coding before the chunks": Kind(
        said("transfer-encoding: gzip, chunked", body=chunk(b"\x1f\x8b\x08garbage") + b"0\r\n\r\n"), ANSWER
    ),
    "a coding after the chunks": Kind(said("transfer-encoding: chunked, gzip"), refused("upstream.cut")),
    # -- heads
    "HTTP/1.0 with a length": Kind(said(f"content-length: {len(BODY)}", line="HTTP/1.0 200 OK"), passed()),
    "HTTP/1.0 that ends with its connection": Kind(said(line="HTTP/1.0 200 OK"), CUT),
    "no length at all": Kind(said(), CUT),
    "another protocol": Kind([b"SSH-2.0-OpenSSH_9.2\r\n"], MALFORMED),
    "HTTP/2": Kind([b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18)], MALFORMED),
    "a TLS alert": Kind([b"\x15\x03\x01\x00\x02\x02\x46"], MALFORMED),
    "a version that there is not": Kind(
        said(f"content-length: {len(BODY)}", line="HTTP/9.9 200 OK"), MALFORMED
    ),
    "a status of four digits": Kind(said(f"content-length: {len(BODY)}", line="HTTP/1.1 2000 OK"), MALFORMED),
    "no reason": Kind(said(f"content-length: {len(BODY)}", line="HTTP/1.1 200 "), passed()),
    "closed before its head": Kind([], CUT),
    "half a head": Kind([b"HTTP/1.1 200 OK\r\ncontent-le"], CUT),
    "a head that is too large": Kind(said("x: " + "y" * (70 << 10)), MALFORMED),
    "a head of many fields": Kind(said(*["x: y"] * (40 << 10)), MALFORMED),
    "a few interim responses": Kind(
        [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3, *whole(BODY)], passed()
    ),
    "interim responses without end": Kind(
        Repeated([], b"HTTP/1.1 100 Continue\r\nx: y\r\n\r\n" * 100), MALFORMED
    ),
    "another protocol from here on": Kind(
        [
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n\x81\x05hello"
        ],
        MALFORMED,
    ),
    "lines that end with LF alone": Kind(
        [b"HTTP/1.1 200 OK\n" + JSON.replace(b"\r", b"") + b"content-length: %d\n\n" % len(BODY) + BODY],
        MALFORMED,
    ),
    "a folded field": Kind(said("x: a\r\n b", f"content-length: {len(BODY)}"), MALFORMED),
    "a field with NUL": Kind(said("x: a\0b", f"content-length: {len(BODY)}"), MALFORMED),
    "a field without a colon": Kind(said("nonsense", f"content-length: {len(BODY)}"), MALFORMED),
    "a space before the colon": Kind(said(f"content-length : {len(BODY)}"), MALFORMED),
    # -- statuses
    "204 with a body": Kind(whole(BODY, status="204 No Content"), ANSWER),
    "304 with a body": Kind(whole(BODY, status="304 Not Modified"), ANSWER),
    "301 elsewhere": Kind(whole(BODY, status="301 Moved", location="http://127.0.0.1:1/"), ANSWER),
    "307 elsewhere": Kind(whole(b"", status="307 Moved", location="//evil.test/"), ANSWER),
    "401 in HTML": Kind(whole(HTML, status="401 Unauthorized", content_type="text/html"), UNAUTHORIZED),
    "403 in HTML": Kind(whole(HTML, status="403 Forbidden", content_type="text/html"), UNAUTHORIZED),
    "429 in HTML": Kind(whole(HTML, status="429 Slow Down", content_type="text/html"), ANSWER),
    "502 in HTML": Kind(whole(HTML, status="502 Bad Gateway", content_type="text/html"), ANSWER),
    "503 in HTML to a request for a stream": Kind(
        whole(HTML, status="503 Busy", content_type="text/html"), ANSWER, stream=True
    ),
    "500 in JSON": Kind(whole(FAILED, status="500 Oops"), passed(FAILED, 500)),
    "599 in JSON": Kind(whole(b'{"error":"x"}', status="599 What"), passed(b'{"error":"x"}', 599)),
    # -- bodies
    "HTML with 200": Kind(whole(HTML, content_type="text/html"), ANSWER),
    "no content type": Kind(whole(BODY, content_type=""), ANSWER),
    "HTML that says it is JSON": Kind(whole(HTML), ANSWER),
    "gzip, though asked not to": Kind(whole(b"\x1f\x8b\x08", content_encoding="gzip"), ANSWER),
    "a coding that there is not": Kind(whole(BODY, content_encoding="x-own"), ANSWER),
    "invalid UTF-8": Kind(whole(BODY.replace(b"hi", b"\xff\xfe")), ANSWER),
    "UTF-16": Kind(whole(json.dumps(completion()).encode("utf-16")), ANSWER),
    "a byte order mark": Kind(whole(b"\xef\xbb\xbf" + BODY), ANSWER),
    "a member twice": Kind(whole(BODY[:-1] + b', "choices": []}'), ANSWER),
    "NaN": Kind(whole(BODY[:-1] + b', "x": NaN}'), ANSWER),
    "deep nesting": Kind(whole(b'{"x":' * 20_000 + b"1" + b"}" * 20_000), ANSWER),
    "an integer of many digits": Kind(whole(BODY[:-1] + b', "x": ' + b"9" * 5000 + b"}"), ANSWER),
    "a number that readers take for infinity": Kind(whole(BEYOND), passed(BEYOND)),
    "an empty body": Kind(whole(b""), ANSWER),
    "an empty object": Kind(whole(b"{}"), passed(b"{}")),
    "a list": Kind(whole(b"[]"), ANSWER),
    "two documents": Kind(whole(BODY + BODY), ANSWER),
    "a body beyond its bound": Kind(whole(b'"' + b"x" * (32 << 20) + b'"'), ANSWER),
    "another model": Kind(whole(BODY.replace(b'"m"', b'"other"')), passed(BODY.replace(b'"m"', b'"other"'))),
    "a stream that was not asked for": Kind(streamed(ONE, DONE), ANSWER),
    # -- streams
    "no stream though asked for": Kind(whole(BODY), passed(), stream=True),
    "a stream of garbage": Kind(streamed(b"\x00\xff\xfe" * 100), cut(begun=b""), stream=True),
    "a stream that is empty": Kind(streamed(), cut(begun=b""), stream=True),
    "a stream without its last blank line": Kind(streamed(ONE, DONE[:-1]), cut(), stream=True),
    "lines that end with CR alone": Kind(streamed(CR_ONLY + b":"), passed(CR_ONLY), stream=True),
    "an event as large as it may be": Kind(streamed(LARGE, DONE), passed(LARGE + DONE), stream=True),
    "an event that is too large": Kind(
        streamed(ONE, b"data: " + b"x" * EVENT_MAX), cut("upstream.event_too_large"), stream=True
    ),
    "a trickle beyond the total": Kind(
        Repeated([STREAM_HEAD, chunk(ONE), chunk(b"data: ")], chunk(b"x"), 0.2),
        cut("upstream.total_timeout"),
        stream=True,
    ),
    "a flood that never ends": Kind(
        Repeated([STREAM_HEAD, chunk(ONE)], chunk(b"x" * 65536)), cut("upstream.event_too_large"), stream=True
    ),
    "a stall amid a stream": Kind(
        [STREAM_HEAD, chunk(ONE), lambda peer: peer.recv(1)], cut("upstream.idle_timeout"), stream=True
    ),
    "a stall amid a body": Kind(
        [CHUNKED, chunk(b"{"), lambda peer: peer.recv(1)], refused("upstream.idle_timeout", 504)
    ),
    "no head": Kind([lambda peer: peer.recv(1)], refused("upstream.head_timeout", 504)),
    "closed amid a stream": Kind([STREAM_HEAD, chunk(ONE)], cut(), stream=True),
    "closed amid an event": Kind([STREAM_HEAD, chunk(ONE), b"20\r\ndata: {"], cut(), stream=True),
    "reset amid a body": Kind([CHUNKED, chunk(b"{"), reset], CUT),
    "finished without a terminal event": Kind(streamed(ONE, FINISH), passed(ONE + FINISH), stream=True),
    "two terminal events": Kind(streamed(ONE, DONE + DONE), passed(ONE + DONE), stream=True),
    "events beyond the terminal one": Kind(
        streamed(ONE, DONE, event("late")), passed(ONE + DONE), stream=True
    ),
    "an error amid a stream": Kind(streamed(ONE, ERROR), cut(begun=ONE + ERROR), stream=True),
    "a stream with a length": Kind(framed_by_length(ONE + DONE), passed(ONE + DONE), stream=True),
    "a stream with a shorter length": Kind(framed_by_length(ONE + DONE)[:1], passed(ONE + DONE), stream=True),
    # -- connections
    "closed after a response that is kept": Kind(whole(BODY), passed()),
    "a second response to one request": Kind([*whole(BODY), *whole(BODY)], passed()),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the client got for one kind, and for the plain request after it."""

    answer: Answer
    after: Answer


class Asked:
    """Every kind was asked for once, by one session."""

    def __init__(
        self, session: SessionClient, key: X25519PrivateKey, outcomes: Mapping[str, Outcome]
    ) -> None:
        self.session, self.key, self.outcomes = session, key, outcomes
        records = [each for each in records_of(session, key) if each.member("agt", "cseq") is not None]
        self.counters = sorted(each.member("agt", "cseq") for each in records)
        self._records = {each.jti: each for each in records}

    def record(self, answer: Answer) -> VerifiedReceipt:
        return self._records[answer.headers["affiant-receipt-id"]]


@pytest.fixture(scope="module")
def asked(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: object
) -> Iterator[Asked]:
    kinds: list[Kind] = []
    key = X25519PrivateKey.generate()

    def script(received: Received) -> Iterable[Step]:
        return whole(completion()) if received.json["seed"] else kinds[-1].steps

    with scripted_upstream(script) as upstream:
        upstream.keep = False
        options = ("--upstream", upstream.url, "--upstream-concurrency", "1", "--upstream-timeout", "1,1,2")
        home = tmp_path_factory.mktemp("misbehaviour")
        with serving_gateway(home, platform_home, *options) as running:
            place, outcomes = Place(running, upstream, platform), {}
            session = SessionClient.start(running.gateway, platform, openings=key)
            for name, kind in KINDS.items():
                kinds.append(kind)
                answer = session.chat({"model": "m", "messages": [], "stream": kind.stream, "seed": 0})
                until(lambda: place.slots["under_way"] == 0)
                after = session.chat({"model": "m", "messages": [], "seed": 1})
                outcomes[name] = Outcome(answer, after)
            yield Asked(session, key, outcomes)


@pytest.mark.parametrize("name", KINDS)
def test_what_an_upstream_sends_is_passed_exactly_or_is_an_error_with_one_record(
    asked: Asked, name: str
) -> None:
    expected, outcome = KINDS[name].expected, asked.outcomes[name]
    answer = outcome.answer
    if expected.body is not None:
        assert (answer.status, answer.body) == (expected.status, expected.body)
    else:
        assert answer.body.startswith(expected.begun)
        error = json.loads(answer.body.removeprefix(expected.begun).removeprefix(b"data: "))["error"]
        assert (answer.status, error["code"]) == (expected.status, expected.code), error
    record = asked.record(answer)
    assert (record.kind, record.member("res", "end")) == ("inference", expected.end)
    assert record.member("res", "st") == expected.status
    assert (record.disclosed.get("res.dig"), record.disclosed.get("res.len")) == (
        sha(answer.body),
        len(answer.body),
    )
    assert (outcome.after.status, outcome.after.body) == (200, BODY)
    assert asked.record(outcome.after).member("res", "end") == "complete"


def test_each_request_has_one_record_and_the_bundle_holds(asked: Asked) -> None:
    assert asked.counters == list(range(2 * len(KINDS)))
    session, now = asked.session, datetime.now(UTC)
    assert session.submit(session.end_record()).status == 200 and session.close().status == 200
    raw = json.dumps(with_openings(session.bundle(), asked.key)).encode()
    profile = load_profiles(PROFILE).profile("tester").digest
    trust = parse_trust_file(trust_for(raw, profile, now))
    verdict = verify_bundle(raw, trust, verifiers=STANDARD_VERIFIERS, at=now, build="a test")
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    assert verdict.population.kinds["inference"] == 2 * len(KINDS)
