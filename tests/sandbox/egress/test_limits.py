"""Limits of egress through the real proxy and broker: exactly as much as the profile lets, and not a byte more."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from tests.sandbox.egress.conftest import HOST, World
from tests.sandbox.egress.test_proxy import VALUE, asked, code, echo, get, listed, ok

from affiant.policy.decision.limit_errors import BytesSpent, EgressRequestsSpent, LimitReached
from affiant.policy.decision.meters import NANOSECONDS
from affiant.policy.loading.load import load_profiles
from affiant.sandbox.egress.limits import EgressMeters, Passing

SECOND = NANOSECONDS
MANY = 12


def refusals(world: World) -> list[str]:
    return [kind for kind in world.chain.kinds if kind.startswith("refusal")]


def test_of_parallel_requests_exactly_the_limit_goes_out(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        ask = (box.https(server.port, get("/", port=server.port)) for _ in range(MANY))
        return await asyncio.gather(*ask)

    replies = world.run(listed(server.port, "limits: {requests: 5}"), scenario)
    assert sorted(reply.status for reply in replies) == [200] * 5 + [403] * (MANY - 5)
    assert len(server.received) == 5
    assert {code(reply) for reply in replies if reply.status == 403} == {"limit_egress_requests"}
    assert refusals(world) == ["refusal.limit_egress_requests"] * (MANY - 5)
    refused = next(record for record in world.chain.records if record.kind == "refusal")
    assert refused.disclosed.get("pol.rules") == ["egress/0"]
    assert refused.member("pol", "dec") == "deny"


def test_a_rate_that_is_reached_is_429_and_says_when(world: World, serve) -> None:
    server = serve(ok)

    async def scenario(box):
        async with box.tunnel(server.port) as (reader, writer):
            return [await asked(reader, writer, get("/", port=server.port)) for _ in range(2)]

    first, second = world.run(listed(server.port, "limits: {requests: 1/min}"), scenario)
    assert first.status == 200
    assert (second.status, code(second)) == (429, "limit_egress_requests")
    assert 55 <= int(second.headers[b"retry-after"]) <= 62


def test_what_a_head_announces_is_taken_before_a_byte_is_sent(world: World, serve) -> None:
    server = serve(echo)

    async def scenario(box):
        replies = []
        for size in (600, 3000, 300):
            head = get("/", b"Content-Length: %d" % size, port=server.port, method="POST")
            replies.append(await box.https(server.port, head + b"x" * size))
        return replies

    replies = world.run(f"limits: {{bytes_out: 2KiB}}\n{listed(server.port)}", scenario)
    assert [reply.status for reply in replies] == [200, 403, 200]
    assert code(replies[1]) == "limit_bytes_out"
    assert [len(received.body) for received in server.received] == [600, 300]


def test_a_body_of_unknown_length_breaks_off_where_there_is_no_room(world: World, serve) -> None:
    server = serve(echo)
    piece = b"x" * 65536

    async def scenario(box):
        data = get("/", b"Transfer-Encoding: chunked", port=server.port, method="POST")
        data += b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for _ in range(16)) + b"0\r\n\r\n"
        return await box.https(server.port, data)

    reply = world.run(listed(server.port, "limits: {bytes_out: 512KiB}"), scenario)
    assert not reply.complete or code(reply) == "limit_bytes_out"
    assert sum(len(received.body) for received in server.received) <= 512 * 1024
    assert "egress.outcome.refused" in world.chain.kinds


def test_a_connection_that_is_passed_through_ends_where_there_is_no_room(
    world: World, serve, authority
) -> None:
    server = serve(echo)

    async def scenario(box):
        context = ssl.create_default_context(cadata=authority.pem)
        box.client_context = lambda named=True: context
        data = get("/", b"Content-Length: 50000", port=server.port, method="POST") + b"x" * 50000
        try:
            async with box.tunnel(server.port) as (reader, writer):
                await asked(reader, writer, data)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError, AssertionError):
            pass
        async with asyncio.timeout(5):
            while len(world.chain.records) < 3:
                await asyncio.sleep(0.02)

    world.run(listed(server.port, "tls: passthrough", "limits: {bytes_out: 8KiB}"), scenario)
    assert world.chain.kinds == ["egress.intent", "refusal.limit_bytes_out", "egress.outcome.refused"]
    assert not any(len(received.body) > 8 * 1024 for received in server.received)


def test_of_parallel_uses_of_a_secret_exactly_as_many_as_it_has_reach_the_host(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)
    profile = listed(server.port) + "\nsecrets_access: [{name: TOKEN, max_uses: 3}]"

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        ask = (box.https(server.port, get("/", bearer, port=server.port)) for _ in range(8))
        replies = await asyncio.gather(*ask)
        without = await box.https(server.port, get("/", port=server.port))
        return replies, without

    replies, without = world.run(profile, scenario)
    assert sorted(reply.status for reply in replies) == [200] * 3 + [403] * 5
    assert {code(reply) for reply in replies if reply.status == 403} == {"limit_secret_uses"}
    assert [r.header("authorization") for r in server.received].count(b"Bearer " + VALUE) == 3
    assert len(server.received) == 4
    assert without.status == 200
    assert world.chain.kinds.count("egress.outcome.refused") == 5


def test_what_cannot_be_counted_does_not_go_out(world: World, serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(ok)

    def broken(*_: object, **__: object) -> Passing:
        raise RuntimeError("no meters")

    monkeypatch.setattr(EgressMeters, "request", broken)
    reply = world.run(listed(server.port), lambda box: box.https(server.port, get("/", port=server.port)))
    assert (reply.status, code(reply)) == (403, "limit_unavailable")
    assert not server.received


def test_a_connection_that_cannot_be_counted_is_not_made(
    world: World, serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(ok)

    def broken(*_: object, **__: object) -> Passing:
        raise RuntimeError("no meters")

    monkeypatch.setattr(EgressMeters, "connection", broken)
    connect = f"CONNECT {HOST}:{server.port} HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n\r\n".encode()
    reply = world.run(listed(server.port, "tls: passthrough"), lambda box: box.plain(connect))
    assert (reply.status, code(reply)) == (403, "limit_unavailable")
    assert refusals(world) == ["refusal.limit_unavailable"]
    assert not server.received


@pytest.mark.parametrize("passed_through", [False, True])
def test_a_piece_that_cannot_be_counted_does_not_go_on(
    world: World, serve, authority, monkeypatch: pytest.MonkeyPatch, passed_through: bool
) -> None:
    server = serve(echo)

    def broken(*_: object) -> None:
        raise RuntimeError("no meters")

    async def scenario(box):
        if passed_through:
            context = ssl.create_default_context(cadata=authority.pem)
            box.client_context = lambda named=True: context
        monkeypatch.setattr(Passing, "take", broken)
        data = get("/", b"Transfer-Encoding: chunked", port=server.port, method="POST")
        data += b"".join(b"10000\r\n%s\r\n" % (b"x" * 65536) for _ in range(8)) + b"0\r\n\r\n"
        try:
            return await box.https(server.port, data)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError, AssertionError):
            while "egress.outcome.refused" not in world.chain.kinds:
                await asyncio.sleep(0.02)
            return None

    reply = world.run(listed(server.port, *(["tls: passthrough"] if passed_through else [])), scenario)
    assert reply is None or not reply.complete or code(reply) == "limit_unavailable"
    assert world.chain.kinds[-1 if passed_through else 1] == "egress.outcome.refused"
    assert sum(len(received.body) for received in server.received) < 8 * 65536


# -- which rule counts -----------------------------------------------------------------------------------------------


def meters(sections: str) -> tuple[EgressMeters, list[int]]:
    now = [0]
    compiled = load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled
    return EgressMeters(compiled, nanoseconds=lambda: now[0]), now


def refused(work) -> LimitReached:
    with pytest.raises(LimitReached) as caught:
        work()
    return caught.value


def test_a_request_counts_against_the_first_of_its_rules_that_has_room() -> None:
    limited, now = meters(
        f"network_egress: [{{host: {HOST}, methods: [GET], limits: {{requests: 1/min}}}},"
        f" {{host: {HOST}, methods: [GET, POST], limits: {{requests: 1/h}}}}]"
    )
    for _ in range(2):
        limited.request(("egress/0", "egress/1"), 100)
    error = refused(lambda: limited.request(("egress/0", "egress/1"), 100))
    assert isinstance(error, EgressRequestsSpent)
    assert error.retry_after_s is not None
    assert 60 <= error.retry_after_s <= 62, "the sooner of the two"
    now[0] = 62 * SECOND
    limited.request(("egress/0", "egress/1"), 100)


def test_a_rule_without_limits_has_room_always_and_the_profiles_limit_counts_besides() -> None:
    limited, _ = meters(
        f"limits: {{bytes_out: 1KiB}}, network_egress: [{{host: {HOST}, limits: {{requests: 1}}}},"
        f" {{host: {HOST}, methods: [GET]}}]"
    )
    for _ in range(10):
        limited.request(("egress/0", "egress/1"), 100)
    error = refused(lambda: limited.request(("egress/0", "egress/1"), 100))
    assert isinstance(error, BytesSpent)
    assert error.rules == ("limits/bytes_out",)


def test_nothing_is_taken_by_what_is_refused_and_later_pieces_count_where_the_request_did() -> None:
    limited, _ = meters(f"network_egress: [{{host: {HOST}, limits: {{requests: 2, bytes_out: 1KiB}}}}]")
    assert isinstance(refused(lambda: limited.request(("egress/0",), 2000)), BytesSpent)
    passing = limited.request(("egress/0",), 1000)
    passing.take(24)
    assert refused(lambda: passing.take(1)).rules == ("egress/0",)
    assert isinstance(refused(lambda: limited.request(("egress/0",), 1)), BytesSpent)


# -- narrowed --------------------------------------------------------------------------------------------------------


def compiled_of(sections: str):
    return load_profiles(f"agent_configs: {{dev: {{{sections}}}}}".encode()).profile("dev").compiled


def test_bytes_that_were_sent_before_a_narrowing_stay_sent() -> None:
    limited, _ = meters(f"network_egress: [{{host: {HOST}}}]")
    limited.request(("egress/0",), 1000)
    tighter = limited.restricted(
        compiled_of(f"network_egress: [{{host: {HOST}}}], limits: {{bytes_out: 1KiB}}")
    )
    assert isinstance(refused(lambda: tighter.request(("egress/0",), 25)), BytesSpent)
    tighter.request(("egress/0",), 24)


@pytest.mark.parametrize(
    ("was", "now_host", "kept"),
    [
        (HOST, HOST, True),
        (f"**.{HOST.partition('.')[2]}", HOST, True),
        (f"**.{HOST.partition('.')[2]}", f"*.{HOST.partition('.')[2]}", True),
        ("*.elsewhere.example", HOST, False),
        (f"x{HOST}", HOST, False),
    ],
)
def test_a_rules_count_goes_on_under_the_rules_that_take_its_place(
    was: str, now_host: str, kept: bool
) -> None:
    limited, now = meters(f"network_egress: [{{host: '{was}', limits: {{requests: 2/min}}}}]")
    for _ in range(2):
        limited.request(("egress/0",), 10)
    rule = f"{{host: '{now_host}', methods: [GET], limits: {{requests: 2/min}}}}"
    tighter = limited.restricted(compiled_of(f"network_egress: [{rule}]"))
    if kept:
        assert isinstance(refused(lambda: tighter.request(("egress/0",), 10)), EgressRequestsSpent)
        now[0] = 62 * SECOND
    tighter.request(("egress/0",), 10)


def test_what_was_sent_once_counts_once_however_often_the_profile_is_narrowed() -> None:
    """Rules of one host, each another one after every narrowing, take over what was sent there, not each other's."""

    def sections(most: int) -> str:
        paths = ", ".join(f"/{each}" for each in range(most))
        rules = (f"{{host: {HOST}, methods: [{way}], paths: [{paths}], limits: {{requests: 9, bytes_out: 1KiB}}}}"
                 for way in ("GET", "POST"))  # fmt: skip
        return f"network_egress: [{', '.join(rules)}]"

    limited, _ = meters(sections(20))
    limited.request(("egress/0",), 100)
    for most in range(19, 8, -1):
        limited = limited.restricted(compiled_of(sections(most)))
    for _ in range(4):
        limited.request(("egress/0",), 100)
    limited = limited.restricted(compiled_of(sections(8)))
    for _ in range(4):  # five were sent
        limited.request(("egress/1",), 100)
    assert isinstance(refused(lambda: limited.request(("egress/1",), 1)), LimitReached)


