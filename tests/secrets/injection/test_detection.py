import base64
import gzip
import os
import urllib.parse
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.secrets.injection.detection import (
    PlaceholderDetector,
    SecretUse,
    judge_head,
    without_placeholders,
)
from affiant.secrets.injection.placeholder import Binding, Endpoint, PlaceholderTable, mint_placeholder
from affiant.secrets.injection.surface import QuerySurface, Surface
from affiant.secrets.names.errors import PlaceholderMisplaced, SecretNotBound

TOKEN, KEY = mint_placeholder(os.urandom), mint_placeholder(os.urandom, shape="sk-{40}")
TABLE = PlaceholderTable(
    [
        Binding("TOKEN", TOKEN, frozenset({Endpoint("api.example.com", 443)})),
        Binding(
            "KEY", KEY, frozenset({Endpoint("api.example.com", 443)}), Surface.injected("X-Api-Key", "{}")
        ),
        Binding("NO_SINK", mint_placeholder(os.urandom), frozenset()),
    ]
)
PLAIN = TOKEN.encode()


def judge(headers, *, scheme="https", host="api.example.com", port=443, target=b"/v1/x?y=z"):
    return judge_head(TABLE, scheme=scheme, host=host, port=port, target=target, headers=tuple(headers))


def test_the_secrets_of_a_request_are_found_in_their_places() -> None:
    headers = [
        (b"Host", b"api.example.com"),
        (b"AUTHORIZATION", b"Bearer " + PLAIN),
        (b"x-api-key", KEY.encode()),
    ]
    assert judge(headers) == (
        SecretUse("TOKEN", "header:authorization", 1),
        SecretUse("KEY", "header:x-api-key", 2),
    )
    assert judge([(b"accept", b"*/*")]) == ()


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "evil.example"}, {"port": 8443}, {"scheme": "http"}, {"host": "api.example.com.evil.net"}],
)
def test_a_secret_is_refused_where_it_is_not_bound(elsewhere) -> None:
    with pytest.raises(SecretNotBound) as refusal:
        judge([(b"authorization", b"Bearer " + PLAIN)], **elsewhere)
    assert TOKEN not in str(refusal.value)


def test_a_secret_without_a_place_is_refused_on_use() -> None:
    placeholder = TABLE.binding("NO_SINK").placeholder.encode()
    with pytest.raises(SecretNotBound, match="secret_no_sink"):
        judge([(b"authorization", b"Bearer " + placeholder)])


@pytest.mark.parametrize(
    "header",
    [
        (b"x-other", PLAIN),
        (b"authorization", b"Digest " + PLAIN),
        (b"authorization", PLAIN),
        (b"authorization", b"Bearer " + KEY.encode()),
        (b"x-api-key", b"Bearer " + KEY.encode()),
        (b"x-api-key", PLAIN),
        (b"cookie", b"session=" + urllib.parse.quote(PLAIN).encode()),
        (b"proxy-authorization", b"Basic " + base64.b64encode(b"user:" + PLAIN)),
        (PLAIN, b"value"),
    ],
)
def test_a_placeholder_in_another_header_is_refused(header) -> None:
    with pytest.raises(PlaceholderMisplaced) as refusal:
        judge([header])
    assert TOKEN not in str(refusal.value)
    assert KEY not in str(refusal.value)


def test_a_secrets_header_stands_once() -> None:
    with pytest.raises(PlaceholderMisplaced, match="more than once"):
        judge([(b"authorization", b"Bearer " + PLAIN), (b"Authorization", b"Bearer other")])


QUERY = mint_placeholder(os.urandom)
QUERIED = PlaceholderTable(
    [
        Binding("Q", QUERY, frozenset({Endpoint("api.example.com", 443)}), QuerySurface("key")),
        Binding("TOKEN", TOKEN, frozenset({Endpoint("api.example.com", 443)})),
    ]
)


def judge_target(target: bytes, *, host: str = "api.example.com", scheme: str = "https"):
    return judge_head(QUERIED, scheme=scheme, host=host, port=443, target=target, headers=())


def test_a_parameter_of_the_query_holds_its_secret() -> None:
    target = b"/x?a=1&key=" + QUERY.encode() + b"&b=2"
    (use,) = judge_target(target)
    assert (use.name, use.surface, use.field) == ("Q", "query:key", None)
    assert without_placeholders(target, [use]) == b"/x?a=1&key=&b=2"


def test_a_secret_of_the_query_is_refused_elsewhere() -> None:
    target = b"/x?key=" + QUERY.encode()
    for where in ({"host": "evil.example"}, {"scheme": "http"}):
        with pytest.raises(SecretNotBound) as refusal:
            judge_target(target, **where)
        assert QUERY not in str(refusal.value)
    for misplaced in (
        b"/x?other=" + QUERY.encode(),
        b"/x/" + QUERY.encode(),
        target + b"&a=" + QUERY.encode(),
        target + b"&key=" + QUERY.encode(),
        target + b"&b=" + TOKEN.encode(),
        b"/x?key=" + TOKEN.encode(),
        b"/x?key=" + b"".join(b"%%%02X" % byte for byte in QUERY.encode()),
    ):
        with pytest.raises(PlaceholderMisplaced):
            judge_target(misplaced)
    header = (b"Authorization", b"Bearer " + QUERY.encode())
    with pytest.raises(PlaceholderMisplaced):
        judge_head(QUERIED, scheme="https", host="api.example.com", port=443, target=b"/", headers=(header,))


