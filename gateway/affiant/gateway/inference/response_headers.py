"""Headers that a response to a model request has beside its own: what the gateway removed from the request. Sans I/O.

``Affiant-Removed-Tools`` is a list of strings (RFC 9651, section 3.1): the names of tools that the request offered and
the profile does not allow. Names are the agent's own text, so other characters than printable ASCII are shown as ``?``.

>>> removed_tools_header(["rm", "a\\"b"])
((b'affiant-removed-tools', b'"rm", "a\\\\"b"'),)
>>> removed_tools_header([])
()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["removed_tools_header"]

_MOST: Final = 32
_LONGEST: Final = 64
"""Characters of one name."""


def removed_tools_header(names: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """The header, where something was removed; beyond 32 names the last one has how ``more`` there are."""
    if not names:
        return ()
    shown = ", ".join(map(_string, names[:_MOST]))
    more = f";more={len(names) - _MOST}" if len(names) > _MOST else ""
    return ((b"affiant-removed-tools", (shown + more).encode("ascii")),)


def _string(name: str) -> str:
    plain = "".join(char if " " <= char <= "~" else "?" for char in name[:_LONGEST])
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
