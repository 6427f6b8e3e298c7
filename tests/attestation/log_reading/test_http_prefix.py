"""A server may be slow, oversized, elsewhere or lying about its encoding: each ends in a named refusal, soon."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest
from tests.attestation.log_builder import LogBuilder
from tests.attestation.log_reading.conftest import trickle
from tests.attestation.log_server import served

from affiant.attestation.log_reading.bounded_http import HTTPSettings
from affiant.attestation.log_reading.errors import (
    LogSettingsInvalid,
    LogUnavailable,
    LogUnreachable,
    RedirectRefused,
    ResourceTooLarge,
)
from affiant.attestation.log_reading.http_prefix import open_http_log
from affiant.attestation.log_reading.reader import LogTree, read_checkpoint
from affiant.attestation.tlog.errors import TileMalformed

QUICK = HTTPSettings(answer_s=0.6, silence_s=0.4)


def send(status: int, body: bytes = b"", **headers: str) -> Callable[[BaseHTTPRequestHandler], bool]:
    def answer(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)
        return True

    return answer


def test_a_whole_log_is_read_over_http(built: LogBuilder) -> None:
    with served(built.folder) as url, open_http_log(url + "/", HTTPSettings()) as source:
        assert read_checkpoint(source) == built.note()
        tree = LogTree(source, built.checkpoint())
        assert [leaf for _, leaf in tree.leaves()] == built.leaves
        assert source.read("tile/0/009", limit=8192) is None


def test_a_compressed_answer_is_unfolded_and_counted_as_it_unfolds(built: LogBuilder) -> None:
    content = (built.folder / "tile/0/000").read_bytes()
    good = send(200, gzip.compress(content), Content_Encoding="gzip")
    with served(built.folder, good) as url, open_http_log(url, QUICK) as source:
        assert source.read("tile/0/000", limit=8192) == content
    bomb = send(200, gzip.compress(bytes(100 << 20), 9), Content_Encoding="gzip")
    with served(built.folder, bomb) as url, open_http_log(url, HTTPSettings()) as source:
        with pytest.raises(ResourceTooLarge):
            source.read("tile/0/000", limit=8192)
    for body in (gzip.compress(content)[:-9], gzip.compress(content) + b"more", b"no gzip"):
        with served(built.folder, send(200, body, Content_Encoding="gzip")) as url:
            with open_http_log(url, QUICK) as source, pytest.raises(LogUnavailable):
                source.read("tile/0/000", limit=8192)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (send(302, Location="http://127.0.0.1:1/"), RedirectRefused),
        (send(200, bytes(8193)), ResourceTooLarge),
        (send(500), LogUnavailable),
        (send(403), LogUnavailable),
        (send(206, b"x"), LogUnavailable),
        (send(200, b"x", Content_Encoding="br"), LogUnavailable),
        (send(200, b"x", Content_Length="100"), LogUnreachable),
        (trickle, LogUnreachable),
    ],
)
def test_a_server_that_misbehaves_is_refused(
    built: LogBuilder, answer: Callable[[BaseHTTPRequestHandler], bool], refusal: type[Exception]
) -> None:
    start = time.monotonic()
    with served(built.folder, answer) as url, open_http_log(url, QUICK) as source:
        with pytest.raises(refusal):
            source.read("tile/0/000", limit=8192)
        assert time.monotonic() - start < 5


def test_nobody_there_is_unreachable() -> None:
    with open_http_log("http://127.0.0.1:1/log", QUICK) as source, pytest.raises(LogUnreachable):
        source.read("checkpoint", limit=100)


@pytest.mark.parametrize(
    "url",
    ["ftp://a/b", "https://", "https://user:pw@host/", "https://h/?q", "https://h/#f", "https://h:99999/"],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(LogSettingsInvalid) as refused, open_http_log(url, QUICK):
        pass
    assert "pw" not in str(refused.value)


def test_only_paths_of_a_log_are_asked_for(built: LogBuilder) -> None:
    with served(built.folder) as url, open_http_log(url, QUICK) as source, pytest.raises(TileMalformed):
        source.read("../secret", limit=10)


def test_no_proxy_of_the_environment_is_used(built: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with served(built.folder) as url, open_http_log(url, QUICK) as source:
        assert read_checkpoint(source) == built.note()
