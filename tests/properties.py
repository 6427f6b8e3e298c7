"""How much a test tries: everything by default, a part with ``--hypothesis-profile=quick`` (``make test``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from hypothesis import settings

K = TypeVar("K")
V = TypeVar("V")

settings.register_profile("full", deadline=None)
settings.register_profile("quick", max_examples=15, deadline=None)
settings.load_profile("full")
_QUICK: Final = settings.get_profile("quick")


def thorough(examples: int = 100, *, quick: int = _QUICK.max_examples, **more: Any) -> settings:
    """``examples`` of them in the full profile, at most ``quick`` in the quick one; never a deadline."""
    return settings(max_examples=tried(examples, quick=quick), deadline=None, **more)


def tried(examples: int, *, quick: int) -> int:
    """How many cases a loop of its own tries: ``examples``, or at most ``quick`` in the quick profile."""
    return min(examples, quick) if settings.default is _QUICK else examples


def one_of_each(cases: Mapping[K, V], kind: Callable[[K, V], object]) -> dict[K, V]:
    """All the cases; in the quick profile the first of each ``kind``."""
    if settings.default is not _QUICK:
        return dict(cases)
    found: dict[object, tuple[K, V]] = {}
    for name, case in cases.items():
        found.setdefault(kind(name, case), (name, case))
    return dict(found.values())
