"""From names to addresses: all answers pass or none is dialled (E6 to E8, E13)."""

from __future__ import annotations

import asyncio
from ipaddress import ip_network

import pytest
from tests.raising import raises_code

from affiant.sandbox.egress.resolver import Resolver, system_lookup

PUBLIC = "93.184.216.34"


def resolve(answers, *, hosts=None, within=None, host="api.example.com") -> str:
    async def lookup(name: str, port: int):
        if isinstance(answers, Exception):
            raise answers
        return answers

    return asyncio.run(Resolver(hosts or {}, lookup=lookup).resolve(host, 443, within=within))


def test_the_checked_address_is_the_one_that_comes_back() -> None:
    assert resolve((PUBLIC, "93.184.216.35")) == PUBLIC


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "fd00:ec2::254",
     "fe80::1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:a9fe:a9fe::",
     "::ffff:169.254.169.254", "2001:0:1::1", "::169.254.169.254", "fe80::1%eth0", "not-an-address"],
)  # fmt: skip
def test_E5_E6_a_name_that_leads_inside_is_refused(address: str) -> None:
    with raises_code("egress.address"):
        resolve((address,))


def test_E7_one_forbidden_answer_refuses_them_all() -> None:
    with raises_code("egress.address"):
        resolve((PUBLIC, "127.0.0.1"))


@pytest.mark.parametrize("answers", [(), OSError("no such name"), tuple([PUBLIC] * 65)])
def test_no_address_is_a_refusal(answers) -> None:
    with raises_code("egress.name_unresolved"):
        resolve(answers)


def test_the_manifest_gives_a_private_host_its_address_without_a_lookup() -> None:
    assert resolve(OSError("never asked"), hosts={"api.example.com": ("127.0.0.1",)}) == "127.0.0.1"


def test_a_network_in_the_manifest_bounds_what_is_looked_up() -> None:
    hosts = {"api.example.com": ("10.1.0.0/16",)}
    assert resolve(("10.1.2.3",), hosts=hosts) == "10.1.2.3"
    with raises_code("egress.address"):
        resolve((PUBLIC,), hosts=hosts)


def test_the_profiles_addresses_bound_the_manifests() -> None:
    within = (ip_network("10.0.0.0/8"),)
    assert resolve((), hosts={"api.example.com": ("10.1.2.3",)}, within=within) == "10.1.2.3"
    with raises_code("egress.address"):
        resolve((), hosts={"api.example.com": ("127.0.0.1",)}, within=within)


def test_the_manifest_speaks_for_its_own_hosts_only() -> None:
    with raises_code("egress.address"):
        resolve(("127.0.0.1",), hosts={"other.example.com": ("127.0.0.1",)})


def test_the_systems_resolver_answers_in_canonical_spelling() -> None:
    assert set(asyncio.run(system_lookup("localhost", 443))) <= {"127.0.0.1", "::1"}


def test_E20_a_wildcards_labels_are_no_channel() -> None:
    asked = []

    async def lookup(name: str, port: int):
        asked.append(name)
        return (PUBLIC,)

    async def scenario() -> None:
        resolver = Resolver({}, lookup=lookup)
        for number in range(256):
            await resolver.resolve(f"h{number}.example.com", 443, within=None)
        await resolver.resolve("h0.example.com", 443, within=None)
        with raises_code("egress.name_budget"):
            await resolver.resolve("one-more.example.com", 443, within=None)

    asyncio.run(scenario())
    assert "one-more.example.com" not in asked


def test_E8_a_checked_address_is_kept_and_a_refusal_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [("127.0.0.1",), (PUBLIC,), ("93.184.216.35",), ("127.0.0.1",)]

    async def lookup(name: str, port: int):
        return answers.pop(0)

    async def scenario() -> None:
        resolver = Resolver({}, lookup=lookup)
        with raises_code("egress.address"):
            await resolver.resolve("api.example.com", 443, within=None)
        for _ in range(3):
            assert await resolver.resolve("api.example.com", 443, within=None) == PUBLIC
        assert await resolver.resolve("api.example.com", 8443, within=None) == "93.184.216.35"
        monkeypatch.setattr("affiant.sandbox.egress.resolver._KEPT_S", 0.0)
        resolver._kept.clear()
        with raises_code("egress.address"):
            await resolver.resolve("api.example.com", 443, within=None)

    asyncio.run(scenario())
