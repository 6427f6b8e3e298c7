"""Decides which IP addresses may be dialled, by a table of our own; unknown ranges are forbidden.

``ipaddress.is_global`` will not do: it says True for ``64:ff9b::a9fe:a9fe``, ``2002:a9fe:a9fe::`` and
``::169.254.169.254``, which all embed 169.254.169.254, the cloud's metadata service. Here every IPv6 address
outside 2000::/3 is forbidden, and inside it every form that embeds an IPv4 address.

The lists follow the IANA special-purpose registries (RFC 6890), as of 2026; each line says why it is there.

>>> is_forbidden_address("93.184.216.34"), is_forbidden_address("2002:a9fe:a9fe::")
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)
from typing import Final

from affiant.errors import MalformedError
from affiant.policy.canonical.errors import excerpt

__all__ = ["CIDR", "forbidden_ranges", "is_forbidden_address", "parse_cidr"]

CIDR = IPv4Network | IPv6Network

_PRIVATE_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "10.0.0.0/8",  # RFC 1918
        "100.64.0.0/10",  # carrier-grade NAT, RFC 6598; holds 100.100.100.200, a metadata service
        "127.0.0.0/8",  # loopback
        "172.16.0.0/12",  # RFC 1918
        "192.168.0.0/16",  # RFC 1918
        "198.18.0.0/15",  # benchmarks, RFC 2544
    )
)
"""Forbidden unless a rule names them with ``address``."""

_NEVER_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this host": connects to loopback on Linux
        "100.100.100.200/32",  # metadata service
        "168.63.129.16/32",  # platform service of a cloud, on a public address
        "169.254.0.0/16",  # link-local; metadata services
        "192.0.0.0/24",  # protocol assignments, RFC 6890; holds 192.0.0.192, a metadata service
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112, RFC 7535
        "192.52.193.0/24",  # AMT, RFC 7450
        "192.88.99.0/24",  # 6to4 relay anycast, RFC 7526
        "192.175.48.0/24",  # AS112, RFC 7534
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved; holds the broadcast address
    )
)
"""Forbidden whatever a rule says."""

_GLOBAL_V6: Final = IPv6Network("2000::/3")
_LOOPBACK_V6: Final = IPv6Network("::1/128")
_UNIQUE_LOCAL_V6: Final = IPv6Network("fc00::/7")

_NEVER_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments; holds Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: embeds an IPv4 address
        "2620:4f:8000::/48",  # AS112, RFC 7534
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation, RFC 9637
        "fd00:ec2::/32",  # metadata service
        "fd20:ce::/32",  # metadata service
    )
)

_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
"""Upper half of an interface identifier whose lower half is an IPv4 address (RFC 5214, section 6.1)."""

_WIDEST_V4: Final = 8
_WIDEST_V6: Final = 16


def is_forbidden_address(
    address: str | IPv4Address | IPv6Address, allowed_cidrs: Sequence[CIDR] = ()
) -> bool:
    """Whether ``address`` must not be dialled.

    Args:
        address: an address; text must be its canonical spelling (no ``127.1``, ``0x7f000001``, zone).
        allowed_cidrs: the ``address`` of the rule that names the host. If given, nothing else may be dialled;
            private ranges may be, others that are never dialled still not.
    """
    parsed = _parsed(address)
    if parsed is None or _never(parsed):
        return True
    if allowed_cidrs:
        return not any(parsed in cidr for cidr in allowed_cidrs if cidr.version == parsed.version)
    return _private(parsed)


def forbidden_ranges() -> tuple[CIDR, ...]:
    """What is forbidden where a rule names no addresses, as ranges, for tools that take a list.

    Not among them: ISATAP's interface identifiers, which are no range; and ``::/16``, which is not routed and holds the
    IPv4-mapped form of every IPv4 address, so that a list with it would forbid those too in tools that do not tell
    the two forms apart.
    """
    outside = IPv6Network("::/0").address_exclude(_GLOBAL_V6)
    unmapped = (part for network in outside for part in _without_mapped(network))
    return (
        *collapse_addresses((*_PRIVATE_V4, *_NEVER_V4)),
        *collapse_addresses((*unmapped, *_NEVER_V6)),
    )


def _without_mapped(network: IPv6Network) -> Iterator[IPv6Network]:
    mapped = IPv6Network("::/16")
    return network.address_exclude(mapped) if mapped.subnet_of(network) else iter((network,))


def parse_cidr(text: str) -> CIDR:
    """The network that ``text`` names, for a rule's ``address``; an address alone is a network of one.

    Raises:
        ``policy.address``: not canonical, wider than /8 (IPv6: /16), or never dialled.
    """
    try:
        network: CIDR = ip_network(text if "/" in text else _single(text), strict=True)
    except ValueError as error:
        raise MalformedError(
            "not a CIDR",
            code="policy.address",
            expected="such as 10.20.0.0/16 or 10.20.0.7",
            found=excerpt(text),
        ) from error
    if text not in (str(network), str(network.network_address)):
        raise MalformedError(
            "CIDR is not canonical", code="policy.address", expected=str(network), found=excerpt(text)
        )
    if network.prefixlen < (_WIDEST_V4 if network.version == 4 else _WIDEST_V6):
        raise MalformedError("CIDR is too wide", code="policy.address", found=excerpt(text))
    if _never(network.network_address) and _never(network.broadcast_address):
        raise MalformedError("these addresses are never dialled", code="policy.address", found=excerpt(text))
    return network


def _single(text: str) -> str:
    return f"{text}/128" if ":" in text else f"{text}/32"


def _parsed(address: object) -> IPv4Address | IPv6Address | None:
    if isinstance(address, str):
        try:
            parsed = ip_address(address)
        except ValueError:
            return None
        return parsed if str(parsed) == address else None
    return address if isinstance(address, (IPv4Address, IPv6Address)) else None


def _never(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return any(address in network for network in _NEVER_V4)
    if address.scope_id is not None or any(address in network for network in _NEVER_V6):
        return True
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return True
    return not (address in _GLOBAL_V6 or address in _UNIQUE_LOCAL_V6 or address in _LOOPBACK_V6)


def _private(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv4Address):
        return any(address in network for network in _PRIVATE_V4)
    return address not in _GLOBAL_V6
