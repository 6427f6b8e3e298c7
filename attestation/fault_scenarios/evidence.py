"""Evidence as a verifier receives it, and what its reader asks: values, SIMULATED throughout."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Asked", "Evidence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a reader asks beside the fixed rules; by default nothing. As the options of `affiant quote verify`.

    Args:
        reference: an ``affiant-reference-values/1`` document. policy: an ``affiant-appraisal/1`` file; never both.
        mrconfigid: 48 bytes. report_data: 64 bytes. rtmr3: 48 bytes.
        event_log: whether the event log must replay to the registers.
    """

    reference: bytes | None = None
    policy: bytes | None = None
    mrconfigid: bytes | None = None
    report_data: bytes | None = None
    rtmr3: bytes | None = None
    event_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one scenario gives.

    Args:
        quote: the file's bytes.
        collateral: the file's bytes.
        root: the root that is trusted, a certificate in DER.
        at: the time of judgement, whole seconds in UTC.
        event_log: the file's bytes.
        seen: collateral that the reader has verified before, in the same form; None: nothing was remembered.
    """

    quote: bytes = field(repr=False)
    collateral: bytes = field(repr=False)
    root: bytes = field(repr=False)
    at: datetime
    event_log: bytes = field(repr=False)
    asked: Asked
    seen: bytes | None = field(default=None, repr=False)
