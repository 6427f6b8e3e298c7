"""What an independent record and a receipt can both say of one request, and where the two contradict each other.

A fact that one side does not state is not compared: nothing here is guessed. Times are milliseconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

__all__ = ["LENGTHS", "Authority", "Facts", "contradictions", "parse_authority", "same_lengths"]

_HOST: Final = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.?)+|\[[0-9a-f:.]{2,45}\]", re.ASCII)
_MAX_HOST: Final = 255


@dataclass(frozen=True, slots=True)
class Authority:
    """A host in lower case without a final dot; ``port`` None: not stated."""

    host: str
    port: int | None

    def contradicts(self, other: Authority) -> bool:
        """Whether both cannot be the same place."""
        if self.host != other.host:
            return True
        return None not in (self.port, other.port) and self.port != other.port

    def __str__(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


def parse_authority(text: str, *, default_port: int | None = None) -> Authority | None:
    """``host`` or ``host:port``; None: neither."""
    host, colon, port = text.lower().rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text.lower(), ""
    elif not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        return None
    if len(host) > _MAX_HOST or _HOST.fullmatch(host) is None:
        return None
    return Authority(host.rstrip("."), int(port) if port else default_port)


@dataclass(frozen=True, slots=True)
class Facts:
    """One request, as one side knows it. None: that side does not say."""

    method: str | None = None
    path: str | None = None
    """Request target in origin form, with its query."""
    status: int | None = None
    sent: int | None = None
    """Bytes of the request body that left, without framing and header."""
    received: int | None = None
    """Bytes of the response body, the same way."""
    model: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    trace: tuple[str, str] | None = None
    """Trace and span, 32 and 16 hexadecimal digits. Another trace contradicts; another span of the same does not."""


LENGTHS: Final = ("sent", "received", "tokens_in", "tokens_out")
"""Facts that distinguish requests of the same kind: what the rule ``lengths`` needs one of."""
_NAMES: Final = tuple(each.name for each in fields(Facts))


def contradictions(
    item: Facts, receipt: Facts, *, without: frozenset[str] = frozenset(), query_unknown: bool = False
) -> Iterator[str]:
    """The names of the facts that both state, and state differently.

    Args:
        without: facts that are not compared.
        query_unknown: the item's path never has a query, because its log cuts it off.
    """
    for name in _NAMES:
        if name in without:
            continue
        ours, theirs = getattr(item, name), getattr(receipt, name)
        if ours is None or theirs is None or ours == theirs:
            continue
        if name == "path" and query_unknown and theirs.partition("?")[0] == ours:
            continue
        if name == "trace" and theirs[0] == ours[0]:  # one span asked, another below or above it sent
            continue
        yield name


def same_lengths(item: Facts, receipt: Facts) -> bool:
    """Whether both state one of the lengths, and the same."""
    pairs = ((getattr(item, name), getattr(receipt, name)) for name in LENGTHS)
    return any(ours is not None and ours == theirs for ours, theirs in pairs)
