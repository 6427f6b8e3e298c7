"""From an allowed name to the one address that is dialled.

Asked only after the profile has allowed the name, so that no query for another leaves (negative test E13). Every
answer must pass the policy's table of forbidden ranges; one that does not refuses all of them (E7), and the
address that was checked is the address that is dialled: nothing looks the name up again (E8).

Where an address may come from, and what it may be:

1. the profile's ``address: CIDR`` for the host, if there is one, bounds every answer;
2. else the manifest's entry for the host does: both are bound in MRCONFIGID;
3. else only public addresses pass.

A manifest entry that is an address takes the place of a lookup.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final

from affiant.errors import NotAllowedError, UnreachableError
from affiant.policy.canonical.addresses import CIDR, is_forbidden_address, parse_cidr

__all__ = ["Lookup", "Resolver", "system_lookup"]

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses in canonical form, in the order to try them."""

_TIMEOUT_S: Final = 10.0
_KEPT_S: Final = 30.0
"""How long a checked address is dialled again without asking: a tunnel's requests go to one address."""

_MAX_ANSWERS: Final = 64
_MAX_NAMES: Final = 256
"""Distinct names that one session may have looked up: a wildcard's labels must not become a channel (E20)."""


async def system_lookup(host: str, port: int) -> Sequence[str]:
    """The system's resolver.

    Raises:
        OSError: the name has no address, or the resolver does not answer.
    """
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in answers))


class Resolver:
    """Resolves the names of one session.

    Args:
        hosts: the manifest's map: host -> addresses or networks.
        lookup: asked for hosts that the map gives no address for.
    """

    def __init__(self, hosts: Mapping[str, Sequence[str]], *, lookup: Lookup = system_lookup) -> None:
        self._networks = {
            host: tuple(parse_cidr(entry) for entry in entries) for host, entries in hosts.items()
        }
        self._fixed = {
            host: tuple(str(network.network_address) for network in networks if network.num_addresses == 1)
            for host, networks in self._networks.items()
        }
        self._lookup = lookup
        self._asked: set[str] = set()
        self._kept: dict[tuple[str, int], tuple[float, str]] = {}

    async def resolve(self, host: str, port: int, *, within: Sequence[CIDR] | None) -> str:
        """The address to dial for ``host``, checked.

        Args:
            within: the profile's ``address`` for the host, if it gives one; the same in every call for a host.

        Raises:
            ``egress.name_unresolved``: no address. ``egress.address``: any of the answers must not be dialled.
            ``egress.name_budget``: too many different names in this session.
        """
        now = asyncio.get_running_loop().time()
        until, address = self._kept.get((host, port), (now, ""))
        if until > now:
            return address
        answers = self._fixed.get(host) or await self._looked_up(host, port)
        allowed = tuple(within or self._networks.get(host, ()))
        for answer in answers:
            if is_forbidden_address(answer, allowed):
                raise NotAllowedError(
                    "the name leads to an address that is not dialled",
                    where=host,
                    expected="an address that the profile allows for it" if allowed else "a public address",
                    hint="For a private host, give its addresses as 'address: CIDR' in the profile",
                    code="egress.address",
                )
        self._kept[host, port] = (now + _KEPT_S, answers[0])
        return answers[0]

    async def _looked_up(self, host: str, port: int) -> Sequence[str]:
        if host not in self._asked and len(self._asked) >= _MAX_NAMES:
            raise NotAllowedError(
                "the session has asked for too many different names",
                expected=f"at most {_MAX_NAMES}",
                code="egress.name_budget",
            )
        self._asked.add(host)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answers = await self._lookup(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise UnreachableError(
                "the name has no address", where=host, code="egress.name_unresolved"
            ) from error
        if not answers or len(answers) > _MAX_ANSWERS:
            raise UnreachableError(
                "the name has no address, or too many", where=host, code="egress.name_unresolved"
            )
        return tuple(_plain(answer) for answer in answers)


def _plain(answer: str) -> str:
    """``answer`` in canonical form; what is none stays as it is and is rejected as an address."""
    try:
        return str(ip_address(answer))
    except ValueError:
        return answer
