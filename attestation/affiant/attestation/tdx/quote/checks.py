"""Lists the checks of the TDX verifier as data: what was checked, and what was not.

A check that fails is an error, so a list never holds a failed one: it is held, or it was not made. Point
numbers are those of the checklist that the code's comments carry; the codes are stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["APPRAISAL_POINTS", "CHECKLIST", "Check", "CheckOutcome", "held", "held_as", "not_made"]


class CheckOutcome(StrEnum):
    """What became of one point of the checklist."""

    HELD = "held"
    NOT_MADE = "not_made"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of a verdict table."""

    point: int
    """Number in the checklist, 1 to 45."""
    code: str
    outcome: CheckOutcome
    detail: str
    """What held; for a check that was not made, why."""

    def to_json(self) -> Mapping[str, object]:
        """The row for a JSON document."""
        return {"point": self.point, "code": self.code, "outcome": str(self.outcome), "detail": self.detail}


CHECKLIST: Final[Mapping[int, tuple[str, str]]] = {
    1: ("quote.bounds", "every size is bounded before it is parsed"),
    2: ("quote.header", "version, key type, TEE type, vendor and body type are known ones"),
    3: ("quote.lengths", "the authentication data fills its lengths exactly"),
    4: ("quote.certification", "a PEM chain of two or three certificates and nothing else"),
    5: ("quote.curve", "public keys are on the curve, r and s in 1..n-1"),
    6: ("root.trusted", "the root is trusted by its public key"),
    7: ("pck.intermediate", "the PCK CA is Intel's Platform or Processor CA, signed by the root"),
    8: ("pck.leaf", "the PCK certificate is signed by that CA and has that role"),
    9: ("pck.path", "the chain is exactly leaf, intermediate, root"),
    10: ("pck.extension", "the SGX extension is present once, every member of its length"),
    11: ("crl.root", "the root's revocation list is authentic and in its window"),
    12: (
        "crl.pck",
        "the PCK CA's revocation list is that of this leaf's issuer, authentic and in its window",
    ),
    13: ("crl.revocation", "no certificate of any chain is revoked"),
    14: ("crl.present", "both revocation lists are there"),
    15: ("collateral.signature", "TCB Info and QE Identity are signed over their exact bytes"),
    16: ("collateral.issuer", "their signer is a TCB Signing certificate issued by the root"),
    17: ("collateral.signers", "the signer of each document was checked by itself"),
    18: ("collateral.strict", "no duplicate member, number or date out of range"),
    19: ("tcb.info", "TCB Info is TDX v3, in its window, for this FMSPC and PCEID"),
    20: ("qe.info", "QE Identity is TD_QE v2, in its window"),
    21: ("tcb.evaluation_number", "the lower evaluation number of both documents counts"),
    22: ("collateral.rollback", "no older collateral than was seen before"),
    23: ("qe.report_signature", "the PCK key signed the quoting enclave's report"),
    24: ("qe.binding", "the quoting enclave's report names the attestation key"),
    25: ("qe.identity", "the quoting enclave is the one that QE Identity describes, and not in debug mode"),
    26: ("qe.level", "the quoting enclave's TCB level is known"),
    27: ("quote.signature", "the attestation key signed header and body"),
    28: ("tdx_module.identity", "the TDX module's identity is listed"),
    29: ("tdx_module.signer", "MRSIGNERSEAM and SEAMATTRIBUTES are Intel's"),
    30: ("tdx_module.level", "the TDX module's TCB level is known"),
    31: ("tcb.level", "the highest TCB level that the platform reaches, component by component"),
    32: ("tcb.status", "every status is a legal one"),
    33: ("tcb.relaunch", "launch and current TDX module were both judged"),
    34: ("tcb.converged", "platform, module and quoting enclave status were merged to the worst"),
    35: ("tcb.advisories", "advisories of all matched levels were collected"),
    36: ("collateral.expiry", "the earliest expiry of all parts is known"),
    37: ("appraisal.tcb_status", "the merged status is an accepted one"),
    38: ("appraisal.td_attributes", "no debug, profiling, migration or reserved bit; SEPT_VE_DISABLE is set"),
    39: ("appraisal.xfam", "XFAM is within its fixed masks and as pinned"),
    40: ("appraisal.measurements", "MRTD, RTMR0-2 and MRCONFIGID are as pinned"),
    41: ("appraisal.report_data", "REPORTDATA is exactly the expected binding"),
    42: ("appraisal.pck_flags", "the platform's flags (dynamic, cached keys, SMT)"),
    43: ("appraisal.nonce", "the nonce in REPORTDATA is fresh and used once"),
    44: ("appraisal.event_log", "the event log replays to the registers and holds the permitted events"),
    45: ("appraisal.record", "the result names its inputs, its time and what it did not check"),
}
"""Point -> (stable code, what holding it means)."""

APPRAISAL_POINTS: Final = range(37, 45)
"""The points that compare with what was pinned; a verified quote leaves them open."""

_HELD: Final = {
    point: Check(point, code, CheckOutcome.HELD, detail) for point, (code, detail) in CHECKLIST.items()
}


def held(points: Iterable[int]) -> tuple[Check, ...]:
    """The rows for ``points``, which all held."""
    return tuple(_HELD[point] for point in points)


def held_as(point: int, detail: str) -> Check:
    """The row for a ``point`` that held, with what exactly held."""
    return Check(point, CHECKLIST[point][0], CheckOutcome.HELD, detail)


def not_made(point: int, reason: str) -> Check:
    """The row for a ``point`` that was not checked, and why."""
    return Check(point, CHECKLIST[point][0], CheckOutcome.NOT_MADE, reason)
