"""The proxy while its profile is narrowed: what waited is judged by the new one, what was open is no way around it."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import replace

import pytest
from tests.sandbox.egress import test_approvals as approving
from tests.sandbox.egress.conftest import HOST, Sandbox, World, asked, closed
from tests.sandbox.egress.test_proxy import code, get, listed, ok

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.loading.load import load_profiles

asking = approving.asking  # a fixture


def compiled(profile: str) -> CompiledPolicy:
    text = "agent_configs:\n  dev:\n" + "".join(f"    {line}\n" for line in profile.strip().splitlines())
    return load_profiles(text.encode()).profile("dev").compiled


def half(received):
    """An answer that stops in its middle."""
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    time.sleep(2)


async def held(box: Sandbox) -> None:
    box.proxy.gate.hold()
    if not await box.proxy.gate.empty(within_s=0.2):
        assert await box.proxy.cut(within_s=2)


def narrow(box: Sandbox, profile: str) -> None:
    policy, forwarder = compiled(profile), box.proxy.forwarder
    endpoints = {grant.name: frozenset() for grant in policy.secret_grants()}
    meters = forwarder.meters.restricted(policy)
    box.proxy.restrict(
        replace(forwarder, policy=policy, meters=meters, table=forwarder.table.narrowed_to(endpoints))
    )
    box.proxy.gate.release()


def test_a_request_that_waited_is_judged_by_the_profile_that_it_finds(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box: Sandbox) -> str:
        await held(box)
        request = f"GET http://{HOST}:{server.port}/ HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n\r\n".encode()
        waiting = asyncio.create_task(box.plain(request))
        tunnel = asyncio.create_task(box.https(server.port, get(port=server.port)))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert not tunnel.done()
        assert world.chain.records == []
        narrow(box, "network_egress: denied")
        with pytest.raises(PermissionError, match="host_not_listed"):
            await tunnel
        return code(await waiting)

    assert world.run(listed(server.port), scenario) == "host_not_listed"
    assert server.connections == 0


def test_an_inspected_tunnel_that_was_open_lets_nothing_through_any_more(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box: Sandbox) -> tuple[int, str]:
        async with box.tunnel(server.port) as (reader, writer):
            before = await asked(reader, writer, get(port=server.port))
            async with asyncio.timeout(1):
                await held(box)  # an idle tunnel holds nobody up
            narrow(box, "network_egress: denied")
            after = await asked(reader, writer, get(port=server.port))
            return before.status, code(after)

    assert world.run(listed(server.port), scenario) == (200, "host_not_listed")
    assert world.chain.kinds == ["egress.outcome.complete", "refusal.host_not_listed"]


def test_a_connection_that_nobody_reads_is_cut_and_has_its_outcome_before(
    world: World, serve, authority
) -> None:
    server = serve(half)

    async def scenario(box: Sandbox) -> list[str]:
        context = ssl.create_default_context(cadata=authority.pem)
        box.client_context = lambda named=True: context  # type: ignore[method-assign]
        async with box.tunnel(server.port) as (reader, writer):
            writer.write(get(port=server.port))
            await reader.readuntil(b"half")
            await held(box)
            kinds = list(world.chain.kinds)
            narrow(box, "network_egress: denied")
            assert await reader.read() == b""
            return kinds

    kinds = world.run(listed(server.port, "tls: passthrough"), scenario)
    assert kinds == ["egress.intent", "egress.outcome.aborted"]


def test_an_answer_that_does_not_end_is_cut_and_recorded_before_the_change(world: World, serve) -> None:
    """The host sends a part of its answer and no more: the request is cut, and its record is of the old profile."""
    begun = asyncio.Event()
    server = serve(half)

    async def scenario(box: Sandbox) -> list[str]:
        async def ask() -> None:
            async with box.tunnel(server.port) as (reader, writer):
                writer.write(get(port=server.port))
                await reader.readuntil(b"half")
                begun.set()
                await reader.read()

        asking = asyncio.create_task(ask())
        await begun.wait()
        await held(box)
        kinds = list(world.chain.kinds)
        narrow(box, "network_egress: denied")
        await asyncio.gather(asking, return_exceptions=True)
        return kinds

    assert world.run(listed(server.port), scenario) == ["egress.outcome.aborted"]


def test_what_is_no_request_is_recorded_only_while_the_gate_is_open(world: World) -> None:
    async def scenario(box: Sandbox) -> int:
        await held(box)
        waiting = asyncio.create_task(box.plain(b"NOT HTTP\r\n\r\n"))
        await asyncio.sleep(0.1)
        recorded = len(world.chain.records)
        box.proxy.gate.release()
        await waiting
        return recorded

    assert world.run("network_egress: denied", scenario) == 0
    assert len(world.chain.records) == 1


def test_while_it_is_held_the_proxy_can_be_stopped(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box: Sandbox) -> None:
        await held(box)
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(f"CONNECT {HOST}:{server.port} HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n\r\n".encode())
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            await box.proxy.stop()
        assert await reader.read() == b""
        await closed(writer)

    world.run(listed(server.port), scenario)
    assert world.chain.records == []


def test_a_request_that_waits_for_approval_is_cut_and_what_it_was_approved_for_is_never_sent(
    world: World, serve, asking
) -> None:
    """The person agrees after the profile was narrowed; the same request, sent again, is asked for anew."""
    server = serve(ok)
    mailbox = asking(approving.Mailbox(), hold_s=20)
    before = approving.profile(server.port).replace("secrets_access: [KEY]", "")
    after = before.replace("inspect}", "inspect, methods: [POST]}")

    async def scenario(box: Sandbox) -> tuple[list[str], str]:
        request = approving.post(server.port)
        waiting = asyncio.create_task(box.https(server.port, request))
        while not mailbox.actions:
            await asyncio.sleep(0.01)
        await held(box)
        with pytest.raises(asyncio.IncompleteReadError):
            await waiting
        (action,) = mailbox.actions
        kinds = list(world.chain.kinds)
        approvals = box.proxy.forwarder.approvals
        assert approvals is not None
        policy = compiled(after)
        assert policy.digest != box.proxy.forwarder.policy.digest
        narrow(box, after)
        approvals.restrict(policy=policy.digest, approval=policy.policy.approval)
        approvals._hold_s = 0.3
        mailbox.leave(action, approving.says(approving.ANN)(action))
        again = await box.https(server.port, request)
        assert [each.policy for each in mailbox.actions] == [action.policy, policy.digest]
        mailbox.leave(mailbox.actions[1], approving.says(approving.ANN)(mailbox.actions[1]))
        assert (await box.https(server.port, request)).status == 200
        return kinds, code(again)

    kinds, again = world.run(before, scenario)
    assert kinds == ["refusal.egress.cut"]
    assert again == "approval_pending"
    assert len(server.received) == 1
    intent = next(record for record in world.chain.records if record.member("ph") == "intent")
    assert intent.member("apr", "dig") == mailbox.actions[1].name


def test_a_request_whose_body_does_not_come_is_cut_and_recorded(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box: Sandbox) -> list[str]:
        async with box.tunnel(server.port) as (reader, writer):
            writer.write(get("/", b"Content-Length: 9", port=server.port, method="POST"))
            await asyncio.sleep(0.1)
            await held(box)
            kinds = list(world.chain.kinds)
            narrow(box, "network_egress: denied")
            assert await reader.read() == b""
            return kinds

    assert world.run(listed(server.port), scenario) == ["refusal.egress.cut"]
    assert server.received == []
