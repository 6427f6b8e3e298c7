"""Keeps the running platform: which TDs exist, what each one's registers hold, and which collateral is current.

State, but no sockets: ``server`` brings the packets. Clock, randomness and the measurement of the installed
files are arguments. A TD is the object that its socket's handler holds; nothing looks a TD up by name, so no
request can reach another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, assert_never

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.release.boot import Image, boot_log
from affiant.attestation.release.memory import LaunchedImage
from affiant.attestation.simulated.platform.errors import PlatformFullError
from affiant.attestation.simulated.platform.platform import (
    IssuedCollateral,
    SimulatedPlatform,
    current_collateral,
)
from affiant.attestation.simulated.platform.registers import extend
from affiant.attestation.simulated.served.messages import (
    CreateTD,
    Extend,
    GetBootLog,
    GetCollateral,
    GetRoot,
    GetStatus,
    Memory,
    Quote,
    Report,
    TDRequest,
    registers_to_json,
)
from affiant.attestation.statements.evidence_source import TDRegisters

__all__ = ["MAX_TDS", "HostedTD", "PlatformHost"]

MAX_TDS: Final = 128
"""TDs at one time; a development machine runs a handful."""


class HostedTD:
    """One TD: its registers, and the platform that quotes them."""

    __slots__ = ("_platform", "_registers", "memory")

    def __init__(self, platform: SimulatedPlatform, registers: TDRegisters, memory: bytes) -> None:
        self._platform = platform
        self._registers = registers
        self.memory = memory
        """What it was launched with, as measured into MRTD."""

    @property
    def registers(self) -> TDRegisters:
        """The registers now."""
        return self._registers

    def answer(self, request: TDRequest) -> Mapping[str, object]:
        """The reply's members.

        Raises:
            RegisterError: an extension of another register than RTMR3.
        """
        match request:
            case Report():
                return registers_to_json(self._registers)
            case Extend(rtmr, digest):
                self._registers = extend(self._registers, rtmr, digest)
                return {}
            case Quote(report_data):
                return {"quote": b64u(self._platform.quote(self._registers, report_data))}
            case Memory():
                return {"size": len(self.memory)}
            case _:
                assert_never(request)


class PlatformHost:
    """The platform's own socket: launches TDs and tells what is public.

    Args:
        measure: what a TD of an image is launched with, of what is installed at this moment; called at each launch.
        clock: the time now, in UTC.
        random_bytes: for TD ids.
        max_tds: TDs at one time.
        sessions_on: the machine that session TDs run on, if it is another one than the gateways'.
    """

    def __init__(
        self,
        platform: SimulatedPlatform,
        *,
        measure: Callable[[Image], LaunchedImage],
        clock: Callable[[], datetime],
        random_bytes: Callable[[int], bytes],
        max_tds: int = MAX_TDS,
        sessions_on: SimulatedPlatform | None = None,
    ) -> None:
        self._platform = platform
        self._sessions_on = sessions_on or platform
        self._measure = measure
        self._clock = clock
        self._random_bytes = random_bytes
        self._max_tds = max_tds
        self._tds = 0
        self._collateral: IssuedCollateral | None = None

    def create_td(self, request: CreateTD) -> HostedTD:
        """Launch a TD. It counts until :meth:`end_td`.

        Raises:
            PlatformFullError: as many TDs as there may be.
            InstalledFileError: what is installed cannot be measured.
        """
        if self._tds >= self._max_tds:
            raise PlatformFullError(
                "the platform has its largest number of TDs", expected=f"at most {self._max_tds}"
            )
        launched = self._measure(request.image)
        machine = self._sessions_on if request.image is Image.SESSION else self._platform
        registers = machine.launch(
            request.image,
            mrconfigid=request.mrconfigid,
            mrtd=launched.mrtd,
            td_id=self._random_bytes(32),
        )
        self._tds += 1
        return HostedTD(machine, registers, launched.memory)

    def end_td(self) -> None:
        """One TD is gone."""
        self._tds -= 1

    def answer(self, request: GetCollateral | GetRoot | GetBootLog | GetStatus) -> Mapping[str, object]:
        """The reply's members."""
        match request:
            case GetCollateral():
                self._collateral = current_collateral(self._platform, self._collateral, now=self._clock())
                return {"collateral": parse_object(self._collateral.collateral.to_bytes())}
            case GetRoot():
                return {"spki": b64u(self._platform.root_spki())}
            case GetBootLog(image):
                return {"log": b64u(boot_log(image))}
            case GetStatus():
                return {"tds": self._tds, "tds_max": self._max_tds}
            case _:
                assert_never(request)
