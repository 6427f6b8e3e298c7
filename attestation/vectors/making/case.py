"""One case: how its bundle comes to be, how it is judged, and what must be found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vectors.making.platform import Platform
from vectors.making.scripts import session
from vectors.making.story import Story

__all__ = ["AT", "TRUST", "Case", "told"]

AT = "2026-11-21T12:30:00Z"
"""When every case is judged that does not say otherwise."""
TRUST = "trust.json"

Script = Callable[[Story], None]


@dataclass(frozen=True)
class Case:
    """One case.

    Args:
        about: what is wrong, or what is shown, in a sentence.
        make: the bundle, as a JSON value; as bytes, where no JSON value can be it.
        base: the valid case that this one departs from; None: it is valid itself.
        stored_from: of a valid case: the one that its file is a patch of, where that is much smaller.
        refused: row -> reason code.
        not_made: rows for which the bundle lacks something.
        warnings: of a valid case: rows that hold with a warning.
        request, response: bodies that are given to the verifier.
    """

    id: str
    about: str
    make: Callable[[], dict[str, Any] | bytes]
    base: str | None = None
    stored_from: str | None = field(default=None, kw_only=True)
    refused: Mapping[str, str] = field(default_factory=dict)
    not_made: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    trust: str = TRUST
    attested: bool = True
    at: str = AT
    request: bytes | None = None
    response: bytes | None = None


def told(
    faults: Mapping[str, Any] | None = None,
    script: Script = session,
    *,
    platform: Platform | None = None,
    logged: bool = True,
    disclosed: bool = True,
) -> Callable[[], dict[str, Any]]:
    """A bundle of the story that ``script`` tells, with these faults."""

    def make() -> dict[str, Any]:
        story = Story(faults, platform=platform)
        script(story)
        return story.bundle(logged=logged, disclosed=disclosed)

    return make
