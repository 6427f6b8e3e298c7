"""Request targets: one canonical form, or a refusal."""

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.canonical.errors import TargetRefused
from affiant.policy.canonical.targets import METHODS, canonical_target, decoded_path, path_pattern

NOT_CANONICAL = [
    "", "*", "a", "http://ok.com/", "//evil/x", "/a/../b", "/..", "/.", "/a/.", "/a/..", "/./a", "/a//b", "/a/b//",
    "/%2e%2e/a", "/%2E%2E/a", "/a%2fb", "/a%2Fb", "/a%5Cb", "/a%5cb", "/%252f", "/%252e", "/a%25b", "/a;p", "/a;p/b",
    "/a%3Bp", "/a\\b", "/..\\a", "/%c0%ae", "/%C0%AE", "/%C0%AF", "/%E0%80%AF", "/%FF", "/a#b", "/a%23b", "/a%3Fb",
    "/a b", "/a\tb", "/a\r\nb", "/a\x00", "/%00", "/%0A", "/%7F", "/a%", "/a%4", "/a%zz", "/%41", "/%7E", "/a%3a",
    "/%EF%BC%8F", "/%EF%BC%8E%EF%BC%8E", "/%E2%80%A4", "/%E2%80%AE", "/%C2%85", "/caf\u00e9", "/\uff0f", "/a|b",
    "/a?b#c", "/a?b c", "/a?%", "/a?\u00e9", "/a?\x00", "/a?b\\c", "/a<b", '/a"b', "/" + "a" * 8192,
]  # fmt: skip


@pytest.mark.parametrize("target", NOT_CANONICAL)
def test_every_form_that_servers_read_differently_is_refused(target: str) -> None:
    with pytest.raises(TargetRefused):
        canonical_target(target)


@pytest.mark.parametrize("raw", [b"/caf\xc3\xa9", b"/\xff", b"/a\x00", b"/a\x80"])
def test_bytes_beyond_ascii_are_refused(raw: bytes) -> None:
    with pytest.raises(TargetRefused):
        canonical_target(raw)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/a",
        "/a/",
        "/a/b.c",
        "/..a",
        "/a..b",
        "/...",
        "/a%20b",
        "/caf%C3%A9",
        "/a:b@c",
        "/a?x=1&y=%2f",
        "/a?",
        "/a?u=https://b//c",
        "/a?f[x]=1;2",
        "/a,b;"[:4],
    ],
)
def test_what_is_canonical_is_sent_as_it_is(target: str) -> None:
    assert canonical_target(target) == target
    assert canonical_target(target.encode()) == target


@thorough(300)
@given(st.text("/.%2eE5fFcC0a;?\\A~", max_size=14).map(lambda text: "/" + text))
def test_no_accepted_path_moves_when_a_server_decodes_and_normalises_it(target: str) -> None:
    try:
        path = canonical_target(target).partition("?")[0]
    except TargetRefused:
        return
    once = unquote(path, errors="strict")
    assert unquote(once) == once
    assert posixpath.normpath(once) == (once.rstrip("/") or "/")
    assert once == decoded_path(target)


@pytest.mark.parametrize(
    "text", ["", "a", "/*", "/a*", "/*/b", "/**/b", "/a/***", "/a?x", "/a/../**", "/a;b", "/a%2F**"]
)
def test_a_rule_path_has_no_other_pattern(text: str) -> None:
    with pytest.raises(TargetRefused):
        path_pattern(text)


def test_a_subtree_is_what_is_below_it() -> None:
    pattern = path_pattern("/v1/acme/**")
    assert pattern.covers("/v1/acme/x")
    assert pattern.covers("/v1/acme/")
    assert not pattern.covers("/v1/acme")
    assert not pattern.covers("/v1/acmes/x")
    assert path_pattern("/**").covers("/")


def test_a_denied_subtree_is_also_its_own_node() -> None:
    assert path_pattern("/admin/**").touches("/admin")
    assert path_pattern("/admin").touches("/admin/")
    assert not path_pattern("/admin").touches("/admin/x")
    assert not path_pattern("/admin/**").touches("/administrator")


def test_an_escape_does_not_hide_a_path_from_a_rule() -> None:
    assert path_pattern("/a$b").touches(decoded_path(canonical_target("/a%24b")))
    assert path_pattern("/caf%C3%A9").covers(decoded_path("/caf%C3%A9"))


def test_no_rule_can_name_a_method_that_reflects_or_tunnels() -> None:
    assert METHODS.isdisjoint({"TRACE", "TRACK", "CONNECT", "PRI", "get"})
