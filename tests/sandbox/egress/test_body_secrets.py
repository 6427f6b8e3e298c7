"""Secrets in bodies through the real proxy and broker: held whole, replaced in their one place, refused elsewhere."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from tests.sandbox.egress.conftest import HOST, VALUE, World
from tests.sandbox.egress.test_approvals import ANN, Mailbox, asking, says  # noqa: F401 - the fixture
from tests.sandbox.egress.test_decision_notes import Kept
from tests.sandbox.egress.test_proxy import code, echo, get, listed, ok
from tests.secrets.upstream_server import answer

from affiant.sandbox.egress.http.agent_http import Memory
from affiant.secrets.injection.body_surface import MAX_HELD_BODY

JSON = b"Content-Type: application/json"
FORM = b"Content-Type: application/x-www-form-urlencoded"


def profile(port: int, place: str = "json: /auth/token", *extra: str, **members: str) -> str:
    more = "".join(f", {name}: {value}" for name, value in members.items())
    return f"{listed(port, *extra)}\nsecrets_access: [{{name: TOKEN, inject: {{body: {{{place}}}}}{more}}}]"


def post(port: int, body: bytes, *fields: bytes, chunked: bool = False, path: str = "/v1") -> bytes:
    if chunked:
        half = len(body) // 2
        framed = (
            b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:]))
            + b"0\r\n\r\n"
        )
        return get(path, *fields, b"Transfer-Encoding: chunked", port=port, method="POST") + framed
    return get(path, *fields, b"Content-Length: %d" % len(body), port=port, method="POST") + body


def sent(world: World, server, body: bytes, *fields: bytes, text: str | None = None, chunked: bool = False):
    """The reply to a body that has the placeholder for each ``%s``, and the placeholder."""
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        placeholder = box.placeholder("TOKEN")
        data = post(server.port, body.replace(b"%s", placeholder), *fields, chunked=chunked)
        return await box.https(server.port, data), placeholder

    return world.run(text or profile(server.port), scenario)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_secret_in_json_reaches_the_host_and_its_echo_is_the_placeholder(
    world: World, serve, chunked: bool
) -> None:
    server = serve(echo)
    world.own_process = not chunked
    reply, placeholder = sent(world, server, b'{"n": 1.0, "auth": {"token": "%s"}}', JSON, chunked=chunked)
    assert reply.status == 200
    (received,) = server.received
    assert received.body == b'{"n": 1.0, "auth": {"token": "%s"}}' % VALUE
    assert chunked or received.header("content-length") == b"%d" % len(received.body)
    assert VALUE not in reply.body + b"".join(reply.headers.values()) and placeholder in reply.body
    assert world.chain.kinds == ["secret", "egress.outcome.complete"]
    use, outcome = world.chain.records
    assert use.jti in world.chain.acknowledged and outcome.member("par") == [use.jti]
    assert outcome.disclosed.text("act.arg").startswith("sha256:")
    told = "".join(record.text.sdjwt for record in world.chain.records)
    assert VALUE.decode() not in told and placeholder.decode() not in told


def test_a_secret_in_a_form_reaches_the_host(world: World, serve) -> None:
    server = serve(ok)
    text = profile(server.port, "form: client_secret")
    reply, _ = sent(world, server, b"grant_type=client_credentials&client_secret=%s", FORM, text=text)
    assert reply.status == 200
    assert server.received[0].body == b"grant_type=client_credentials&client_secret=" + VALUE


ELSEWHERE = {
    "beside other text": (b'{"auth": {"token": "Bearer %s"}}', (JSON,)),
    "at another place": (b'{"token": "%s"}', (JSON,)),
    "as a name": (b'{"%s": {"token": 1}}', (JSON,)),
    "twice": (b'{"auth": {"token": "%s"}, "note": "%s"}', (JSON,)),
    "beside a second member of the name": (b'{"auth": {"token": "%s"}, "auth": {"token": "x"}}', (JSON,)),
    "in what is no JSON": (b'{"auth": {"token": "%s"}', (JSON,)),
    "in what is not UTF-8": (b'{"auth": {"token": "%s"}, "x": "\xff"}', (JSON,)),
    "as another type": (b'{"auth": {"token": "%s"}}', (b"Content-Type: text/plain",)),
    "without a type": (b'{"auth": {"token": "%s"}}', ()),
    "as another character set": (
        b'{"auth": {"token": "%s"}}',
        (b"Content-Type: application/json; charset=latin-1",),
    ),
    "under two types": (b'{"auth": {"token": "%s"}}', (JSON, FORM)),
    "with a content coding": (b'{"auth": {"token": "%s"}}', (JSON, b"Content-Encoding: identity")),
    "in a form": (b"auth=%s", (FORM,)),
}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_a_placeholder_anywhere_else_in_a_body_is_not_forwarded(world: World, serve, place: str) -> None:
    server = serve(ok)
    body, fields = ELSEWHERE[place]
    reply, placeholder = sent(world, server, body, *fields)
    assert (reply.status, code(reply)) == (403, "secret.placeholder_misplaced")
    assert not server.received
    assert world.chain.kinds == ["refusal.secret.placeholder_misplaced"]
    assert placeholder not in reply.body


def test_a_placeholder_in_a_compressed_body_is_not_forwarded(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        body = gzip.compress(b'{"auth": {"token": "%s"}}' % box.placeholder("TOKEN"))
        return await box.https(server.port, post(server.port, body, JSON, b"Content-Encoding: gzip"))

    reply = world.run(profile(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "secret.placeholder_misplaced")
    assert not server.received


def test_a_placeholder_in_a_header_is_no_secret_of_the_body(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        bearer = b"Authorization: Bearer " + box.placeholder("TOKEN")
        return await box.https(server.port, post(server.port, b"{}", JSON, bearer))

    reply = world.run(profile(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "secret.placeholder_misplaced")
    assert not server.received


def test_a_body_with_a_placeholder_that_is_too_long_is_refused_by_its_own_code(world: World, serve) -> None:
    server = serve(ok)
    body = b'{"auth": {"token": "%s"}, "x": "' + b"x" * MAX_HELD_BODY + b'"}'
    reply, _ = sent(world, server, body, JSON)
    assert (reply.status, code(reply)) == (403, "secret.body_too_large")
    assert not server.received
    assert world.chain.kinds == ["refusal.secret.body_too_large"]


def test_the_largest_body_that_is_held_is_filled(world: World, serve) -> None:
    server = serve(lambda received: answer(b"%d" % len(received.body)))
    frame = b'{"auth": {"token": "%s"}, "x": ""}'
    size = MAX_HELD_BODY - (len(frame) - 2 + 43)
    reply, placeholder = sent(world, server, frame.replace(b'""}', b'"%s"}' % (b"x" * size)), JSON)
    assert len(placeholder) == 43
    assert (reply.status, reply.body) == (200, b"%d" % (MAX_HELD_BODY - 43 + len(VALUE)))


@pytest.mark.parametrize("fields", [(JSON,), (b"Content-Type: application/octet-stream",)])
def test_a_body_without_a_placeholder_goes_on_as_it_is_whatever_its_length(
    world: World, serve, fields: tuple[bytes, ...]
) -> None:
    server = serve(lambda received: answer(b"%d" % len(received.body)))
    body = b"not JSON " + b"x" * (2 * MAX_HELD_BODY)
    reply, _ = sent(world, server, body, *fields)
    assert (reply.status, reply.body) == (200, b"%d" % len(body))
    reply, _ = sent(world, server, b'{"auth": {"token": 5}, "auth": 6}', *fields)
    assert reply.status == 200
    assert world.chain.kinds[-1] == "egress.outcome.complete"


def test_at_another_host_nothing_is_held_and_nothing_replaced(world: World, serve) -> None:
    server = serve(ok)
    reply, _ = sent(
        world,
        server,
        b'{"auth": {"token": "%s"}}',
        JSON,
        text=profile(server.port, hosts=f"['other.example.test:{server.port}']"),
    )
    assert (reply.status, code(reply)) == (403, "secret.placeholder_misplaced")
    assert not server.received


def test_uses_and_bytes_are_counted_with_the_placeholder(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        data = post(server.port, b'{"auth": {"token": "%s"}}' % box.placeholder("TOKEN"), JSON)
        return [await box.https(server.port, data) for _ in range(2)]

    first, second = world.run(profile(server.port, max_uses="1"), scenario)
    assert first.status == 200 and (second.status, code(second)) == (403, "limit_secret_uses")
    assert len(server.received) == 1


def test_a_held_body_of_unknown_length_counts_before_it_goes_out(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        body = b'{"auth": {"token": "%s"}, "x": "%s"}' % (box.placeholder("TOKEN"), b"x" * 1200)
        return [await box.https(server.port, post(server.port, body, JSON, chunked=True)) for _ in range(2)]

    text = profile(server.port, "json: /auth/token", "limits: {bytes_out: 2KiB}")
    first, second = world.run(text, scenario)
    assert first.status == 200 and (second.status, code(second)) == (403, "limit_bytes_out")
    assert len(server.received) == 1


def test_the_decision_log_names_the_place_and_repeats_no_placeholder(world: World, serve) -> None:
    server = serve(ok)
    world.notes = kept = Kept()
    reply, placeholder = sent(world, server, b'{"auth": {"token": "%s"}}', JSON)
    assert reply.status == 200
    assert kept.told[-1][2] == "body:json:/auth/token"
    assert placeholder not in b"".join(kept.lines)


def test_what_approvers_are_shown_and_bind_holds_the_placeholder(world: World, serve, asking) -> None:  # noqa: F811
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    text = profile(server.port) + f"\nrequires_human_approval: {{egress: [POST], approvers: [{ANN.kid}]}}"
    reply, placeholder = sent(world, server, b'{"auth": {"token": "%s"}}', JSON, text=text)
    assert reply.status == 200, reply.body
    (action,) = mailbox.actions
    assert placeholder in action.raw and VALUE not in action.raw
    shown = json.loads(action.raw)
    assert shown["request"]["body"]["text"] == f'{{"auth": {{"token": "{placeholder.decode()}"}}}}'
    assert shown["secrets"] == [
        {"name": "TOKEN", "place": "body:json:/auth/token", "to": f"{HOST}:{server.port}"}
    ]
    assert server.received[0].body == b'{"auth": {"token": "%s"}}' % VALUE
    assert world.chain.kinds == ["egress.intent", "secret", "egress.outcome.complete"]


def test_without_the_secrets_record_it_is_not_substituted(world: World, serve) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        world.chain.down = True
        data = post(server.port, b'{"auth": {"token": "%s"}}' % box.placeholder("TOKEN"), JSON)
        return await box.https(server.port, data)

    reply = world.run(profile(server.port), scenario)
    assert reply.status == 503
    assert not server.received


def test_held_bodies_share_a_bound_and_give_it_back(
    world: World, serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(ok)
    world.keep("TOKEN", VALUE)
    made: list[Memory] = []

    class Small(Memory):
        def __init__(self, size: int) -> None:
            super().__init__(1000)
            made.append(self)

    monkeypatch.setattr("affiant.sandbox.egress.forward.Memory", Small)

    async def scenario(box):
        body = b'{"auth": {"token": "%s"}, "x": "%s"}' % (box.placeholder("TOKEN"), b"x" * 300)
        fits = [await box.https(server.port, post(server.port, body, JSON)) for _ in range(4)]
        return fits, await box.https(
            server.port, post(server.port, body.replace(b"x" * 300, b"x" * 1000), JSON)
        )

    fits, large = world.run(profile(server.port), scenario)
    assert [reply.status for reply in fits] == [200] * 4
    assert (large.status, code(large)) == (413, "egress.too_large")
    (memory,) = made
    memory.take(1000)


def test_parallel_bodies_keep_their_own_secrets(world: World, serve) -> None:
    server = serve(echo)
    world.keep("TOKEN", VALUE)

    async def scenario(box):
        def one(number: int) -> bytes:
            body = b'{"n": %d, "auth": {"token": "%s"}}' % (number, box.placeholder("TOKEN"))
            return post(server.port, body, JSON, chunked=bool(number % 2))

        return await asyncio.gather(*(box.https(server.port, one(number)) for number in range(8)))

    replies = world.run(profile(server.port), scenario)
    assert [reply.status for reply in replies] == [200] * 8
    assert sorted(json.loads(received.body)["n"] for received in server.received) == list(range(8))
    assert {json.loads(received.body)["auth"]["token"] for received in server.received} == {VALUE.decode()}
