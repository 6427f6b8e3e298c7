"""The other side of a signature: a received request is judged by botocore, which shares no code with ours."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.secrets.upstream_server import Received

from affiant.secrets.injection.signing_surface import agent_variables

ACCESS_KEY_ID, SECRET_ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SESSION_TOKEN = "FwoGZXIvYXdzEBYaDExampleTokenOfAWSsDocs+/9sX2kQ7vLm4TzR1bYwE6=="
"""AWS's own examples, and one of ours."""

_FORM = re.compile(
    rb"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
    rb"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})"
)


def key(**more: str) -> bytes:
    """The real key as a store keeps it."""
    return json.dumps(
        {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY, **more}
    ).encode()


def agent_signed(
    placeholder: str,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    service: str = "s3",
    region: str = "eu-central-1",
) -> list[tuple[bytes, bytes]]:
    """The headers of a request that an agent's client signs with its placeholders, without ``Host``."""
    secret = agent_variables("AWS", placeholder)["AWS_SECRET_ACCESS_KEY"]
    request = AWSRequest(method, url, headers=dict(headers or {}), data=body)
    kind = S3SigV4Auth if service == "s3" else SigV4Auth
    kind(Credentials(placeholder, secret), service, region).add_auth(request)
    return [(name.encode(), value.encode()) for name, value in request.headers.items()]


def verify(received: Received, *, token: str | None = None) -> tuple[str, str]:
    """Region and service for which the request is rightly signed with the real key; an assertion fails otherwise."""
    (authorization,) = received.headers("authorization")
    match = _FORM.fullmatch(authorization)
    assert match is not None, authorization
    names = match[5].decode().split(";")
    method, target, _ = received.line.decode().split(" ")
    assert match[1].decode() == ACCESS_KEY_ID
    headers = {}
    for name in names:
        (value,) = received.headers(name)
        headers[name] = value.decode()
    present = [line.split(b":")[0].decode().lower() for line in received.head.split(b"\r\n")[1:]]
    assert {name for name in present if name.startswith("x-amz-") or name in ("host", "content-type")} <= set(
        names
    )
    assert headers.get("x-amz-security-token") == token
    digest = received.header("x-amz-content-sha256")
    assert digest in (None, hashlib.sha256(received.body).hexdigest().encode())
    request = AWSRequest(method, f"https://{headers['host']}{target}", headers=headers, data=received.body)
    request.context["timestamp"] = headers["x-amz-date"]
    assert headers["x-amz-date"].startswith(match[2].decode())
    region, service = match[3].decode(), match[4].decode()
    kind = S3SigV4Auth if service == "s3" else SigV4Auth
    signer = kind(Credentials(ACCESS_KEY_ID, SECRET_ACCESS_KEY), service, region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert signer.signature(text, request) == match[6].decode(), signer.canonical_request(request)
    return region, service
