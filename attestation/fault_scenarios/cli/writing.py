"""What `affiant platform evidence` writes: one scenario's folder, or all of them as a conformance folder. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePath

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from fault_scenarios.cli.catalogue import FAMILIES, scenario_named
from fault_scenarios.cli.conformance_folder import (
    ConformanceFolder,
    case_of,
    conformance_document,
)
from fault_scenarios.errors import ScenarioUnknown
from fault_scenarios.evidence import Evidence
from fault_scenarios.files import LABEL, evidence_files, verify_command
from fault_scenarios.scenario import LAYOUT_NAMES, Scenario

__all__ = ["all_scenarios", "choose", "one_scenario"]

_MEMORY = "The reader must have verified seen/collateral.json before, and remember it."


def choose(name: str, layout: QuoteLayout | None) -> tuple[Scenario, QuoteLayout]:
    """The scenario with this name, and ``layout``, or else the first that it exists in.

    Raises:
        ScenarioUnknown: there is none, or not in that layout.
    """
    scenario = scenario_named(name)
    if layout is not None and layout not in scenario.layouts:
        raise ScenarioUnknown(
            f"scenario {name} does not exist in this layout",
            expected=" or ".join(LAYOUT_NAMES[known] for known in scenario.layouts),
            found=LAYOUT_NAMES[layout],
        )
    return scenario, layout or scenario.layouts[0]


def one_scenario(
    scenario: Scenario, layout: QuoteLayout, *, seed: bytes, at: datetime, folder: PurePath
) -> tuple[Evidence, Mapping[str, bytes]]:
    """The evidence, and the files of its ``folder``, which the command line in them names.

    Args:
        seed: 32 bytes. at: whole seconds, with its zone.
    """
    evidence = scenario.make(SimulatedPlatform.from_seed(seed, created=at), layout, at)
    named = {"quote": "quote.bin", "collateral": "collateral.json", "root": "root.pem"}
    case = case_of(scenario, scenario.name, "SIMULATED", evidence, files=named)
    logs = []
    if evidence.asked.event_log:
        accepted = scenario.expected.to_json()["accepted"]
        logs.append({"file": "eventlog.json", "quote": "quote.bin", "expected_accept": accepted})
    lines = [LABEL, "", scenario.description, "", verify_command(folder, evidence)]
    if evidence.seen is not None:
        lines.append(_MEMORY)
    files = {
        **evidence_files(evidence),
        "expected.json": conformance_document((case,), logs),
        "SIMULATED.txt": ("\n".join(lines) + "\n").encode("utf-8"),
    }
    return evidence, files


def all_scenarios(
    *, seed: bytes, at: datetime, layout: QuoteLayout | None
) -> tuple[ConformanceFolder, Mapping[str, bytes]]:
    """Every scenario in every layout that it exists in, or in ``layout`` alone; arguments as above."""
    platform = SimulatedPlatform.from_seed(seed, created=at)
    made = ConformanceFolder()
    for family, scenarios in FAMILIES.items():
        for scenario in scenarios:
            for each in scenario.layouts:
                if layout in (None, each):
                    made.add(scenario, family, each, scenario.make(platform, each, at))
    return made, made.to_files()