def test_rules_that_differ_in_their_limits_alone_take_over_each_request_once() -> None:
    def sections(most: int) -> str:
        limits = (
            f"{{host: {HOST}, limits: {{requests: 9, bytes_out: {most + more}KiB}}}}" for more in (0, 100)
        )
        return f"network_egress: [{', '.join(limits)}]"

    limited, _ = meters(sections(20))
    limited.request(("egress/0", "egress/1"), 1)
    for most in range(19, 9, -1):
        limited = limited.restricted(compiled_of(sections(most)))
    for _ in range(8):
        limited.request(("egress/0",), 1)
    assert isinstance(refused(lambda: limited.request(("egress/0",), 1)), EgressRequestsSpent)


def test_where_bytes_are_spent_no_connection_is_passed_through() -> None:
    passed = f"network_egress: [{{host: {HOST}, tls: passthrough%s}}]"
    for sections in (f"limits: {{bytes_out: 1KiB}}, {passed % ''}", passed % ", limits: {bytes_out: 1KiB}"):
        limited, _ = meters(sections)
        limited.connection(("egress/0",)).take(1023)
        limited.connection(("egress/0",)).take(1)
        assert isinstance(refused(lambda limited=limited: limited.connection(("egress/0",))), BytesSpent)


def test_later_pieces_count_against_the_profile_too() -> None:
    limited, _ = meters(
        f"limits: {{bytes_out: 2KiB}}, network_egress: [{{host: {HOST}, limits: {{bytes_out: 1GiB}}}}]"
    )
    passing = limited.request(("egress/0",), 1024)
    passing.take(1024)
    assert refused(lambda: passing.take(1)).rules == ("limits/bytes_out",)


