"""A scenario as data: what is wrong (or right, and easily refused), how to make it, and what must come of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from fault_scenarios.bench import Bench
from fault_scenarios.evidence import Evidence

__all__ = [
    "ALL_LAYOUTS",
    "LAYOUT_NAMES",
    "TD10",
    "TD15",
    "V4",
    "V5",
    "Accepted",
    "Change",
    "Refused",
    "Scenario",
]

Change = Callable[[Bench], Bench]

LAYOUT_NAMES: Final[Mapping[QuoteLayout, str]] = {
    QuoteLayout.V4: "v4",
    QuoteLayout.V5_TD10: "v5",
    QuoteLayout.V5_TD15: "v5-td15",
}
ALL_LAYOUTS: Final = tuple(QuoteLayout)
V4: Final = (QuoteLayout.V4,)
V5: Final = (QuoteLayout.V5_TD10, QuoteLayout.V5_TD15)
TD10: Final = (QuoteLayout.V4, QuoteLayout.V5_TD10)
TD15: Final = (QuoteLayout.V5_TD15,)

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")


@dataclass(frozen=True, slots=True)
class Accepted:
    """Verification holds, with exactly this merged TCB status and these advisories."""

    status: str = "UpToDate"
    advisories: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"accepted, {self.status}" + "".join(f" {name}" for name in sorted(self.advisories))

    def to_json(self) -> dict[str, object]:
        """The expectation for a JSON document."""
        return {"accepted": True, "status": self.status, "advisory_ids": sorted(self.advisories)}


@dataclass(frozen=True, slots=True)
class Refused:
    """An error with this code at this stage.

    ``authentic``: what verification gives where only what the reader *asks* refuses (reference values, a policy, an
    expected value, an event log, a memory). None: every verifier must refuse, whatever is asked.
    """

    code: str
    stage: Stage
    authentic: Accepted | None = None

    def __str__(self) -> str:
        return f"refused, {self.code} ({self.stage})"

    def to_json(self) -> dict[str, object]:
        """The expectation for a JSON document."""
        return {"accepted": False, "code": self.code, "stage": str(self.stage)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario.

    Args:
        name: kebab-case, stable.
        description: one sentence, what is wrong, or what is right though verifiers refuse it.
        points: of the checklist (``CHECKLIST``); 1 to 45, at least one.
        expected: what must come of it.
        change: what it does to a bench on which everything holds.
        layouts: to which quotes it applies.
    """

    name: str
    description: str
    points: tuple[int, ...]
    expected: Accepted | Refused
    change: Change = field(repr=False, compare=False)
    layouts: tuple[QuoteLayout, ...] = ALL_LAYOUTS

    def __post_init__(self) -> None:
        if _NAME.match(self.name) is None or not self.description.endswith("."):
            raise ValueError(f"scenario {self.name!r} has another form of name or description")
        if not self.points or not all(1 <= point <= 45 for point in self.points) or not self.layouts:
            raise ValueError(f"scenario {self.name!r} names no point or no layout")

    def make(self, platform: SimulatedPlatform, layout: QuoteLayout, now: datetime) -> Evidence:
        """The evidence of this scenario, made by ``platform`` (created at ``now``) in ``layout``.

        Raises:
            ValueError: the scenario does not exist in this layout.
        """
        if layout not in self.layouts:
            raise ValueError(f"scenario {self.name} does not exist in {LAYOUT_NAMES[layout]}")
        return self.change(Bench(platform=platform, layout=layout, now=now)).evidence()

    def to_json(self) -> dict[str, object]:
        """The entry in the listing."""
        return {
            "name": self.name,
            "description": self.description,
            "points": list(self.points),
            "layouts": [LAYOUT_NAMES[layout] for layout in self.layouts],
            "expected": self.expected.to_json(),
        }
