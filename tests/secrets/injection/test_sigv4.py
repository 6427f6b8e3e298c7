"""AWS Signature Version 4: AWS's published examples, and botocore's word on thousands of other requests."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.secrets.injection.sigv4 import (
    Scope,
    canonical_path,
    canonical_query,
    canonical_request,
    sign,
    timestamp,
)

SUITE = {
    "access_key_id": b"AKIDEXAMPLE",
    "secret_access_key": b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    "now": datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
}
HOST, DATE = (b"Host", b"example.amazonaws.com"), (b"X-Amz-Date", b"20150830T123600Z")
VANILLA = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
FORM = (b"Content-Type", b"application/x-www-form-urlencoded")


def digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


PUBLISHED = {
    # name in aws-sig-v4-test-suite: method, target, headers beside Host and X-Amz-Date, body, signature
    "get-vanilla": ("GET", b"/", [], b"", VANILLA),
    "get-vanilla-query-order-key-case": (
        "GET", b"/?Param2=value2&Param1=value1", [], b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    "get-vanilla-empty-query-key": (
        "GET", b"/?Param1=value1", [], b"",
        "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
    ),
    "get-vanilla-utf8-query": (
        "GET", "/?\u1234=bar".encode(), [], b"",
        "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
    ),
    "get-header-key-duplicate": (
        "GET", b"/", [(b"My-Header1", b"value2"), (b"My-Header1", b"value2"), (b"My-Header1", b"value1")], b"",
        "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
    ),
    "get-header-value-order": (
        "GET", b"/", [(b"My-Header1", each) for each in (b"value4", b"value1", b"value3", b"value2")], b"",
        "08c7e5a9acfcfeb3ab6b2185e75ce8b1deb5e634ec47601a50643f830c755c01",
    ),
    "get-header-value-trim": (
        "GET", b"/", [(b"My-Header1", b" value1"), (b"My-Header2", b' "a   b   c"')], b"",
        "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
    ),
    "get-unreserved": (
        "GET", b"/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", [], b"",
        "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
    ),
    "get-utf8": (
        "GET", "/\u1234".encode(), [], b"",
        "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
    ),
    "get-relative": ("GET", b"/example/..", [], b"", VANILLA),
    "get-relative-relative": ("GET", b"/example1/example2/../..", [], b"", VANILLA),
    "get-slash": ("GET", b"//", [], b"", VANILLA),
    "get-slash-dot-slash": ("GET", b"/./", [], b"", VANILLA),
    "get-slash-pointless-dot": (
        "GET", b"/./example", [], b"",
        "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
    ),
    "get-slashes": (
        "GET", b"//example//", [], b"",
        "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
    ),
    "get-space": (
        "GET", b"/example space/", [], b"",
        "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
    ),
    "post-vanilla": ("POST", b"/", [], b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    "post-x-www-form-urlencoded": (
        "POST", b"/", [FORM], b"Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_suite_holds(name: str) -> None:
    method, target, headers, body, expected = PUBLISHED[name]
    made = sign(
        **SUITE,
        scope=Scope("us-east-1", "service"),
        method=method,
        target=target,
        headers=[HOST, DATE, *headers],
        payload=digest(body),
    )
    assert made.signature.decode() == expected
    assert made.authorization.startswith(
        b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders="
    )
    assert made.authorization.endswith(b", Signature=" + made.signature)


def test_the_published_request_to_iam_holds_step_by_step() -> None:
    headers = [
        (b"Host", b"iam.amazonaws.com"),
        (b"Content-Type", b"application/x-www-form-urlencoded; charset=utf-8"),
        DATE,
    ]
    request = {"method": "GET", "target": b"/?Action=ListUsers&Version=2010-05-08", "headers": headers}
    canonical, names = canonical_request(**request, payload=digest(b""), service="iam")
    assert names == b"content-type;host;x-amz-date"
    assert digest(canonical) == b"f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59"
    made = sign(**SUITE, **request, scope=Scope("us-east-1", "iam"), payload=digest(b""))
    assert made.keys[-1].hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    assert made.signature == b"5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    assert "c4afb1cc" not in repr(made) and "5d672d79" not in repr(made)


S3 = {
    "GET object": (
        "GET", b"/test.txt", [(b"Range", b"bytes=0-9")], b"",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "PUT object": (
        "PUT", b"/test%24file.text",
        [(b"Date", b"Fri, 24 May 2013 00:00:00 GMT"), (b"x-amz-storage-class", b"REDUCED_REDUNDANCY")],
        b"Welcome to Amazon S3.", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "GET bucket lifecycle": (
        "GET", b"/?lifecycle", [], b"",
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "list objects": (
        "GET", b"/?max-keys=2&prefix=J", [], b"",
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", S3)
def test_the_published_requests_to_s3_hold(name: str) -> None:
    method, target, headers, body, expected = S3[name]
    own = [
        (b"Host", b"examplebucket.s3.amazonaws.com"),
        (b"x-amz-content-sha256", digest(body)),
        (b"x-amz-date", b"20130524T000000Z"),
    ]
    made = sign(
        access_key_id=b"AKIAIOSFODNN7EXAMPLE",
        secret_access_key=b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        scope=Scope("us-east-1", "s3"),
        now=datetime(2013, 5, 24, tzinfo=UTC),
        method=method,
        target=target,
        headers=[*own, *headers],
        payload=digest(body),
    )
    assert made.signature.decode() == expected


def test_an_instant_is_told_in_utc_whatever_its_zone() -> None:
    there = datetime(2015, 8, 30, 23, 36, tzinfo=timezone(timedelta(hours=11)))
    assert timestamp(there) == b"20150830T123600Z"


@pytest.mark.parametrize(
    ("path", "s3", "other"),
    [
        (b"/a%20b/c", b"/a%20b/c", b"/a%2520b/c"),
        (b"/a//b", b"/a//b", b"/a/b"),
        (b"/a/./b/../c", b"/a/./b/../c", b"/a/c"),
        (b"/..", b"/..", b"/"),
        (b"/a/", b"/a/", b"/a/"),
        (b"/(x)!", b"/%28x%29%21", b"/%28x%29%21"),
        (b"/a%2Fb", b"/a%2Fb", b"/a%252Fb"),
        (b"/~", b"/~", b"/~"),
    ],
)
def test_s3_takes_a_path_as_it_is_and_others_encode_it_once_more(
    path: bytes, s3: bytes, other: bytes
) -> None:
    assert canonical_path(path, service="s3") == s3
    assert canonical_path(path, service="sqs") == other


@pytest.mark.parametrize(
    ("query", "canonical"),
    [
        (b"", b""),
        (b"acl", b"acl="),
        (b"b=2&a=1&a=0", b"a=0&a=1&b=2"),
        (b"a=1=2", b"a=1%3D2"),
        (b"a=b+c%2b%20", b"a=b%2Bc%2B%20"),
        (b"%41=1&B=2&a=3", b"A=1&B=2&a=3"),
        (b"a%20b=1&a-b=1", b"a%20b=1&a-b=1"),
        (b"x=/~*", b"x=%2F~%2A"),
    ],
)
def test_a_query_is_sorted_by_encoded_names_then_values(query: bytes, canonical: bytes) -> None:
    assert canonical_query(query) == canonical


_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda text: text not in (".", "..")
)
_names = st.integers(0, 9999).map("x-amz-meta-{}".format)
_values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20).map(str.strip)


_requests = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
        "segments": st.lists(_text, max_size=4),
        "slash": st.booleans(),
        "query": st.lists(st.tuples(_text, _text | st.just("")), max_size=4),
        "headers": st.dictionaries(_names, _values, max_size=4),
        "body": st.binary(max_size=40),
        "service": st.sampled_from(["s3", "sqs", "execute-api"]),
        "region": st.sampled_from(["eu-central-1", "us-east-1"]),
        "secret": st.binary(min_size=30, max_size=30).map(lambda data: b64encode(data).decode()),
        "now": st.integers(946_684_800, 4_070_908_800).map(lambda at: datetime.fromtimestamp(at, UTC)),
    }
)


@thorough(60)
@given(_requests)
def test_botocore_signs_requests_alike(request: dict[str, object]) -> None:
    signed_alike(**request)


@pytest.mark.slow
@pytest.mark.timeout(600)
@thorough(3000)
@given(_requests)
def test_botocore_signs_thousands_of_requests_alike(request: dict[str, object]) -> None:
    signed_alike(**request)


def signed_alike(*, method, segments, slash, query, headers, body, service, region, secret, now) -> None:
    path = "/" + "/".join(quote(each, safe="~") for each in segments) + ("/" if slash and segments else "")
    text = "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in query)
    target = path + ("?" + text if text else "")
    at = timestamp(now).decode()
    fields = {
        "host": "h.example.com",
        "x-amz-date": at,
        "x-amz-content-sha256": digest(body).decode(),
        **headers,
    }
    request = AWSRequest(method, "https://h.example.com" + target, headers=fields, data=body)
    request.context["timestamp"] = at
    theirs = (S3SigV4Auth if service == "s3" else SigV4Auth)(Credentials("AKID", secret), service, region)
    ours = sign(
        access_key_id=b"AKID",
        secret_access_key=secret.encode(),
        scope=Scope(region, service),
        now=now,
        method=method,
        target=target.encode(),
        headers=[(name.encode(), value.encode()) for name, value in fields.items()],
        payload=digest(body),
    )
    string = theirs.string_to_sign(request, theirs.canonical_request(request))
    assert theirs.signature(string, request).encode() == ours.signature
