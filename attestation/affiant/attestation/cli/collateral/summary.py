"""Summarises what collateral claims about itself (dates, numbers, digests), as JSON and as a table. Nothing is
verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.quote.collateral.wanted import Authority
from affiant.attestation.tdx.pki.certificates import Certificate, parse_chain
from affiant.attestation.tdx.pki.crl import RevocationList, parse_crl
from affiant.attestation.tdx.pki.pck import PCKCA
from affiant.attestation.tdx.pki.roots import EvidenceClass, evidence_class_of
from affiant.attestation.tdx.pki.times import Window
from affiant.attestation.tdx.tcb.collateral import ITEMS, Collateral
from affiant.attestation.tdx.tcb.qe_identity import QEIdentity, parse_qe_identity
from affiant.attestation.tdx.tcb.tcb_info import TCBInfo, parse_tcb_info
from affiant.attestation.verdict.lines import field, heading

__all__ = ["Summary", "summarize"]

_WIDTH: Final = 26
_LABELS: Final = {
    "tcb_info": "TCB Info",
    "tcb_info_issuer_chain": "TCB Info chain",
    "qe_identity": "QE Identity",
    "qe_identity_issuer_chain": "QE Identity chain",
    "root_ca_crl": "root CA CRL",
    "pck_crl": "PCK CRL",
    "pck_crl_issuer_chain": "PCK CRL chain",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """Collateral, parsed item by item. Made by :func:`summarize`."""

    collateral: Collateral
    tcb_info: TCBInfo
    qe_identity: QEIdentity
    root_crl: RevocationList
    pck_crl: RevocationList
    chains: Mapping[str, tuple[Certificate, ...]]

    @property
    def windows(self) -> tuple[Window, ...]:
        """Every dated part, each certificate once."""
        certificates = dict.fromkeys(cert for chain in self.chains.values() for cert in chain)
        lists = (self.root_crl.window, self.pck_crl.window)
        documents = (self.tcb_info.window, self.qe_identity.window)
        return (*documents, *lists, *(certificate.window for certificate in certificates))

    @property
    def authority(self) -> str:
        """``platform`` or ``processor``, as the PCK list's issuer calls itself; else its whole name."""
        name = self.chains["pck_crl_issuer_chain"][0].common_name
        known = {ca.value: str(Authority.of(ca)) for ca in PCKCA}
        return known.get(name, name)

    @property
    def root(self) -> Certificate:
        """The last certificate of the TCB Info chain: what the collateral calls its root."""
        return self.chains["tcb_info_issuer_chain"][-1]

    @property
    def simulated(self) -> bool:
        """Whether that is another key than Intel's; said of a claim, so that true is certain and false is not."""
        return evidence_class_of(self.root.spki) is EvidenceClass.SIMULATED

    def to_json(self) -> dict[str, object]:
        """Members of ``affiant-collateral-summary/1``."""
        first, last = self._bounds()
        return {
            "typ": "affiant-collateral-summary/1",
            "verified": False,
            "digest": self.collateral.digest,
            "fmspc": self.tcb_info.fmspc.hex(),
            "pceid": self.tcb_info.pceid.hex(),
            "authority": self.authority,
            "root": {
                "spki": "sha256:" + hashlib.sha256(self.root.spki).hexdigest(),
                "intel": not self.simulated,
            },
            "evaluation_number": {
                "tcb_info": self.tcb_info.evaluation_number,
                "qe_identity": self.qe_identity.evaluation_number,
                "lower": min(self.tcb_info.evaluation_number, self.qe_identity.evaluation_number),
            },
            "tcb_levels": len(self.tcb_info.levels),
            "tdx_modules": sorted(self.tcb_info.module_identities),
            "revoked": {
                "root_ca_crl": len(self.root_crl.revoked_serials),
                "pck_crl": len(self.pck_crl.revoked_serials),
            },
            "valid": {
                "from": _text(first),
                "from_part": first.part,
                "until": f"{last.not_after:%Y-%m-%dT%H:%M:%SZ}",
                "until_part": last.part,
            },
            "windows": [
                {
                    "part": window.part,
                    "from": _text(window),
                    "until": f"{window.not_after:%Y-%m-%dT%H:%M:%SZ}",
                }
                for window in self.windows
            ],
            "items": {
                name: {
                    "bytes": len(getattr(self.collateral, name)),
                    "digest": sha256_name(getattr(self.collateral, name)),
                }
                for name in ITEMS
            },
        }

    def _bounds(self) -> tuple[Window, Window]:
        """The window that begins last, and the one that ends first: between them everything holds."""
        return max(self.windows, key=lambda w: w.not_before), min(self.windows, key=lambda w: w.not_after)

    def lines(self) -> Iterator[str]:
        """The table."""
        first, last = self._bounds()
        simulated = "another key than Intel's: SIMULATED" if self.simulated else "Intel's key"
        yield "collateral, as it describes itself; nothing is verified here"
        yield field("platform", f"FMSPC {self.tcb_info.fmspc.hex()} ({self.authority} CA)", width=_WIDTH)
        yield field("root", simulated, width=_WIDTH)
        numbers = (self.tcb_info.evaluation_number, self.qe_identity.evaluation_number)
        differ = "" if numbers[0] == numbers[1] else f" (TCB Info {numbers[0]}, QE Identity {numbers[1]})"
        yield field("evaluation number", f"{min(numbers)}{differ}", width=_WIDTH)
        yield field("holds from", f"{_text(first)}  ({first.part})", width=_WIDTH)
        yield field("earliest expiry", f"{last.not_after:%Y-%m-%dT%H:%M:%SZ}  ({last.part})", width=_WIDTH)
        yield field("TCB levels", len(self.tcb_info.levels), width=_WIDTH)
        yield field("TDX modules", ", ".join(sorted(self.tcb_info.module_identities)), width=_WIDTH)
        revoked = f"{len(self.pck_crl.revoked_serials)} PCK, {len(self.root_crl.revoked_serials)} by the root"
        yield field("revoked certificates", revoked, width=_WIDTH)
        yield field("digest", self.collateral.digest, width=_WIDTH)
        yield from heading("WINDOWS")
        for window in self.windows:
            dates = f"{_text(window)} to {window.not_after:%Y-%m-%dT%H:%M:%SZ}"
            yield field(window.part, dates, width=_WIDTH + 16)
        yield from heading("ITEMS (SHA-256 of the exact bytes)")
        for name in ITEMS:
            yield field(_LABELS[name], sha256_name(getattr(self.collateral, name)), width=_WIDTH)


def summarize(collateral: Collateral) -> Summary:
    """Parse every item.

    Raises:
        AffiantError: an item cannot be read.
    """
    chains = ("tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_crl_issuer_chain")
    return Summary(
        collateral=collateral,
        tcb_info=parse_tcb_info(collateral.tcb_info),
        qe_identity=parse_qe_identity(collateral.qe_identity),
        root_crl=parse_crl(collateral.root_ca_crl, name="root CA CRL"),
        pck_crl=parse_crl(collateral.pck_crl, name="PCK CRL"),
        chains={name: parse_chain(getattr(collateral, name)) for name in chains},
    )


def _text(window: Window) -> str:
    return f"{window.not_before:%Y-%m-%dT%H:%M:%SZ}"
