"""Requests to AWS through the real proxy and broker, signed by real clients with placeholders, and verified there."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import time
from pathlib import Path

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.s3_server import found_server
from tests.sandbox.egress.conftest import HOST, Sandbox, World
from tests.sandbox.egress.test_approvals import ANN, Mailbox, asking, says  # noqa: F401 - the fixture
from tests.sandbox.egress.test_body_secrets import post
from tests.sandbox.egress.test_decision_notes import Kept
from tests.sandbox.egress.test_proxy import code, echo, get, listed, ok
from tests.secrets.aws_verifier import (
    ACCESS_KEY_ID,
    SECRET_ACCESS_KEY,
    SESSION_TOKEN,
    agent_signed,
    key,
    verify,
)
from tests.secrets.upstream_server import answer

from affiant.secrets.injection.body_surface import MAX_HELD_BODY

SECRETS = [part.encode() for part in (ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN)]


def profile(port: int, *extra: str, service: str = "s3", **members: str) -> str:
    more = "".join(f", {name}: {value}" for name, value in members.items())
    scope = f"{{service: {service}, region: eu-central-1}}"
    return f"{listed(port, *extra)}\nsecrets_access: [{{name: AWS, inject: {{sigv4: {scope}}}{more}}}]"


def client(box: Sandbox, service: str, port: int, folder: Path, **options: object):
    """AWS's own client as an agent uses it: with the variables of its environment, through the proxy."""
    bundle = folder / "session-ca.pem"
    bundle.write_bytes(box.authority.certificate_pem)
    binding = box.table.binding("AWS")
    assert binding is not None
    variables = binding.variables
    return botocore.session.Session().create_client(
        service,
        region_name="eu-central-1",
        endpoint_url=f"https://{HOST}:{port}",
        verify=str(bundle),
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        config=Config(
            proxies={"https": f"http://127.0.0.1:{box.address[1]}"},
            retries={"total_max_attempts": 1},
            request_checksum_calculation=variables["AWS_REQUEST_CHECKSUM_CALCULATION"],
            **options,
        ),
    )


def signed(
    box: Sandbox,
    port: int,
    target: str = "/b/k",
    body: bytes | None = None,
    claim: bytes | None = None,
    **options: object,
) -> bytes:
    """The bytes of a request that an agent's client signs; ``claim``: what it says of the body, not its digest."""
    method = "GET" if body is None else "PUT"
    headers = agent_signed(
        box.placeholder("AWS").decode(), method, f"https://{HOST}:{port}{target}", body=body or b"", **options
    )
    told = {} if claim is None else {b"X-Amz-Content-SHA256": claim}
    fields = [b"%b: %b" % (name, told.get(name, value)) for name, value in headers]
    if body is None:
        return get(target, *fields, port=port)
    return post(port, body, *fields, path=target).replace(b"POST ", b"PUT ", 1)


def test_a_real_client_reads_and_writes_with_a_key_that_it_never_holds(
    world: World, serve, tmp_path: Path
) -> None:
    server = serve(lambda received: answer(b"<x/>", b"X-Echo: " + received.header("authorization")))
    world.keep("AWS", key(session_token=SESSION_TOKEN))
    world.own_process = True

    async def scenario(box: Sandbox):
        s3 = client(box, "s3", server.port, tmp_path, s3={"addressing_style": "path"})

        def work():
            told = s3.list_objects_v2(Bucket="b", Prefix="a/ b+c~")
            stored = s3.put_object(Bucket="b", Key="x y/z(1)!*'é", Body=b"hello" * 9, Metadata={"a": "b  c"})
            return told, stored

        return await asyncio.to_thread(work), box.placeholder("AWS")

    replies, placeholder = world.run(profile(server.port), scenario)
    assert [reply["ResponseMetadata"]["HTTPStatusCode"] for reply in replies] == [200, 200]
    for received in server.received:
        assert verify(received, token=SESSION_TOKEN) == ("eu-central-1", "s3")
    assert server.received[1].line == b"PUT /b/x%20y/z%281%29%21%2A%27%C3%A9 HTTP/1.1"
    assert server.received[1].body == b"hello" * 9
    seen = json.dumps(replies, default=str).encode()
    assert placeholder in seen and not any(part in seen for part in SECRETS)
    assert world.chain.kinds == ["secret", "egress.outcome.complete"] * 2
    use, outcome = world.chain.records[:2]
    assert use.jti in world.chain.acknowledged and outcome.member("par") == [use.jti]
    told = "".join(record.text.sdjwt for record in world.chain.records).encode()
    assert not any(part in told for part in [*SECRETS, placeholder])


