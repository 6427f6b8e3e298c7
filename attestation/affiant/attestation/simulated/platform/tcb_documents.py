"""Writes TCB Info v3 and QE Identity v2 as the simulated platform publishes them, signed over their exact bytes.

Source: Intel PCS API v4, "Get TDX TCB Info" and "Get TDX QE Identity". The body is one object of two members,
the document and ``signature`` (64 bytes r || s as hex); the signature covers the document's text as it is in
the body. Contents are plain values: whoever wants another level, status or signer replaces a field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.release.platform_identity import (
    EVALUATION_NUMBER,
    MachineIdentity,
    ModuleIdentity,
    QuotingEnclave,
)
from affiant.attestation.simulated.platform.keys import sign_raw

__all__ = [
    "ModuleRecord",
    "PlatformLevel",
    "QEIdentity",
    "SVNLevel",
    "TCBInfo",
    "Wording",
    "default_qe_identity",
    "default_tcb_info",
    "sign_document",
]

_TCB_DATE: Final = datetime(2026, 1, 1, tzinfo=UTC)
_NO_MEMBERS: Final[Mapping[str, object]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How a document's text departs from its content. The text is signed afterwards, as it then stands.

    Args:
        members: values in place of the document's own, or beside them.
        without: members that are left out.
        inserted: text before the closing brace, as it is: what no JSON writer would write.
    """

    members: Mapping[str, object] = field(default_factory=lambda: _NO_MEMBERS)
    without: frozenset[str] = frozenset()
    inserted: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformLevel:
    """One of ``tcbLevels``: 16 SGX component SVNs, PCESVN, 16 TDX component SVNs, and what that is worth."""

    sgx_components: tuple[int, ...]
    pce_svn: int
    tdx_components: tuple[int, ...]
    status: str = "UpToDate"
    date: datetime = _TCB_DATE
    advisories: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The level as PCS writes it."""
        tcb = {
            "sgxtcbcomponents": [{"svn": svn} for svn in self.sgx_components],
            "pcesvn": self.pce_svn,
            "tdxtcbcomponents": [{"svn": svn} for svn in self.tdx_components],
        }
        return {"tcb": tcb, **_worth(self.status, self.date, self.advisories)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SVNLevel:
    """A level of the TDX module or the QE: one SVN, and what that is worth."""

    isv_svn: int
    status: str = "UpToDate"
    date: datetime = _TCB_DATE
    advisories: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The level as PCS writes it."""
        return {"tcb": {"isvsvn": self.isv_svn}, **_worth(self.status, self.date, self.advisories)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """One of ``tdxModuleIdentities``; ``identifier`` is ``TDX_`` and the major version in two hex digits."""

    identifier: str
    mrsigner: bytes = bytes(48)
    attributes: bytes = bytes(8)
    attributes_mask: bytes = b"\xff" * 8
    levels: tuple[SVNLevel, ...]

    def to_json(self) -> dict[str, object]:
        """The identity as PCS writes it."""
        return {
            "id": self.identifier,
            "mrsigner": self.mrsigner.hex(),
            "attributes": self.attributes.hex(),
            "attributesMask": self.attributes_mask.hex().upper(),
            "tcbLevels": [level.to_json() for level in self.levels],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TCBInfo:
    """The content of TCB Info v3, without its dates, which every issue sets anew."""

    fmspc: bytes
    pce_id: bytes
    evaluation_number: int = EVALUATION_NUMBER
    identifier: str = "TDX"
    modules: tuple[ModuleRecord, ...]
    levels: tuple[PlatformLevel, ...]
    wording: Wording = Wording()

    def to_bytes(self, *, issued: datetime, next_update: datetime) -> bytes:
        """The exact text that is signed."""
        base = {"mrsigner": bytes(48).hex(), "attributes": bytes(8).hex(), "attributesMask": "FF" * 8}
        return _text(
            {
                "id": self.identifier,
                "version": 3,
                **_dates(issued, next_update),
                "fmspc": self.fmspc.hex(),
                "pceId": self.pce_id.hex(),
                "tcbType": 0,
                "tcbEvaluationDataNumber": self.evaluation_number,
                "tdxModule": base,
                "tdxModuleIdentities": [module.to_json() for module in self.modules],
                "tcbLevels": [level.to_json() for level in self.levels],
            },
            self.wording,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QEIdentity:
    """The content of QE Identity v2, without its dates. Lengths as in :class:`~.identity.QuotingEnclave`."""

    mrsigner: bytes
    isv_prod_id: int
    misc_select: bytes = bytes(4)
    misc_select_mask: bytes = b"\xff" * 4
    attributes: bytes = bytes((0x11,)) + bytes(15)
    attributes_mask: bytes = bytes((0xFB,)) + b"\xff" * 7 + bytes(8)
    evaluation_number: int = EVALUATION_NUMBER
    identifier: str = "TD_QE"
    levels: tuple[SVNLevel, ...]
    wording: Wording = Wording()

    def to_bytes(self, *, issued: datetime, next_update: datetime) -> bytes:
        """The exact text that is signed."""
        return _text(
            {
                "id": self.identifier,
                "version": 2,
                **_dates(issued, next_update),
                "tcbEvaluationDataNumber": self.evaluation_number,
                "miscselect": self.misc_select.hex(),
                "miscselectMask": self.misc_select_mask.hex().upper(),
                "attributes": self.attributes.hex(),
                "attributesMask": self.attributes_mask.hex().upper(),
                "mrsigner": self.mrsigner.hex().upper(),
                "isvprodid": self.isv_prod_id,
                "tcbLevels": [level.to_json() for level in self.levels],
            },
            self.wording,
        )


def default_tcb_info(machine: MachineIdentity, module: ModuleIdentity) -> TCBInfo:
    """TCB Info under which this machine and module are up to date, and anything older is not."""
    minor, major = module.tee_tcb_svn[0], module.tee_tcb_svn[1]
    current = PlatformLevel(
        sgx_components=machine.sgx_components,
        pce_svn=machine.pce_svn,
        tdx_components=tuple(module.tee_tcb_svn),
    )
    oldest = PlatformLevel(sgx_components=(0,) * 16, pce_svn=0, tdx_components=(0,) * 16, status="OutOfDate")
    levels = (SVNLevel(isv_svn=minor), SVNLevel(isv_svn=0, status="OutOfDate"))
    return TCBInfo(
        fmspc=machine.fmspc,
        pce_id=machine.pce_id,
        modules=(ModuleRecord(identifier=f"TDX_{major:02x}", levels=levels),),
        levels=(current, oldest),
    )


def default_qe_identity(enclave: QuotingEnclave) -> QEIdentity:
    """QE Identity under which this enclave is up to date, and anything older is not."""
    return QEIdentity(
        mrsigner=enclave.mrsigner,
        isv_prod_id=enclave.isv_prod_id,
        levels=(SVNLevel(isv_svn=enclave.isv_svn), SVNLevel(isv_svn=1, status="OutOfDate")),
    )


def sign_document(member: str, text: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """The PCS body: ``{"<member>":<text>,"signature":"<hex>"}``, the signature over exactly ``text``."""
    return b'{"%s":%s,"signature":"%s"}' % (member.encode(), text, sign_raw(key, text).hex().encode())


def _worth(status: str, date: datetime, advisories: tuple[str, ...]) -> dict[str, object]:
    members: dict[str, object] = {"tcbDate": _timestamp(date), "tcbStatus": status}
    return members | {"advisoryIDs": list(advisories)} if advisories else members


def _dates(issued: datetime, next_update: datetime) -> dict[str, object]:
    return {"issueDate": _timestamp(issued), "nextUpdate": _timestamp(next_update)}


def _timestamp(when: datetime) -> str:
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(members: dict[str, object], wording: Wording) -> bytes:
    kept = {name: value for name, value in members.items() if name not in wording.without}
    text = json.dumps(kept | dict(wording.members), separators=(",", ":"), ensure_ascii=True)
    return (f"{text[:-1]}{wording.inserted}}}").encode("ascii")
