"""The bench on which evidence is made: everything that a scenario may change, with values under which all holds.

A bench is a value; a scenario is a function from one bench to another. What is signed is changed before it is
signed (the platform, the TD, the frame), so that a fault fails at its own check; what is not signed is changed in
the parts, in the raw bytes, or in the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeVar

from cryptography.hazmat.primitives.serialization import Encoding

from affiant.attestation.release.boot import Image, boot_log
from affiant.attestation.release.manifest import Release, build_release
from affiant.attestation.release.platform_identity import TD_ATTRIBUTES, XFAM
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteFrame, QuoteLayout, QuoteParts
from affiant.attestation.simulated.platform.registers import extend
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.tcb.collateral import Collateral
from fault_scenarios.collateral_json import collateral_json
from fault_scenarios.evidence import Asked, Evidence

__all__ = ["IMAGE", "MRCONFIGID", "RELEASE", "REPORT_DATA", "Bench", "same"]

_T = TypeVar("_T")

RELEASE: Final[Release] = build_release([("SIMULATED", "00" * 32)], {image: ["SIMULATED"] for image in Image})
"""What the TDs of scenarios are said to run. No file is measured: the evidence is the same on every machine."""
IMAGE: Final = Image.GATEWAY
"""A gateway's TD: RTMR3 is empty unless a scenario extends it."""
MRCONFIGID: Final = hashlib.sha384(b"affiant SIMULATED MRCONFIGID").digest()
REPORT_DATA: Final = hashlib.sha512(b"affiant SIMULATED REPORTDATA").digest()


def same(value: _T) -> _T:
    """``value``, unchanged."""
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One bench.

    Args:
        platform: makes the quote. authority: makes the collateral; None: the platform does.
        now: when everything is issued. later: how much later it is judged. remembered: how much earlier than what
            the reader remembers the collateral was issued; None: the reader remembers nothing. newer: whose
            collateral the reader remembers; None: the authority's.
        trusted: whose root is trusted; None: the collateral's.
        mrtd, mrconfigid, report_data, td_attributes, xfam: of the TD. mrservicetd, current_tee_tcb_svn: of body 1.5.
        extensions: digests (48 bytes each) that were extended into RTMR3. event_log: the log that comes with it.
        frame, rebody: header, frame and body before they are signed. reshape: the quote's parts afterwards.
        recut: the quote's bytes.
        repack: the collateral's items as issued. refile: the bytes of its file.
    """

    platform: SimulatedPlatform
    layout: QuoteLayout
    now: datetime
    authority: SimulatedPlatform | None = None
    later: timedelta = timedelta()
    remembered: timedelta | None = None
    newer: SimulatedPlatform | None = None
    trusted: SimulatedPlatform | None = None
    mrtd: bytes = RELEASE.images[IMAGE].mrtd
    mrconfigid: bytes = MRCONFIGID
    report_data: bytes = REPORT_DATA
    td_attributes: bytes = TD_ATTRIBUTES
    xfam: bytes = XFAM
    mrservicetd: bytes = bytes(48)
    current_tee_tcb_svn: bytes | None = None
    extensions: tuple[bytes, ...] = ()
    event_log: bytes = field(default=boot_log(IMAGE), repr=False)
    frame: QuoteFrame = field(default_factory=QuoteFrame)
    rebody: Callable[[bytes], bytes] = same
    reshape: Callable[[QuoteParts], QuoteParts] = same
    recut: Callable[[bytes], bytes] = same
    repack: Callable[[Collateral], Collateral] = same
    refile: Callable[[bytes], bytes] = same
    asked: Asked = field(default_factory=Asked)

    def registers(self) -> TDRegisters:
        """Of the TD at the moment of the quote."""
        registers = self.platform.launch(
            IMAGE,
            mrconfigid=self.mrconfigid,
            mrtd=self.mrtd,
            td_id=bytes(32),
            td_attributes=self.td_attributes,
            xfam=self.xfam,
        )
        for digest in self.extensions:
            registers = extend(registers, 3, digest)
        return registers

    def parts(self) -> QuoteParts:
        """The quote before its bytes are joined, as signed."""
        body = self.platform.report_body(
            self.registers(),
            self.report_data,
            layout=self.layout,
            current_tee_tcb_svn=self.current_tee_tcb_svn,
            mrservicetd=self.mrservicetd,
        )
        return self.platform.quote_parts(self.rebody(body), self.layout, self.frame)

    def issued(self, *, earlier: timedelta = timedelta()) -> Collateral:
        """The collateral as its authority issues it, so much before ``now``."""
        return (self.authority or self.platform).collateral(self.now - earlier)

    def _remembered(self) -> Collateral:
        return self.issued() if self.newer is None else self.newer.collateral(self.now)

    def evidence(self) -> Evidence:
        """What a verifier receives."""
        trusted = self.trusted or self.authority or self.platform
        collateral = self.repack(self.issued(earlier=self.remembered or timedelta()))
        return Evidence(
            quote=self.recut(self.reshape(self.parts()).to_bytes()),
            collateral=self.refile(collateral_json(collateral)),
            root=trusted.certificates.root.public_bytes(Encoding.DER),
            at=(self.now + self.later).replace(microsecond=0),
            event_log=self.event_log,
            asked=self.asked,
            seen=None if self.remembered is None else collateral_json(self._remembered()),
        )
