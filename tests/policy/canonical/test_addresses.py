"""Addresses: what is unknown is forbidden."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.policy.canonical.addresses import forbidden_ranges, is_forbidden_address, parse_cidr

FORBIDDEN = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:808:808", "::808:808", "::169.254.169.254",
    "64:ff9b::a9fe:a9fe", "64:ff9b::808:808", "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::", "2002:808:808::1",
    "2001::1", "2001:0:808:808::", "2001:db8::1", "2001:10::1", "2001:20::1", "3fff::1", "3ffe::1", "100::1",
    "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "5f00::1", "4000::1",
    "2606:4700::5efe:808:808", "2606:4700::200:5efe:10.0.0.1",
]  # fmt: skip

SPELLINGS = [
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "0",
    "08.8.8.8",
    "8.8.8.8 ",
    " 8.8.8.8",
    "8.8.8.8\n",
    "[2606:4700::1]",
    "2606:4700:0:0::1",
    "2606:4700::A",
    "",
    "localhost",
    "8.8.8",
    "٨.8.8.8",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_what_is_not_public_is_forbidden(address: str) -> None:
    assert is_forbidden_address(address)


@pytest.mark.parametrize("address", SPELLINGS)
def test_another_spelling_of_an_address_is_forbidden(address: str) -> None:
    assert is_forbidden_address(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::200e"]
)
def test_public_addresses_may_be_dialled(address: str) -> None:
    assert not is_forbidden_address(address)
    assert not is_forbidden_address(ip_address(address))


def test_a_number_is_no_address() -> None:
    assert is_forbidden_address(134744072)  # type: ignore[arg-type]  # 8.8.8.8, as a careless caller has it


def test_a_rule_opens_the_private_addresses_it_names_and_no_others() -> None:
    allowed = (parse_cidr("10.1.0.0/16"), parse_cidr("fd12:3456::/32"), parse_cidr("127.0.0.1"))
    assert not is_forbidden_address("10.1.2.3", allowed)
    assert not is_forbidden_address("127.0.0.1", allowed)
    assert not is_forbidden_address("fd12:3456::1", allowed)
    for other in ("10.2.0.1", "127.0.0.2", "8.8.8.8", "2606:4700::1", "169.254.169.254"):
        assert is_forbidden_address(other, allowed)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0/0",
        "::/0",
        "10.0.0.0/7",
        "2000::/3",
        "10.0.0.1/8",
        "10.0.0.0/08",
        "10.1",
        "169.254.169.254",
        "224.0.0.0/8",
        "0.0.0.0/8",
        "::ffff:10.0.0.1",
        "fe80::/64",
        "x",
        "",
        "10.0.0.0/255.0.0.0",
        "FD12::/32",
    ],
)
def test_a_rule_cannot_name_what_is_too_wide_or_never_dialled(text: str) -> None:
    with raises_code("policy.address"):
        parse_cidr(text)


@thorough(300)
@given(st.integers(0, 2**32 - 1))
def test_no_ipv6_form_of_any_ipv4_address_is_dialled(number: int) -> None:
    forms = [
        number,
        0xFFFF << 32 | number,
        0xFFFF << 48 | number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80,
        0x20010000 << 96 | number,
    ]
    for form in forms:
        assert is_forbidden_address(IPv6Address(form))


@thorough(300)
@given(st.integers(0, 2**128 - 1), st.integers(0, 2**32 - 1))
def test_we_are_never_laxer_than_the_standard_library(six: int, four: int) -> None:
    for address in (IPv6Address(six), IPv4Address(four), IPv6Address(0x2 << 124 | six >> 4)):
        if not address.is_global or address.is_multicast:
            assert is_forbidden_address(address)
        if address not in IPv6Network("2000::/3") and isinstance(address, IPv6Address):
            assert is_forbidden_address(address)


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | st.integers(0, 2**128 - 1).map(IPv6Address))
def test_the_ranges_are_what_is_forbidden(address: IPv4Address | IPv6Address) -> None:
    listed = any(address in network for network in forbidden_ranges() if network.version == address.version)
    unlisted = address.version == 6 and (
        address in IPv6Network("::/16") or (int(address) >> 32) & 0xFFFFFFFF in (0x5EFE, 0x02005EFE)
    )
    assert listed is is_forbidden_address(address) or unlisted


@pytest.mark.parametrize("address", [each for each in FORBIDDEN if "%" not in each])
def test_every_forbidden_address_but_the_unroutable_is_in_a_range(address: str) -> None:
    parsed = ip_address(address)
    listed = any(parsed in network for network in forbidden_ranges() if network.version == parsed.version)
    assert listed or parsed in IPv6Network("::/16") or "5efe" in address
