"""Step 5 of a request: the signature of AWS Signature Version 4, over exactly what goes out. No I/O.

Signed are ``Host``, ``Content-Type``, every ``X-Amz-…`` and whatever the agent's client signed. The agent's own
signature and what belongs to it are taken out; the broker's time, body digest and session token come in their place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from affiant.errors import NotAllowedError
from affiant.secrets.broker.client.messages import UpstreamRequest
from affiant.secrets.injection.detection import HeaderField
from affiant.secrets.injection.placeholder import Binding
from affiant.secrets.injection.signing_key import SigningKey
from affiant.secrets.injection.signing_surface import (
    CONTENT_DIGEST,
    MAY_BE_LEFT_OUT,
    SET_ANEW,
    SigningSurface,
)
from affiant.secrets.injection.sigv4 import S3_SERVICES, sign, timestamp

__all__ = ["SignedHead", "signed_head"]

_ALWAYS_SIGNED: Final = frozenset({b"content-type", b"host"})
"""AWS, "Create a signed AWS API request", step 1: beside every ``x-amz-…``."""


@dataclass(frozen=True, slots=True, repr=False)
class SignedHead:
    """The headers for the wire.

    Args:
        made: of the key for them, and must not come back; each with what replaces it.
    """

    headers: list[HeaderField]
    made: tuple[tuple[bytes, bytes], ...] = ()


def signed_head(
    binding: Binding,
    key: SigningKey,
    *,
    request: UpstreamRequest,
    target: bytes,
    headers: list[HeaderField],
    body: bytes,
    now: datetime,
) -> SignedHead:
    """The headers with a signature of ``key`` in place of the agent's.

    Args:
        binding: the key's, with a surface that signs. request: as the agent signed it.
        target, headers, body: as they go out otherwise, values of other secrets among them.

    Raises:
        ``secret.sigv4_headers``: a header that the agent signed is not among them.
    """
    surface = binding.surface
    assert isinstance(surface, SigningSurface), "a use of it was found in this request"
    placeholder = binding.placeholder.encode("ascii")
    agent = surface.judge(target=request.target, headers=request.headers, placeholder=placeholder)
    sent = {name.lower() for name, _ in headers}
    if lost := set(agent.names) - sent - MAY_BE_LEFT_OUT:
        name = min(lost)[:64].decode("latin-1")
        raise NotAllowedError("a signed header is not sent on", where=name, code="secret.sigv4_headers")
    payload = hashlib.sha256(body).hexdigest().encode("ascii")
    kept = [(name, value) for name, value in headers if name.lower() not in SET_ANEW]
    kept += _own(request, key, surface=surface, payload=payload, now=now)
    made = sign(
        access_key_id=key.access_key_id.reveal(),
        secret_access_key=key.secret_access_key.reveal(),
        scope=surface.scope,
        now=now,
        method=request.method,
        target=target,
        headers=[
            (name, value)
            for name, value in kept
            if name.lower() in _ALWAYS_SIGNED.union(agent.names) or name.lower().startswith(b"x-amz-")
        ],
        payload=payload,
    )
    return SignedHead(
        [*kept, (b"Authorization", made.authorization)],
        ((made.signature, agent.signature), *((each, placeholder) for each in made.keys)),
    )


def _own(
    request: UpstreamRequest, key: SigningKey, *, surface: SigningSurface, payload: bytes, now: datetime
) -> Iterator[HeaderField]:
    yield b"X-Amz-Date", timestamp(now)
    if surface.service in S3_SERVICES or any(name.lower() == CONTENT_DIGEST for name, _ in request.headers):
        yield b"X-Amz-Content-Sha256", payload
    if key.session_token is not None:
        yield b"X-Amz-Security-Token", key.session_token.reveal()
