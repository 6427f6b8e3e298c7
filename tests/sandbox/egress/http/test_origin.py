"""Hosts and targets as agents may spell them: one spelling, or a refusal (E1 to E5, E9, E14)."""

from __future__ import annotations

import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.sandbox.egress.http.client_hello import ClientHello
from affiant.sandbox.egress.http.errors import ServerNameMissing
from affiant.sandbox.egress.http.origin import (
    Origin,
    check_server_name,
    connect_origin,
    inner_target,
    proxied_target,
)
from affiant.sandbox.egress.http.request_head import RequestHead, parse_head

HTTPS = Origin("https", "api.example.com", 443)


def head(target: str, host: str | None = "api.example.com", method: str = "GET") -> RequestHead:
    fields = "" if host is None else f"\r\nHost: {host}"
    return parse_head(f"{method} {target} HTTP/1.1{fields}".encode("latin-1"))


@pytest.mark.parametrize("text", ["api.example.com:443", "API.Example.com:443", "api.example.com.:443"])
def test_E3_one_host_has_one_spelling(text: str) -> None:
    assert connect_origin(text) == HTTPS


@pytest.mark.parametrize(
    "text",
    [
        "api.example.com", "api.example.com:", "api.example.com:0", "api.example.com:65536", "api.example.com:0443",
        "api.example.com:44 3", "api.example.com:https", ":443", "user@api.example.com:443",
        "api.example.com:80@evil.example:443", "api.example.com\\evil.example:443", "api.example.com#@evil:443",
        "127.0.0.1:443", "127.1:443", "2130706433:443", "0x7f000001:443", "0177.0.0.1:443", "0:443",
        "[::1]:443", "[::ffff:169.254.169.254]:443", "[64:ff9b::a9fe:a9fe]:443", "fe80::1%eth0:443",
        "api_x.example.com:443", "xn--.example:443", "\uff0eexample.com:443", "-a.example.com:443",
        "a..example.com:443", "*.example.com:443",
    ],
)  # fmt: skip
def test_E1_E4_E5_what_is_no_host_name_with_a_port_is_refused(text: str) -> None:
    with pytest.raises(AffiantError):
        connect_origin(text)


def test_an_absolute_target_and_its_host_header_agree() -> None:
    assert proxied_target(head("http://api.example.com/v1?x=1")) == (
        Origin("http", "api.example.com", 80),
        "/v1?x=1",
    )
    assert proxied_target(head("http://api.example.com", "API.example.com:80"))[1] == "/"


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("http://api.example.com/", "evil.example"),
        ("http://api.example.com/", "api.example.com:8080"),
        ("http://api.example.com:8080/", "api.example.com"),
    ],
)
def test_E14_an_absolute_target_with_another_host_header_is_refused(target: str, host: str) -> None:
    with raises_code("egress.host_mismatch"):
        proxied_target(head(target, host))


@pytest.mark.parametrize(
    "target", ["https://api.example.com/", "ftp://api.example.com/", "http:/api.example.com", "*"]
)
def test_only_http_is_asked_of_a_proxy_in_absolute_form(target: str) -> None:
    with pytest.raises(AffiantError):
        proxied_target(head(target))


def test_a_request_without_a_host_header_is_refused() -> None:
    with raises_code("egress.request"):
        proxied_target(head("http://api.example.com/", None))


def test_two_host_headers_are_refused() -> None:
    both = parse_head(b"GET / HTTP/1.1\r\nHost: api.example.com\r\nHost: evil.example")
    with pytest.raises(AffiantError):
        inner_target(both, HTTPS)


@pytest.mark.parametrize(
    "path",
    [
        "/a/../b",
        "/%2e%2e/b",
        "/a%2fb",
        "/a%252fb",
        "/a;p",
        "//a",
        "/a//b",
        "/a\\b",
        "/./a",
        "/a/..",
        "/%c0%af",
        "/a#f",
    ],
)
def test_E14_a_path_that_servers_read_differently_is_refused(path: str) -> None:
    with pytest.raises(AffiantError):
        inner_target(head(path), HTTPS)


def test_what_is_judged_is_what_is_sent() -> None:
    assert inner_target(head("/v1/a%20b?x=%2e"), HTTPS) == "/v1/a%20b?x=%2e"


@pytest.mark.parametrize("host", ["evil.example", "api.example.com:8443", "api.example.com.evil.example"])
def test_E9_an_inner_host_other_than_the_tunnels_is_refused(host: str) -> None:
    with raises_code("egress.host_mismatch"):
        inner_target(head("/", host), HTTPS)


@pytest.mark.parametrize("target", ["https://api.example.com/", "http://evil.example/", "*"])
def test_only_origin_form_inside_a_tunnel(target: str) -> None:
    with raises_code("egress.request"):
        inner_target(head(target), HTTPS)


def test_connect_inside_a_tunnel_is_refused() -> None:
    with raises_code("egress.request"):
        inner_target(head("/x", method="CONNECT"), HTTPS)


def test_E9_sni_must_be_the_connect_host() -> None:
    check_server_name(HTTPS, ClientHello("API.example.com", hidden=False))
    with raises_code("egress.host_mismatch"):
        check_server_name(HTTPS, ClientHello("evil.example", hidden=False))


@pytest.mark.parametrize(
    "hello", [ClientHello(None, hidden=False), ClientHello("api.example.com", hidden=True)]
)
def test_E9_a_missing_or_hidden_sni_is_refused(hello: ClientHello) -> None:
    with pytest.raises(ServerNameMissing):
        check_server_name(HTTPS, hello)
