"""What an agent's client signed: judged before the broker signs the same, and refused by its own code."""

from __future__ import annotations

import hashlib
import os
import random
import re

import pytest
from tests.raising import raises_code
from tests.secrets.aws_verifier import agent_signed

from affiant.errors import AffiantError
from affiant.secrets.injection.detection import SecretUse, holds_secrets, judge_body, judge_head
from affiant.secrets.injection.placeholder import Binding, Endpoint, PlaceholderTable, mint_placeholder
from affiant.secrets.injection.signing_surface import SIGNING_ID, SigningSurface, is_signing, mint_signing_id

HOST = "b.s3.eu-central-1.amazonaws.com"
SURFACE = SigningSurface("eu-central-1", "s3")
_SAME = random.Random(4).randbytes
ID, OTHER = mint_signing_id(_SAME), mint_placeholder(_SAME)
"""The same in every process of a run: tests are called by them."""
PLACES = frozenset({Endpoint(HOST, 443)})
TABLE = PlaceholderTable([Binding("AWS", ID, PLACES, SURFACE), Binding("TOKEN", OTHER, PLACES)])


def signed(*more: tuple[bytes, bytes], service: str = "s3", region: str = "eu-central-1", **fields: str):
    headers = agent_signed(ID, "PUT", f"https://{HOST}/a?x=1", headers=fields, service=service, region=region)
    return ((b"Host", HOST.encode()), *headers, *more)


def judged(headers, *, target: bytes = b"/a?x=1", host: str = HOST, port: int = 443, scheme: str = "https"):
    return judge_head(TABLE, scheme=scheme, host=host, port=port, target=target, headers=tuple(headers))


def changed(headers, name: bytes, value: bytes):
    return [(each, value if each.lower() == name.lower() else old) for each, old in headers]


def rewritten(pattern: bytes, by: bytes):
    """The signed headers with another text in ``Authorization``."""
    headers = dict(signed())
    value = re.sub(pattern, by.replace(b"ID", ID.encode()), headers[b"Authorization"])
    assert value != headers[b"Authorization"]
    return changed(signed(), b"Authorization", value)


def test_a_placeholder_that_signs_is_an_access_key_id_of_its_own() -> None:
    assert SIGNING_ID.fullmatch(ID.encode()) and ID.isalnum() and ID.isupper() and 16 <= len(ID) <= 128
    assert mint_signing_id(os.urandom) != ID
    assert len({mint_signing_id(os.urandom)[-1] for _ in range(600)}) == 36
    variables = Binding("AWS", ID, PLACES, SURFACE).variables
    assert variables["AWS"] == variables["AWS_ACCESS_KEY_ID"] == ID
    assert len(variables["AWS_SECRET_ACCESS_KEY"]) == 40
    assert Binding("TOKEN", OTHER, PLACES).variables == {"TOKEN": OTHER}


def test_a_signed_request_uses_its_key() -> None:
    index = [name for name, _ in signed()].index(b"Authorization")
    assert judged(signed()) == (SecretUse("AWS", "sigv4:eu-central-1/s3", index),)
    assert is_signing("sigv4:eu-central-1/s3") and not is_signing("header:authorization")
    assert holds_secrets(TABLE, scheme="https", host=HOST, port=443, headers=signed())


def test_another_secret_may_stand_beside_the_signature() -> None:
    table = PlaceholderTable([*TABLE, Binding("KEY", mint_placeholder(os.urandom), PLACES)])
    assert [use.name for use in judge_head(
        table, scheme="https", host=HOST, port=443, target=b"/a", headers=signed()
    )] == ["AWS"]  # fmt: skip


@pytest.mark.parametrize(
    "elsewhere", [{"host": "evil.example"}, {"port": 8443}, {"scheme": "http"}, {"host": f"x.{HOST}"}]
)
def test_at_another_place_nothing_is_signed(elsewhere: dict[str, object]) -> None:
    with pytest.raises(AffiantError) as refused:
        judged(signed(), **elsewhere)
    assert refused.value.code == "secret.not_bound"


