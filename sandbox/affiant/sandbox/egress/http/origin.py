"""Where a request goes: scheme, host and port, from the several places in which a client writes them.

A proxy request names its origin in the target (``http://host/path``) and again in ``Host``; a tunnel in CONNECT,
again in SNI, again in each inner ``Host``. All are brought to the policy's canonical form and must agree (negative
tests E1 to E5, E9); nothing is looked up before that.

>>> connect_origin("Example.com.:443")
Origin(scheme='https', host='example.com', port=443)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from affiant.errors import MalformedError, NotAllowedError
from affiant.policy.canonical.hosts import canonical_host
from affiant.policy.canonical.targets import canonical_target
from affiant.sandbox.egress.http.client_hello import ClientHello
from affiant.sandbox.egress.http.errors import ServerNameMissing, excerpt
from affiant.sandbox.egress.http.request_head import RequestHead

__all__ = ["Origin", "check_server_name", "connect_origin", "inner_target", "proxied_target"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}\Z")
_ABSOLUTE: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)\Z")


@dataclass(frozen=True, slots=True)
class Origin:
    """One origin in canonical form (RFC 6454); ``host`` as the policy writes it."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """``host``, or ``host:port`` where the port is not the scheme's own: the ``Host`` that is sent."""
        return self.host if self.port == _DEFAULT_PORTS[self.scheme] else f"{self.host}:{self.port}"

    def url(self, target: str = "") -> str:
        """The address of ``target`` here."""
        return f"{self.scheme}://{self.authority}{target}"


def _authority(text: str, scheme: str, *, port_required: bool = False) -> Origin:
    host, colon, port = text.partition(":")
    if colon or port_required:
        if _PORT.match(port) is None or int(port) > 65535:
            raise MalformedError(
                "not host:port", expected="a host name and a port", found=excerpt(text), code="egress.request"
            )
        number = int(port)
    else:
        number = _DEFAULT_PORTS[scheme]
    return Origin(scheme, canonical_host(host), number)


def connect_origin(target: str) -> Origin:
    """The origin of a CONNECT target: what is asked for is TLS to it.

    Raises:
        ``egress.request``: no port. HostRefused: not a host name (addresses included).
    """
    return _authority(target, "https", port_required=True)


def check_server_name(origin: Origin, hello: ClientHello) -> None:
    """Return if the ClientHello names the host that CONNECT named.

    Raises:
        ServerNameMissing: none, or hidden. ``egress.host_mismatch``, HostRefused: another.
    """
    if hello.hidden:
        raise ServerNameMissing(
            "the ClientHello hides its server name (ECH)", hint="Switch Encrypted Client Hello off"
        )
    if hello.server_name is None:
        raise ServerNameMissing("the ClientHello names no server", expected=origin.host)
    if canonical_host(hello.server_name) != origin.host:
        raise NotAllowedError(
            "SNI and CONNECT name different hosts",
            expected=origin.host,
            found=excerpt(hello.server_name),
            code="egress.host_mismatch",
        )


def proxied_target(head: RequestHead) -> tuple[Origin, str]:
    """Origin and canonical target of a request sent to the proxy itself.

    In absolute form, or in origin form for the one service that answers here by its ``Host``.

    Raises:
        ``egress.request``, ``egress.ambiguous``, ``egress.host_mismatch``, HostRefused, TargetRefused: they do not
            agree, or have no canonical form.
    """
    match = _ABSOLUTE.match(head.target)
    if match is None:
        origin = _authority(_host_header(head), "http")
        return origin, canonical_target(head.target)
    scheme, authority, target = match.groups()
    if scheme.lower() != "http":
        raise MalformedError(
            "only http is asked of a proxy in this form",
            hint="For https, open a tunnel with CONNECT",
            code="egress.request",
        )
    origin = _authority(authority, "http")
    _agree(origin, head)
    return origin, canonical_target(target or "/")


def inner_target(head: RequestHead, origin: Origin) -> str:
    """Canonical target of a request inside the tunnel to ``origin``, whose ``Host`` must name it (E9).

    Raises:
        ``egress.request``, ``egress.host_mismatch``, HostRefused, TargetRefused: as for :func:`proxied_target`.
    """
    if head.method == "CONNECT" or not head.target.startswith("/"):
        raise MalformedError(
            "not an origin-form target inside a tunnel", found=excerpt(head.target), code="egress.request"
        )
    _agree(origin, head)
    return canonical_target(head.target)


def _host_header(head: RequestHead) -> str:
    value = head.value(b"host")
    if value is None:
        raise MalformedError("no Host header", code="egress.request")
    return value.decode("ascii")


def _agree(origin: Origin, head: RequestHead) -> None:
    named = _authority(_host_header(head), origin.scheme)
    if named != origin:
        raise NotAllowedError(
            "Host names another origin than the request",
            expected=origin.authority,
            found=named.authority,
            code="egress.host_mismatch",
        )
