"""The request parser against every trick of negative tests E1 and E14 to E16, and against a second parser."""

from __future__ import annotations

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.sandbox.egress.http.errors import RequestTooLarge
from affiant.sandbox.egress.http.request import BodyData, EndOfRequest, NeedData, RequestReader
from affiant.sandbox.egress.http.request_head import MAX_HEAD, RequestHead

HOST = b"Host: api.example.com\r\n"


def read_all(data: bytes, step: int = 1 << 20) -> tuple[RequestHead, bytes]:
    """The first request in ``data``, fed in steps; NeedData at the end fails."""
    reader, head, body = RequestReader(), None, b""
    for start in range(0, len(data), step):
        reader.feed(data[start : start + step])
        while not isinstance(event := reader.next_event(), NeedData):
            if isinstance(event, RequestHead):
                head = event
            elif isinstance(event, BodyData):
                body += event.data
            else:
                assert isinstance(event, EndOfRequest)
                assert head is not None
                return head, body
    raise AssertionError("the request did not come to its end")


def get(*lines: bytes, first: bytes = b"GET / HTTP/1.1") -> bytes:
    return b"\r\n".join([first, b"Host: api.example.com", *lines, b"", b""])


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_a_plain_request_is_read_however_it_is_split(step: int) -> None:
    head, body = read_all(b"POST /a?b=1 HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello", step)
    assert (head.method, head.target, head.length, body) == ("POST", "/a?b=1", 5, b"hello")


@pytest.mark.parametrize("step", [1, 2, 3, 4096])
def test_a_chunked_body_is_joined_however_it_is_split(step: int) -> None:
    data = (
        b"POST / HTTP/1.1\r\n"
        + HOST
        + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n"
    )
    head, body = read_all(data, step)
    assert head.length is None
    assert body == b"hello0123456789"


def test_pipelined_requests_come_one_after_the_other() -> None:
    reader = RequestReader()
    reader.feed(get(first=b"GET /1 HTTP/1.1") + get(first=b"GET /2 HTTP/1.1"))
    targets = []
    for _ in range(2):
        head = reader.next_event()
        assert isinstance(head, RequestHead)
        targets.append(head.target)
        assert isinstance(reader.next_event(), EndOfRequest)
    assert targets == ["/1", "/2"]
    assert reader.idle


AMBIGUOUS = {
    "E16 CL and TE": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "E16 TE and CL": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "E16 two CL that differ": b"Content-Length: 5\r\nContent-Length: 6\r\n",
    "E16 two CL that agree": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "E16 CL list": b"Content-Length: 5, 5\r\n",
    "CL with a sign": b"Content-Length: +5\r\n",
    "CL with a leading zero": b"Content-Length: 05\r\n",
    "CL in hexadecimal": b"Content-Length: 0x5\r\n",
    "CL with an underscore": b"Content-Length: 1_0\r\n",
    "CL spelled with an underscore": b"Content_Length: 5\r\n",
    "TE spelled with an underscore": b"Transfer_Encoding: chunked\r\n",
    "TE not chunked": b"Transfer-Encoding: gzip\r\n",
    "TE twice in one": b"Transfer-Encoding: gzip, chunked\r\n",
    "TE obfuscated": b"Transfer-Encoding: xchunked\r\n",
    "TE in two lines": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "E16 obs-fold": b"X: a\r\n b\r\n",
    "E16 obs-fold by tab": b"X: a\r\n\tContent-Length: 5\r\n",
    "trailers announced": b"Trailer: X-Sum\r\n",
    "Connection takes a header away": b"Connection: close, authorization\r\n",
}


