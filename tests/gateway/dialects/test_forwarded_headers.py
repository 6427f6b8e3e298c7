"""Headers go on by name and by value, both ways, and nothing else does."""

from __future__ import annotations

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.gateway.dialects.forwarded_headers import BETAS, VERSIONS, forwarded_headers, returned_headers
from affiant.gateway.wire.errors import RequestMalformed

PATH = "/v1/messages"
KNOWN = sorted(BETAS)[:2]


@pytest.mark.parametrize(
    ("asked", "forwarded"),
    [
        (KNOWN[0], KNOWN[0]),
        (f" {KNOWN[0]} ,{KNOWN[1]}", f"{KNOWN[0]},{KNOWN[1]}"),
        (f"{KNOWN[0]},{KNOWN[0]}", KNOWN[0]),
        (f"unknown-2030-01-01,{KNOWN[1]}", KNOWN[1]),
        ("server-side-fallback-2026-07-01", None),
        (KNOWN[0].upper(), None),
        ("", None),
        (",,", None),
    ],
)
def test_betas_go_on_by_value(asked: str, forwarded: str | None) -> None:
    assert forwarded_headers(PATH, {"anthropic-beta": asked}).get("anthropic-beta") == forwarded


def test_the_version_that_the_installed_client_asks_for_is_served() -> None:
    asked = anthropic.Anthropic(api_key="x").default_headers["anthropic-version"]
    assert forwarded_headers(PATH, {"anthropic-version": str(asked)}) == {"anthropic-version": asked}
    assert asked in VERSIONS and "2023-06-01" in VERSIONS  # of clients before it


@thorough(300)
@given(st.text(max_size=200))
def test_nothing_of_an_unknown_value_goes_on(asked: str) -> None:
    found = forwarded_headers(PATH, {"anthropic-beta": asked}).get("anthropic-beta", "")
    assert set(found.split(",")) <= BETAS | {""}


def test_one_version_of_the_api_is_served() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert forwarded_headers(PATH, version) == forwarded_headers(f"{PATH}/count_tokens", version) == version
    for other in ("2023-01-01", "2023-06-01 ", "", "latest"):
        with pytest.raises(RequestMalformed) as refused:
            forwarded_headers(PATH, {"anthropic-version": other})
        assert refused.value.where == "anthropic-version"


def test_other_apis_get_none() -> None:
    assert (
        forwarded_headers("/v1/chat/completions", {"anthropic-version": "x", "anthropic-beta": KNOWN[0]})
        == {}
    )


RETURNED = [
    (b"retry-after", b"20"),
    (b"x-request-id", b"req_1"),
    (b"request-id", b"req_1"),
    (b"x-ratelimit-remaining-tokens", b"149984"),
    (b"x-ratelimit-reset-requests", b"6m0s"),
    (b"anthropic-ratelimit-input-tokens-reset", b"2026-11-21T12:00:00Z"),
]


def test_listed_headers_return() -> None:
    assert list(returned_headers(RETURNED)) == RETURNED


@pytest.mark.parametrize(
    "field",
    [
        *(
            (b"set-cookie", b"a=b"),
            (b"location", b"http://x"),
            (b"content-length", b"5"),
            (b"connection", b"close"),
        ),
        *(
            (b"affiant-receipt-id", b"A" * 22),
            (b"affiant-removed-tools", b'"x"'),
            (b"x-should-retry", b"true"),
        ),
        *((b"x-ratelimit-remaining-secrets", b"1"), (b"openai-organization", b"org"), (b"server", b"x")),
        *(
            (b"retry-after", b""),
            (b"retry-after", b"1\r\nx: y"),
            (b"retry-after", b"\xff"),
            (b"request-id", b"x" * 257),
        ),
        *((b"request-id", b"a\x00b"), (b"request-id", "\u2028".encode())),
    ],
)
def test_no_other_header_returns(field: tuple[bytes, bytes]) -> None:
    assert returned_headers([field]) == ()


def test_a_header_that_is_there_twice_does_not_return() -> None:
    assert returned_headers([(b"retry-after", b"1"), (b"retry-after", b"2"), RETURNED[1]]) == (RETURNED[1],)
