"""How much a test tries: everything by default, a part with ``--hypothesis-profile=quick`` (``make test``)."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import settings

settings.register_profile("full", deadline=None)
settings.register_profile("quick", max_examples=20, deadline=None)
settings.load_profile("full")
_QUICK: Final = settings.get_profile("quick")


def thorough(examples: int = 100, *, quick: int = _QUICK.max_examples, **more: Any) -> settings:
    """``examples`` of them in the full profile, at most ``quick`` in the quick one; never a deadline."""
    return settings(max_examples=tried(examples, quick=quick), deadline=None, **more)


def tried(examples: int, *, quick: int) -> int:
    """How many cases a loop of its own tries: ``examples``, or at most ``quick`` in the quick profile."""
    return min(examples, quick) if settings.default is _QUICK else examples