@pytest.mark.parametrize("table", [TABLE, PlaceholderTable([])])
def test_a_placeholder_of_another_session_is_refused(table: PlaceholderTable) -> None:
    other = mint_placeholder(os.urandom).encode()
    for headers, target in (([(b"authorization", b"Bearer " + other)], b"/"), ([], b"/?t=" + other)):
        with pytest.raises(PlaceholderMisplaced):
            judge_head(
                table, scheme="https", host="api.example.com", port=443, target=target, headers=tuple(headers)
            )


HIDINGS = {
    "plain": PLAIN,
    "percent-one": b"%61" + PLAIN[1:],
    "percent-all": b"".join(b"%%%02x" % byte for byte in PLAIN),
    "percent-some": b"".join(b"%%%02X" % byte if byte % 3 else bytes([byte]) for byte in PLAIN),
    "json-one": b"\\u0061" + PLAIN[1:],
    "json-all": b"".join(b"\\u%04x" % byte for byte in PLAIN),
    "mixed": b"".join((b"\\u%04x" if byte % 2 else b"%%%02x") % byte for byte in PLAIN),
    "html": b"".join(b"&#%d;" % byte for byte in PLAIN),
    "base64": base64.b64encode(PLAIN),
    "base64-1": base64.b64encode(b"x" + PLAIN + b"y"),
    "base64-2": base64.urlsafe_b64encode(b"xx" + PLAIN + b"yyy"),
    "utf-16": TOKEN.encode("utf-16"),
    "hex": PLAIN.hex().encode(),
    "reversed": PLAIN[::-1],
    "upper": PLAIN.upper(),
}


@pytest.mark.parametrize("name", HIDINGS)
def test_a_placeholder_in_the_target_is_refused(name: str) -> None:
    with pytest.raises(PlaceholderMisplaced):
        judge([], target=b"/v1/x?token=" + HIDINGS[name] + b"&y=1")


@pytest.mark.parametrize("name", HIDINGS)
def test_a_placeholder_in_the_body_is_refused_however_it_is_cut(name: str) -> None:
    body = b'{"a": "' + HIDINGS[name] + b'"}' + b" " * 300
    for size in (1, 2, 3, 5, 7, 16, 64, 1000):
        detector = PlaceholderDetector(TABLE)
        forwarded = b""
        with pytest.raises(PlaceholderMisplaced):
            for at in range(0, len(body), size):
                forwarded += detector.feed(body[at : at + size])
            detector.flush()
        assert len(forwarded) <= 7, "not even a part of it was forwarded"


@thorough(100)
@given(
    st.lists(
        st.one_of(st.binary(max_size=400), st.sampled_from([b"%4", b"\\u00", b"affiant-ph-"])), max_size=8
    )
)
def test_a_body_without_placeholders_passes_unchanged(chunks: list[bytes]) -> None:
    detector = PlaceholderDetector(TABLE)
    assert b"".join([*map(detector.feed, chunks), detector.flush()]) == b"".join(chunks)


@pytest.mark.parametrize("encoding", [b"gzip", b"x-gzip", b"deflate", b"GZIP "])
def test_a_compressed_body_is_searched(encoding: bytes) -> None:
    text = os.urandom(5000) + PLAIN + os.urandom(5000)
    body = zlib.compress(text) if encoding == b"deflate" else gzip.compress(text)
    detector = PlaceholderDetector(TABLE, content_encoding=encoding)
    with pytest.raises(PlaceholderMisplaced):
        for at in range(0, len(body), 100):
            detector.feed(body[at : at + 100])


def test_an_innocent_compressed_body_passes() -> None:
    body = gzip.compress(b"hello" * 1000)
    detector = PlaceholderDetector(TABLE, content_encoding=b"gzip")
    assert (
        b"".join([*(detector.feed(body[at : at + 7]) for at in range(0, len(body), 7)), detector.flush()])
        == body
    )


@pytest.mark.parametrize("encoding", [b"br", b"zstd", b"gzip, gzip", b"compress", b"nonsense"])
def test_a_body_that_cannot_be_searched_is_refused(encoding: bytes) -> None:
    with raises_code("secret.placeholder_hidden"):
        PlaceholderDetector(TABLE, content_encoding=encoding)
    assert PlaceholderDetector(PlaceholderTable([]), content_encoding=encoding).feed(PLAIN) == PLAIN


@pytest.mark.parametrize(
    "body",
    [
        b"not gzip at all",
        gzip.compress(b"x") + b"tail",
        gzip.compress(b"x") + gzip.compress(PLAIN),
        gzip.compress(b"x" * 99)[:-9],
    ],
    ids=["not gzip", "bytes behind its end", "two members", "cut"],
)
def test_a_damaged_compressed_body_is_refused(body: bytes) -> None:
    detector = PlaceholderDetector(TABLE, content_encoding=b"gzip")
    with raises_code("secret.placeholder_hidden"):
        detector.feed(body)
        detector.flush()


def test_a_decompression_bomb_is_refused() -> None:
    bomb = gzip.compress(bytes(24 << 20), compresslevel=9)
    detector = PlaceholderDetector(TABLE, content_encoding=b"gzip")
    with raises_code("secret.placeholder_hidden", match="bound"):
        detector.feed(bomb)
