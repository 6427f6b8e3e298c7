"""A folder of test vectors, docs/formats/conformance.md, made of scenarios: for `affiant quote conformance`, and for
the author of any other verifier. Pure: bytes by path.

What only a reader's question refuses is, for a verifier that asks nothing, an authentic quote, and is in the
folder as one. Event logs are cases of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from fault_scenarios.evidence import Evidence
from fault_scenarios.files import LABEL, pem_of, to_json_bytes
from fault_scenarios.scenario import LAYOUT_NAMES, Accepted, Refused, Scenario

__all__ = ["ConformanceFolder", "case_of", "conformance_document"]


def case_of(
    scenario: Scenario, identifier: str, group: str, evidence: Evidence, *, files: Mapping[str, str]
) -> dict[str, object]:
    """The scenario as a case of schema 1; ``files`` names ``quote``, ``collateral`` and ``root``."""
    return {
        "id": identifier,
        "group": group,
        "description": scenario.description,
        "points": list(scenario.points),
        **files,
        "now": int(evidence.at.timestamp()),
        "expected": _expected(scenario.expected),
        "asked": scenario.expected.to_json(),
    }


def _expected(expected: Accepted | Refused) -> dict[str, object]:
    if isinstance(expected, Accepted):
        return expected.to_json()
    if expected.authentic is not None:
        return expected.authentic.to_json()
    return {"accepted": False, "reason": expected.code}


def conformance_document(
    cases: Iterable[Mapping[str, object]], event_logs: Iterable[Mapping[str, object]] = ()
) -> bytes:
    """``expected.json``."""
    return to_json_bytes(
        {
            "schema": 1,
            "simulated": True,
            "about": LABEL,
            "cases": list(cases),
            "eventlogs": list(event_logs),
        }
    )


@dataclass(slots=True)
class ConformanceFolder:
    """A folder in the making: files, cases and event logs, in the order in which evidence was added."""

    files: dict[str, bytes] = field(default_factory=dict)
    cases: list[dict[str, object]] = field(default_factory=list)
    event_logs: list[dict[str, object]] = field(default_factory=list)

    def add(self, scenario: Scenario, group: str, layout: QuoteLayout, evidence: Evidence) -> None:
        """One scenario in one layout."""
        layout_name = LAYOUT_NAMES[layout]
        names = {
            "quote": f"quotes/{scenario.name}.{layout_name}.bin",
            "collateral": self._shared("collateral", scenario.name, layout_name, "json", evidence.collateral),
            "root": self._shared("roots", scenario.name, layout_name, "pem", pem_of(evidence.root)),
        }
        self.files[names["quote"]] = evidence.quote
        case = case_of(scenario, f"{scenario.name}/{layout_name}", group, evidence, files=names)
        self.cases.append(case)
        if evidence.asked.event_log:
            log = f"eventlogs/{scenario.name}.{layout_name}.json"
            self.files[log] = evidence.event_log
            accepted = isinstance(scenario.expected, Accepted)
            self.event_logs.append({"file": log, "quote": names["quote"], "expected_accept": accepted})

    def _shared(self, kind: str, name: str, layout: str, ending: str, content: bytes) -> str:
        """One file for all cases with the same bytes under the honest name or the scenario's own."""
        for path in (f"{kind}/up-to-date.{ending}", f"{kind}/{name}.{ending}"):
            if self.files.get(path) == content:
                return path
        path = f"{kind}/{name}.{ending}"
        if path in self.files:
            path = f"{kind}/{name}.{layout}.{ending}"
        self.files[path] = content
        return path

    def to_files(self) -> Mapping[str, bytes]:
        """Everything, with ``expected.json`` and the label."""
        return {
            **self.files,
            "expected.json": conformance_document(self.cases, self.event_logs),
            "SIMULATED.txt": f"{LABEL}\n".encode("ascii"),
        }
