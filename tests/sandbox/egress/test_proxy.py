"""The proxy as an agent meets it: every spelling of every trick, against real upstreams and a real broker."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
import ssl
import struct
from dataclasses import replace
from random import Random

import pytest
from tests.sandbox.egress.conftest import HOST, VALUE, World, answered, asked, closed
from tests.secrets.upstream_server import answer, chunked

from affiant.attestation.schema.agent_routes import AGENT_ROUTES
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision_log.file import DecisionsUnavailable
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.http.agent_http import Timeouts
from affiant.sandbox.egress.proxy import ProxyLimits
from affiant.sandbox.egress.record_budget import RecordLimits


def ok(received):
    return answer(b"hello", b"Content-Type: text/plain")


def echo(received):
    return answer(
        received.head + b"\r\n\r\n" + received.body, b"X-Echo: " + (received.header("authorization") or b"")
    )


def listed(port: int, *extra: str, scheme: str = "https") -> str:
    lines = [f"- {{host: {HOST}, port: {port}, scheme: {scheme}{', ' if extra else ''}{', '.join(extra)}}}"]
    return "network_egress:\n" + "\n".join(f"  {line}" for line in lines)


def get(
    path: str = "/", *fields: bytes, host: str = HOST, port: int | None = None, method: str = "GET"
) -> bytes:
    authority = host if port is None else f"{host}:{port}"
    lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: {authority}".encode(), *fields]
    return b"\r\n".join([*lines, b"", b""])


def code(reply) -> str:
    return json.loads(reply.body)["error"]["code"]


def test_an_allowed_request_goes_through_and_has_one_outcome(world: World, serve) -> None:
    server = serve(ok)
    reply = world.run(
        listed(server.port), lambda box: box.https(server.port, get("/v1?x=1", port=server.port))
    )
    assert (reply.status, reply.body, reply.complete) == (200, b"hello", True)
    assert server.received[0].line == b"GET /v1?x=1 HTTP/1.1"
    assert world.chain.kinds == ["egress.outcome.complete"]
    record = world.chain.only("egress")
    assert record.disclosed.text("act.name") == f"{HOST}:{server.port}"
    assert record.disclosed.text("act.tgt") == f"GET https://{HOST}:{server.port}/v1?x=1"
    assert (
        record.disclosed.text("act.out")
        == "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    )
    assert record.disclosed.text("act.spki").startswith("sha256:")
    assert record.disclosed.get("pol.rules") == ["egress/0"]


def test_plain_http_goes_through_in_absolute_form(world: World, serve) -> None:
    server = serve(ok, tls=False)
    request = get(f"http://{HOST}:{server.port}/a", port=server.port)
    reply = world.run(listed(server.port, scheme="http"), lambda box: box.plain(request))
    assert (reply.status, reply.body) == (200, b"hello")
    assert world.chain.kinds == ["egress.outcome.complete"]


def test_an_unsafe_method_has_an_acknowledged_intent_before_its_outcome(world: World, serve) -> None:
    server = serve(echo)
    body = get("/x", b"Content-Length: 4", port=server.port, method="POST") + b"data"
    reply = world.run(listed(server.port), lambda box: box.https(server.port, body))
    assert reply.body.endswith(b"\r\n\r\ndata")
    intent, outcome = world.chain.records
    assert world.chain.kinds == ["egress.intent", "egress.outcome.complete"]
    assert world.chain.acknowledged == [intent.jti]
    assert outcome.member("par") == [intent.jti]


def test_a_chunked_body_of_many_pieces_arrives_whole(world: World, serve) -> None:
    server = serve(echo)
    pieces = [os.urandom(30_000).hex().encode() for _ in range(10)]
    data = get("/x", b"Transfer-Encoding: chunked", port=server.port, method="POST")
    data += b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    reply = world.run(listed(server.port), lambda box: box.https(server.port, data))
    assert server.received[0].body == b"".join(pieces)
    assert reply.body.endswith(b"".join(pieces))


@pytest.mark.parametrize("of_a_request", [False, True])
def test_a_decision_that_fails_sends_nothing_and_is_recorded(
    world: World, serve, monkeypatch: pytest.MonkeyPatch, of_a_request: bool
) -> None:
    server, decide = serve(ok), CompiledPolicy.decide_egress

    def failing(policy: CompiledPolicy, **facts):
        if ("method" in facts) is of_a_request:
            raise RuntimeError("a defect")
        return decide(policy, **facts)

    async def scenario(box):
        return await box.https(server.port, get("/v1", port=server.port))

    monkeypatch.setattr(CompiledPolicy, "decide_egress", failing)
    if of_a_request:
        reply = world.run(listed(server.port), scenario)
        assert (reply.status, code(reply)) == (403, "policy_failed")
    else:
        with pytest.raises(PermissionError, match="policy_failed"):
            world.run(listed(server.port), scenario)
    assert world.chain.kinds == ["refusal.policy_failed"]
    assert server.received == []


def test_requests_on_one_connection_are_judged_one_by_one(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            first = await asked(reader, writer, get("/a", port=server.port))
            second = await asked(reader, writer, get("/b", port=server.port))
            return first, second

    first, second = world.run(listed(server.port, "paths: ['/a']"), scenario)
    assert first.status == 200
    assert (second.status, code(second)) == (403, "target_not_listed")
    assert world.chain.kinds == ["egress.outcome.complete", "refusal.target_not_listed"]


@pytest.mark.parametrize(
    ("host", "port_offset", "reason"),
    [
        ("nottrusted.test", 0, "host_not_listed"),
        ("api.example.test.evil.test", 0, "host_not_listed"),
        ("evilapi.example.test", 0, "host_not_listed"),
        (HOST, 1, "port_not_listed"),
    ],
)
def test_E2_E13_E19_an_unlisted_host_or_port_is_denied_before_any_lookup(
    world: World, host: str, port_offset: int, reason: str
) -> None:
    request = f"CONNECT {host}:{443 + port_offset} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    reply = world.run(listed(443), lambda box: box.plain(request))
    assert (reply.status, code(reply)) == (403, reason)
    assert "how_to_ask" in json.loads(reply.body)
    port = "" if port_offset == 0 else f":{443 + port_offset}"
    assert reply.reason == f"{reason} {host}{port}", "all that most clients show"
    assert reply.headers[b"proxy-status"].decode() == (
        f'affiant; error=http_request_denied; details="{reason} {host}{port}"'
    )
    assert world.lookups == []
    assert world.chain.kinds == [f"refusal.{reason}"]
    assert world.chain.only("refusal").disclosed.text("act.name").startswith(host)


def test_a_profile_without_egress_denies_everything(world: World) -> None:
    request = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    reply = world.run("network_egress: denied", lambda box: box.plain(request))
    assert (reply.status, code(reply)) == (403, "host_not_listed")


@pytest.mark.parametrize(
    "target",
    ["evil\0.example.test:443", "127.0.0.1:443", "[::1]:443", "2130706433:443", "api.example.test@evil.test:443",
     "api.example.test", "0x7f000001:443", "api.example.test:443/x"],
)  # fmt: skip
def test_E1_E4_E5_a_connect_to_no_host_name_is_refused(world: World, target: str) -> None:
    request = f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    reply = world.run(listed(443), lambda box: box.plain(request))
    assert reply.status in (400, 403)
    assert world.chain.kinds[0].startswith("refusal.")
    assert len(world.chain.records) == 1


def test_E6_an_allowed_name_that_leads_inside_is_refused(world: World, serve) -> None:
    server = serve(ok)
    world.hosts = {}

    async def inside(host: str, port: int):
        return ("127.0.0.1",)

    world._lookup = inside
    reply = world.run(listed(server.port), lambda box: box.https(server.port, get(port=server.port)))
    assert (reply.status, code(reply)) == (403, "egress.address")
    assert server.connections == 0


def test_an_allowed_name_without_address_is_502(world: World) -> None:
    world.hosts = {}
    reply = world.run(listed(443), lambda box: box.https(443, get()))
    assert (reply.status, code(reply)) == (502, "egress.name_unresolved")
    assert world.lookups == [HOST]


@pytest.mark.parametrize("sni", ["other.example.test", None])
def test_E9_another_or_no_sni_ends_the_tunnel(world: World, serve, sni: str | None) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port, sni=sni):
            raise AssertionError("the handshake went through")

    with pytest.raises((ssl.SSLError, OSError)):
        world.run(listed(server.port), scenario)
    expected = "egress.sni_missing" if sni is None else "egress.host_mismatch"
    assert world.chain.kinds == [f"refusal.{expected}"]
    assert server.connections == 0


def test_E9_another_host_inside_the_tunnel_is_refused_also_on_a_kept_connection(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            assert (await asked(reader, writer, get(port=server.port))).status == 200
            return await asked(reader, writer, get(host="other.example.test", port=server.port))

    reply = world.run(listed(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "egress.host_mismatch")
    assert world.chain.kinds == ["egress.outcome.complete", "refusal.egress.host_mismatch"]


def test_E9_h2_is_never_agreed(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        context = box.client_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        box.client_context = lambda named=True: context
        async with box.tunnel(server.port) as (_, writer):
            return writer.get_extra_info("ssl_object").selected_alpn_protocol()

    assert world.run(listed(server.port), scenario) == "http/1.1"


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n"])
def test_only_tls_may_follow_connect(world: World, first: bytes) -> None:
    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode() + first)
        await reader.readuntil(b"\r\n\r\n")
        rest = await reader.read()
        await closed(writer)
        return rest

    assert world.run(listed(443), scenario)[:1] == b"\x15"
    assert world.chain.kinds == ["refusal.egress.client_hello"]


def test_E10_plain_http_to_a_host_listed_for_https_is_denied(world: World) -> None:
    reply = world.run(listed(443), lambda box: box.plain(get(f"http://{HOST}:443/", port=443)))
    assert (reply.status, code(reply)) == (403, "scheme_not_listed")


@pytest.mark.parametrize("path", ["/a/../b", "/%2e%2e/b", "/a%2fb", "/a;p", "//b", "/a\\b"])
def test_E14_a_path_without_canonical_form_is_refused(world: World, serve, path: str) -> None:
    server = serve(ok)
    reply = world.run(listed(server.port), lambda box: box.https(server.port, get(path, port=server.port)))
    assert (reply.status, code(reply)) == (400, "policy.target")
    assert server.connections == 0


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (get(method="TRACE"), 403),
        (get("/", b"X-HTTP-Method-Override: DELETE"), 403),
        (get("/", b"Upgrade: h2c"), 403),
        (get("/", b"Content-Length: 1", b"Transfer-Encoding: chunked"), 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (get("/", b"X: 1", b" folded"), 400),
    ],
)
def test_E15_E16_smuggling_is_refused_recorded_and_ends_the_connection(
    world: World, serve, data: bytes, status: int
) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            reply = await asked(reader, writer, data + get(port=server.port))
            return reply, await reader.read()

    reply, rest = world.run(listed(server.port), scenario)
    assert (reply.status, rest) == (status, b"")
    assert server.connections == 0
    assert len(world.chain.records) == 1


def test_E17_a_redirect_is_passed_on_and_not_followed(world: World, serve) -> None:
    server = serve(lambda received: answer(b"", b"Location: https://evil.test/", status=b"302 Found"))
    reply = world.run(listed(server.port), lambda box: box.https(server.port, get(port=server.port)))
    assert (reply.status, reply.headers[b"location"]) == (302, b"https://evil.test/")
    assert server.connections == 1


def test_E18_no_broker_no_egress(world: World, serve) -> None:
    server = serve(ok)
    world.own_process = True

    async def scenario(box):
        box.broker.send_signal(signal.SIGKILL)
        await asyncio.to_thread(box.broker.wait)
        return await box.https(server.port, get(port=server.port))

    reply = world.run(listed(server.port), scenario)
    assert reply.status == 502
    assert server.connections == 0
    assert world.chain.kinds == ["egress.outcome.failed"]


def test_E18_a_stopped_proxy_answers_nobody(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        await box.proxy.stop()
        with pytest.raises(OSError):
            await box.https(server.port, get(port=server.port))

    world.run(listed(server.port), scenario)


def test_without_a_record_nothing_happens(world: World, serve) -> None:
    server = serve(ok)
    world.chain.down = True
    body = get("/x", b"Content-Length: 0", port=server.port, method="POST")
    reply = world.run(listed(server.port), lambda box: box.https(server.port, body))
    assert (reply.status, code(reply)) == (503, "egress.no_record")
    assert server.connections == 0


def with_secret(port: int) -> str:
    return listed(port) + "\nsecrets_access: [TOKEN]"


def test_a_secret_is_substituted_after_its_record_and_its_echo_is_redacted(world: World, serve) -> None:
    server = serve(echo)
    world.own_process = True
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(server.port, get("/", bearer, port=server.port)), box

    reply, box = world.run(with_secret(server.port), scenario)
    assert server.received[0].header("authorization") == b"Bearer " + VALUE
    assert VALUE not in reply.body + b"".join(reply.headers.values())
    assert b"Bearer " + box.placeholder("TOKEN") in reply.body
    secret, outcome = world.chain.records
    assert world.chain.kinds == ["secret", "egress.outcome.complete"]
    assert world.chain.acknowledged == [secret.jti]
    assert outcome.member("par") == [secret.jti]
    assert secret.disclosed.text("sec[0].ref") == "local:TOKEN"
    assert outcome.disclosed.text("sec[0].rule") == "secrets/0"
    assert VALUE.decode() not in "".join(record.text.sdjwt for record in world.chain.records)


def test_a_secret_of_the_query_is_substituted_and_its_echo_is_redacted(world: World, serve) -> None:
    server = serve(echo)
    world.own_process = True
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        target = "/v1?a=1&key=" + box.placeholder("TOKEN").decode()
        return await box.https(server.port, get(target, port=server.port)), box, target

    profile = listed(server.port) + "\nsecrets_access: [{name: TOKEN, inject: {query: key}}]"
    reply, box, target = world.run(profile, scenario)
    assert server.received[0].head.startswith(b"GET /v1?a=1&key=" + VALUE + b" HTTP/1.1\r\n")
    assert VALUE not in reply.body + b"".join(reply.headers.values())
    assert target.encode() in reply.body
    assert world.chain.kinds == ["secret", "egress.outcome.complete"]
    assert VALUE.decode() not in "".join(record.text.sdjwt for record in world.chain.records)


def test_basic_credentials_of_another_user_than_the_profiles_are_not_forwarded(world: World, serve) -> None:
    server = serve(echo)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        def asked(user: bytes) -> bytes:
            credential = base64.b64encode(user + b":" + box.placeholder("TOKEN"))
            return get("/", b"Authorization: Basic " + credential, port=server.port)

        return [await box.https(server.port, asked(user)) for user in (b"git", b"root")]

    profile = listed(server.port) + "\nsecrets_access: [{name: TOKEN, inject: {basic: git}}]"
    good, bad = world.run(profile, scenario)
    assert good.status == 200 and (bad.status, code(bad)) == (403, "secret.placeholder_misplaced")
    (received,) = server.received
    assert received.header("authorization") == b"Basic " + base64.b64encode(b"git:" + VALUE)


def test_without_the_secrets_record_it_is_not_substituted(world: World, serve) -> None:
    server = serve(echo)
    world.keep("TOKEN", VALUE)
    world.chain.down = True

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(server.port, get("/", bearer, port=server.port))

    assert world.run(with_secret(server.port), scenario).status == 503
    assert server.connections == 0


MISPLACED = {
    "S2 another header": lambda p: (get("/", b"X-Token: " + p), b""),
    "in the query": lambda p: (get("/?t=" + p.decode()), b""),
    "in the path": lambda p: (get("/" + p.decode()), b""),
    "beside other text": lambda p: (get("/", b"Authorization: Bearer x" + p), b""),
    "in a cookie": lambda p: (get("/", b"Cookie: a=" + p), b""),
    "S3 in the body": lambda p: (get("/", b"Content-Length: %d" % len(p), method="POST"), p),
    "S3 in base64 in the body": lambda p: (
        get("/", b"Content-Length: %d" % len(base64.b64encode(b"x" + p)), method="POST"),
        base64.b64encode(b"x" + p),
    ),
    "S3 percent-encoded": lambda p: (get("/?t=" + "".join(f"%{byte:02x}" for byte in p)), b""),
}


@pytest.mark.parametrize("make", MISPLACED.values(), ids=MISPLACED.keys())
def test_S2_S3_a_placeholder_anywhere_else_is_not_forwarded(world: World, serve, make) -> None:
    server = serve(echo)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        head, body = make(box.placeholder("TOKEN"))
        head = head.replace(f"Host: {HOST}\r\n".encode(), f"Host: {HOST}:{server.port}\r\n".encode())
        return await box.https(server.port, head + body)

    reply = world.run(with_secret(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "secret.placeholder_misplaced")
    assert server.connections == 0
    assert world.chain.kinds == ["refusal.secret.placeholder_misplaced"]


def test_S2_a_placeholder_for_another_host_is_refused(world: World, serve) -> None:
    server, other = serve(echo), serve(echo)
    world.keep("TOKEN", VALUE)
    profile = (
        f"network_egress:\n  - {{host: {HOST}, port: {server.port}}}\n  - {{host: {HOST}, port: {other.port}}}\n"
        f"secrets_access:\n  - {{name: TOKEN, hosts: ['{HOST}:{server.port}']}}"
    )

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(other.port, get("/", bearer, port=other.port))

    reply = world.run(profile, scenario)
    assert (reply.status, code(reply)) == (403, "secret.not_bound")
    assert other.connections == 0


def test_S3_a_placeholder_late_in_a_long_body_breaks_the_exchange_off(world: World, serve) -> None:
    server = serve(echo)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        body = b"x" * 600_000 + box.placeholder("TOKEN") + b"y" * 1000
        head = get("/", b"Content-Length: %d" % len(body), port=server.port, method="POST")
        return await box.https(server.port, head + body), box.placeholder("TOKEN")

    reply, placeholder = world.run(with_secret(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "secret.placeholder_misplaced")
    assert server.received == []  # the upstream never got a whole request
    assert world.chain.kinds == [
        "egress.intent",
        "egress.outcome.refused",
        "refusal.secret.placeholder_misplaced",
    ]


def test_a_part_of_a_secret_ends_the_answer_and_is_in_the_chain(world: World, serve) -> None:
    """Its head had gone to the agent before: the outcome alone would not say why it ended."""
    server = serve(lambda _: answer(b"." * 2000 + VALUE[:-1]))
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return [await box.https(server.port, get("/", bearer, port=server.port)) for _ in range(4)]

    *cut, refused = world.run(with_secret(server.port), scenario)
    assert [(reply.status, reply.complete, set(reply.body) <= {ord(".")}) for reply in cut] == [
        (200, False, True)
    ] * 3
    assert (refused.status, code(refused)) == (403, "secret.withdrawn")
    assert world.chain.kinds == [
        *["secret", "egress.outcome.refused", "refusal.secret.partial_echo"] * 3,
        *["secret", "egress.outcome.refused", "refusal.secret.withdrawn"],
    ]


def test_S11_a_wrong_certificate_is_refused(world: World, serve, authority, tmp_path) -> None:
    server = serve(echo, leaf=authority.leaf(tmp_path, "other.example.test"))
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(server.port, get("/", bearer, port=server.port))

    reply = world.run(with_secret(server.port), scenario)
    assert (reply.status, code(reply)) == (502, "upstream.certificate")
    assert server.received == []
    assert world.chain.kinds[:2] == ["secret", "egress.outcome.failed"]


def test_S16_a_secret_that_the_broker_does_not_hold_has_no_placeholder(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        return box.table.binding("TOKEN")

    assert world.run(with_secret(server.port), scenario) is None


def test_S8_an_echo_split_over_chunks_is_redacted(world: World, serve) -> None:
    def script(received):
        value = received.header("authorization").removeprefix(b"Bearer ")
        return chunked([b"a" + value[:7], value[7:15], value[15:] + b"b"], pause=0.02)

    server = serve(script)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(server.port, get("/", bearer, port=server.port)), box.placeholder("TOKEN")

    reply, placeholder = world.run(with_secret(server.port), scenario)
    assert reply.body == b"a" + placeholder + b"b"


def test_an_upstream_that_breaks_off_is_seen_to_break_off(world: World, serve) -> None:
    server = serve(lambda received: [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"])
    reply = None

    async def scenario(box):
        nonlocal reply
        async with box.tunnel(server.port) as (reader, writer):
            writer.write(get(port=server.port))
            await reader.readuntil(b"\r\n\r\n")
            return await reader.read()

    assert not world.run(listed(server.port), scenario).endswith(b"0\r\n\r\n")
    assert world.chain.kinds == ["egress.outcome.failed"]


def test_passthrough_is_spliced_unread_and_says_so(world: World, serve, authority) -> None:
    server = serve(ok)

    async def scenario(box):
        context = ssl.create_default_context(
            cadata=authority.pem
        )  # the host's own certificate reaches the agent
        box.client_context = lambda named=True: context
        async with box.tunnel(server.port) as (reader, writer):
            reply = await asked(reader, writer, get(port=server.port))
        while len(world.chain.records) < 2:
            await asyncio.sleep(0.02)
        return reply

    reply = world.run(listed(server.port, "tls: passthrough"), scenario)
    assert reply.body == b"hello"
    assert world.chain.kinds == ["egress.intent", "egress.outcome.complete"]
    assert world.chain.records[1].member("lim") == ["tls-passthrough"]
    assert world.chain.records[1].member("par") == [world.chain.records[0].jti]


@pytest.mark.parametrize("first", ["reset", "stop"])
def test_a_passage_whose_agent_is_gone_before_its_tls_has_its_outcome(
    world: World, serve, first: str
) -> None:
    server = serve(ok)

    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(f"CONNECT {HOST}:{server.port} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        if first == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        else:
            await box.proxy.stop()
            await closed(writer)
        async with asyncio.timeout(5):
            while len(world.chain.records) < 2:
                await asyncio.sleep(0.02)

    world.run(listed(server.port, "tls: passthrough"), scenario)
    assert world.chain.kinds == ["egress.intent", "egress.outcome.aborted"]
    assert server.connections == 0


WILDCARD = f"network_egress: [{{host: '*.{HOST.partition('.')[2]}'}}, 'allowed:{HOST}']"


def looked_up_after(world: World) -> list[list[str]]:
    """What stood in the chain at each lookup."""
    found: list[list[str]] = []

    async def lookup(host: str, port: int):
        found.append(world.chain.kinds)
        raise OSError("no such name")

    world.hosts, world._lookup = {}, lookup
    return found


def test_E20_a_name_of_the_agents_own_is_recorded_before_it_is_looked_up(world: World) -> None:
    found = looked_up_after(world)
    label = f"c2vjcmv0.{HOST.partition('.')[2]}"

    async def scenario(box):
        async with box.tunnel(443, host=label, sni=label) as (reader, writer):
            return await asked(reader, writer, get(host=label))

    reply = world.run(WILDCARD, scenario)
    assert (reply.status, code(reply)) == (502, "egress.name_unresolved")
    assert found == [["egress.intent"]]
    assert world.chain.kinds == ["egress.intent", "egress.outcome.failed"]
    assert world.chain.acknowledged == [world.chain.records[0].jti]
    assert world.chain.records[0].disclosed.text("act.name") == label


def test_a_name_that_a_rule_gives_in_full_has_no_intent(world: World) -> None:
    found = looked_up_after(world)
    world.run(WILDCARD, lambda box: box.https(443, get()))
    assert found == [[]]
    assert world.chain.kinds == ["egress.outcome.failed"]


def test_an_unsafe_method_is_recorded_before_its_host_is_looked_up(world: World) -> None:
    found = looked_up_after(world)
    reply = world.run(listed(443), lambda box: box.https(443, get("/", b"Content-Length: 0", method="POST")))
    assert reply.status == 502
    assert found == [["egress.intent"]]
    assert world.chain.kinds == ["egress.intent", "egress.outcome.failed"]


def test_a_passage_is_recorded_before_its_host_is_looked_up(world: World) -> None:
    found = looked_up_after(world)
    request = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    reply = world.run(listed(443, "tls: passthrough"), lambda box: box.plain(request))
    assert (reply.status, code(reply)) == (502, "egress.name_unresolved")
    assert found == [["egress.intent"]]
    assert world.chain.kinds == ["egress.intent", "refusal.egress.name_unresolved", "egress.outcome.failed"]


def test_passthrough_still_demands_the_name(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port, sni="other.example.test"):
            raise AssertionError("the handshake went through")

    with pytest.raises((ssl.SSLError, OSError)):
        world.run(listed(server.port, "tls: passthrough"), scenario)
    assert server.connections == 0


GATEWAY = "gateway.affiant.internal"


def chat(*fields: bytes, body: bytes = b'{"model":"m"}', form: str = f"http://{GATEWAY}") -> bytes:
    path = f"{form}/v1/chat/completions"
    lines = (b"Content-Type: application/json", b"Content-Length: %d" % len(body), *fields)
    return get(path, *lines, host=GATEWAY, method="POST") + body


@pytest.mark.parametrize("form", [f"http://{GATEWAY}", ""])
def test_the_gateways_name_reaches_the_gateway_with_a_counter(world: World, form: str) -> None:
    fields = (b"Authorization: Bearer affiant-session", b"Affiant-Receipt: inline", b"Affiant-Nonce: " + b"A" * 43,
              b"Affiant-Proof: forged")  # fmt: skip
    reply = world.run("network_egress: denied", lambda box: box.plain(chat(*fields, form=form)))
    assert (reply.status, reply.body) == (200, b"data: one\n\ndata: [DONE]\n\n")
    assert reply.headers[b"affiant-receipt-id"] == b"r" * 22
    ((method, target, headers, body, cseq),) = world.gateway.seen
    assert (method, target, body, cseq) == ("POST", "/v1/chat/completions", b'{"model":"m"}', 0)
    assert b"authorization" not in headers
    assert b"affiant-proof" not in headers
    assert headers[b"affiant-nonce"] == b"A" * 43
    assert headers[b"affiant-receipt"] == b"inline"
    assert headers[b"affiant-on-behalf"] == b"agent"
    assert world.chain.records == []


def test_a_client_that_knows_no_proxy_reaches_the_gateway_by_its_name(world: World) -> None:
    reply = world.run("network_egress: denied", lambda box: box.plain(chat(form=""), to=box.own_hosts))
    assert (reply.status, reply.body) == (200, b"data: one\n\ndata: [DONE]\n\n")
    ((_, target, _, _, cseq),) = world.gateway.seen
    assert (target, cseq) == ("/v1/chat/completions", 0)


@pytest.mark.parametrize(
    "request_",
    [
        f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode(),
        f"CONNECT {GATEWAY}:443 HTTP/1.1\r\nHost: {GATEWAY}:443\r\n\r\n".encode(),
        get(f"http://{HOST}/", host=HOST),
        get("/", host=HOST),
        get("/v1/models", host="10.189.0.4"),
        get(f"http://{HOST}/", host="sessions.affiant.internal"),
        get(f"http://{HOST}/v1/models", host=GATEWAY),
        chat(form=f"http://{GATEWAY}"),
    ],
    ids=[
        "tunnel",
        "tunnel to it",
        "absolute form",
        "host",
        "address",
        "two hosts of the other name",
        "two hosts",
        "absolute form of it",
    ],
)
def test_where_the_own_names_lead_nothing_else_is_served(world: World, request_: bytes) -> None:
    """Even with a profile that allows the host."""
    reply = world.run(
        f"network_egress: [{{host: {HOST}}}]", lambda box: box.plain(request_, to=box.own_hosts)
    )
    assert reply.status in (400, 403)
    assert world.gateway.seen == []
    (record,) = world.chain.records
    assert record.kind == "refusal"


TRACE, SPAN = b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"
TRACEPARENT = b"traceparent: 00-" + TRACE + b"-" + SPAN + b"-01"


@pytest.mark.parametrize("fields", [(TRACEPARENT,), (b"traceparent: nonsense",), ()])
def test_an_agents_trace_reaches_the_gateway_as_it_was_sent(world: World, fields: tuple[bytes, ...]) -> None:
    """The gateway judges it; what is no trace is no error here either."""
    reply = world.run("network_egress: denied", lambda box: box.plain(chat(*fields)))
    assert reply.status == 200
    ((_, _, headers, _, _),) = world.gateway.seen
    assert [headers.get(b"traceparent")] == ([field.partition(b": ")[2] for field in fields] or [None])


@pytest.mark.parametrize("fields", [(TRACEPARENT,), (TRACEPARENT, TRACEPARENT), (TRACEPARENT.upper(),)])
def test_a_request_that_the_gateway_never_took_keeps_its_trace_here(
    world: World, fields: tuple[bytes, ...]
) -> None:
    world.gateway.down = True
    world.run("network_egress: denied", lambda box: box.plain(chat(*fields)))
    (record,) = world.chain.records
    told = {"t": TRACE.decode(), "s": SPAN.decode()} if fields == (TRACEPARENT,) else None
    assert record.member("agt", "cseq") == 0 and record.disclosed.get("trc") == told


@pytest.mark.parametrize(
    "field",
    [
        b"Affiant-Nonce: short",
        b"Affiant-Nonce: ",
        b"Affiant-Nonce: " + b"A" * 44,
        b"Affiant-Nonce: " + b"A" * 42 + b"B",
        b"Affiant-Nonce: " + b"A" * 43 + b"\r\nAffiant-Nonce: " + b"A" * 43,
        b"Affiant-Receipt: Inline",
        b"Affiant-Receipt: none",
        b"Affiant-Receipt: ",
        b"Affiant-Receipt: inline, inline",
        b"Affiant-Receipt: inline\r\nAffiant-Receipt: inline",
    ],
)
def test_a_header_that_the_gateway_would_not_heed_is_refused_and_not_dropped(
    world: World, field: bytes
) -> None:
    reply = world.run("network_egress: denied", lambda box: box.plain(chat(field)))
    assert reply.status == 400 and code(reply).startswith("egress.")
    assert field.split(b":")[0].decode().lower() in reply.body.decode().lower()
    assert world.gateway.seen == [] and len(world.chain.kinds) == 1


@pytest.mark.parametrize("name", [b"authorization", b"x-api-key"])
def test_the_agents_own_credential_does_not_reach_the_gateway(world: World, name: bytes) -> None:
    world.run("network_egress: denied", lambda box: box.plain(chat(name + b": affiant-session")))
    assert name not in world.gateway.seen[0][2]


@pytest.mark.parametrize("value", [b"2023-06-01", b"a" * 1024])
def test_a_header_that_the_gateway_may_forward_reaches_it(world: World, value: bytes) -> None:
    world.run("network_egress: denied", lambda box: box.plain(chat(b"anthropic-beta: " + value)))
    assert world.gateway.seen[0][2][b"anthropic-beta"] == value


@pytest.mark.parametrize(
    "field",
    [
        b"anthropic-beta: " + b"a" * 1025,
        b"anthropic-version: ",
        b"anthropic-version: 2023\xff",
        b"anthropic-version: 2023-06-01\r\nAnthropic-Version: 2023-06-01",
    ],
)
def test_a_header_that_no_proof_could_cover_is_refused(world: World, field: bytes) -> None:
    reply = world.run("network_egress: denied", lambda box: box.plain(chat(field)))
    assert reply.status == 400 and code(reply).startswith("egress.")
    assert world.gateway.seen == [] and len(world.chain.kinds) == 1


def test_reads_take_no_counter(world: World) -> None:
    async def scenario(box):
        models = await box.plain(get(f"http://{GATEWAY}/v1/models", host=GATEWAY))
        model = await box.plain(get(f"http://{GATEWAY}/v1/models/org/model-1:free", host=GATEWAY))
        receipts = [
            await box.plain(get(f"http://{GATEWAY}/v1/receipts/{'r' * 22}{part}", host=GATEWAY))
            for part in ("", "/bundle", "/proof")
        ]
        return [models.status, model.status, *(receipt.status for receipt in receipts)]

    assert world.run("network_egress: denied", scenario) == [200] * 5
    assert [cseq for *_, cseq in world.gateway.seen] == [None] * 5


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/sessions"), ("GET", "/v1/sessions/x/bundle"), ("POST", "/v1/sessions/x/close"),
     ("DELETE", "/v1/models"), ("GET", "/healthz"),
     ("POST", "/.well-known/affiant/attest"), ("GET", "/v1/chat/completions"),
     ("GET", "/v1/approvals"), ("POST", f"/v1/approvals/{'0' * 64}"), ("POST", "/v1/sessions/x/approvals"),
     ("GET", "/v1/receipts/short"), ("GET", "/v1/receipts/0123456789012345678901/proof/x")],
)  # fmt: skip
def test_nothing_else_of_the_gateway_is_reachable(world: World, method: str, path: str) -> None:
    request = get(f"http://{GATEWAY}{path}", b"Content-Length: 0", host=GATEWAY, method=method)
    reply = world.run("network_egress: denied", lambda box: box.plain(request))
    assert (reply.status, code(reply)) == (404, "gateway_path")
    error = json.loads(reply.body)
    assert error["error"]["type"] == "not_found_error"
    assert all(route.name in error["error"]["message"] for route in AGENT_ROUTES)
    assert isinstance(error["record"], str) and "how_to_ask" not in error
    assert world.gateway.seen == []
    assert world.chain.kinds == ["refusal.gateway_path"]


@pytest.mark.parametrize("path", ["/v1/messages/batches", "/v1/complete", "/v1/messages/m/x"])
def test_what_is_not_served_of_anthropics_api_is_said_in_its_form(world: World, path: str) -> None:
    request = get(f"http://{GATEWAY}{path}", b"Content-Length: 0", host=GATEWAY, method="POST")
    reply = world.run("network_egress: denied", lambda box: box.plain(request))
    error = json.loads(reply.body)
    assert (reply.status, error["type"], error["error"]["type"]) == (404, "error", "not_found_error")
    assert "POST /v1/chat/completions" in error["error"]["message"]
    assert world.chain.kinds == ["refusal.gateway_path"]


@pytest.mark.parametrize(("noted", "seen"), [(0, b""), (1, b"data: one\n\ndata: [DONE]\n\n")])
def test_an_answer_ends_only_when_what_the_gateway_decided_is_noted(
    world: World, noted: int, seen: bytes
) -> None:
    """Before anything of it reaches the agent, and of a stream again before its end."""
    asked: list[int] = []

    async def decided() -> None:
        asked.append(len(world.gateway.seen))
        if len(asked) > noted:
            raise DecisionsUnavailable("a full disk")

    async def scenario(box):
        box.proxy._gateway = replace(box.proxy._gateway, decided=decided)
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(chat())
        data = await reader.read()
        writer.close()
        return data

    data = world.run("network_egress: denied", scenario)
    assert asked == [1] * (noted + 1)
    assert b"0\r\n\r\n" not in data, "the answer has no end"
    assert (b"data: [DONE]" in data) is bool(seen)
    assert bool(data) is bool(seen)


def test_a_gateway_that_cannot_be_asked_what_it_decided_is_an_answer_and_no_second_record(
    world: World,
) -> None:
    async def decided() -> None:
        raise GatewayUnreachable("no answer")

    async def scenario(box):
        box.proxy._gateway = replace(box.proxy._gateway, decided=decided)
        return await box.plain(chat())

    reply = world.run("network_egress: denied", scenario)
    assert (reply.status, code(reply)) == (502, "gateway.unreachable")
    assert world.chain.kinds == []


def test_a_gateway_that_does_not_answer_leaves_a_refusal_with_the_counter(world: World) -> None:
    world.gateway.down = True

    async def scenario(box):
        return await box.plain(chat()), await box.plain(chat())

    replies = world.run("network_egress: denied", scenario)
    assert [reply.status for reply in replies] == [502, 502]
    assert world.chain.kinds == ["refusal.gateway.unreachable"] * 2
    assert [record.member("agt", "cseq") for record in world.chain.records] == [0, 1]


@pytest.mark.parametrize("holds", [True, False])
def test_an_agent_that_leaves_before_the_gateways_head_ends_its_request_whose_counter_has_one_record(
    world: World, holds: bool
) -> None:
    async def scenario(box):
        world.gateway.silent, world.gateway.holds = asyncio.Event(), holds
        _, writer = await asyncio.open_connection(*box.address)
        writer.write(chat())
        await world.gateway.silent.wait()
        await closed(writer)
        while box.proxy.in_flight:
            await asyncio.sleep(0)

    world.run("network_egress: denied", scenario)
    assert world.chain.kinds == ([] if holds else ["refusal.gateway.unreachable"])
    assert [record.member("agt", "cseq") for record in world.chain.records] == [0] * (not holds)


def test_a_refused_proof_leaves_a_refusal_with_the_counter(world: World) -> None:
    world.gateway.status = 401
    reply = world.run("network_egress: denied", lambda box: box.plain(chat()))
    assert reply.status == 401
    assert world.chain.kinds == ["refusal.gateway.proof_refused"]
    assert world.chain.records[0].member("agt", "cseq") == 0


@pytest.mark.parametrize("status", [200, 400, 409, 413, 429, 500, 503])
@pytest.mark.parametrize("named", [(), ((b"Affiant-Receipt-Id", b"short"),)])
def test_an_answer_without_a_receipt_leaves_a_refusal_with_the_counter(
    world: World, status: int, named: tuple[tuple[bytes, bytes], ...]
) -> None:
    world.gateway.status, world.gateway.headers = status, named

    async def scenario(box):
        return await box.plain(chat()), await box.plain(get(f"http://{GATEWAY}/v1/models", host=GATEWAY))

    replies = world.run("network_egress: denied", scenario)
    assert [reply.status for reply in replies] == [status, status]
    assert world.chain.kinds == ["refusal.gateway.no_receipt"]
    assert world.chain.records[0].member("agt", "cseq") == 0


def test_a_receipted_refusal_is_left_to_the_gateways_record(world: World) -> None:
    world.gateway.status = 429
    assert world.run("network_egress: denied", lambda box: box.plain(chat())).status == 429
    assert world.chain.kinds == []


def spent(world: World, request: bytes, times: int = 30) -> tuple[list[int], str]:
    """What ``request`` is answered each time, and why the budget was spent."""

    async def scenario(box):
        statuses = [(await box.plain(request)).status for _ in range(times)]
        return statuses, box.budget.spent.result().code

    return world.run("network_egress: denied", scenario)


def test_a_flood_of_denied_requests_leaves_a_bounded_number_of_records(world: World) -> None:
    world.record_limits = RecordLimits(refusals=10)
    statuses, code = spent(world, b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert statuses == [403] * 10 + [503] * 20
    assert world.chain.kinds == ["refusal.host_not_listed"] * 10
    assert code == "session.budget"


def test_a_flood_of_requests_that_the_gateway_refuses_takes_a_bounded_number_of_counters(
    world: World,
) -> None:
    world.gateway.status = 400
    world.record_limits = RecordLimits(refusals=10)
    statuses, _ = spent(world, chat())
    assert statuses == [400] * 10 + [503] * 20
    assert world.gateway.counter == 10


def test_a_flood_of_allowed_inference_is_bounded_by_all_records(world: World) -> None:
    world.record_limits = RecordLimits(records=10)
    statuses, _ = spent(world, chat())
    assert statuses == [200] * 10 + [503] * 20


def test_what_was_begun_has_its_outcome_when_the_budget_is_spent(world: World, serve) -> None:
    world.record_limits = RecordLimits(refusals=1)
    server = serve(lambda received: [0.5, *answer(b"late")])

    async def scenario(box):
        post = get("/x", b"Content-Length: 0", port=server.port, method="POST")
        begun = asyncio.create_task(box.https(server.port, post))
        while not world.chain.records:
            await asyncio.sleep(0.01)
        await box.plain(get("http://unlisted.test/", host="unlisted.test"))
        return (await begun).body, (await box.https(server.port, post)).status

    assert world.run(listed(server.port), scenario) == (b"late", 503)
    assert world.chain.kinds == ["egress.intent", "refusal.host_not_listed", "egress.outcome.complete"]


@pytest.mark.parametrize("most", [1 << 20, 9 << 20])
def test_a_body_beyond_the_bound_of_the_gateways_configuration_takes_no_counter(
    world: World, most: int
) -> None:
    async def scenario(box):
        return await box.plain(chat(body=b"x" * most)), await box.plain(chat(body=b"x" * (most + 1)))

    world.body_max = most
    taken, refused = world.run("network_egress: denied", scenario)
    assert (taken.status, refused.status, code(refused)) == (200, 413, "egress.too_large")
    assert f"at most {most} bytes, as the gateway's `body_max` says" in refused.body.decode()
    assert world.gateway.counter == 1


def test_a_placeholder_in_a_prompt_is_nothing_but_text(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        return await box.plain(chat(body=b'{"prompt":"' + box.placeholder("TOKEN") + b'"}'))

    assert world.run(with_secret(server.port), scenario).status == 200


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"]
)
def test_a_slow_agent_is_not_waited_for(world: World, data: bytes) -> None:
    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(data)
        rest = await asyncio.wait_for(reader.read(), 8)
        await closed(writer)
        return rest

    world.run("network_egress: denied", scenario)


def test_too_many_connections_are_answered_503(world: World) -> None:
    async def scenario(box):
        held = [await asyncio.open_connection(*box.address) for _ in range(16)]
        await asyncio.sleep(0.1)
        reply = await box.plain(chat())
        for _, writer in held:
            await closed(writer)
        return reply

    assert world.run("network_egress: denied", scenario).status == 503


def test_an_agent_that_goes_away_leaves_an_aborted_outcome(world: World, serve) -> None:
    server = serve(
        lambda received: [b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n", *[b"x" * 1_000_000] * 50]
    )

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            writer.write(get(port=server.port))
            await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()
        for _ in range(100):
            if world.chain.records:
                return
            await asyncio.sleep(0.05)

    world.run(listed(server.port), scenario)
    assert world.chain.kinds == ["egress.outcome.aborted"]


def test_stopping_breaks_off_what_is_under_way_with_a_record(world: World, serve) -> None:
    server = serve(lambda received: [5.0])

    async def scenario(box):
        async with box.tunnel(server.port) as (_, writer):
            writer.write(get(port=server.port))
            await asyncio.sleep(0.3)
            await box.proxy.stop()

    world.run(listed(server.port), scenario)
    assert world.chain.kinds == ["egress.outcome.aborted"]


def test_head_answers_have_no_body(world: World, serve) -> None:
    server = serve(lambda received: [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"])

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            writer.write(get(port=server.port, method="HEAD"))
            first = await answered(reader, bodiless=True)
            writer.write(get(port=server.port, method="HEAD"))
            return first, await answered(reader, bodiless=True)

    first, second = world.run(listed(server.port), scenario)
    assert (first.status, second.status) == (200, 200)


def test_a_denied_head_request_has_no_body_to_desynchronise_the_agent(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            writer.write(get("/b", port=server.port, method="HEAD"))
            denied = await answered(reader, bodiless=True)
            return denied, await asked(reader, writer, get("/a", port=server.port))

    denied, allowed = world.run(listed(server.port, "paths: ['/a']"), scenario)
    assert (denied.status, allowed.status, allowed.body) == (403, 200, b"hello")


UNPROVABLE = {
    "a content type beyond the proof's bound": chat(b"X: 1").replace(b"application/json", b"a/" + b"x" * 300),
    "two content types": chat(b"Content-Type: text/plain"),
    "two nonces": chat(b"Affiant-Nonce: " + b"n" * 43, b"Affiant-Nonce: " + b"m" * 43),
    "a target beyond the proof's bound": chat().replace(
        b"completions ", b"completions?x=" + b"y" * 3000 + b" "
    ),
}


@pytest.mark.parametrize("data", UNPROVABLE.values(), ids=UNPROVABLE.keys())
def test_what_no_proof_could_cover_takes_no_counter(world: World, data: bytes) -> None:
    reply = world.run("network_egress: denied", lambda box: box.plain(data))
    assert reply.status in (400, 413)
    assert (world.gateway.counter, world.gateway.seen) == (0, [])
    assert len(world.chain.records) == 1


def test_a_counter_ends_in_a_record_whatever_goes_wrong(world: World) -> None:
    async def broken(*args, **more):
        raise RuntimeError("a defect")

    world.gateway.send = broken

    async def scenario(box):
        with pytest.raises(asyncio.IncompleteReadError):
            await box.plain(chat())

    world.expected_defects = ("a defect",)
    world.run("network_egress: denied", scenario)
    assert world.chain.kinds == ["refusal.gateway.unreachable"]
    assert world.chain.records[0].member("agt", "cseq") == 0


def test_large_prompts_share_a_bounded_memory(world: World) -> None:
    world.limits = ProxyLimits(16, Timeouts(idle=10, head=10, body=10))

    async def scenario(box):
        body = b"x" * (7 << 20)
        head = (
            chat(body=b"")[:-2].replace(b"Content-Length: 0", b"Content-Length: %d" % (len(body) + 1))
            + b"\r\n"
        )
        held = []
        for _ in range(9):
            reader, writer = await asyncio.open_connection(*box.address)
            writer.write(head + body)
            await writer.drain()
            held.append((reader, writer))
        while box.proxy._gateway.memory._left > 1 << 20:  # each of the nine is taken whole
            await asyncio.sleep(0.02)
        reply = await box.plain(chat(body=b"y" * (6 << 20)))
        for _, writer in held:
            await closed(writer)
        return reply

    reply = world.run("network_egress: denied", scenario)
    assert (reply.status, code(reply)) == (413, "egress.too_large")


def test_an_agent_that_leaves_a_stream_ends_it_at_once(world: World) -> None:
    ended = asyncio.Event()

    async def endless():
        yield b"data: one\n\n"
        await asyncio.sleep(60)

    async def close() -> None:
        ended.set()

    world.gateway.chunks, world.gateway.close = endless, close

    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(chat())
        await reader.readuntil(b"data: one\n\n")
        await closed(writer)
        await asyncio.wait_for(ended.wait(), 2)

    world.run("network_egress: denied", scenario)


def test_a_request_sent_ahead_of_an_answer_is_served_after_it(world: World) -> None:
    async def slow():
        await asyncio.sleep(0.2)
        yield b"data: [DONE]\n\n"

    world.gateway.chunks = slow

    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(chat() + chat())
        replies = [await answered(reader), await answered(reader)]
        await closed(writer)
        return [reply.body for reply in replies]

    assert world.run("network_egress: denied", scenario) == [b"data: [DONE]\n\n"] * 2


def test_no_bytes_break_the_proxy(world: World) -> None:
    seeds = [chat(), get("http://unlisted.example.com/"), b"CONNECT a.b:443 HTTP/1.1\r\nHost: a.b\r\n\r\n"]
    random = Random(20260501)

    async def scenario(box):
        for _ in range(150):
            data = bytearray(random.choice(seeds))
            for _ in range(random.randrange(4)):
                data[random.randrange(len(data))] = random.randrange(256)
            del data[random.randrange(len(data)) :]
            data += random.randbytes(random.randrange(40))
            reader, writer = await asyncio.open_connection(*box.address)
            writer.write(bytes(data))
            writer.write_eof()
            try:
                await asyncio.wait_for(reader.read(), 5)
            except OSError:
                pass
            await closed(writer)
        return await box.plain(chat())

    assert world.run("network_egress: denied", scenario).status == 200
