"""Requests that need approval: what was shown goes out, once, after its record; everything else does not."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence

import pytest
from tests.sandbox.egress.conftest import HOST, VALUE, World, closed
from tests.secrets.upstream_server import answer

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.policy.approvals.action import Action, parse_action
from affiant.policy.approvals.queue import ApprovalQueue, Phase
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress import approvals as module
from affiant.sandbox.egress.approvals import EgressApprovals, Left
from affiant.sandbox.egress.http.errors import RecordsUnavailable

ANN, BOB, EVE, SESSION_KEY = (Signer.generate() for _ in range(4))
SESSION = b64u(os.urandom(16))


class Mailbox:
    """Approvers in memory: what they say of each action that comes. The gateway's own is tested with it."""

    def __init__(self, *says) -> None:
        self.actions: list[Action] = []
        self.left: dict[str, list[Left]] = {}
        self.says = list(says)
        self.down = False
        self.desk: ApprovalQueue | None = None
        """Of the supervisor that asks."""

    def phase(self) -> Phase:
        """Where the only action stands, at the supervisor."""
        (action,) = self.actions
        assert self.desk is not None
        return self.desk.look(action.name, now=time.time()).phase

    async def post(self, action: bytes) -> None:
        if self.down:
            raise GatewayUnreachable("the gateway does not answer")
        parsed = parse_action(action)
        if parsed.name not in self.left:
            self.actions.append(parsed)
            self.left[parsed.name] = []
            for say in self.says:
                self.leave(parsed, say(parsed))

    def leave(self, action: Action, statement: str) -> None:
        self.left[action.name].append(Left(statement, b64u(os.urandom(16))))

    async def fetch(self, name: str) -> Sequence[Left]:
        if self.down:
            raise GatewayUnreachable("the gateway does not answer")
        return tuple(self.left[name])


def says(signer: Signer, *, approves: bool = True, of: str | None = None, via: str = "cli"):
    return lambda action: sign_statement(
        signer,
        action=of or action.name,
        approves=approves,
        made=int(time.time()),
        expires=action.not_after,
        via=via,
    )


@pytest.fixture
def asking(world: World, monkeypatch: pytest.MonkeyPatch):
    """Makes the world's proxy ask ``mailbox``."""
    monkeypatch.setattr(module, "_POLL_S", 0.02)

    def ask(mailbox: Mailbox, *, hold_s: float = 0.3, ahead=lambda: 0.0) -> Mailbox:
        def make(policy) -> EgressApprovals:
            desk = mailbox.desk = ApprovalQueue(
                session=SESSION,
                policy=policy.digest,
                approval=policy.policy.approval,
                never={SESSION_KEY.kid},
            )
            return EgressApprovals(
                desk,
                mailbox,
                session=SESSION,
                agent="dev",
                policy=policy.digest,
                clock=lambda: time.time() + ahead(),
                random_bytes=os.urandom,
                hold_s=hold_s,
            )

        world.approvals = make
        return mailbox

    return ask


def profile(port: int, who: str = "", *, tls: str = "inspect") -> str:
    what = who or f"egress: [POST], approvers: [{ANN.kid}]"
    return (
        f"network_egress: [{{host: {HOST}, port: {port}, tls: {tls}}}]\n"
        f"requires_human_approval: {{{what}}}\n"
        f"secrets_access: [KEY]"
    )


def post(port: int, body: bytes = b'{"n": 1}', *fields: bytes, method: bytes = b"POST") -> bytes:
    lines = [
        method + b" /v1/pay?x=1 HTTP/1.1",
        f"Host: {HOST}:{port}".encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *fields,
    ]
    return b"\r\n".join([*lines, b"", b""]) + body


def ok(received):
    return answer(b"paid")


def code(reply) -> str:
    return json.loads(reply.body)["error"]["code"]


