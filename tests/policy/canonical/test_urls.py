"""A URL that another program fetches means one address, or is rejected."""

from __future__ import annotations

import pytest

from affiant.policy.canonical.errors import HostRefused, TargetRefused
from affiant.policy.canonical.urls import MAX_URL, URL, canonical_url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.com", URL("https", "example.com", 443, "/")),
        ("http://example.com/", URL("http", "example.com", 80, "/")),
        ("https://Example.COM./a/b.png?x=1&y=%20", URL("https", "example.com", 443, "/a/b.png?x=1&y=%20")),
        ("https://example.com:8443?x=1", URL("https", "example.com", 8443, "/?x=1")),
        ("https://example.com:443/a", URL("https", "example.com", 443, "/a")),
    ],
)
def test_an_address_is_read_as_host_port_and_target(text: str, expected: URL) -> None:
    assert canonical_url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "http://169.254.169.254/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.0.0.1/",
            "http://[::1]/",
        ),
        *("http://0177.0.0.1/", "http://1.2.3.4:80/", "http://ex_ample.com/", "http://ex\u00e4mple.com/"),
        *(
            "http://example.com%2eevil.org/",
            "http://*.example.com/",
            "http:// example.com/",
            "http://example..com/",
        ),
    ],
)
def test_what_is_no_host_name_is_rejected_as_in_egress(text: str) -> None:
    with pytest.raises((HostRefused, TargetRefused)):
        canonical_url(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "/etc/passwd",
            "file:///etc/passwd",
            "FILE:/x",
            "ftp://example.com/",
            "s3://bucket/key",
            "//example.com/",
        ),
        *(
            "HTTP://example.com/",
            "http:example.com",
            "http:/example.com",
            "http:\\\\example.com",
            " http://example.com/",
        ),
        *(
            "http://example.com\n",
            "http://user@example.com/",
            "http://a:b@example.com/",
            "http://example.com\\@evil/",
        ),
        *(
            "https://example.com/#a",
            "https://example.com/a b",
            "https://example.com/\u00e9",
            "https://example.com/a\\b",
        ),
        *(
            "https://example.com/../a",
            "https://example.com/%2e%2e/a",
            "https://example.com//a",
            "https://example.com/%2F",
        ),
        *(
            "https://example.com:0/",
            "https://example.com:65536/",
            "https://example.com:/",
            "https://example.com:080/",
        ),
        *(
            "https:///a",
            "https://",
            "data:text/plain,x",
            "https://example.com/" + "a" * MAX_URL,
            "https://e.com\\a",
        ),
    ],
)
def test_what_programs_could_read_differently_is_rejected(text: str) -> None:
    with pytest.raises((HostRefused, TargetRefused)):
        canonical_url(text)