def test_bytes_of_a_window_come_back_and_say_when() -> None:
    limited, now = meters(f"network_egress: [{{host: {HOST}, limits: {{bytes_out: 1KiB/min}}}}]")
    limited.request(("egress/0",), 1024)
    error = refused(lambda: limited.request(("egress/0",), 1))
    assert isinstance(error, BytesSpent) and error.retry_after_s == 61
    now[0] = 61 * SECOND
    limited.request(("egress/0",), 1024)


def test_a_head_counts_and_so_does_a_small_body_of_unknown_length(world: World, serve) -> None:
    server = serve(echo)

    async def scenario(box):
        pad = b"X-Pad: " + b"x" * 1200
        heads = [await box.https(server.port, get("/", pad, port=server.port)) for _ in range(2)]
        data = get("/c", b"Transfer-Encoding: chunked", port=server.port, method="POST")
        data += b"4b0\r\n" + b"x" * 1200 + b"\r\n0\r\n\r\n"
        return heads, [await box.https(server.port, data) for _ in range(2)]

    rules = [
        f"{{host: {HOST}, port: {server.port}, methods: [{method}], limits: {{bytes_out: 2KiB}}}}"
        for method in ("GET", "POST")
    ]
    heads, bodies = world.run(f"network_egress: [{', '.join(rules)}]", scenario)
    assert [reply.status for reply in (*heads, *bodies)] == [200, 403, 200, 403]


def test_all_of_a_large_body_is_taken_before_a_byte_of_it_is_sent(world: World, serve) -> None:
    server = serve(echo)
    size = 700 * 1024
    head = get("/", b"Content-Length: %d" % size, port=server.port, method="POST")
    reply = world.run(
        listed(server.port, "limits: {bytes_out: 512KiB}"),
        lambda box: box.https(server.port, head + b"x" * size),
    )
    assert (reply.status, code(reply)) == (403, "limit_bytes_out")
    assert not server.received
