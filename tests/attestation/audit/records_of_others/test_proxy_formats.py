"""Access logs: what each format says, and what is not read because it could be meant in two ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.audit.records_of_others.facts import Facts, parse_authority
from affiant.attestation.audit.records_of_others.item import Item, Unreadable
from affiant.attestation.audit.records_of_others.proxy_formats import PROXY_FORMATS

T = 1795262405000  # 2026-11-21T12:00:05Z
OURS = {
    "time": "2026-11-21T12:00:05.250Z",
    "duration_ms": 250,
    "host": "API.example:443",
    "method": "POST",
    "path": "/v1/chat/completions?x=1",
    "status": 200,
    "request_bytes": 10,
    "response_bytes": 20,
    "receipt_id": "A" * 22,
    "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
    "request_id": "abc",
}
ENVOY = {
    "start_time": "2026-11-21T12:00:05.000Z",
    "duration": 250,
    "authority": "api.example:443",
    "method": "POST",
    "path": "/v1/chat/completions?x=1",
    "response_code": 200,
    "bytes_received": "10",
    "bytes_sent": 20,
    "affiant_receipt_id": "A" * 22,
    "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
    "request_id": "abc",
    "upstream_host": "10.0.0.1:443",
}
SQUID = "1795262405.250    250 10.0.0.2 TCP_MISS/200 99 POST https://api.example/v1/x user HIER_DIRECT/10.0.0.1 t/h"
COMBINED = '10.0.0.2 - - [21/Nov/2026:13:00:05 +0100] "POST /v1/x?y=1 HTTP/1.1" 200 1234 "-" "agent \\"1\\""'


def read(form: str, line: object, host: str | None = None) -> Item | Unreadable:
    text = line if isinstance(line, str) else json.dumps(line)
    return PROXY_FORMATS[form](text, None if host is None else parse_authority(host))


WHOLE = Item(
    T,
    T + 250,
    parse_authority("api.example:443"),
    Facts("POST", "/v1/chat/completions?x=1", 200, 10, 20, trace=("1" * 32, "2" * 16)),
    receipt="A" * 22,
    reference="abc",
)


@pytest.mark.parametrize(("form", "line"), [("ndjson", OURS), ("envoy-json", ENVOY)])
def test_a_json_log_says_everything(form: str, line: dict) -> None:
    assert read(form, line) == WHOLE


def test_squid_says_when_it_ended_and_how_long_it_took_and_no_body_length() -> None:
    found = read("squid", SQUID)
    assert (found.begun, found.ended) == (T, T + 250)
    assert found.facts == Facts("POST", "/v1/x", 200)
    assert (str(found.authority), found.query_unknown) == ("api.example:443", True)


def test_nginx_says_when_it_ended_and_no_body_length() -> None:
    found = read("nginx-combined", COMBINED, "api.example")
    assert (found.begun, found.ended, found.facts) == (T, T, Facts("POST", "/v1/x?y=1", 200))
    assert not found.query_unknown


@pytest.mark.parametrize(
    ("form", "line"),
    [
        (
            "ndjson",
            {"time": "2026-11-21T12:00:05Z", "method": "CONNECT", "host": "api.example:443", "status": 200},
        ),
        ("squid", "1795262405.000 0 c TCP_TUNNEL/200 9 CONNECT api.example:443 - HIER_DIRECT/1.1.1.1 -"),
        (
            "nginx-combined",
            'c - - [21/Nov/2026:12:00:05 +0000] "CONNECT api.example:443 HTTP/1.1" 200 9 "-" "-"',
        ),
    ],
)
def test_connect_is_a_connection_and_its_status_is_the_proxys_own(form: str, line: object) -> None:
    found = read(form, line)
    assert (found.tunnel, found.facts, found.authority) == (
        True,
        Facts("CONNECT"),
        parse_authority("api.example:443"),
    )


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-21 12:00:05Z",
        "2026-11-21T12:00:05",
        "2026-11-21T12:00Z",
        "2026-1-1T1:1:1Z",
        "21/Nov/2026:12:00:05 +0000",
        "2026-02-30T12:00:05Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T12:00:60Z",
        "2026-11-21T12:00:05+99:00",
        "٢٠٢٦-11-21T12:00:05Z",
        "1795262405",
        1795262405,
        1795262405.5,
        None,
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_a_time_in_another_spelling_is_unreadable(time: object) -> None:
    assert isinstance(read("ndjson", OURS | {"time": time}), Unreadable)


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": None},
        {"host": "a b"},
        {"host": "user@api.example"},
        {"host": "api.example:99999"},
        {"host": ["api.example"]},
        {"status": "two hundred"},
        {"status": 200.5},
        {"status": -1},
        {"status": True},
        {"request_bytes": "1e3"},
        {"response_bytes": "1,000"},
        {"duration_ms": 10**12},
        {"receipt_id": "short"},
        {"receipt_id": 7},
        {"method": "post"},
        {"path": 1},
    ],
)
def test_a_member_that_is_not_what_it_should_be_is_unreadable_not_left_out(wrong: dict) -> None:
    assert isinstance(read("ndjson", OURS | wrong), Unreadable)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '{"time":"2026-11-21T12:00:05Z","host":"a.example","host":"b.example"}',
        '{"time":"2026-11-21T12:00:05Z","host":"a.example","status":NaN}',
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"status":' + "9" * 5000 + "}",
        '{"status":0.' + "9" * 5000 + "}",
    ],
)
def test_json_with_two_meanings_or_without_end_is_unreadable(line: str) -> None:
    assert isinstance(read("ndjson", line), Unreadable)


@pytest.mark.parametrize(
    "line",
    [
        SQUID.replace("1795262405.250", "1795262405"),
        SQUID.replace("1795262405.250", "1795262405,250"),
        SQUID.replace("https://", "ftp://"),
        SQUID.replace("https://api.example", "https://[::1"),
        SQUID.replace("    250 ", " -1 "),
        SQUID + " more",
        COMBINED,
    ],
)
def test_what_is_not_squids_own_format_is_unreadable(line: str) -> None:
    assert isinstance(read("squid", line), Unreadable)


@pytest.mark.parametrize(
    "line",
    [
        COMBINED.replace("Nov", "nov"),
        COMBINED.replace("Nov", "11"),
        COMBINED.replace(" +0100", ""),
        COMBINED.replace("POST /v1/x?y=1 HTTP/1.1", "\\x16\\x03\\x01"),
        COMBINED.replace("HTTP/1.1", ""),
        SQUID,
    ],
)
def test_what_is_not_the_combined_format_is_unreadable(line: str) -> None:
    assert isinstance(read("nginx-combined", line, "api.example"), Unreadable)


def test_a_log_without_hosts_needs_one() -> None:
    assert read("nginx-combined", COMBINED) == Unreadable("no host")


@given(st.sampled_from(sorted(PROXY_FORMATS)), st.text(max_size=200))
def test_no_text_is_more_than_unreadable(form: str, line: str) -> None:
    assert isinstance(read(form, line), (Item, Unreadable))


@given(
    st.dictionaries(st.sampled_from(sorted(OURS)), st.one_of(st.none(), st.integers(), st.text(max_size=30)))
)
def test_no_member_is_more_than_unreadable(changed: dict) -> None:
    for form in ("ndjson", "envoy-json"):
        assert isinstance(read(form, OURS | ENVOY | changed), (Item, Unreadable))