def test_what_was_approved_goes_out_once_after_its_record_and_names_who_approved(
    world, serve, asking
) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    reply = world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, reply.body) == (200, b"paid")
    assert [each.body for each in server.received] == [b'{"n": 1}']
    assert world.chain.kinds == ["egress.intent", "egress.outcome.complete"]
    intent, outcome = world.chain.records
    assert intent.jti in world.chain.acknowledged
    (action,) = mailbox.actions
    (left,) = mailbox.left[action.name]
    assert intent.member("apr") == {
        "dig": action.name,
        "kid": ANN.kid,
        "sig": left.statement,
        "exp": action.not_after,
        "via": "cli",
    }
    assert intent.member("par") == [left.record]
    assert outcome.member("par") == [intent.jti]
    assert action.members["request"]["url"] == f"https://{HOST}:{server.port}/v1/pay?x=1"
    assert action.members["request"]["body"]["text"] == '{"n": 1}'


def test_what_waits_is_answered_with_its_name_and_found_again_by_the_same_request(
    world, serve, asking
) -> None:
    server, mailbox = serve(ok), asking(Mailbox())

    async def scenario(box):
        first = await box.https(server.port, post(server.port))
        again = await box.https(server.port, post(server.port))
        (action,) = mailbox.actions
        mailbox.leave(action, says(ANN)(action))
        sent = await box.https(server.port, post(server.port))
        mailbox.says = []
        after = await box.https(server.port, post(server.port))
        return first, again, action, sent, after

    first, again, action, sent, after = world.run(profile(server.port), scenario)
    for reply in (first, again):
        assert (reply.status, code(reply)) == (403, "approval_pending")
        assert json.loads(reply.body)["approval"] == {"action": action.name, "not_after": action.not_after}
        assert reply.headers[b"retry-after"] == b"10"
    assert sent.status == 200
    assert (after.status, code(after)) == (403, "approval_pending"), "one approval, one request"
    assert len(mailbox.actions) == 2
    assert len(server.received) == 1
    assert world.chain.kinds[:2] == ["refusal.approval_pending"] * 2


@pytest.mark.parametrize(
    "other",
    [
        lambda port: post(port, b'{"n": 2}'),
        lambda port: post(port, b'{"n": 1}', b"X-More: 1"),
        lambda port: post(port).replace(b"x=1", b"x=2"),
        lambda port: post(port).replace(b"application/json", b"text/plain"),
    ],
)
def test_an_approval_of_one_request_sends_no_other(world, serve, asking, other) -> None:
    server, mailbox = serve(ok), asking(Mailbox())

    async def scenario(box):
        await box.https(server.port, post(server.port))
        (action,) = mailbox.actions
        mailbox.leave(action, says(ANN)(action))
        return await box.https(server.port, other(server.port))

    reply = world.run(profile(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "approval_pending")
    assert server.received == []


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ([says(EVE)], "approval_pending"),
        ([says(SESSION_KEY)], "approval_pending"),
        ([says(ANN, of="sha256:" + "0" * 64)], "approval_pending"),
        ([lambda action: says(ANN)(action)[:-2] + "AA"], "approval_pending"),
        ([says(ANN, approves=False)], "approval_denied"),
        ([says(ANN), says(ANN, approves=False)], "approval_denied"),
    ],
)
def test_only_an_approvers_own_word_for_this_action_sends_it(
    world, serve, asking, statements, expected
) -> None:
    """The mailbox is another machine's: whatever it hands over is judged here."""
    server = serve(ok)
    asking(Mailbox(*statements))
    reply = world.run(
        profile(server.port, f"egress: [POST], approvers: [{ANN.kid}, {SESSION_KEY.kid}]"),
        lambda box: box.https(server.port, post(server.port)),
    )
    assert (reply.status, code(reply)) == (403, expected)
    assert server.received == []
    assert world.chain.kinds == [f"refusal.{expected}"]


def test_a_quorum_needs_different_approvers_and_each_has_a_record(world, serve, asking) -> None:
    who = f"egress: [POST], approvers: [{ANN.kid}, {BOB.kid}], quorum: 2"
    server, mailbox = serve(ok), asking(Mailbox(says(ANN), says(ANN, via="console")))

    async def scenario(box):
        alone = await box.https(server.port, post(server.port))
        (action,) = mailbox.actions
        mailbox.leave(action, says(BOB)(action))
        return alone, await box.https(server.port, post(server.port))

    alone, both = world.run(profile(server.port, who), scenario)
    assert (alone.status, both.status) == (403, 200)
    (action,) = mailbox.actions
    left = mailbox.left[action.name]
    intent = next(record for record in world.chain.records if record.member("ph") == "intent")
    assert intent.member("par") == [left[0].record, left[2].record]
    assert intent.member("apr", "kid") == BOB.kid