def test_a_real_s3_server_takes_what_the_broker_signs(
    world: World, certificate: Path, tmp_path: Path
) -> None:
    program = found_server()
    if program is None:
        pytest.skip(
            "no S3 server: versitygw is neither in AFFIANT_VERSITYGW, on the PATH nor in ~/.cache/affiant-tests"
        )
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    child = subprocess.Popen(
        [program, "--port", f"127.0.0.1:{port}", "--region", "eu-central-1", "--quiet"]
        + ["--cert", str(certificate), "--key", str(certificate), "posix", str(tmp_path / "s3")],
        env={"ROOT_ACCESS_KEY": ACCESS_KEY_ID, "ROOT_SECRET_KEY": SECRET_ACCESS_KEY, "HOME": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        s3 = client(box, "s3", port, tmp_path, s3={"addressing_style": "path"})

        def work():
            s3.put_object(Bucket="bucket", Key="a b/ü(1)~", Body=b"of the agent", Metadata={"k": "v  w"})
            names = [each["Key"] for each in s3.list_objects_v2(Bucket="bucket", Prefix="a b/")["Contents"]]
            read = s3.get_object(Bucket="bucket", Key="a b/ü(1)~")
            try:
                s3.list_objects_v2(Bucket="another")
            except ClientError as error:
                refused = error.response
            return names, read["Body"].read(), read["Metadata"], json.dumps(refused, default=str)

        return await asyncio.to_thread(work)

    try:
        awaited(port, child)
        names, body, metadata, refused = world.run(profile(port), scenario)
    finally:
        child.kill()
        child.wait()
    assert (names, body, metadata) == (["a b/ü(1)~"], b"of the agent", {"k": "v  w"})
    assert "NoSuchBucket" in refused and ACCESS_KEY_ID not in refused


def awaited(port: int, child: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 15
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert child.poll() is None and time.monotonic() < end, "versitygw did not begin"
            time.sleep(0.05)


def test_what_was_judged_is_what_is_signed_and_sent(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        inside = await box.https(server.port, signed(box, server.port, "/b/a%20b?x=1"))
        outside = [
            await box.https(server.port, signed(box, server.port, target))
            for target in ("/c/k", "/b", "/b/../c/k", "/b/%2e%2e/c", "/b//k", "/b/k%2Fl")
        ]
        return inside, outside

    inside, outside = world.run(profile(server.port, "paths: [/b/**]"), scenario)
    assert inside.status == 200
    assert [code(reply) for reply in outside] == ["target_not_listed"] * 2 + ["policy.target"] * 4
    assert [verify(received) for received in server.received] == [("eu-central-1", "s3")]
    assert server.received[0].line == b"GET /b/a%20b?x=1 HTTP/1.1"


REFUSED = {
    "another region": ({"region": "us-east-1"}, "secret.sigv4_scope"),
    "another service": ({"service": "sqs"}, "secret.sigv4_scope"),
    "a range": ({"headers": {"Range": "bytes=0-1"}}, "secret.sigv4_headers"),
    "a stream": (
        {"claim": b"STREAMING-UNSIGNED-PAYLOAD-TRAILER", "body": b"5\r\nhello\r\n0\r\n\r\n"},
        "secret.sigv4_payload",
    ),
    "pieces": (
        {"headers": {"Content-Encoding": "aws-chunked"}, "body": b"5\r\nhello\r\n0\r\n\r\n"},
        "secret.sigv4_payload",
    ),
    "a query": ({"target": "/b/k?X-Amz-Expires=60"}, "secret.sigv4_presigned"),
    "a body that is too long": ({"body": b"x" * (MAX_HELD_BODY + 1)}, "secret.body_too_large"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_signed_alike_is_refused_and_recorded(world: World, serve, what: str) -> None:
    server = serve(ok)
    world.keep("AWS", key())
    options, expected = REFUSED[what]

    async def scenario(box: Sandbox):
        return await box.https(server.port, signed(box, server.port, **options))

    reply = world.run(profile(server.port), scenario)
    assert (reply.status, code(reply)) == (403, expected)
    assert not server.received
    assert world.chain.kinds == [f"refusal.{expected}"]


def test_another_body_than_was_signed_is_refused(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        return await box.https(server.port, signed(box, server.port, body=b"hello")[:-1] + b"p")

    reply = world.run(profile(server.port), scenario)
    assert (reply.status, code(reply)) == (403, "secret.sigv4_payload")
    assert not server.received


def test_a_host_other_than_the_tunnels_is_refused(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        data = signed(box, server.port).replace(b"Host: " + HOST.encode(), b"Host: other.example.test")
        return await box.https(server.port, data)

    reply = world.run(profile(server.port), scenario)
    assert code(reply) == "egress.host_mismatch"
    assert not server.received


def test_at_a_host_that_the_key_is_not_bound_to_nothing_is_signed(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        return await box.https(server.port, signed(box, server.port))

    reply = world.run(profile(server.port, hosts="['other.example.test']"), scenario)
    assert (reply.status, code(reply)) == (403, "secret.not_bound")
    assert not server.received


def test_a_chunked_body_is_sent_with_its_length(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        data = signed(box, server.port, body=b"hello")
        framed = data.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")
        return await box.https(server.port, framed[:-5] + b"5\r\nhello\r\n0\r\n\r\n")

    assert world.run(profile(server.port), scenario).status == 200
    (received,) = server.received
    assert verify(received) == ("eu-central-1", "s3") and received.header("content-length") == b"5"


def test_uses_are_counted(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        return [await box.https(server.port, signed(box, server.port)) for _ in range(2)]

    first, second = world.run(profile(server.port, max_uses="1"), scenario)
    assert first.status == 200 and (second.status, code(second)) == (403, "limit_secret_uses")
    assert len(server.received) == 1


def test_the_decision_log_names_what_it_signs(world: World, serve) -> None:
    server = serve(echo)
    world.keep("AWS", key())
    world.notes = kept = Kept()

    async def scenario(box: Sandbox):
        return await box.https(server.port, signed(box, server.port)), box.placeholder("AWS")

    reply, placeholder = world.run(profile(server.port), scenario)
    assert reply.status == 200
    assert kept.told[-1][2] == "sigv4:eu-central-1/s3"
    assert placeholder not in b"".join(kept.lines) and not any(part in reply.body for part in SECRETS)


def test_without_the_record_of_its_use_nothing_is_signed(world: World, serve) -> None:
    server = serve(ok)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        world.chain.down = True
        return await box.https(server.port, signed(box, server.port))

    assert world.run(profile(server.port), scenario).status == 503
    assert not server.received


def attempt(box: Sandbox, port: int, number: int) -> bytes:
    """One attempt of a client, which signs each with its own instant and tells how often it tried."""
    fields = {
        "amz-sdk-invocation-id": str(number),
        "amz-sdk-request": f"attempt={number}",
        "Content-Type": "text/plain",
    }
    data = signed(box, port, body=b"hello", headers=fields)
    return re.sub(rb"(X-Amz-Date: )[0-9]{8}", rb"\g<1>%d" % (20260101 + number), data)


def approved(port: int) -> str:
    return profile(port) + f"\nrequires_human_approval: {{egress: [PUT], approvers: [{ANN.kid}]}}"


def test_approvers_are_shown_all_but_the_signature(world: World, serve, asking) -> None:  # noqa: F811
    server, mailbox = serve(ok), asking(Mailbox(says(ANN)))
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        return await box.https(server.port, attempt(box, server.port, 1))

    reply = world.run(approved(server.port), scenario)
    assert reply.status == 200, reply.body
    (action,) = mailbox.actions
    shown = json.loads(action.raw)
    assert {name.lower() for name, _ in shown["request"]["headers"]} == {"content-type"}
    assert shown["request"]["body"]["text"] == "hello"
    assert shown["secrets"] == [
        {"name": "AWS", "place": "sigv4:eu-central-1/s3", "to": f"{HOST}:{server.port}"}
    ]
    (received,) = server.received
    assert verify(received) == ("eu-central-1", "s3")
    assert received.header("amz-sdk-request") is None
    assert world.chain.kinds == ["egress.intent", "secret", "egress.outcome.complete"]


def test_a_later_attempt_finds_what_was_asked_for(world: World, serve, asking) -> None:  # noqa: F811
    server, mailbox = serve(ok), asking(Mailbox(), hold_s=0.1)
    world.keep("AWS", key())

    async def scenario(box: Sandbox):
        first = await box.https(server.port, attempt(box, server.port, 1))
        (action,) = mailbox.actions
        mailbox.leave(action, says(ANN)(action))
        return first, await box.https(server.port, attempt(box, server.port, 2))

    first, second = world.run(approved(server.port), scenario)
    assert (first.status, code(first), second.status) == (403, "approval_pending", 200)
    assert len(mailbox.actions) == 1
    assert [verify(received) for received in server.received] == [("eu-central-1", "s3")]
