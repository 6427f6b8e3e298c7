"""Uses the TD that this program runs in through the kernel: registers, extensions of RTMR3, quotes.

The ``QuoteSource`` of TDX hardware, of three parts of the kernel's:

    report    /dev/tdx_guest            a TDREPORT over fresh random bytes, compared with sysfs where it shows registers
    extend    sysfs, rtmr3:sha384       logged first, and recovered after a crash
    quote     configfs-tsm              and the quote must be of this TD: the registers of its launch are those reported

A TDREPORT is what the TD learns about itself. It never leaves this module: what others get is a quote.

**Not yet run on TDX hardware.** It is tested against a fake kernel whose quotes the simulated platform signs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from affiant.attestation.quote.providers.base.checked_quote import REPORT_DATA_SIZE
from affiant.attestation.quote.providers.base.errors import RegisterMismatch, ResponseRefused
from affiant.attestation.quote.providers.kernel.configfs_tsm import ConfigfsTSM
from affiant.attestation.quote.providers.kernel.measurements import Measurements
from affiant.attestation.quote.providers.kernel.rtmr import LoggedRTMR
from affiant.attestation.quote.providers.kernel.tdx_device import TDXDevice
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.event_log.eventlog import Event, EventLog
from affiant.attestation.tdx.quote.quote import parse_quote

__all__ = ["RTMR3_LOG", "TDXGuest"]

RTMR3_LOG: Final = Path("/run/affiant/rtmr3.log")
"""The log of RTMR3 in a guest that runs a session; it ends with the boot."""

_ATTEMPTS: Final = 3
_LAUNCH: Final = ("td_attributes", "xfam", "mrtd", "mrconfigid", "mrowner", "mrownerconfig")
"""What a TD cannot change about itself."""


class TDXGuest:
    """This TD.

    Args:
        device: gives its TDREPORT. measurements: its registers in sysfs. tsm: its quotes. rtmr3: its one own register.
        random_bytes: for the report data of TDREPORTs, so that none can be an older one.
    """

    def __init__(
        self,
        *,
        device: TDXDevice,
        measurements: Measurements,
        tsm: ConfigfsTSM,
        rtmr3: LoggedRTMR,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._device = device
        self._measurements = measurements
        self._tsm = tsm
        self._rtmr3 = rtmr3
        self._random_bytes = random_bytes

    @classmethod
    def of_this_machine(cls, log: Path, *, random_bytes: Callable[[int], bytes]) -> Self:
        """The parts at their places in a Linux guest.

        Args:
            log: the file of RTMR3's log; it must end with the boot (:data:`RTMR3_LOG`).
        """
        return cls(
            device=TDXDevice(),
            measurements=Measurements(),
            tsm=ConfigfsTSM(random_bytes=random_bytes),
            rtmr3=LoggedRTMR(log),
            random_bytes=random_bytes,
        )

    def report(self) -> TDRegisters:
        """The registers now; ``td_id`` is None, because no report has it.

        Raises:
            ProviderAbsent, ProviderDenied, ProviderBusy, ResponseRefused: as ``TDXDevice.report``.
            RegisterMismatch: report and sysfs differ three times, which no extension in between explains.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(RegisterMismatch):  # RTMR3 may have been extended in between
                return self._registers()
        return self._registers()

    def _registers(self) -> TDRegisters:
        registers = self._device.report(self._random_bytes(REPORT_DATA_SIZE)).registers
        self._measurements.compare(registers)
        return registers

    def extend(self, event: Event) -> None:
        """Extend RTMR3 by the digest of ``event``. A log is kept here too: :meth:`event_log`.

        Raises:
            As ``LoggedRTMR.extend``.
        """
        self._rtmr3.extend(event)

    def event_log(self) -> EventLog:
        """What was extended into RTMR3, in order; it replays to the register.

        Raises:
            As ``LoggedRTMR.event_log``.
        """
        return self._rtmr3.event_log()

    def quote(self, report_data: bytes) -> bytes:
        """A quote of this TD over exactly 64 bytes of ``report_data``.

        Raises:
            As ``ConfigfsTSM.quote`` and :meth:`report`.
            ResponseRefused: a quote of another TD.
        """
        quote = self._tsm.quote(report_data)
        body, own = parse_quote(quote).body, self.report()
        for name in _LAUNCH:
            if getattr(body, name) != getattr(own, name):
                raise ResponseRefused(
                    f"configfs-tsm gave a quote of another TD: {name} differs",
                    expected=getattr(own, name).hex(),
                    found=getattr(body, name).hex(),
                )
        return quote
