"""Azure's metadata service, over real HTTP on loopback: a quote, or a named refusal, in bounded time and space."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from tests.attestation.quote.providers.azure import FakeIMDS, reply

from affiant.attestation.quote.providers.base.errors import ProviderAbsent, ProviderBusy, ResponseRefused
from affiant.attestation.quote.providers.clouds.azure_imds import AZURE_IMDS, AzureIMDS
from affiant.errors import AffiantError

REPORT = bytes(range(256)) * 4
QUOTE = b"\xfb\xff a quote, which is not looked at here"

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


def quoted(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    reply(handler, json.dumps({"quote": base64.urlsafe_b64encode(QUOTE).decode()}).encode())


@pytest.fixture
def service() -> Iterator[FakeIMDS]:
    running = FakeIMDS(quoted)
    yield running
    running.close()


def refusal(service: FakeIMDS, answer: Answer, **options: float) -> AffiantError:
    service.answer = answer
    with pytest.raises(AffiantError) as refused:
        AzureIMDS(service.base, **options).td_quote(REPORT)
    return refused.value


def body(content: bytes, **options: int) -> Answer:
    return lambda handler, _: reply(handler, content, **options)


def test_the_report_goes_out_and_the_quote_comes_back(service: FakeIMDS) -> None:
    assert AzureIMDS(service.base).td_quote(REPORT) == QUOTE
    sent = base64.urlsafe_b64encode(REPORT).rstrip(b"=").decode()
    assert service.asked == [("/acc/tdquote", json.dumps({"report": sent}, separators=(",", ":")).encode())]
    assert AZURE_IMDS == "http://169.254.169.254"


def test_the_environments_proxy_is_not_used(service: FakeIMDS, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert AzureIMDS(service.base).td_quote(REPORT) == QUOTE


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"quote":7}',
        b'{"quote":"+/"}',
        b'{"quote":"A"}',
        b'{"quote":"AA","quote":"AB"}',
        b"{",
    ],
)
def test_another_answer_than_a_quote_is_refused(service: FakeIMDS, content: bytes) -> None:
    assert isinstance(refusal(service, body(content)), ResponseRefused)


def test_more_than_an_answer_is_refused(service: FakeIMDS) -> None:
    found = refusal(service, body(b'{"quote":"' + b"A" * 100_000 + b'"}'))
    assert isinstance(found, ResponseRefused)
    assert "too much" in str(found)


def test_an_answer_without_end_is_refused(service: FakeIMDS) -> None:
    def endless(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        try:
            while True:
                handler.wfile.write(b"A" * 65536)
        except OSError:
            return

    assert "too much" in str(refusal(service, endless))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(service: FakeIMDS, status: int) -> None:
    other = FakeIMDS(quoted)

    def redirect(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        reply(handler, b"", status=status, Location=other.base + "/acc/tdquote")

    found = refusal(service, redirect)
    other.close()
    assert isinstance(found, ResponseRefused)
    assert other.asked == []


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (404, ProviderAbsent),
        (405, ProviderAbsent),
        (429, ProviderBusy),
        (503, ProviderBusy),
        (400, ResponseRefused),
    ],
)
def test_a_refusal_of_the_service_is_named(
    service: FakeIMDS, status: int, expected: type[AffiantError]
) -> None:
    found = refusal(service, body(b'{"error":"no"}', status=status))
    assert isinstance(found, expected)
    assert str(status) in str(found)


def test_a_service_that_breaks_off_is_busy(service: FakeIMDS) -> None:
    def cut(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"quote":')

    assert isinstance(refusal(service, cut), ProviderBusy)


@pytest.mark.parametrize(
    "first", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"]
)
def test_a_service_that_trickles_gains_no_time(service: FakeIMDS, first: bytes) -> None:
    def trickle(handler: BaseHTTPRequestHandler, _: bytes) -> None:
        try:
            handler.wfile.write(first)
            for _ in range(60):
                handler.wfile.write(b"A" if first else b"")
                time.sleep(0.05)
        except OSError:
            return

    began = time.monotonic()
    found = refusal(service, trickle, answer_s=0.3)
    assert isinstance(found, ProviderBusy)
    assert "in time" in str(found)
    assert time.monotonic() - began < 2


def test_a_machine_without_the_service_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, and nobody listens
        with pytest.raises(ProviderAbsent, match="no Azure metadata service"):
            AzureIMDS(f"http://127.0.0.1:{held.getsockname()[1]}").td_quote(REPORT)