def test_what_nobody_approved_in_time_is_asked_for_anew(world, serve, asking) -> None:
    late = [0.0]
    server = serve(ok)
    mailbox = asking(Mailbox(), ahead=lambda: late[0])

    async def scenario(box):
        await box.https(server.port, post(server.port))
        mailbox.leave(mailbox.actions[0], says(ANN)(mailbox.actions[0]))
        late[0] = 601.0
        return await box.https(server.port, post(server.port))

    reply = world.run(profile(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "approval_pending")
    assert len(mailbox.actions) == 2
    assert server.received == []


def test_of_two_that_want_one_approval_one_goes_out(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(), hold_s=5)

    async def scenario(box):
        both = [asyncio.create_task(box.https(server.port, post(server.port))) for _ in range(2)]
        while not mailbox.actions:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        (action,) = mailbox.actions
        mailbox.leave(action, says(ANN)(action))
        return await asyncio.gather(*both)

    replies = world.run(profile(server.port), scenario)
    assert sorted(reply.status for reply in replies) == [200, 403]
    assert [code(reply) for reply in replies if reply.status == 403] == ["approval_used"]
    assert len(server.received) == 1


def test_an_agent_that_left_gets_nothing_sent(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(), hold_s=20)

    async def scenario(box):
        async with box.tunnel(server.port) as (_, writer):
            writer.write(post(server.port))
            await writer.drain()
            while not mailbox.actions:
                await asyncio.sleep(0.01)
        while not world.chain.records:
            await asyncio.sleep(0.01)
        (action,) = mailbox.actions
        mailbox.leave(action, says(ANN)(action))
        await asyncio.sleep(0.2)

    world.run(profile(server.port), scenario)
    assert server.received == []
    assert world.chain.kinds == ["refusal.approval_pending"]


def test_without_the_record_of_its_intent_nothing_goes_out_and_the_approval_is_used(
    world, serve, asking, monkeypatch
) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    kept = world.chain.record

    async def failing(kind, members, hidden, *, acknowledged=False, cseq=None):
        if acknowledged:
            raise RecordsUnavailable("the gateway did not acknowledge the record in time")
        return await kept(kind, members, hidden, acknowledged=acknowledged, cseq=cseq)

    async def scenario(box):
        monkeypatch.setattr(world.chain, "record", failing)
        first = await box.https(server.port, post(server.port))
        monkeypatch.setattr(world.chain, "record", kept)
        mailbox.says = []
        return first, await box.https(server.port, post(server.port))

    first, second = world.run(profile(server.port), scenario)
    assert (first.status, code(first)) == (503, "egress.no_record")
    assert (second.status, code(second)) == (403, "approval_pending")
    assert server.received == []


def test_a_mailbox_that_does_not_answer_sends_nothing(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    mailbox.down = True
    reply = world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, code(reply)) == (403, "approval_unavailable")
    assert server.received == []


@pytest.mark.parametrize(
    "request_",
    [
        lambda port: post(port, b"\xff\x00"),
        lambda port: post(port, b"x" * 40_000),
        lambda port: post(port, b"x" * 400_000),
        lambda port: post(port, b"{}", b"X-A: caf\xe9"),
        lambda port: post(port, b"{}", b"X-A: a\tb"),
    ],
)
def test_what_nobody_can_be_shown_is_denied(world, serve, asking, request_) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    reply = world.run(profile(server.port), lambda box: box.https(server.port, request_(server.port)))
    assert reply.status in (400, 403)
    assert reply.status == 400 or code(reply) == "approval_unshowable"
    assert mailbox.actions == []
    assert server.received == []


def test_secrets_are_shown_by_name_and_their_values_by_nobody(world, serve, asking) -> None:
    world.keep("KEY", VALUE)
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))

    async def scenario(box):
        credential = b"Authorization: Bearer " + box.placeholder("KEY")
        return await box.https(server.port, post(server.port, b"{}", credential))

    assert world.run(profile(server.port), scenario).status == 200
    (action,) = mailbox.actions
    assert action.members["secrets"] == [
        {"name": "KEY", "place": "header:authorization", "to": f"{HOST}:{server.port}"}
    ]
    assert VALUE not in action.raw
    assert server.received[0].header("authorization") == b"Bearer " + VALUE
    assert world.chain.kinds == ["egress.intent", "secret", "egress.outcome.complete"]
    intent, secret, outcome = world.chain.records
    assert outcome.member("par") == [intent.jti, secret.jti]


