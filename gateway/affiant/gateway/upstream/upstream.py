"""What an upstream is to the rest of the gateway: one request out, one answer in, exact bytes both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from affiant.attestation.schema.trace_context import TraceContext
from affiant.gateway.upstream.response_checks import UpstreamKeyRedaction

__all__ = ["Attempt", "Upstream", "UpstreamResponse"]


_NO_HEADERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at an upstream, as ``up`` in a receipt says it."""

    id: str
    host: str
    bind: str
    """``tls`` or ``none``: how its identity was known before the prompt was sent."""
    result: str
    """``ok``, or the stable code of what went wrong."""
    spki: str | None = None
    """``sha256:`` of the peer's SubjectPublicKeyInfo, where there was TLS."""

    def to_json(self) -> Mapping[str, object]:
        """An entry of ``up``."""
        members: dict[str, object] = {
            "id": self.id,
            "host": self.host,
            "bind": self.bind,
            "res": self.result,
        }
        return members if self.spki is None else {**members, "spki": self.spki}


class UpstreamResponse(Protocol):
    """An answer whose head has come. Either :meth:`read` it to its end or :meth:`abort` it."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """All headers; names in lower case."""
        ...

    def header(self, name: bytes) -> bytes | None:
        """One header's value; names in lower case. None if absent."""
        ...

    async def read(self) -> bytes:
        """The next bytes of the body as they came; ``b""`` once it is complete.

        Raises:
            UpstreamCut, ``upstream.idle_timeout``, ``upstream.total_timeout``, ``upstream.malformed``: it never
            will be.
        """
        ...

    def abort(self) -> None:
        """Read no further: the connection is closed, and a reader is refused."""
        ...


class Upstream(Protocol):
    """A place that answers chat completions."""

    @property
    def id(self) -> str:
        """Its id in the configuration."""
        ...

    @property
    def bind(self) -> str:
        """``attested``, ``tls`` or ``none``."""
        ...

    @property
    def concurrent(self) -> int:
        """How many requests it is asked at once."""
        ...

    @property
    def guard(self) -> UpstreamKeyRedaction:
        """Looks for the key that it is reached with in what it answers."""
        ...

    async def request(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        attempts: list[Attempt],
        accept: bytes,
        trace: TraceContext | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> UpstreamResponse:
        """Send ``body`` to ``path`` below the upstream's base, and wait for the head of the answer.

        Args:
            attempts: gets one entry for each attempt, whatever becomes of it.
            trace: the caller's, passed on as it came. headers: more of them, names in lower case.

        Raises:
            UpstreamCut, ``upstream.unreachable``, ``upstream.timeout``, ``upstream.head_timeout``,
            ``upstream.total_timeout``, ``upstream.malformed``: as named.
        """
        ...

    async def models(self) -> Sequence[str]:
        """The ids of the models that it lists; none if it has no such list.

        Raises:
            AffiantError: it does not answer, or not with a list.
        """
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...
