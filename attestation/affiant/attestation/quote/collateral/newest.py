"""Keeps the newest collateral seen of one FMSPC, which nothing older may replace (point 22).

Old documents stay valid for a month and revocation lists too, so that whoever answers in the service's place could
hide what was published since. Remembered are the evaluation number and the issue dates of TCB Info and QE Identity
(``CollateralMark``), and of both revocation lists; that of the PCK authority
for each authority by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.encoding.binary_text import from_hex
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.quote.collateral.wanted import Authority
from affiant.attestation.tdx.pki.times import parse_rfc3339_utc
from affiant.attestation.tdx.quote.errors import CollateralRollback
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
from affiant.attestation.tdx.tcb.rollback import CollateralMark, mark_of

__all__ = ["Newest", "newest_of", "parse_newest"]

_TYP = "affiant-collateral-newest/1"
_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Newest:
    """How new the newest parts are, each by itself."""

    mark: CollateralMark
    root_crl_issued: datetime
    pck_crl_issued: Mapping[Authority, datetime]

    def refuse_step_back(self, seen: Newest) -> None:
        """Refuse unless this is at least as new as ``seen`` in every part that both have.

        Raises:
            CollateralRollback: a part is older.
        """
        self.mark.refuse_step_back(seen.mark)
        parts = [("the root CA's revocation list", self.root_crl_issued, seen.root_crl_issued)]
        parts += [
            (f"the PCK revocation list ({authority} CA)", issued, seen.pck_crl_issued[authority])
            for authority, issued in self.pck_crl_issued.items()
            if authority in seen.pck_crl_issued
        ]
        for name, issued, known in parts:
            if issued < known:
                raise CollateralRollback(
                    f"{name} was issued before the newest one seen",
                    expected=f"from {known:%Y-%m-%dT%H:%M:%SZ} on",
                    found=f"{issued:%Y-%m-%dT%H:%M:%SZ}",
                )

    def advanced_by(self, other: Newest) -> Newest:
        """The newer of both in every part."""
        lists = dict(self.pck_crl_issued)
        for authority, issued in other.pck_crl_issued.items():
            lists[authority] = max(issued, lists.get(authority, issued))
        return Newest(
            self.mark.advanced_by(other.mark), max(self.root_crl_issued, other.root_crl_issued), lists
        )

    def to_bytes(self) -> bytes:
        """RFC 8785 JSON."""
        return canonical(
            {
                "typ": _TYP,
                "fmspc": self.mark.fmspc.hex(),
                "evaluation_number": self.mark.evaluation_number,
                "tcb_info": _text(self.mark.tcb_info_issued),
                "qe_identity": _text(self.mark.qe_identity_issued),
                "root_ca_crl": _text(self.root_crl_issued),
                "pck_crl": {
                    str(authority): _text(issued) for authority, issued in self.pck_crl_issued.items()
                },
            }
        )


def newest_of(verified: VerifiedCollateral) -> Newest:
    """How new ``verified`` is."""
    return Newest(
        mark=mark_of(verified),
        root_crl_issued=verified.root_crl.this_update,
        pck_crl_issued={Authority.of(verified.pck_ca): verified.pck_crl.this_update},
    )


def parse_newest(data: bytes) -> Newest:
    """What :meth:`Newest.to_bytes` wrote.

    Raises:
        MalformedError: not canonical JSON, or hexadecimal of another form.
        ValueError: another form, or no time.
    """
    match parse_object(data, limit=_LIMIT):
        case {
            "typ": str() as typ,
            "fmspc": str() as fmspc,
            "evaluation_number": int() as number,
            "tcb_info": tcb_info,
            "qe_identity": qe_identity,
            "root_ca_crl": root_crl,
            "pck_crl": dict() as lists,
            **rest,
        } if typ == _TYP and not rest and number >= 0:
            return Newest(
                CollateralMark(
                    from_hex(fmspc, size=6),
                    number,
                    parse_rfc3339_utc(tcb_info),
                    parse_rfc3339_utc(qe_identity),
                ),
                parse_rfc3339_utc(root_crl),
                {Authority(name): parse_rfc3339_utc(issued) for name, issued in lists.items()},
            )
        case _:
            raise ValueError("another form")


def _text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