def test_what_is_left_out_beside_a_credential_is_not_shown_either(world, serve, asking) -> None:
    """A part of an answer could cut an echo of the secret in two, so that nothing asks for one."""
    world.keep("KEY", VALUE)
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))

    async def scenario(box):
        fields = [b"Authorization: Bearer " + box.placeholder("KEY"), b"Range: bytes=0-9", b'If-Range: "x"']
        fields.append(b"X-MS-Range: bytes=0-9")
        return await box.https(server.port, post(server.port, b"{}", *fields))

    assert world.run(profile(server.port), scenario).status == 200
    shown = {name for name, _ in mailbox.actions[0].members["request"]["headers"]}
    sent = {line.partition(b":")[0].lower().decode() for line in server.received[0].head.split(b"\r\n")[1:]}
    assert "authorization" in shown
    assert shown <= sent
    assert not {"range", "x-ms-range"} & sent


def test_what_became_of_a_request_is_known_once_its_outcome_is_recorded(
    world, serve, asking, monkeypatch
) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    assert (
        world.run(profile(server.port), lambda box: box.https(server.port, post(server.port))).status == 200
    )
    assert mailbox.phase() is Phase.DONE
    kept = world.chain.record

    async def failing(kind, members, hidden, *, acknowledged=False, cseq=None):
        if members.get("ph") == "outcome":
            raise RecordsUnavailable("the chain has stopped")
        return await kept(kind, members, hidden, acknowledged=acknowledged, cseq=cseq)

    monkeypatch.setattr(world.chain, "record", failing)
    mailbox = asking(Mailbox(says(ANN)))
    world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert mailbox.phase() is Phase.UNKNOWN


def test_exactly_the_headers_that_are_shown_are_sent(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    fields = [
        b"Traceparent: 00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",
        b"tracestate: a=b",
        b"Accept-Encoding: gzip",
        b"Range: bytes=0-9",
        b'If-Range: "x"',
        b"Proxy-Authenticate: Basic",
        b"Connection: keep-alive",
        b"TE: trailers",
        b"X-Forwarded-For: 10.0.0.1",
        b"X-More: a  b",
        b"x-more: c",
    ]
    reply = world.run(
        profile(server.port), lambda box: box.https(server.port, post(server.port, b"{}", *fields))
    )
    assert reply.status == 200
    shown = [tuple(each) for each in mailbox.actions[0].members["request"]["headers"]]
    ours = (b"host", b"content-length", b"accept-encoding", b"connection")
    fields = [line.partition(b": ") for line in server.received[0].head.split(b"\r\n")[1:]]
    sent = [(name.lower().decode(), value.decode()) for name, _, value in fields if name.lower() not in ours]
    assert sent == shown
    assert ("x-more", "a  b") in shown
    assert server.received[0].header("accept-encoding") == b"identity"


def test_what_was_approved_is_not_sent_when_its_time_is_over_meanwhile(
    world, serve, asking, monkeypatch
) -> None:
    """Between the claim and the first byte a record is acknowledged and a name looked up: that takes time."""
    late = [0.0]
    server, _ = serve(ok), asking(Mailbox(says(ANN)), ahead=lambda: late[0])
    kept = world.chain.record

    async def slowly(kind, members, hidden, *, acknowledged=False, cseq=None):
        if members.get("ph") == "intent":
            late[0] = 601.0
        return await kept(kind, members, hidden, acknowledged=acknowledged, cseq=cseq)

    monkeypatch.setattr(world.chain, "record", slowly)
    reply = world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, code(reply)) == (403, "approval_expired")
    assert server.received == []
    assert world.chain.kinds == ["egress.intent", "egress.outcome.refused", "refusal.approval_expired"]


