"""Reads the caller's ``traceparent`` (W3C Trace Context, level 1, section 3.2), as far as a receipt repeats it.

Read strictly: one header, version 00, lower-case hexadecimal, neither id all zeros. Anything else is no trace and no
error: a request does not fail for what its tracing got wrong. What it says is the caller's own claim about itself, and
nothing here is decided by it.

>>> context = trace_of([b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])
>>> context.to_json()
{'t': '4bf92f3577b34da6a3ce929d0e0e4736', 's': '00f067aa0ba902b7'}
>>> trace_of([b"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"]) is None
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["TRACEPARENT", "TraceContext", "trace_of"]

TRACEPARENT: Final = b"traceparent"
"""The header's name in lower case."""
_FORM: Final = re.compile(rb"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A valid ``traceparent``; made by :func:`trace_of` alone. ``header``: its 55 bytes, as they were sent."""

    header: bytes

    @property
    def trace(self) -> str:
        """The trace id: 32 hexadecimal digits."""
        return self.header[3:35].decode("ascii")

    @property
    def span(self) -> str:
        """The id of the span that sent it (``parent-id``): 16 hexadecimal digits."""
        return self.header[36:52].decode("ascii")

    def to_json(self) -> Mapping[str, object]:
        """``{t, s}``: what ``trc`` holds."""
        return {"t": self.trace, "s": self.span}


def trace_of(values: Sequence[bytes]) -> TraceContext | None:
    """The context in the values of a request's ``traceparent`` headers, if there is one value and it is valid."""
    if len(values) != 1 or _FORM.fullmatch(values[0]) is None:
        return None
    return TraceContext(values[0])