@pytest.mark.parametrize("fields", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_what_two_servers_could_read_differently_is_refused(fields: bytes) -> None:
    with raises_code("egress.ambiguous"):
        read_all(b"POST / HTTP/1.1\r\n" + HOST + fields + b"\r\nhello")


BARE = {
    "E16 bare LF between lines": b"GET / HTTP/1.1\nHost: a.b\r\n\r\n",
    "E16 bare LF in a value": b"GET / HTTP/1.1\r\nX: a\nHost: a.b\r\n\r\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nX: a\rHost: a.b\r\n\r\n",
    "bare LF at the end": b"GET / HTTP/1.1\r\nHost: a.b\n\n",
}


@pytest.mark.parametrize("data", BARE.values(), ids=BARE.keys())
def test_a_line_ends_with_cr_lf_and_nothing_else(data: bytes) -> None:
    with raises_code("egress.ambiguous"):
        read_all(data)


MALFORMED = {
    "E1 NUL in a header": b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
    "E1 NUL in the target": b"GET /\0 HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "control in a header": b"GET / HTTP/1.1\r\nX: a\x07b\r\n\r\n",
    "DEL in a header": b"GET / HTTP/1.1\r\nX: a\x7fb\r\n\r\n",
    "byte beyond ASCII": b"GET / HTTP/1.1\r\nX: \xff\r\n\r\n",
    "E14 overlong UTF-8 in the target": b"GET /\xc0\xaf HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "white space before the colon": b"GET / HTTP/1.1\r\nHost : a.b\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    "empty name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "tab in the request line": b"GET\t/ HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "HTTP/2": b"GET / HTTP/2.0\r\nHost: a.b\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "preface of h2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "empty line first": b"\r\nGET / HTTP/1.1\r\nHost: a.b\r\n\r\n",
    "unknown expectation": get(b"Expect: 200-ok"),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with raises_code("egress.request"):
        read_all(data)


@pytest.mark.parametrize("method", [b"TRACE", b"TRACK", b"get", b"Get", b"PRI", b"FOO"])
def test_E15_a_method_that_is_never_forwarded_is_refused(method: bytes) -> None:
    with raises_code("egress.method"):
        read_all(get(first=method + b" / HTTP/1.1"))


@pytest.mark.parametrize(
    "name",
    [
        "X-HTTP-Method-Override",
        "x-http-method",
        "X-METHOD-OVERRIDE",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Forwarded-Host",
    ],
)
def test_E15_a_header_that_changes_the_request_behind_the_decision_is_refused(name: str) -> None:
    with raises_code("egress.method"):
        read_all(get(name.encode() + b": DELETE"))


@pytest.mark.parametrize(
    "fields",
    [
        (
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
            b"Connection: Upgrade, HTTP2-Settings",
        ),
        (b"Upgrade: websocket", b"Connection: Upgrade"),
        (b"HTTP2-Settings: AAA",),
    ],
)
def test_E16_an_upgrade_is_refused(fields: tuple[bytes, ...]) -> None:
    with raises_code("egress.upgrade"):
        read_all(get(*fields))


@pytest.mark.parametrize(
    "chunk",
    [b"5;ext=1\r\nhello", b"5 \r\nhello", b" 5\r\nhello", b"0x5\r\nhello", b"5\nhello", b"+5\r\nhello", b"-1\r\n",
     b"FFFFFFFFF\r\n", b"\r\nhello", b"5\r\nhelloX", b"7FFFFFFF\r\n", b"0\r\nX-Trailer: 1\r\n\r\n"],
)  # fmt: skip
def test_E16_a_chunk_of_another_than_the_plain_form_is_refused(chunk: bytes) -> None:
    with raises_code("egress.ambiguous"):
        read_all(
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"\r\n0\r\n\r\n"
        )


def test_chunked_is_for_http_1_1_only() -> None:
    with raises_code("egress.ambiguous"):
        read_all(b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")


def test_connect_has_no_body() -> None:
    with raises_code("egress.ambiguous"):
        read_all(b"CONNECT a.b:443 HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\nx")


def test_a_head_without_end_is_bounded() -> None:
    reader = RequestReader()
    reader.feed(b"GET / HTTP/1.1\r\nX: " + b"a" * MAX_HEAD)
    with pytest.raises(RequestTooLarge):
        reader.next_event()


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(RequestTooLarge):
        read_all(get(*[b"X-%d: 1" % number for number in range(200)]))


def test_after_a_refusal_the_connection_is_of_no_more_use() -> None:
    reader = RequestReader()
    reader.feed(b"TRACE / HTTP/1.1\r\n\r\n" + get())
    with raises_code("egress.method"):
        reader.next_event()
    with raises_code("egress.request"):
        reader.next_event()


def test_http_1_0_closes_unless_it_asks_to_stay() -> None:
    assert not read_all(get(first=b"GET / HTTP/1.0"))[0].keep_alive
    assert read_all(get(b"Connection: keep-alive", first=b"GET / HTTP/1.0"))[0].keep_alive
    assert not read_all(get(b"Connection: close"))[0].keep_alive


NAMES = st.sampled_from(
    [b"Host", b"Content-Length", b"Transfer-Encoding", b"X-A", b"Connection", b"Accept", b"Cookie"]
)
VALUES = st.sampled_from(
    [b"a.b", b"5", b"0", b"chunked", b"close", b"x y", b"", b"5, 5", b"identity", b"a\tb"]
)
LINES = st.lists(st.tuples(NAMES, VALUES), max_size=5)
TAILS = st.sampled_from(
    [b"hello", b"", b"5\r\nhello\r\n0\r\n\r\n", b"5;x\r\nhello\r\n0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"]
)
SEPARATORS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"])


def by_h11(data: bytes) -> tuple[bytes, bytes, bytes]:
    connection, body = h11.Connection(h11.SERVER), b""
    connection.receive_data(data)
    head = connection.next_event()
    assert isinstance(head, h11.Request)
    while isinstance(event := connection.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    return head.method, head.target, body


@thorough(300)
@given(lines=LINES, tail=TAILS, separator=SEPARATORS, step=st.integers(1, 40))
def test_whatever_is_accepted_is_read_alike_by_another_parser(lines, tail, separator, step) -> None:
    fields = b"".join(b"%s: %s%s" % (name, value, separator) for name, value in lines)
    data = b"POST /x HTTP/1.1\r\n" + fields + b"\r\n" + tail
    try:
        head, body = read_all(data, step)
    except (AffiantError, AssertionError):
        return
    if len(head.values(b"host")) != 1:
        return  # refused later, by the origin
    assert by_h11(data) == (head.method.encode(), head.target.encode(), body)


@thorough(300)
@given(data=st.binary(max_size=300), step=st.integers(1, 300))
def test_no_bytes_cause_anything_but_a_typed_refusal(data: bytes, step: int) -> None:
    try:
        read_all(data, step)
    except (AffiantError, AssertionError):
        pass


@thorough(200)
@given(position=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_changed_byte_is_refused_or_read_alike(position: int, byte: int) -> None:
    data = bytearray(b"POST /v1/a HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nX-Long: abc def\r\n\r\nhello")
    data[position % len(data)] = byte
    try:
        head, body = read_all(bytes(data), 16)
    except (AffiantError, AssertionError):
        return
    if len(head.values(b"host")) == 1:
        assert by_h11(bytes(data)) == (head.method.encode(), head.target.encode(), body)
