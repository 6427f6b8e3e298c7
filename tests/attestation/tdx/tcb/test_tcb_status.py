"""The convergence table, cell by cell, and that merging never improves anything."""

from __future__ import annotations

import itertools

import pytest

from affiant.attestation.tdx.tcb.tcb_status import (
    CONVERGENCE,
    DOCUMENT_STATUSES,
    SEVERITY,
    ComponentStatus,
    TCBStatus,
    converge,
    judge_relaunch,
)

TABLE = """
UpToDate                          | UpToDate                          | OutOfDate                    | Revoked
SWHardeningNeeded                 | SWHardeningNeeded                 | OutOfDate                    | Revoked
ConfigurationNeeded               | ConfigurationNeeded               | OutOfDateConfigurationNeeded | Revoked
ConfigurationAndSWHardeningNeeded | ConfigurationAndSWHardeningNeeded | OutOfDateConfigurationNeeded | Revoked
OutOfDate                         | OutOfDate                         | OutOfDate                    | Revoked
OutOfDateConfigurationNeeded      | OutOfDateConfigurationNeeded      | OutOfDateConfigurationNeeded | Revoked
Revoked                           | Revoked                           | Revoked                      | Revoked
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_of_the_published_table(row: list[str]) -> None:
    platform, *merged = row
    assert [converge(TCBStatus(platform), component).value for component in ComponentStatus] == merged


def test_the_table_has_every_cell() -> None:
    assert len(CONVERGENCE) == len(TCBStatus) * len(ComponentStatus)
    assert {TCBStatus(row[0]) for row in ROWS} == DOCUMENT_STATUSES


def test_merging_never_improves_a_status() -> None:
    for (platform, component), merged in CONVERGENCE.items():
        assert SEVERITY[merged] >= SEVERITY[platform]
        assert SEVERITY[merged] >= SEVERITY[TCBStatus(component.value)]


def test_the_order_of_merging_does_not_matter() -> None:
    for platform, one, two in itertools.product(TCBStatus, ComponentStatus, ComponentStatus):
        assert converge(converge(platform, one), two) is converge(converge(platform, two), one)


def test_relaunch_is_advised_only_when_it_helps() -> None:
    advised = {
        (launch, current)
        for launch, current in itertools.product(DOCUMENT_STATUSES, DOCUMENT_STATUSES)
        if judge_relaunch(launch, current).value.startswith("TDRelaunchAdvised")
    }
    old = {TCBStatus.OUT_OF_DATE, TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED}
    assert advised == set(itertools.product(old, DOCUMENT_STATUSES - old - {TCBStatus.REVOKED}))


def test_relaunch_never_hides_a_configuration_need_or_a_revocation() -> None:
    for launch, current in itertools.product(DOCUMENT_STATUSES, DOCUMENT_STATUSES):
        merged = judge_relaunch(launch, current)
        if TCBStatus.REVOKED in (launch, current):
            assert merged is TCBStatus.REVOKED
        if merged is TCBStatus.TD_RELAUNCH_ADVISED:
            assert "Configuration" not in launch.value + current.value
        assert merged is not TCBStatus.UP_TO_DATE or launch is current is TCBStatus.UP_TO_DATE
