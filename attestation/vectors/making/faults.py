"""Faults: what a case makes wrong, and where. A story passes each value through the point that it is made at.

A point is text such as ``payload:inference`` (what is signed), ``sent:inference`` (the text in the bundle, after
everything was signed over the true one), ``document:manifest``, ``body:gateway``. A fault that no point asked for is
an error, so that no case is quietly a valid one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Fault", "Faults", "put", "take"]

Fault = Callable[[Any], Any]


class Faults:
    """The faults of one case."""

    def __init__(self, faults: Mapping[str, Fault] | None = None) -> None:
        self._faults = dict(faults or {})
        self._met: set[str] = set()

    def through(self, point: str, value: Any) -> Any:
        """``value``, or what the fault at ``point`` makes of it."""
        fault = self._faults.get(point)
        if fault is None:
            return value
        self._met.add(point)
        return fault(value)

    def has(self, point: str) -> bool:
        """Whether there is a fault at ``point``; counts as met."""
        self._met.add(point)
        return point in self._faults

    def unmet(self) -> list[str]:
        """Points that nobody asked for."""
        return sorted(set(self._faults) - self._met)


def put(**members: Any) -> Fault:
    """Members set anew; ``a__b`` reaches into ``a``."""

    def fault(value: dict[str, Any]) -> dict[str, Any]:
        for path, new in members.items():
            *outer, last = path.split("__")
            inner = value
            for name in outer:
                inner = inner[name]
            inner[last] = new
        return value

    return fault


def take(*names: str) -> Fault:
    """Members left out."""

    def fault(value: dict[str, Any]) -> dict[str, Any]:
        return {name: item for name, item in value.items() if name not in names}

    return fault