REFUSED = {
    "another region": (lambda: signed(region="us-east-1"), "secret.sigv4_scope"),
    "another service": (lambda: signed(service="sqs"), "secret.sigv4_scope"),
    "S3 in capitals": (lambda: rewritten(rb"/s3/", rb"/S3/"), "secret.sigv4_scope"),
    "SigV4A": (
        lambda: rewritten(rb"AWS4-HMAC-SHA256", rb"AWS4-ECDSA-P256-SHA256"),
        "secret.sigv4_authorization",
    ),
    "SigV4A without a region": (
        lambda: rewritten(rb"AWS4-HMAC-SHA256(.*?)/eu-central-1", rb"AWS4-ECDSA-P256-SHA256\1"),
        "secret.sigv4_authorization",
    ),
    "SigV2": (lambda: rewritten(rb".*", b"AWS ID:c2lnbmF0dXJl"), "secret.sigv4_authorization"),
    "a digest in pieces": (
        lambda: rewritten(rb"HMAC-SHA256", b"HMAC-SHA256-PAYLOAD"),
        "secret.sigv4_authorization",
    ),
    "an id that begins alike": (lambda: rewritten(ID.encode(), b"ID0"), "secret.sigv4_authorization"),
    "an id that ends alike": (lambda: rewritten(ID.encode(), b"0ID"), "secret.sigv4_authorization"),
    "no terminator": (lambda: rewritten(rb"/aws4_request", b""), "secret.sigv4_authorization"),
    "a signature of another length": (lambda: rewritten(rb"\Z", b"0"), "secret.sigv4_authorization"),
    "a second credential": (
        lambda: rewritten(
            rb", SignedHeaders", b", Credential=ID/20260101/eu-central-1/s3/aws4_request, SignedHeaders"
        ),
        "secret.sigv4_authorization",
    ),
    "host unsigned": (lambda: rewritten(rb"host;", b""), "secret.sigv4_headers"),
    "a name twice": (lambda: rewritten(rb"host;", b"host;host;"), "secret.sigv4_headers"),
    "a header that is not there": (lambda: rewritten(rb"host;", b"host;x-none;"), "secret.sigv4_headers"),
    "a range": (lambda: signed(Range="bytes=0-9"), "secret.sigv4_headers"),
    "a connection": (lambda: rewritten(rb"=host;", b"=connection;host;"), "secret.sigv4_headers"),
    "an encoding of the answer": (lambda: signed(**{"Accept-Encoding": "gzip"}), "secret.sigv4_headers"),
    "a tab": (
        lambda: changed(signed(**{"x-amz-meta-a": "b"}), b"x-amz-meta-a", b"a\tb"),
        "secret.sigv4_headers",
    ),
    "a signed header twice": (
        lambda: signed((b"X-AMZ-Meta-a", b"c"), **{"x-amz-meta-a": "b"}),
        "secret.sigv4_headers",
    ),
    "an unsigned x-amz header twice": (
        lambda: signed((b"x-amz-acl", b"private"), (b"X-Amz-Acl", b"public-read")),
        "secret.sigv4_headers",
    ),
    "two dates": (lambda: signed((b"x-amz-date", b"20200101T000000Z")), "secret.sigv4_headers"),
    "a stream": (
        lambda: changed(signed(), b"X-Amz-Content-SHA256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        "secret.sigv4_payload",
    ),
    "a stream with trailers": (
        lambda: changed(signed(), b"X-Amz-Content-SHA256", b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        "secret.sigv4_payload",
    ),
    "two digests": (lambda: signed((b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD")), "secret.sigv4_payload"),
    "no digest": (lambda: changed(signed(), b"X-Amz-Content-SHA256", b""), "secret.sigv4_payload"),
    "pieces": (lambda: signed(**{"Content-Encoding": "gzip, AWS-chunked"}), "secret.sigv4_payload"),
    "trailers": (lambda: signed((b"X-Amz-Trailer", b"x-amz-checksum-crc32")), "secret.sigv4_payload"),
    "a decoded length": (lambda: signed((b"x-amz-decoded-content-length", b"5")), "secret.sigv4_payload"),
    "two authorizations": (
        lambda: signed((b"authorization", b"Basic eDp5")),
        "secret.placeholder_misplaced",
    ),
    "two signatures": (lambda: [*signed(), *signed()], "secret.placeholder_misplaced"),
    "the id in another header": (lambda: signed((b"x-other", ID.encode())), "secret.placeholder_misplaced"),
    "the id as a bearer": (
        lambda: [(b"Authorization", b"Bearer " + ID.encode())],
        "secret.placeholder_misplaced",
    ),
    "the signature in another header": (
        lambda: [(b"X-Authorization", dict(signed())[b"Authorization"])],
        "secret.placeholder_misplaced",
    ),
    "the id of another session": (
        lambda: [(b"X-Other", mint_signing_id(os.urandom).encode())],
        "secret.placeholder_misplaced",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_signed_alike_is_refused(what: str) -> None:
    headers, code = REFUSED[what]
    with pytest.raises(AffiantError) as refused:
        judged(headers())
    assert refused.value.code == code
    assert ID not in str(refused.value)


PRESIGNED = (
    f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={ID}%2F20260101%2Feu-central-1%2Fs3%2Faws4_request"
)


@pytest.mark.parametrize(
    "target", [f"/a?{PRESIGNED}&X-Amz-Signature=00", f"/a?AWSAccessKeyId={ID}&Signature=00"]
)
def test_a_signature_in_the_query_is_refused_with_and_without_a_header(target: str) -> None:
    for headers in ([], signed()):
        with pytest.raises(AffiantError) as refused:
            judged(headers, target=target.encode())
        assert refused.value.code == "secret.sigv4_presigned"


@pytest.mark.parametrize("name", [b"X-Amz-Signature", b"x%2damz-Expires", b"X-AMZ-SECURITY-TOKEN"])
def test_no_part_of_a_signature_in_the_query_stands_beside_a_header(name: bytes) -> None:
    with pytest.raises(AffiantError) as refused:
        judged(signed(), target=b"/a?y&" + name + b"=1")
    assert refused.value.code == "secret.sigv4_presigned"


def test_a_signed_identity_encoding_is_what_goes_out() -> None:
    assert judged(signed(**{"Accept-Encoding": "identity"}))


def body_judged(headers, body: bytes):
    return judge_body(TABLE, scheme="https", host=HOST, port=443, headers=tuple(headers), body=body)


def test_a_body_is_the_one_whose_digest_was_signed() -> None:
    headers = changed(signed(), b"X-Amz-Content-SHA256", hashlib.sha256(b"hello").hexdigest().encode())
    assert body_judged(headers, b"hello") == ()
    assert body_judged(changed(signed(), b"X-Amz-Content-SHA256", b"UNSIGNED-PAYLOAD"), b"hello") == ()
    for body in (b"", b"hellp", b"hello "):
        with pytest.raises(AffiantError) as refused:
            body_judged(headers, body)
        assert refused.value.code == "secret.sigv4_payload"


@pytest.mark.parametrize("placeholder", [ID, OTHER, ID.lower()])
def test_no_placeholder_stands_in_a_signed_body(placeholder: str) -> None:
    headers = changed(signed(), b"X-Amz-Content-SHA256", b"UNSIGNED-PAYLOAD")
    with pytest.raises(AffiantError) as refused:
        body_judged(headers, b"a " + placeholder.encode())
    assert refused.value.code == "secret.placeholder_misplaced"


@pytest.mark.parametrize(
    ("region", "service"), [("", "s3"), ("EU", "s3"), ("eu-", "s3"), ("eu", "s/3"), ("eu", "*")]
)
def test_no_other_names_are_signed_for(region: str, service: str) -> None:
    with raises_code("secret.surface"):
        SigningSurface(region, service)
