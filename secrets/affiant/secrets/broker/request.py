"""From a decided request to the bytes on the wire: checked once more, then filled in. No I/O.

The supervisor parsed, decided and recorded. Here, numbered as in the code:

1. the method, scheme and target are what HTTP/1.1 and this broker send at all;
2. the secrets that the request holds are exactly those that were decided, each bound to this host, port and
   surface (``secret.not_bound``); a placeholder anywhere else is refused; each has a use left, which is taken;
3. the fields of one hop are dropped; ``Host`` is the decided host; the answer is asked for unencoded; with
   anything to redact, ``Range`` goes, since slices of an echo are no echo (S9);
4. substitution: into a copy, of which only the bytes for the wire are kept. A body that is filled in, or signed, has
   its length in the head;
5. a signature, over what goes out (``signed_head``). What is recorded is the request as the agent signed it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import h11

from affiant.errors import MalformedError, NotAllowedError
from affiant.policy.canonical.request_names import asks_for_a_part
from affiant.secrets.broker.client.messages import UpstreamRequest
from affiant.secrets.broker.session import BrokerSession
from affiant.secrets.broker.signed_head import SignedHead, signed_head
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.detection import HeaderField, SecretUse, judge_body, judge_head
from affiant.secrets.injection.placeholder import Binding
from affiant.secrets.injection.signing_key import SigningKey
from affiant.secrets.injection.signing_surface import SigningSurface, is_signing
from affiant.secrets.injection.surface import QuerySurface, Surface
from affiant.secrets.names.errors import SecretNotBound
from affiant.secrets.names.ref import SecretRef
from affiant.secrets.names.value import SecretValue

__all__ = ["PreparedRequest", "prepare_request", "uses_body"]

_METHOD: Final = re.compile(r"[A-Z][A-Z_-]{0,31}\Z")
_NEVER: Final = frozenset({"CONNECT", "TRACE", "TRACK"})
"""A tunnel is not inspected; the other two give back what was sent (CWE-693, cross-site tracing)."""
_TARGET: Final = re.compile(rb"(?:/[\x21-\x22\x24-\x7e]*|\*)\Z")
_ONE_HOP: Final = frozenset(
    {
        b"connection", b"expect", b"keep-alive", b"proxy-authenticate", b"proxy-authorization",
        b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip
"""RFC 9110, section 7.6.1; ``Expect``, because the broker does not wait for 100."""
_OURS: Final = frozenset({b"accept-encoding", b"host"})
_DEFAULT_PORT: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, repr=False)
class PreparedRequest:
    """A request ready to be sent.

    Args:
        head: the event for the wire. It holds values: nothing may show or keep it.
        recorded_head: the head's bytes with placeholders in the secrets' places.
        content_encoding: of the body, for the search for placeholders.
        body: for the wire, where it holds values; recorded_body: the same with placeholders. None: the body follows
            as it is.
        values: that the host gets to see in it, each with the name of its secret.
        made: of a value for this request alone, and must not come back; each with what replaces it.
    """

    head: h11.Request
    recorded_head: bytes
    content_encoding: bytes
    body: bytes | None = None
    recorded_body: bytes = b""
    values: tuple[tuple[SecretValue, str], ...] = ()
    made: tuple[tuple[bytes, bytes], ...] = ()


def uses_body(request: UpstreamRequest) -> bool:
    """Whether a secret was decided that is in the body, or signs one: it must then be there to be prepared."""
    return any(
        surface.startswith("body:") or (request.has_body and is_signing(surface))
        for _, surface in request.uses
    )


def prepare_request(
    request: UpstreamRequest, session: BrokerSession, body: bytes | None = None, *, now: datetime
) -> PreparedRequest:
    """``request`` with its secrets in place.

    Args:
        body: all of it, exactly where :func:`uses_body` says so.
        now: when it is signed, if it is.

    Raises:
        ``broker.request``: not a request that is sent at all.
        SecretNotBound: the secrets in it are not those that were decided, or not bound to this place.
        PlaceholderMisplaced: a placeholder is anywhere else.
        ``upstream.upgrade``: it asks for another protocol.
        ``limit_secret_uses``: a secret was used as often as it may be. SecretWithdrawn: so, or the host was sent one.
        ``secret.sigv4_payload``, ``secret.sigv4_headers``: what the agent signed is not what would be sent.
    """
    _check_line(request)
    _check_headers(request)
    uses = judge_head(
        session.table,
        scheme=request.scheme,
        host=request.host,
        port=request.port,
        target=request.target,
        headers=request.headers,
    )
    in_body: tuple[SecretUse, ...] = ()
    signing = _signing(uses, session)
    if body is not None or signing is not None:
        in_body = judge_body(
            session.table,
            scheme=request.scheme,
            host=request.host,
            port=request.port,
            headers=request.headers,
            body=body or b"",
        )
    if Counter((use.name, use.surface) for use in (*uses, *in_body)) != Counter(request.uses):
        raise SecretNotBound("the secrets in the request are not those that were decided")
    names = sorted({name for name, _ in request.uses})
    values = tuple((value, name) for name in names for value in session.sent_values(name))
    session.echoes.require(request.host, values)
    session.uses.take(use.name for use in (*uses, *in_body))
    target, filled = _substituted(request, uses, session)
    filled_body, unfilled = None, request.headers
    if body is not None:
        filled_body = _filled_body(body, in_body, session)
        filled = _of_length(filled, len(filled_body), instead_of=len(body), announced=signing is not None)
        unfilled = _of_length(unfilled, len(body), instead_of=len(body), announced=signing is not None)
    recorded = _sent_headers(request, unfilled, session)
    sent = SignedHead(_sent_headers(request, filled, session))
    if signing is not None:
        sent = signed_head(
            signing,
            SigningKey.read(SecretRef(signing.name).resolve()),
            request=request,
            target=target,
            headers=sent.headers,
            body=filled_body or b"",
            now=now,
        )
    try:
        head = h11.Request(method=request.method, target=target, headers=sent.headers)
        recorded_head = h11.Connection(h11.CLIENT).send(
            h11.Request(method=request.method, target=request.target, headers=recorded)
        )
    except h11.LocalProtocolError:
        # Not chained: its text may hold a header's value.
        raise NotAllowedError("the request is not valid HTTP/1.1", code="broker.request") from None
    encodings = [value for name, value in request.headers if name.lower() == b"content-encoding"]
    return PreparedRequest(
        head, recorded_head or b"", b", ".join(encodings), filled_body, body or b"", values, sent.made
    )


def _check_line(request: UpstreamRequest) -> None:
    """Step 1."""
    if _METHOD.match(request.method) is None or request.method in _NEVER:
        raise NotAllowedError(
            "a method that is never sent", found=repr(request.method[:20]), code="broker.request"
        )
    if request.scheme not in _DEFAULT_PORT:
        raise NotAllowedError(
            "neither http nor https", found=repr(request.scheme[:20]), code="broker.request"
        )
    if not 1 <= request.port <= 65535:
        raise NotAllowedError("not a port", found=str(request.port), code="broker.request")
    if _TARGET.match(request.target) is None or (request.target == b"*" and request.method != "OPTIONS"):
        raise NotAllowedError(
            "not a request target in origin form", expected="/path?query", code="broker.request"
        )


def _check_headers(request: UpstreamRequest) -> None:
    bare = _host(request)
    hosts = {bare, bare + b":%d" % request.port, _authority(request)}
    for name, value in request.headers:
        field = name.lower()
        if field == b"upgrade" or (field == b"connection" and b"upgrade" in value.lower()):
            raise MalformedError(
                "the request asks for another protocol, which would not be inspected", code="upstream.upgrade"
            )
        if field == b"host" and value.lower() not in hosts:
            raise NotAllowedError(
                "the request's Host is not the host that was decided", code="broker.request"
            )


def _host(request: UpstreamRequest) -> bytes:
    host = f"[{request.host}]" if ":" in request.host else request.host
    return host.encode("ascii", "replace")


def _authority(request: UpstreamRequest) -> bytes:
    host = _host(request)
    return host if request.port == _DEFAULT_PORT[request.scheme] else host + b":%d" % request.port


def _substituted(
    request: UpstreamRequest, uses: tuple[SecretUse, ...], session: BrokerSession
) -> tuple[bytes, tuple[HeaderField, ...]]:
    """Step 4: the one place where a value meets a request. The target, and the headers."""
    target, filled = request.target, list(request.headers)
    for use in sorted(uses, key=_from_behind, reverse=True):
        binding = session.table.binding(use.name)
        if binding is None:  # pragma: no cover - judge_head found it in this very table
            raise SecretNotBound("the secret is not granted", where=use.name)
        if isinstance(binding.surface, SigningSurface):
            continue  # step 5: nothing takes the placeholder's place, and all the rest must be in place first
        secret = SecretRef(use.name).resolve().reveal()
        if isinstance(binding.surface, QuerySurface):
            assert use.place is not None
            target = binding.surface.substituted(target, use.place, secret)
            continue
        assert use.field is not None
        assert isinstance(binding.surface, Surface)
        name, value = filled[use.field]
        filled[use.field] = (
            name,
            binding.surface.substituted(value, binding.placeholder.encode("ascii"), secret),
        )
    return target, tuple(filled)


def _filled_body(body: bytes, uses: tuple[SecretUse, ...], session: BrokerSession) -> bytes:
    """Step 4, of the body."""
    for use in sorted(uses, key=_from_behind, reverse=True):
        binding = session.table.binding(use.name)
        surface = None if binding is None else binding.surface
        if not isinstance(surface, BodySurface):  # pragma: no cover - judge_body found it in this very table
            raise SecretNotBound("the secret is not granted", where=use.name)
        assert use.place is not None
        body = surface.substituted(body, use.place, SecretRef(use.name).resolve().reveal())
    return body


def _signing(uses: tuple[SecretUse, ...], session: BrokerSession) -> Binding | None:
    """The key that signs the request, if one does."""
    bindings = [session.table.binding(use.name) for use in uses if is_signing(use.surface)]
    return bindings[0] if bindings else None


def _of_length(
    headers: tuple[HeaderField, ...], size: int, *, instead_of: int, announced: bool
) -> tuple[HeaderField, ...]:
    """The headers with the length of another body, where they have the one that it takes the place of; or anyway."""
    lengths = [value for name, value in headers if name.lower() == b"content-length"]
    if any(value != b"%d" % instead_of for value in lengths):
        raise NotAllowedError("the body does not have the announced length", code="broker.request")
    if announced and not lengths:
        return (*headers, (b"Content-Length", b"%d" % size))
    return tuple(
        (name, b"%d" % size if name.lower() == b"content-length" else value) for name, value in headers
    )


def _from_behind(use: SecretUse) -> int:
    """What is further back is replaced first, so that places before it stay where they are."""
    return -1 if use.place is None else use.place.start


def _sent_headers(
    request: UpstreamRequest, headers: tuple[HeaderField, ...], session: BrokerSession
) -> list[HeaderField]:
    """Step 3."""
    dropped = _ONE_HOP | _OURS
    for name, value in headers:
        if name.lower() == b"connection":
            dropped |= {token.strip().lower() for token in value.split(b",")}
    if session.guarded:
        dropped |= {name.lower() for name, _ in headers if asks_for_a_part(name.decode("latin-1"))}
    kept = [(name, value) for name, value in headers if name.lower() not in dropped]
    if request.has_body and not any(name.lower() == b"content-length" for name, _ in kept):
        kept.append((b"Transfer-Encoding", b"chunked"))
    return [
        (b"Host", _authority(request)),
        *kept,
        (b"Accept-Encoding", b"identity"),
        (b"Connection", b"close"),
    ]
