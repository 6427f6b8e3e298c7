"""Hosts: one spelling for each, and patterns of whole labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.policy.canonical.errors import HostRefused
from affiant.policy.canonical.hosts import canonical_host, covering_patterns, host_pattern, is_canonical_host

NOT_HOSTS = [
    "",
    ".",
    "..",
    "ok.com..",
    ".ok.com",
    "ok..com",
    "evil\0.ok.com",
    "ok.com\0",
    "ok.com\n",
    " ok.com",
    "ok.com ",
    "ok.com@evil",
    "ok.com:80@evil",
    "ok.com:80",
    "ok\\.com",
    "ok.com#",
    "ok.com/",
    "ok\t.com",
    "ok.com?",
    "ok%2ecom",
    "under_score.com",
    "-a.com",
    "a-.com",
    "a" * 64 + ".com",
    ("a" * 60 + ".") * 5 + "com",
    "ab--cd.com",
    "ok\uff0ecom",
    "\u212aelvin.com",
    "m\u00fcnchen.de",
    "ok\u3002com",
    "xn--.com",
    "xn--99999999.com",
    "xn--a.com",
    "xn--ls8h.la",
    "xn--a-.com",
    "127.0.0.1",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0",
    "1.2.3.0x",
    "10.0.0.1.",
    "a.1",
    "a.0xf",
    "::1",
    "[::1]",
    "::ffff:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "fe80::1%eth0",
    "1.2.3.4.",
    "*",
    "*.ok.com",
    "a.*.com",
]


@pytest.mark.parametrize("text", NOT_HOSTS)
def test_what_is_no_host_name_is_refused(text: str) -> None:
    with pytest.raises(HostRefused):
        canonical_host(text)
    assert not is_canonical_host(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("OK.com", "ok.com"),
        ("ok.com.", "ok.com"),
        ("XN--Mnchen-3ya.DE", "xn--mnchen-3ya.de"),
        ("1a.com", "1a.com"),
        ("3.com", "3.com"),
        ("a.0x1g", "a.0x1g"),
    ],
)
def test_case_and_one_trailing_dot_are_dropped(text: str, host: str) -> None:
    assert canonical_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "*.",
        "**",
        "**.com",
        "*.com",
        "*com",
        "*.*.ok.com",
        "a.*.ok.com",
        "*.10.0.0.1",
        "localhost",
        "***.ok.com",
        "*.ok.com:443",
        "gateway.affiant.internal",
        "*.affiant.internal",
        "affiant.internal",
    ],
)
def test_a_pattern_that_is_too_wide_or_not_one_is_refused(text: str) -> None:
    with pytest.raises(HostRefused):
        host_pattern(text)


def test_a_host_of_one_label_needs_its_own_addresses() -> None:
    assert host_pattern("registry", single_label=True) == "registry"


@pytest.mark.parametrize(
    ("pattern", "host", "covered"),
    [
        ("trusted.net", "nottrusted.net", False),
        ("ok.com", "ok.com.evil.net", False),
        ("*.ok.com", "ok.com", False),
        ("**.ok.com", "ok.com", False),
        ("*.ok.com", "a.ok.com", True),
        ("*.ok.com", "a.b.ok.com", False),
        ("**.ok.com", "a.b.ok.com", True),
        ("**.ok.com", "xok.com", False),
        ("**.ok.com", "a.xok.com", False),
    ],
)
def test_a_pattern_matches_whole_labels(pattern: str, host: str, covered: bool) -> None:
    assert (pattern in covering_patterns(host)) is covered


LABEL = st.from_regex(r"[a-z]([a-z0-9]{0,4}[a-z])?", fullmatch=True)
HOSTS = st.lists(LABEL, min_size=2, max_size=5).map(".".join)


@thorough(200)
@given(HOSTS, HOSTS)
def test_wildcards_are_counts_of_labels(suffix: str, host: str) -> None:
    for candidate in (host, f"{host}.{suffix}", f"a.{suffix}", f"x{suffix}"):
        labels, tail = candidate.split("."), suffix.split(".")
        more = len(labels) - len(tail) if labels[-len(tail) :] == tail else 0
        assert (f"*.{suffix}" in covering_patterns(candidate)) == (more == 1)
        assert (f"**.{suffix}" in covering_patterns(candidate)) == (more >= 1)


@thorough(200)
@given(st.text(max_size=40) | HOSTS)
def test_canonical_is_a_fixed_point(text: str) -> None:
    try:
        host = canonical_host(text)
    except HostRefused:
        return
    assert canonical_host(host) == host
    assert is_canonical_host(host)
