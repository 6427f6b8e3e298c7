"""Merges TCB statuses by the convergence table, which is data (points 32 to 34).

Source: Intel PCS API v4 (the seven statuses of TCB Info), Intel DCAP quote verification (convergence and TD
relaunch). Merging never improves a status, and Revoked always wins.

>>> converge(TCBStatus.CONFIGURATION_NEEDED, ComponentStatus.OUT_OF_DATE).value
'OutOfDateConfigurationNeeded'
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

__all__ = [
    "CONVERGENCE",
    "DOCUMENT_STATUSES",
    "SEVERITY",
    "ComponentStatus",
    "TCBStatus",
    "converge",
    "judge_relaunch",
]


class TCBStatus(Enum):
    """Status of a platform: seven that TCB Info may carry, and two that arise when a TD was launched before
    its module was updated."""

    UP_TO_DATE = "UpToDate"
    SW_HARDENING_NEEDED = "SWHardeningNeeded"
    CONFIGURATION_NEEDED = "ConfigurationNeeded"
    CONFIGURATION_AND_SW_HARDENING_NEEDED = "ConfigurationAndSWHardeningNeeded"
    TD_RELAUNCH_ADVISED = "TDRelaunchAdvised"
    TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED = "TDRelaunchAdvisedConfigurationNeeded"
    OUT_OF_DATE = "OutOfDate"
    OUT_OF_DATE_CONFIGURATION_NEEDED = "OutOfDateConfigurationNeeded"
    REVOKED = "Revoked"


class ComponentStatus(Enum):
    """Status of the TDX module or of the quoting enclave: three are legal, any other is malformed."""

    UP_TO_DATE = "UpToDate"
    OUT_OF_DATE = "OutOfDate"
    REVOKED = "Revoked"


DOCUMENT_STATUSES: Final = frozenset(TCBStatus) - {
    TCBStatus.TD_RELAUNCH_ADVISED,
    TCBStatus.TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED,
}
"""The seven that TCB Info may carry."""

SEVERITY: Final[Mapping[TCBStatus, int]] = {status: rank for rank, status in enumerate(TCBStatus)}
"""How bad a status is; the enumeration is in this order."""

_WHEN_OUT_OF_DATE: Final[Mapping[TCBStatus, TCBStatus]] = {
    TCBStatus.UP_TO_DATE: TCBStatus.OUT_OF_DATE,
    TCBStatus.SW_HARDENING_NEEDED: TCBStatus.OUT_OF_DATE,
    TCBStatus.CONFIGURATION_NEEDED: TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TCBStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED: TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TCBStatus.TD_RELAUNCH_ADVISED: TCBStatus.OUT_OF_DATE,
    TCBStatus.TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED: TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TCBStatus.OUT_OF_DATE: TCBStatus.OUT_OF_DATE,
    TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED: TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TCBStatus.REVOKED: TCBStatus.REVOKED,
}

CONVERGENCE: Final[Mapping[tuple[TCBStatus, ComponentStatus], TCBStatus]] = (
    {(status, ComponentStatus.UP_TO_DATE): status for status in TCBStatus}
    | {(status, ComponentStatus.OUT_OF_DATE): worse for status, worse in _WHEN_OUT_OF_DATE.items()}
    | {(status, ComponentStatus.REVOKED): TCBStatus.REVOKED for status in TCBStatus}
)
"""(platform, component) -> merged. Relaunching a TD repairs its module, not its quoting enclave: advice to
relaunch gives way to OutOfDate when the enclave is out of date."""

_OUT_OF_DATE: Final = frozenset((TCBStatus.OUT_OF_DATE, TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED))
_CONFIGURATION: Final = frozenset(
    (
        TCBStatus.CONFIGURATION_NEEDED,
        TCBStatus.CONFIGURATION_AND_SW_HARDENING_NEEDED,
        TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    )
)


def converge(platform: TCBStatus, component: ComponentStatus) -> TCBStatus:
    """34: the status of a platform with one component."""
    return CONVERGENCE[platform, component]


def judge_relaunch(launch: TCBStatus, current: TCBStatus) -> TCBStatus:
    """33: one status from those at the TD's launch and now, each already merged with its TDX module.

    Out of date at launch and not any more: relaunch is advised. Otherwise the worse one counts, so that a
    Revoked in either stays Revoked.
    """
    if launch in _OUT_OF_DATE and SEVERITY[current] < SEVERITY[TCBStatus.OUT_OF_DATE]:
        if launch in _CONFIGURATION or current in _CONFIGURATION:
            return TCBStatus.TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED
        return TCBStatus.TD_RELAUNCH_ADVISED
    return max(launch, current, key=SEVERITY.__getitem__)
