"""Which addresses may be an upstream's: none of a kind that could hold a key, and none that cannot be dialled."""

from __future__ import annotations

import pytest

from affiant.attestation.statements.gateway_config import DEV_ECHO, is_upstream_url

NOT_AN_UPSTREAM = (
    "localhost:8000/v1",
    "ftp://host/v1",
    "http:///v1",
    "http://host:0/v1",
    "http://host:99999/v1",
    "http://user:hunter2@host/v1",
    "http://@host/v1",
    "http://host/v1?key=hunter2",
    "http://host/v1?",
    "http://host/v1#x",
    "http://host/v1#",
    "http://host/a b",
    "http://h\u00f6st/v1",
    "HTTP://host/v1",
    "http://[::1/v1",
    f"http://{'h' * 256}/v1",
    f"http://host/{'p' * 600}",
    "",
)


@pytest.mark.parametrize("url", NOT_AN_UPSTREAM)
def test_what_is_no_upstreams_address(url: str) -> None:
    assert not is_upstream_url(url)


@pytest.mark.parametrize(
    "url", [DEV_ECHO.url, "https://api.example.com/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"]
)
def test_what_is_one(url: str) -> None:
    assert is_upstream_url(url)
