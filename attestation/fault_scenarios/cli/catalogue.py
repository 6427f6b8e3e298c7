"""All scenarios, by name, in the order of the checklist's parts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from fault_scenarios.errors import ScenarioUnknown
from fault_scenarios.scenario import Scenario
from fault_scenarios.scenarios import (
    dates,
    documents,
    enclave,
    event_logs,
    honest,
    issuers,
    levels,
    lists,
    pck_chain,
    pck_extension,
    policies,
    quote_bytes,
    references,
    td,
)

__all__ = ["CATALOGUE", "FAMILIES", "scenario_named"]

FAMILIES: Final[Mapping[str, tuple[Scenario, ...]]] = MappingProxyType(
    {
        "honest": honest.SCENARIOS,
        "quote": quote_bytes.SCENARIOS,
        "pck chain": pck_chain.SCENARIOS,
        "pck extension": pck_extension.SCENARIOS,
        "issuers": issuers.SCENARIOS,
        "revocation": lists.SCENARIOS,
        "documents": documents.SCENARIOS,
        "dates": dates.SCENARIOS,
        "quoting enclave": enclave.SCENARIOS,
        "levels": levels.SCENARIOS,
        "td": td.SCENARIOS,
        "references": references.SCENARIOS,
        "policies": policies.SCENARIOS,
        "event logs": event_logs.SCENARIOS,
    }
)
"""Family -> its scenarios."""


def _by_name() -> Mapping[str, Scenario]:
    named: dict[str, Scenario] = {}
    for scenarios in FAMILIES.values():
        for scenario in scenarios:
            if named.setdefault(scenario.name, scenario) is not scenario:
                raise ValueError(f"two scenarios are named {scenario.name}")
    return MappingProxyType(named)


CATALOGUE: Final = _by_name()
"""Name -> scenario."""


def scenario_named(name: str) -> Scenario:
    """The scenario with this name.

    Raises:
        ScenarioUnknown: there is none.
    """
    found = CATALOGUE.get(name)
    if found is None:
        raise ScenarioUnknown(
            "no such scenario", found=repr(name[:80]), hint="`affiant platform scenarios` lists them."
        )
    return found
