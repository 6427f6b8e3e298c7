"""A secret that is exchanged for a token, through the real proxy and broker: who is sent what, and what is recorded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.sandbox.egress.conftest import HOST, VALUE, World
from tests.sandbox.egress.test_approvals import ANN, Mailbox, asking, says  # noqa: F401 - the fixture
from tests.sandbox.egress.test_proxy import code, echo, get, listed, ok
from tests.secrets.token_server import PATH, TOKEN_HOST, TokenServer, json_answer, refused

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.egress import token_fetches
from affiant.sandbox.supervisor.launch.grants import kept_grants

SECRET = VALUE.decode()


@pytest.fixture
def issuer(authority, tmp_path: Path) -> Iterator[TokenServer]:
    with TokenServer(authority.leaf(tmp_path, TOKEN_HOST), client_secret=SECRET) as server:
        yield server


@pytest.fixture
def world(world: World) -> World:
    world.hosts = {HOST: ("127.0.0.1",), TOKEN_HOST: ("127.0.0.1",)}
    world.keep("TOKEN", VALUE)
    return world


def profile(port: int, issuer: TokenServer, *extra: str, exchange: str = "", **members: str) -> str:
    more = "".join(f", {name}: {value}" for name, value in members.items())
    inject = (
        f"{{exchange: {{grant: client_credentials, url: '{issuer.url}', client_id: acme-agent{exchange}}}}}"
    )
    return f"{listed(port, *extra)}\nsecrets_access: [{{name: TOKEN, inject: {inject}{more}}}]"


def bearer(box) -> bytes:
    return b"Authorization: Bearer " + box.placeholder("TOKEN")


def asked_once(port: int) -> Callable:
    async def scenario(box):
        return await box.https(port, get("/v1", bearer(box), port=port))

    return scenario


@pytest.mark.parametrize("own_process", [False, True])
def test_the_token_goes_to_the_host_and_the_secret_to_the_token_endpoint_alone(
    world: World, serve: Callable, issuer: TokenServer, own_process: bool
) -> None:
    server = serve(echo)
    world.own_process = own_process

    async def scenario(box):
        return await box.https(server.port, get("/v1", bearer(box), port=server.port)), box.placeholder(
            "TOKEN"
        )

    reply, placeholder = world.run(profile(server.port, issuer, exchange=", scope: read write"), scenario)
    assert reply.status == 200, reply.body
    (token,) = issuer.tokens
    (received,) = server.received
    assert received.headers("authorization") == [b"Bearer " + token.encode()]
    assert VALUE not in received.head + received.body
    assert issuer.forms == [{"grant_type": "client_credentials", "scope": "read write"}]
    assert placeholder not in issuer.received[0].head + issuer.received[0].body
    seen = reply.body + b"".join(reply.headers.values())
    assert placeholder in seen and token.encode() not in seen and VALUE not in seen


def test_a_fetch_is_recorded_before_it_happens_and_after(world: World, serve, issuer) -> None:
    server = serve(echo)
    world.run(profile(server.port, issuer), asked_once(server.port))
    assert world.chain.kinds == ["secret", "secret", "egress.outcome.complete", "egress.outcome.complete"]
    api, endpoint, fetched, sent = world.chain.records
    assert {api.jti, endpoint.jti} <= set(world.chain.acknowledged)
    assert (fetched.member("par"), sent.member("par")) == ([endpoint.jti], [api.jti])
    assert endpoint.disclosed.text("act.name") == "TOKEN"
    assert endpoint.disclosed.text("act.tgt") == f"POST https://{TOKEN_HOST}:{issuer.port}{PATH}"
    assert fetched.disclosed.text("act.name") == f"{TOKEN_HOST}:{issuer.port}"
    assert fetched.disclosed.text("act.arg").startswith("sha256:")
    assert fetched.disclosed.text("act.spki").startswith("sha256:")
    assert "out" not in json.dumps(fetched.member("act")), (
        "the answer holds the token: not even its digest is told"
    )
    told = "".join(record.text.sdjwt for record in world.chain.records)
    assert issuer.tokens[0] not in told and SECRET not in told


def test_a_request_that_is_denied_has_no_token_fetched(world: World, serve, issuer) -> None:
    server = serve(echo)

    async def scenario(box):
        denied = await box.https(server.port, get("/v1", bearer(box), port=server.port, method="DELETE"))
        elsewhere = await box.https(
            server.port, get("/v1", b"X-Key: " + box.placeholder("TOKEN"), port=server.port)
        )
        without = await box.https(server.port, get("/v1", port=server.port))
        return denied, elsewhere, without

    denied, elsewhere, without = world.run(profile(server.port, issuer, "methods: [GET]"), scenario)
    assert (denied.status, code(elsewhere), without.status) == (403, "secret.placeholder_misplaced", 200)
    assert not issuer.received


def test_the_agent_does_not_get_to_the_token_endpoint(world: World, serve, issuer) -> None:
    server = serve(echo)

    async def scenario(box):
        assert (await box.https(server.port, get("/v1", bearer(box), port=server.port))).status == 200
        with pytest.raises(PermissionError, match="host_not_listed"):
            async with box.tunnel(issuer.port, host=TOKEN_HOST, sni=TOKEN_HOST):
                pass

    world.run(profile(server.port, issuer), scenario)
    assert len(issuer.received) == 1


def test_requests_at_once_have_one_token_fetched(world: World, serve, issuer) -> None:
    server = serve(echo)
    issuer.pause = 0.2

    async def scenario(box):
        return await asyncio.gather(
            *(box.https(server.port, get(f"/{n}", bearer(box), port=server.port)) for n in range(10))
        )

    replies = world.run(profile(server.port, issuer), scenario)
    assert {reply.status for reply in replies} == {200}
    assert len(issuer.tokens) == 1 and len(server.received) == 10
    token = issuer.tokens[0].encode()
    assert {each.header("authorization") for each in server.received} == {b"Bearer " + token}
    assert world.chain.kinds.count("secret") == 11


def test_one_token_serves_one_request_after_the_other(world: World, serve, issuer) -> None:
    server = serve(echo)

    async def scenario(box):
        return [await box.https(server.port, get("/v1", bearer(box), port=server.port)) for _ in range(3)]

    assert [reply.status for reply in world.run(profile(server.port, issuer), scenario)] == [200] * 3
    assert len(issuer.tokens) == 1


REFUSED = {
    "the secret": (lambda _: refused("invalid_client", b"401 Unauthorized"), "secret.exchange_refused", 502),
    "a redirect": (
        lambda _: json_answer({}, b"Location: /x", status=b"302 Found"),
        "secret.exchange_answer",
        502,
    ),
    "another type": (
        lambda _: json_answer({"access_token": "at-9sX2kQ7vLm4TzR1bYwE6", "token_type": "mac"}),
        "secret.exchange_answer",
        502,
    ),
    "a line break": (
        lambda _: json_answer({"access_token": "at-9sX2kQ7vLm4TzR1b\r\nX: y", "token_type": "Bearer"}),
        "secret.exchange_answer",
        502,
    ),
    "not now": (lambda _: refused("x", b"503 Service Unavailable"), "secret.exchange_failed", 502),
}


@pytest.mark.parametrize("case", REFUSED)
def test_without_a_token_the_request_is_refused_and_nothing_of_the_answer_told(
    world: World, serve, issuer, case
) -> None:
    server = serve(ok)
    issuer.instead, reason, status = REFUSED[case]
    reply = world.run(profile(server.port, issuer), asked_once(server.port))
    assert (reply.status, code(reply)) == (status, reason)
    assert b"9sX2k" not in reply.body and b"repeated" not in reply.body
    assert not server.received and len(issuer.received) == 1
    ends = [record.member("act", "end") for record in world.chain.records if record.kind == "egress"]
    assert ends == (["refused"] * 2 if reason == "secret.exchange_answer" else ["failed"] * 2)


def test_an_issuer_that_refused_is_left_alone_for_a_while(world: World, serve, issuer, monkeypatch) -> None:
    server = serve(ok)
    issuer.instead = lambda _: refused("invalid_client")

    async def scenario(box):
        async def one():
            return await box.https(server.port, get("/v1", bearer(box), port=server.port))

        first = await asyncio.gather(*(one() for _ in range(5)))
        monkeypatch.setattr(token_fetches, "_AFTER_FAILURE_S", 0.0)
        box.proxy.forwarder.tokens._failed.clear()
        issuer.instead = None
        return first, await one()

    first, after = world.run(profile(server.port, issuer), scenario)
    codes = sorted(code(reply) for reply in first)
    assert codes == ["secret.exchange_failed"] * 4 + ["secret.exchange_refused"]
    assert after.status == 200
    assert len(issuer.received) == 2


@pytest.mark.parametrize("address", [(), ("10.0.0.1",), ("169.254.169.254",)])
def test_the_token_endpoints_address_is_checked_as_any(world: World, serve, issuer, address) -> None:
    server = serve(ok)
    world.hosts = {HOST: ("127.0.0.1",)}

    async def lookup(host: str, port: int) -> tuple[str, ...]:
        world.lookups.append(host)
        if not address:
            raise OSError("no such name")
        return address

    world._lookup = lookup
    reply = world.run(profile(server.port, issuer), asked_once(server.port))
    assert code(reply) == ("egress.address" if address else "egress.name_unresolved")
    assert world.lookups == [TOKEN_HOST]
    assert not server.received and not issuer.received
    assert world.chain.kinds[:3] == [
        "secret",
        "secret",
        f"egress.outcome.{'refused' if address else 'failed'}",
    ]


def test_an_endpoint_that_is_private_has_its_addresses_from_the_profile(world: World, serve, issuer) -> None:
    server = serve(ok)
    world.hosts = {HOST: ("127.0.0.1",)}

    async def lookup(host: str, port: int) -> tuple[str, ...]:
        return ("127.0.0.1",)

    world._lookup = lookup
    text = profile(server.port, issuer)
    given = (
        f"  - {{host: {TOKEN_HOST}, port: {issuer.port}, methods: [GET], address: 127.0.0.1}}\nsecrets_access"
    )
    assert world.run(text.replace("secrets_access", given), asked_once(server.port)).status == 200
    elsewhere = given.replace("127.0.0.1", "10.0.0.0/8")
    assert (
        code(world.run(text.replace("secrets_access", elsewhere), asked_once(server.port)))
        == "egress.address"
    )
    assert len(issuer.received) == 1


def test_uses_count_requests_and_not_fetches(world: World, serve, issuer) -> None:
    server = serve(echo)

    async def scenario(box):
        return [await box.https(server.port, get("/v1", bearer(box), port=server.port)) for _ in range(3)]

    replies = world.run(profile(server.port, issuer, max_uses="2"), scenario)
    assert [reply.status for reply in replies] == [200, 200, 403]
    assert code(replies[2]) == "limit_secret_uses"
    assert len(issuer.tokens) == 1


def test_what_approvers_are_shown_is_the_placeholder_and_nothing_is_fetched_before(
    world: World,
    serve,
    issuer,
    asking,  # noqa: F811
) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    text = (
        profile(server.port, issuer) + f"\nrequires_human_approval: {{egress: [GET], approvers: [{ANN.kid}]}}"
    )

    async def scenario(box):
        fetched = len(issuer.received)
        reply = await box.https(server.port, get("/v1", bearer(box), port=server.port))
        return reply, box.placeholder("TOKEN"), fetched

    reply, placeholder, fetched = world.run(text, scenario)
    assert (reply.status, fetched) == (200, 0), reply.body
    (action,) = mailbox.actions
    assert (
        placeholder in action.raw and issuer.tokens[0].encode() not in action.raw and VALUE not in action.raw
    )
    shown = json.loads(action.raw)
    assert shown["secrets"] == [
        {"name": "TOKEN", "place": "header:authorization", "to": f"{HOST}:{server.port}"}
    ]
    assert world.chain.kinds == [
        "egress.intent", "secret", "secret", "egress.outcome.complete", "egress.outcome.complete",
    ]  # fmt: skip


def test_without_its_record_no_token_is_fetched(world: World, serve, issuer) -> None:
    server = serve(ok)

    async def scenario(box):
        world.chain.down = True
        return await box.https(server.port, get("/v1", bearer(box), port=server.port))

    assert world.run(profile(server.port, issuer), scenario).status == 503
    assert not issuer.received and not server.received


def test_after_a_narrowing_that_withdraws_the_secret_nothing_is_fetched(world: World, serve, issuer) -> None:
    server = serve(echo)

    async def scenario(box):
        first = await box.https(server.port, get("/v1", bearer(box), port=server.port))
        policy, forwarder = compiled(listed(server.port)), box.proxy.forwarder
        kept = kept_grants(policy, forwarder.table)
        await forwarder.upstream._client.restrict(kept)
        table = forwarder.table.narrowed_to({grant.name: grant.endpoints for grant in kept})
        box.proxy.restrict(
            replace(forwarder, policy=policy, meters=forwarder.meters.restricted(policy), table=table)
        )
        return first, await box.https(server.port, get("/v1", bearer(box), port=server.port))

    first, second = world.run(profile(server.port, issuer), scenario)
    assert first.status == 200 and (second.status, code(second)) == (403, "secret.not_bound")
    assert len(issuer.received) == len(server.received) == 1


def compiled(text: str) -> CompiledPolicy:
    document = "agent_configs:\n  dev:\n" + "".join(f"    {line}\n" for line in text.strip().splitlines())
    return load_profiles(document.encode()).profile("dev").compiled


def test_an_agent_that_leaves_while_its_token_is_fetched_leaves_an_outcome(
    world: World, serve, issuer
) -> None:
    server = serve(ok)
    issuer.pause = 0.3

    async def scenario(box):
        leaving = asyncio.create_task(box.https(server.port, get("/v1", bearer(box), port=server.port)))
        while not issuer.received:
            await asyncio.sleep(0.01)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await asyncio.sleep(0.6)
        return await box.https(server.port, get("/v1", bearer(box), port=server.port))

    reply = world.run(profile(server.port, issuer), scenario)
    assert reply.status == 200
    kinds = world.chain.kinds
    assert kinds.count("secret") == sum(kind.startswith("egress.outcome") for kind in kinds)
