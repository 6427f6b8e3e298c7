"""Reads limits as people write them: ``500``, ``120/min``, ``2M/day``, ``50MiB``, ``2h``.

An amount is a whole number of 1 or more, in bytes with a unit; a window follows after a slash. There are no signs,
fractions, exponents or other units, and nothing is rounded or converted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from affiant.policy.canonical.errors import (
    EmptyList,
    PolicyConflict,
    ValueRefused,
    WrongType,
    did_you_mean,
    excerpt,
    located,
)
from affiant.policy.canonical.strict_yaml import ListNode, Node, ScalarNode
from affiant.policy.model.limits import WINDOWS, Bound, Bounds, EgressLimits, Limits, check_bounds
from affiant.policy.normal_form import schema

__all__ = ["SPELLED", "read_egress_limits", "read_limits", "read_max_tokens", "read_max_uses", "read_rate"]

_WINDOW: Final = "|".join(WINDOWS)
_COUNT: Final = r"[1-9][0-9]{0,14}"
_TOKENS: Final = r"[1-9][0-9]{0,8}[kM]|[1-9][0-9]{0,14}"
_BYTES: Final = r"[1-9][0-9]{0,8}(?:KiB|MiB|GiB|TiB)"

SPELLED: Final[Mapping[str, re.Pattern[str]]] = {
    "count": re.compile(rf"(?:{_COUNT})(?:/(?:{_WINDOW}))?\Z"),
    "tokens": re.compile(rf"(?:{_TOKENS})(?:/(?:{_WINDOW}))?\Z"),
    "bytes": re.compile(rf"(?:{_BYTES})(?:/(?:{_WINDOW}))?\Z"),
    "rate": re.compile(rf"(?:{_COUNT})/(?:{_WINDOW})\Z"),
    "most tokens": re.compile(rf"(?:{_TOKENS})\Z"),
    "most": re.compile(rf"(?:{_COUNT})\Z"),
    "time": re.compile(rf"[1-9][0-9]{{0,8}}(?:{_WINDOW})\Z"),
}
"""Every way to write a limit, by what it is of."""

_EXPECTED: Final[Mapping[str, str]] = {
    "count": "a whole number such as 500, or of a window such as 120/min",
    "tokens": "a whole number such as 5000, 200k or 2M, or of a window such as 2M/day",
    "bytes": "a size such as 50MiB, or of a window such as 5MiB/h",
    "rate": "a whole number of a window, such as 10/min",
    "most tokens": "a whole number such as 4096 or 8k",
    "most": "a whole number such as 200",
    "time": "a time such as 90s, 30min, 2h or 1day",
}
_FACTORS: Final = {
    "": 1, "k": 1000, "M": 1_000_000, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_UNITS: Final[Mapping[str, frozenset[str]]] = {
    "count": frozenset(),
    "rate": frozenset(),
    "most": frozenset(),
    "tokens": frozenset({"k", "M"}),
    "most tokens": frozenset({"k", "M"}),
    "bytes": frozenset({"KiB", "MiB", "GiB", "TiB"}),
    "time": frozenset(WINDOWS),
}
_MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    "s": ("sec", "second", "seconds"),
    "min": ("m", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "day": ("d", "days"),
    "k": ("K",),
    "M": ("m",),
    "KiB": ("KB", "kB", "K", "k", "kib"),
    "MiB": ("MB", "mB", "M", "mib"),
    "GiB": ("GB", "G", "gib"),
    "TiB": ("TB", "T", "tib"),
}
"""A unit -> what people write for it."""
_PARTS: Final = re.compile(r"([0-9]+)([A-Za-z]*)(?:/([A-Za-z]+))?\Z")


def read_limits(node: Node) -> Limits:
    """``limits`` of a profile or a baseline policy."""
    found = schema.keys(node, what="'limits'")
    _require_some(found, node, what="'limits'")
    return Limits(
        tool_calls=_bounds(found, "tool_calls", "count"),
        requests=_bounds(found, "requests", "count"),
        tokens=_bounds(found, "tokens", "tokens"),
        bytes_out=_bounds(found, "bytes_out", "bytes"),
        wall=_time(found["wall"]) if "wall" in found else None,
    )


def read_egress_limits(node: Node) -> EgressLimits:
    """``limits`` of an egress rule."""
    found = schema.keys(node, what="a rule's 'limits'")
    _require_some(found, node, what="a rule's 'limits'")
    return EgressLimits(_bounds(found, "requests", "count"), _bounds(found, "bytes_out", "bytes"))


def read_rate(node: Node) -> Bounds:
    """``rate`` of a tool."""
    return (_bound(node, "rate", what="'rate'"),)


def read_max_tokens(node: Node) -> int:
    """``max_tokens`` of a model."""
    return _bound(node, "most tokens", what="'max_tokens'").most


def read_at_most(node: Node) -> int:
    """``at_most`` of an agent that may be started."""
    return _bound(node, "most", what="'at_most'").most


def read_max_uses(node: Node) -> int:
    """``max_uses`` of a secret; what stands there is never shown, because it may be the secret."""
    return _bound(node, "most", what="'max_uses'", show=False).most


def _require_some(found: Mapping[str, Node], node: Node, *, what: str) -> None:
    if not found:
        raise WrongType(f"{what} names nothing", expected="a limit", where=str(node.mark))


def _bounds(found: Mapping[str, Node], name: str, kind: str) -> Bounds:
    """One limit, or a list of limits of different windows; nothing where the key is absent."""
    if name not in found:
        return ()
    node, what = found[name], f"'{name}'"
    entries = node.items if isinstance(node, ListNode) else (node,)
    if not entries:
        raise EmptyList(f"{what} is empty", where=str(node.mark), hint="Add an entry, or leave the key out")
    windows: dict[int | None, Bound] = {}
    for entry in entries:
        bound = _bound(entry, kind, what=what)
        if windows.setdefault(bound.per, bound) is not bound:
            raise PolicyConflict(f"one window appears twice in {what}", where=str(entry.mark))
    return tuple(windows.values())


def _bound(node: Node, kind: str, *, what: str, show: bool = True) -> Bound:
    text = _text(node, kind, what=what, show=show)
    match = _PARTS.match(text)
    assert match is not None, "every spelling has these parts"
    amount, unit, window = match.groups()
    bound = Bound(int(amount) * _FACTORS[unit], None if window is None else WINDOWS[window])
    with located(node.mark):
        check_bounds((bound,), what=what)
    return bound


def _time(node: Node) -> int:
    text = _text(node, "time", what="'wall'", show=True)
    match = _PARTS.match(text)
    assert match is not None, "every time has these parts"
    seconds = int(match[1]) * WINDOWS[match[2]]
    with located(node.mark):
        Limits(wall=seconds)
    return seconds


def _text(node: Node, kind: str, *, what: str, show: bool) -> str:
    """What stands there, if it is of its kind; a bare number is unquoted, as all numbers are."""
    if isinstance(node, ScalarNode) and (node.plain or not node.text.isdigit()):
        if SPELLED[kind].match(node.text):
            return node.text
        if show and re.fullmatch(r"0+[A-Za-z]*(/[a-z]+)?", node.text):
            raise ValueRefused(
                f"{what} is 0",
                expected=_EXPECTED[kind],
                where=str(node.mark),
                hint="To allow nothing, leave out the rule that allows it",
            )
    shown = excerpt(node.text) if show and isinstance(node, ScalarNode) and not node.empty else None
    raise WrongType(
        f"not a limit for {what}",
        expected=_EXPECTED[kind],
        found=shown,
        where=str(node.mark),
        hint=_hint(node, kind) if shown is not None else None,
    )


def _hint(node: Node, kind: str) -> str | None:
    """The unit or the window that may have been meant."""
    match = _PARTS.match(node.text) if isinstance(node, ScalarNode) else None
    if match is None:
        return None
    _, unit, window = match.groups()
    if window is not None and window not in WINDOWS:
        return _suggestion(window, WINDOWS)
    if unit and unit not in _UNITS[kind]:
        return _suggestion(unit, _UNITS[kind]) if _UNITS[kind] else f"A number here has no unit {unit!r}"
    return None


def _suggestion(word: str, units: Mapping[str, int] | frozenset[str]) -> str:
    meant = [unit for unit in units if word in _MEANT.get(unit, ())]
    return f"Did you mean {meant[0]!r}?" if meant else did_you_mean(word, units)
