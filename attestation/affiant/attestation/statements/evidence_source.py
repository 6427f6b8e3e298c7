"""Defines what a program inside a TD may ask of its platform: its registers, an extension of RTMR3, a quote.

One narrow interface, so that a supervisor or a gateway does not know whether the TD is simulated or real. Nobody
who holds it can set a launch register, reach another TD or read a platform key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from affiant.attestation.tdx.event_log.eventlog import Event

__all__ = ["REGISTER_SIZE", "QuoteSource", "TDRegisters"]

REGISTER_SIZE: Final = 48
"""Bytes of MRTD, MRCONFIGID, MROWNER, MROWNERCONFIG and each RTMR (SHA-384)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TDRegisters:
    """The registers of one TD, as its own report shows them (Intel TDX module ABI, TDINFO).

    Args:
        td_attributes, xfam: 8 bytes each, little-endian.
        mrtd, mrconfigid, mrowner, mrownerconfig: 48 bytes each, fixed at launch.
        rtmrs: RTMR0 to RTMR3, 48 bytes each.
        td_id: 32 bytes that name this TD on its platform. No TDREPORT and no quote 1.0 or 1.5 has it: None, except
            on the simulated platform.
    """

    td_attributes: bytes
    xfam: bytes
    mrtd: bytes
    mrconfigid: bytes
    mrowner: bytes
    mrownerconfig: bytes
    rtmrs: tuple[bytes, bytes, bytes, bytes]
    td_id: bytes | None = None


class QuoteSource(Protocol):
    """The TD that the caller runs in."""

    def report(self) -> TDRegisters:
        """The registers now. Local only: nothing in it is signed, so it is no evidence for anybody else."""
        ...

    def extend(self, event: Event) -> None:
        """Extend RTMR3 by the digest of ``event``. The caller keeps the log, in the order of the calls."""
        ...

    def quote(self, report_data: bytes) -> bytes:
        """A quote over exactly 64 bytes of ``report_data``."""
        ...
