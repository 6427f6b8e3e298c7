"""One platform and one instant for all scenarios: nothing here can rot."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.release_of_files import release_of

from affiant.__main__ import cli
from affiant.attestation.release import manifest as release
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from fault_scenarios.bench import Bench
from fault_scenarios.evidence import Evidence
from fault_scenarios.scenario import Scenario

AT = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
SEED = bytes(range(32))
PLATFORM = SimulatedPlatform.from_seed(SEED, created=AT)


@cache
def evidence_of(scenario: Scenario, layout: QuoteLayout | None = None) -> Evidence:
    return scenario.make(PLATFORM, layout or scenario.layouts[0], AT)


def bench(layout: QuoteLayout = QuoteLayout.V4) -> Bench:
    return Bench(platform=PLATFORM, layout=layout, now=AT)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This build's manifest, without writing into the source tree."""
    path = tmp_path / "release.json"
    path.write_bytes(release_of(release.measure_files()).to_bytes())
    monkeypatch.setattr(release, "_manifest_file", lambda: path)
