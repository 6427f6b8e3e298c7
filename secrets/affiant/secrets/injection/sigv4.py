"""AWS Signature Version 4: the signature of one request, from its bytes, a key and a time. No I/O.

AWS, "Create a signed AWS API request" (IAM User Guide), steps 1 to 6; for S3, "Authenticating Requests: Using the
Authorization Header" (Amazon S3 API Reference), which takes the path as it is: no segment is removed, and each is
encoded once. Everywhere else the path is normalised (RFC 3986, section 6.2.2) and encoded once more than it was sent.

>>> canonical_query(b"prefix=a/b&acl&X=%7e"), canonical_path(b"/a//b/../c%20d", service="sqs")
(b'X=~&acl=&prefix=a%2Fb', b'/a/c%2520d')
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias
from urllib.parse import quote_from_bytes, unquote_to_bytes

__all__ = [
    "ALGORITHM",
    "S3_SERVICES",
    "Scope",
    "Signed",
    "canonical_path",
    "canonical_query",
    "canonical_request",
    "sign",
    "timestamp",
]

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
"""The one algorithm: HMAC-SHA256 with a derived key. SigV4A's (``AWS4-ECDSA-P256-SHA256``) is another scheme."""

S3_SERVICES: Final = frozenset({"s3", "s3-object-lambda", "s3-outposts", "s3express"})
"""Names in the scope of services with S3's canonical request, and with ``x-amz-content-sha256`` in every request."""

_TERMINATOR: Final = b"aws4_request"
_BLANKS: Final = re.compile(rb" +")

_Field: TypeAlias = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a derived key is good for, beside its day: the region and the service, as both spell them."""

    region: str
    service: str

    def on(self, day: bytes) -> bytes:
        """The credential scope, ``20150830/us-east-1/iam/aws4_request``."""
        return b"/".join((day, self.region.encode("ascii"), self.service.encode("ascii"), _TERMINATOR))


@dataclass(frozen=True, slots=True, repr=False)
class Signed:
    """A request's signature.

    Args:
        authorization: the whole value of ``Authorization``.
        signature: 64 hexadecimal digits; anyone who has it can repeat this request for some minutes.
        keys: the derived keys, 32 bytes each: of the day, the region, the service, and of requests. Secret.
    """

    authorization: bytes
    signature: bytes
    keys: tuple[bytes, ...]


def timestamp(now: datetime) -> bytes:
    """The value of ``X-Amz-Date``: ``20150830T123600Z``.

    Args:
        now: with its zone.
    """
    return now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ").encode("ascii")


def canonical_path(path: bytes, *, service: str) -> bytes:
    """Step 1, the canonical URI: of S3 the segments encoded once, of others normalised and encoded once more.

    Args:
        path: absolute, as it is in the request line, without the query.
    """
    if service in S3_SERVICES:
        return b"/".join(_encoded(unquote_to_bytes(segment)) for segment in path.split(b"/"))
    return b"/".join(map(_encoded, _normalised(path).split(b"/")))


def _normalised(path: bytes) -> bytes:
    """Without ``.`` and ``..`` segments (RFC 3986, section 5.2.4), and without empty ones but the last."""
    kept: list[bytes] = []
    for segment in path.split(b"/"):
        if segment == b"..":
            kept = kept[:-1]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return b"/" + b"/".join(kept) + (b"/" if kept and path.endswith(b"/") else b"")


def canonical_query(query: bytes) -> bytes:
    """Step 1, the canonical query string: names and values encoded, in the order of names, then of values."""
    pairs = [part.partition(b"=") for part in query.split(b"&") if part]
    encoded = sorted(
        (_encoded(unquote_to_bytes(name)), _encoded(unquote_to_bytes(value))) for name, _, value in pairs
    )
    return b"&".join(name + b"=" + value for name, value in encoded)


def _encoded(text: bytes) -> bytes:
    """UriEncode: every byte but the unreserved ones of RFC 3986 as ``%XX``; a space is ``%20``, a plus ``%2B``."""
    return quote_from_bytes(text, safe="").encode("ascii")


def canonical_request(
    *, method: str, target: bytes, headers: Sequence[_Field], payload: bytes, service: str
) -> tuple[bytes, bytes]:
    """Step 1: the canonical request, and its list of signed headers (``host;x-amz-date``).

    Args:
        target: the request target in origin form, as it is sent.
        headers: those that are signed, and no others; ``Host`` among them.
        payload: the body's SHA-256 in hexadecimal digits.
    """
    path, _, query = target.partition(b"?")
    values: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(_BLANKS.sub(b" ", value.strip(b" ")))
    names = sorted(values)
    lines = [name + b":" + b",".join(values[name]) + b"\n" for name in names]
    signed = b";".join(names)
    parts = (
        method.encode("ascii"),
        canonical_path(path, service=service),
        canonical_query(query),
        b"".join(lines),
        signed,
        payload,
    )
    return b"\n".join(parts), signed


def sign(
    *,
    access_key_id: bytes,
    secret_access_key: bytes,
    scope: Scope,
    now: datetime,
    method: str,
    target: bytes,
    headers: Sequence[_Field],
    payload: bytes,
) -> Signed:
    """Steps 1 to 6.

    Args:
        now: the time of signing, which is in ``X-Amz-Date`` among the headers.
        method, target, headers, payload: as of :func:`canonical_request`.
    """
    at = timestamp(now)
    within = scope.on(at[:8])
    canonical, names = canonical_request(
        method=method, target=target, headers=headers, payload=payload, service=scope.service
    )
    text = b"\n".join((ALGORITHM, at, within, hashlib.sha256(canonical).hexdigest().encode("ascii")))
    keys = _derived(secret_access_key, within.split(b"/"))
    signature = _hmac(keys[-1], text).hex().encode("ascii")
    authorization = b"%b Credential=%b/%b, SignedHeaders=%b, Signature=%b" % (
        ALGORITHM,
        access_key_id,
        within,
        names,
        signature,
    )
    return Signed(authorization, signature, keys)


def _derived(secret_access_key: bytes, within: Iterable[bytes]) -> tuple[bytes, ...]:
    """Step 4: one key for each part of the scope, each made from the one before."""
    keys = [b"AWS4" + secret_access_key]
    for part in within:
        keys.append(_hmac(keys[-1], part))
    return tuple(keys[1:])


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()