def test_where_everything_needs_approval_each_request_is_asked_for_and_no_unread_connection(
    world, serve, asking
) -> None:
    who = f"everything: true, approvers: [{ANN.kid}]"
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    reply = world.run(
        profile(server.port, who), lambda box: box.https(server.port, post(server.port, b"", method=b"GET"))
    )
    assert reply.status == 200
    assert len(mailbox.actions) == 1

    async def passed(box):
        with pytest.raises(PermissionError, match="approval_unshowable"):
            async with box.tunnel(server.port):
                pass

    text = profile(server.port, who, tls="passthrough").replace("secrets_access: [KEY]", "")
    world.run(text, passed)
    assert len(server.received) == 1


def test_a_method_that_needs_none_is_not_asked_for(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox())
    reply = world.run(
        profile(server.port), lambda box: box.https(server.port, post(server.port, b"", method=b"GET"))
    )
    assert reply.status == 200
    assert mailbox.actions == []


def test_without_anybody_to_ask_it_is_denied(world, serve) -> None:
    server = serve(ok)
    reply = world.run(profile(server.port), lambda box: box.https(server.port, post(server.port)))
    assert (reply.status, code(reply)) == (403, "approval_unavailable")
    reply = world.run(
        profile(server.port, "egress: [POST]"), lambda box: box.https(server.port, post(server.port))
    )
    assert (reply.status, code(reply)) == (403, "approval_no_approver")
    assert server.received == []


def test_a_proxy_that_stops_while_it_waits_sends_nothing(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(), hold_s=20)

    async def scenario(box):
        reader, writer = await asyncio.open_connection(*box.address)
        writer.write(f"CONNECT {HOST}:{server.port} HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await writer.start_tls(box.client_context(), server_hostname=HOST)
        writer.write(post(server.port))
        await writer.drain()
        while not mailbox.actions:
            await asyncio.sleep(0.01)
        await box.proxy.stop()
        (action,) = mailbox.actions
        mailbox.leave(action, says(ANN)(action))
        await asyncio.sleep(0.1)
        await closed(writer)

    world.run(profile(server.port), scenario)
    assert server.received == []


# -- limits ------------------------------------------------------------------------------------------------------------


def limited(port: int, limits: str) -> str:
    return profile(port).replace("tls: inspect", f"tls: inspect, limits: {{{limits}}}")


def test_an_approval_is_left_where_a_limit_lets_nothing_out_and_used_once_it_does(
    world, serve, asking, monkeypatch
) -> None:
    later, clock = [0], time.monotonic_ns
    monkeypatch.setattr(time, "monotonic_ns", lambda: clock() + later[0])
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))

    async def scenario(box):
        replies = [await box.https(server.port, post(server.port, body)) for body in (b"1", b"2", b"2")]
        later[0] = 61 * 10**9
        replies += [await box.https(server.port, post(server.port, b"2")) for _ in range(2)]
        return replies

    replies = world.run(limited(server.port, "requests: 1/min"), scenario)
    assert [reply.status for reply in replies] == [200, 429, 429, 200, 429]
    assert {code(reply) for reply in replies if reply.status == 429} == {"limit_egress_requests"}
    assert [each.body for each in server.received] == [b"1", b"2"]
    assert len(mailbox.actions) == 3, "the second was asked for once, and once more when it was used"
    intents = [record for record in world.chain.records if record.member("ph") == "intent"]
    assert [intent.member("apr", "dig") for intent in intents] == [each.name for each in mailbox.actions[:2]]


def test_of_two_that_want_one_approval_the_one_that_gets_none_takes_no_room(world, serve, asking) -> None:
    server, mailbox = serve(ok), asking(Mailbox(), hold_s=5)

    async def scenario(box):
        both = [asyncio.create_task(box.https(server.port, post(server.port))) for _ in range(2)]
        while not mailbox.actions:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        mailbox.leave(mailbox.actions[0], says(ANN)(mailbox.actions[0]))
        replies = await asyncio.gather(*both)
        mailbox.says = [says(ANN)]
        return [*replies, *[await box.https(server.port, post(server.port)) for _ in range(2)]]

    replies = world.run(limited(server.port, "requests: 2"), scenario)
    assert sorted(reply.status for reply in replies[:2]) == [200, 403]
    assert [code(reply) for reply in replies if reply.status == 403] == [
        "approval_used",
        "limit_egress_requests",
    ]
    assert replies[2].status == 200
    assert len(server.received) == 2
