"""The broker signs what goes out with the key that only it holds; botocore, on the other side, verifies it."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.raising import raises_code
from tests.secrets.aws_verifier import (
    ACCESS_KEY_ID,
    SECRET_ACCESS_KEY,
    SESSION_TOKEN,
    agent_signed,
    key,
    verify,
)
from tests.secrets.conftest import HOST, fetched, request_to
from tests.secrets.upstream_server import answer

from affiant.attestation.encoding.binary_text import b64u
from affiant.secrets.injection.body_surface import MAX_HELD_BODY
from affiant.secrets.injection.signing_surface import SigningSurface
from affiant.secrets.injection.surface import Surface
from affiant.secrets.names.errors import PlaceholderMisplaced, SecretBodyTooLarge, SecretNotBound

S3, SQS = SigningSurface("eu-central-1", "s3"), SigningSurface("eu-central-1", "sqs")
TARGET = "/b/a%20b?list-type=2&prefix=x%2F"


def signed_request(
    harness,
    port: int,
    body: bytes | None = None,
    *more,
    surface=S3,
    value=None,
    host_header=None,
    uses=None,
    **fields,
):
    """A granted key, and a request that the agent signed with its placeholder."""
    placeholder = harness.grant("AWS", key() if value is None else value, port, surface=surface)
    headers = agent_signed(
        placeholder,
        "GET" if body is None else "PUT",
        f"https://{HOST}:{port}{TARGET}",
        headers=fields,
        body=body or b"",
        service=surface.service,
        region=surface.region,
    )
    changes = {} if host_header is None else {"headers": ((b"Host", host_header), *headers)}
    request = request_to(
        port,
        *headers,
        *more,
        uses=(("AWS", surface.label),) if uses is None else uses,
        target=TARGET.encode(),
        method="GET" if body is None else "PUT",
        has_body=body is not None,
        **changes,
    )
    return request, placeholder.encode()


def bad_signature(received):
    """What S3 answers to a signature that is not right: all that it knows of it."""
    authorization = received.header("authorization") or b""
    token = received.header("x-amz-security-token") or b""
    canonical = b"PUT\n/b\n\nhost:h\nx-amz-security-token:" + token + b"\n\nhost"
    body = (
        b"<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>%b</AWSAccessKeyId><SignatureProvided>%b</"
        % (
            ACCESS_KEY_ID.encode(),
            authorization.rpartition(b"=")[2],
        )
    )
    body += (
        b"<CanonicalRequest>%b</CanonicalRequest><CanonicalRequestBytes>%b</CanonicalRequestBytes></Error>"
        % (
            canonical,
            canonical.hex(" ").encode(),
        )
    )
    return answer(body + SECRET_ACCESS_KEY.encode(), b"X-Echo: " + authorization, status=b"403 Forbidden")


def test_the_agents_signature_is_made_anew_with_the_key(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, placeholder = signed_request(harness, server.port)
    harness.fetch(request)
    (received,) = server.received
    assert verify(received) == ("eu-central-1", "s3")
    assert received.line == b"GET " + TARGET.encode() + b" HTTP/1.1"
    assert placeholder not in received.head
    told = datetime.strptime(received.header("x-amz-date").decode(), "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - told).total_seconds()) < 60
    assert harness.resolution.resolved == {"AWS": "1"}


@pytest.mark.parametrize("surface", [S3, SQS])
@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("token", [None, SESSION_TOKEN])
def test_a_body_is_signed_and_sent_with_its_length(harness, serve, surface, sized, token) -> None:
    server = serve(lambda received: answer(b"ok"))
    body = b'{"a": 1}' * 9
    fields = {"Content-Length": str(len(body))} if sized else {}
    request, _ = signed_request(
        harness,
        server.port,
        body,
        surface=surface,
        value=key() if token is None else key(session_token=token),
        **fields,
        **{
            "Content-Type": "application/json",
            "x-amz-meta-a": "b   c",
            "X-Amz-Security-Token": "of-the-agent",
        },
    )
    harness.fetch(request, [body[:5], body[5:]])
    (received,) = server.received
    assert verify(received, token=token) == (surface.region, surface.service)
    assert received.body == body and received.header("content-length") == b"%d" % len(body)
    assert received.header("transfer-encoding") is None
    digests = received.headers("x-amz-content-sha256")
    assert digests == ([hashlib.sha256(body).hexdigest().encode()] if surface is S3 else [])


def test_every_x_amz_field_is_signed_also_where_the_agent_signed_it_not(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    acl = (b"X-Amz-Acl", b"private")
    request, _ = signed_request(harness, server.port, None, acl, value=key(session_token=SESSION_TOKEN))
    harness.fetch(request)
    (received,) = server.received
    assert verify(received, token=SESSION_TOKEN) == ("eu-central-1", "s3")
    assert b";x-amz-acl;" in received.header("authorization")


def test_an_unsigned_payload_is_signed(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(
        harness, server.port, b"hello", surface=SQS, **{"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"}
    )
    harness.fetch(request, [b"hello"])
    assert verify(server.received[0]) == ("eu-central-1", "sqs")
    assert server.received[0].headers("x-amz-content-sha256") == [
        hashlib.sha256(b"hello").hexdigest().encode()
    ]


def test_no_part_of_the_key_and_no_signature_comes_back(harness, serve) -> None:
    server = serve(bad_signature)
    request, placeholder = signed_request(
        harness, server.port, b"hello", value=key(session_token=SESSION_TOKEN)
    )
    got = harness.fetch(request, [b"hello"])
    ours = server.received[0].header("authorization").rpartition(b"=")[2]
    (agents,) = (value for name, value in request.headers if name == b"Authorization")
    told = repr(got).encode() + got.body
    for part in (ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN):
        assert part.encode() not in told and part.encode().hex(" ").encode() not in told
    assert ours not in told
    assert dict(got.head.headers)[b"x-echo"].rpartition(b"=")[2] == agents.rpartition(b"=")[2]
    assert b"<AWSAccessKeyId>" + placeholder in got.body
    assert got.outcome.redactions >= 6


def test_derived_keys_do_not_come_back(harness, serve) -> None:
    def derived(received):
        made, keys = b"AWS4" + SECRET_ACCESS_KEY.encode(), []
        scope = received.header("authorization").split(b"/", 1)[1].partition(b",")[0]
        for part in scope.split(b"/"):
            made = hmac.new(made, part, "sha256").digest()
            keys.append(made)
        return answer(b"|".join([*keys, *(each.hex().encode() for each in keys)]))

    server = serve(derived)
    request, placeholder = signed_request(harness, server.port)
    assert harness.fetch(request).body == b"|".join([placeholder] * 8)


def test_what_is_recorded_is_the_request_as_the_agent_signed_it(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port, b"hello")
    got = harness.fetch(request, [b"hello"])
    lines = [
        b"PUT " + TARGET.encode() + b" HTTP/1.1",
        f"Host: {HOST}:{server.port}".encode(),
        *(b"%b: %b" % field for field in request.headers[1:]),
        b"Content-Length: 5",
        b"Accept-Encoding: identity",
        b"Connection: close",
    ]
    recorded = b"\r\n".join([*lines, b"", b"hello"])
    assert got.outcome.sent_digest == b64u(hashlib.sha256(recorded).digest())
    assert got.outcome.bytes_out == len(recorded)


def test_another_secret_beside_it_is_in_what_is_signed(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    beside = Surface.injected("X-Api-Key", "{}")
    other = harness.grant("KEY", b"k9sX2kQ7vLm4TzR1bYwE6", server.port, surface=beside)
    request, _ = signed_request(
        harness,
        server.port,
        surface=SigningSurface("eu-central-1", "execute-api"),
        uses=(("AWS", "sigv4:eu-central-1/execute-api"), ("KEY", "header:x-api-key")),
        **{"x-api-key": other},
    )
    harness.fetch(request)
    (received,) = server.received
    assert received.header("x-api-key") == b"k9sX2kQ7vLm4TzR1bYwE6"
    assert b"x-api-key" in received.header("authorization")
    assert verify(received) == ("eu-central-1", "execute-api")


def test_uses_are_counted(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port)
    (grant,) = harness.grants
    harness.grants[:] = [type(grant)(grant.binding, grant.reference, 1)]

    async def twice(client):
        await fetched(client, request)
        return await fetched(client, request)

    with raises_code("limit_secret_uses"):
        harness.run(twice)
    assert len(server.received) == 1


def test_a_signature_tells_the_brokers_instant_and_no_other(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    at = datetime(2031, 8, 30, 23, 59, 59, tzinfo=UTC).timestamp()
    harness.instants = replace(harness.instants, unix_time=lambda: at)
    request, _ = signed_request(harness, server.port)
    harness.fetch(request)
    (received,) = server.received
    assert received.headers("x-amz-date") == [b"20310830T235959Z"]
    assert b"/20310830/eu-central-1/s3/" in received.header("authorization")
    assert verify(received) == ("eu-central-1", "s3")


def test_an_empty_body_of_unknown_length_is_signed(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port, b"")
    harness.fetch(request, [])
    (received,) = server.received
    assert verify(received) == ("eu-central-1", "s3") and received.header("content-length") == b"0"


def test_a_withdrawn_key_signs_nothing_and_is_still_redacted(harness, serve) -> None:
    server = serve(lambda received: answer(SECRET_ACCESS_KEY.encode()))
    request, placeholder = signed_request(harness, server.port)

    async def scenario(client):
        await client.restrict([])
        with pytest.raises(SecretNotBound):
            await fetched(client, request)
        return await fetched(client, request_to(server.port))

    assert harness.run(scenario).body == placeholder
    assert len(server.received) == 1


def test_a_signed_header_that_the_connection_would_keep_is_not_left_out(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(
        harness, server.port, None, (b"Connection", b"x-amz-meta-a"), **{"x-amz-meta-a": "b"}
    )
    with raises_code("secret.sigv4_headers"):
        harness.fetch(request)
    assert not server.received


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"uses": ()}, SecretNotBound.code),
        ({"uses": (("AWS", "header:authorization"),)}, SecretNotBound.code),
        ({"uses": (("AWS", "sigv4:eu-central-1/sqs"),)}, SecretNotBound.code),
        ({"Range": "bytes=0-1"}, "secret.sigv4_headers"),
        ({"host_header": b"other.example.test"}, "broker.request"),
    ],
)
def test_what_was_not_decided_is_not_signed(harness, serve, change, refusal) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port, **change)
    with raises_code(refusal):
        harness.fetch(request)
    assert not server.received


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        (b"hellp", "secret.sigv4_payload"),
        (b"", "secret.sigv4_payload"),
        (b"x" * (MAX_HELD_BODY + 1), SecretBodyTooLarge.code),
    ],
)
def test_another_body_than_was_signed_is_not_sent(harness, serve, sent: bytes, refusal: str) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port, b"hello")
    with raises_code(refusal):
        harness.fetch(request, [sent[at : at + 65536] for at in range(0, len(sent), 65536)] or [])
    assert not server.received


def test_no_body_where_one_was_signed_is_not_sent(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port, b"hello")
    with raises_code("secret.sigv4_payload"):
        harness.fetch(replace(request, has_body=False))
    assert not server.received


def test_the_placeholder_of_one_scope_signs_nothing_of_another(harness, serve) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, placeholder = signed_request(harness, server.port)
    for service, region in (("sqs", "eu-central-1"), ("s3", "us-east-1")):
        headers = agent_signed(
            placeholder.decode(),
            "GET",
            f"https://{HOST}:{server.port}{TARGET}",
            service=service,
            region=region,
        )
        with raises_code("secret.sigv4_scope"):
            harness.fetch(replace(request, headers=(request.headers[0], *headers)))
    with pytest.raises(PlaceholderMisplaced):
        harness.fetch(replace(request, headers=(*request.headers, (b"X-Other", placeholder))))
    assert not server.received


@pytest.mark.parametrize(
    "value", [b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", b'{"access_key_id": "AKIAIOSFODNN7EXAMPLE"}']
)
def test_a_value_that_is_no_key_has_no_placeholder_and_is_not_told(harness, serve, value: bytes) -> None:
    server = serve(lambda received: answer(b"ok"))
    request, _ = signed_request(harness, server.port, value=value)
    with pytest.raises(PlaceholderMisplaced):
        harness.fetch(request)
    assert harness.resolution.refused["AWS"].code == "secret.sigv4_key"
    assert not harness.resolution.resolved
    assert "wJalr" not in str(harness.resolution.refused["AWS"]) and "AKIA" not in str(harness.resolution)
    assert not server.received
