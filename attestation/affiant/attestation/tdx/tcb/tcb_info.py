"""Reads TCB Info v3 for TDX: the TCB levels of a kind of platform and of its TDX modules (points 19, 28 to 32).

Source: Intel PCS API v4, "Get TCB Info (TDX)". Arrays of components have exactly 16 members; levels are sorted
here, because the order of the document proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from affiant.attestation.tdx.pki.pck import PCKExtension
from affiant.attestation.tdx.pki.signed_json import Members, SignedJSON, cut_signed_json
from affiant.attestation.tdx.pki.times import Window
from affiant.attestation.tdx.quote.errors import (
    CollateralExpired,
    CollateralNotYetValid,
    TCBInfoMalformed,
    TCBUnsupported,
)
from affiant.attestation.tdx.quote.quote import TDReport
from affiant.attestation.tdx.tcb.tcb_status import DOCUMENT_STATUSES, ComponentStatus, TCBStatus
from affiant.errors import NotAuthenticError

__all__ = [
    "ModuleIdentity",
    "ModuleLevel",
    "TCBInfo",
    "TCBLevel",
    "match_isv_level",
    "match_module_level",
    "parse_isv_levels",
    "parse_tcb_info",
]

MAX_LEVELS: Final = 256
MAX_ADVISORIES: Final = 512


@dataclass(frozen=True, slots=True)
class TCBLevel:
    """One level of the platform: what it takes to reach it, and what it is worth."""

    sgx_components: tuple[int, ...]
    pce_svn: int
    tdx_components: tuple[int, ...]
    status: TCBStatus
    tcb_date: datetime
    advisories: frozenset[str]

    def is_reached_by(self, pck: PCKExtension, tee_tcb_svn: bytes) -> bool:
        """31: component-wise, never lexicographic. With a module version above 0, components 0 and 1 belong
        to the module and are judged with it."""
        first = 2 if tee_tcb_svn[1] > 0 else 0
        return (
            pck.pce_svn >= self.pce_svn
            and all(map(int.__ge__, pck.components, self.sgx_components))
            and all(map(int.__ge__, tee_tcb_svn[first:], self.tdx_components[first:]))
        )


@dataclass(frozen=True, slots=True)
class ModuleLevel:
    """One level of a TDX module or of the quoting enclave: the lowest SVN that reaches it."""

    isv_svn: int
    status: ComponentStatus
    tcb_date: datetime
    advisories: frozenset[str]


@dataclass(frozen=True, slots=True)
class ModuleIdentity:
    """Who signed a TDX module, its attributes under a mask, and its levels, highest first."""

    identifier: str
    mrsigner: bytes
    attributes: bytes
    attributes_mask: bytes
    levels: tuple[ModuleLevel, ...]

    def verify(self, body: TDReport) -> None:
        """29: MRSIGNERSEAM is this signer and all zero, whatever the document lists; SEAMATTRIBUTES agree under the
        mask and are all zero, whatever the mask hides.

        Raises:
            ``tdx_module.mismatch``: they differ, or are not zero.
        """
        if body.mrsignerseam != self.mrsigner or any(body.mrsignerseam):
            raise NotAuthenticError(
                f"TDX module {self.identifier} has another signer",
                expected=f"{self.mrsigner.hex()}, and all zero: Intel's",
                found=body.mrsignerseam.hex(),
                code="tdx_module.mismatch",
            )
        masked = bytes(a & m for a, m in zip(body.seam_attributes, self.attributes_mask, strict=True))
        if masked != self.attributes or any(body.seam_attributes):
            raise NotAuthenticError(
                f"TDX module {self.identifier} has other attributes",
                expected="all zero",
                found=body.seam_attributes.hex(),
                code="tdx_module.mismatch",
            )


@dataclass(frozen=True, slots=True)
class TCBInfo:
    """TCB Info as read; authentic only inside of verified collateral."""

    signed: SignedJSON = field(repr=False)
    fmspc: bytes
    pceid: bytes
    evaluation_number: int
    issue_date: datetime
    next_update: datetime
    module: ModuleIdentity
    """``tdxModule``: the identity of modules of version 0, without levels of its own."""
    module_identities: Mapping[str, ModuleIdentity] = field(repr=False)
    """By upper-case id: ``TDX_`` and the major version in two hexadecimal digits."""
    levels: tuple[TCBLevel, ...] = field(repr=False)
    """Highest first."""

    @property
    def window(self) -> Window:
        """From issueDate to nextUpdate."""
        return Window("TCB Info", self.issue_date, self.next_update, CollateralNotYetValid, CollateralExpired)

    def verify_platform(self, pck: PCKExtension) -> None:
        """19: this document speaks of the platform of ``pck`` (known mistake: PCEID not compared).

        Raises:
            ``tcb.mismatch``: another FMSPC or PCEID.
        """
        if pck.fmspc != self.fmspc:
            raise NotAuthenticError(
                "TCB Info is for another FMSPC",
                expected=pck.fmspc.hex(),
                found=self.fmspc.hex(),
                code="tcb.mismatch",
            )
        if pck.pceid != self.pceid:
            raise NotAuthenticError(
                "TCB Info is for another PCEID",
                expected=pck.pceid.hex(),
                found=self.pceid.hex(),
                code="tcb.mismatch",
            )

    def module_identity(self, tee_tcb_svn: bytes) -> ModuleIdentity:
        """28: the identity of the module version in ``tee_tcb_svn[1]``; hexadecimal, not decimal.

        Raises:
            ``tdx_module.mismatch``: that version is not listed.
        """
        version = tee_tcb_svn[1]
        if version == 0:
            return self.module
        identifier = f"TDX_{version:02X}"
        identity = self.module_identities.get(identifier)
        if identity is None:
            raise NotAuthenticError(
                "TCB Info does not know this TDX module",
                expected=" or ".join(sorted(self.module_identities)) or "no module version",
                found=identifier,
                code="tdx_module.mismatch",
            )
        return identity

    def match_level(self, pck: PCKExtension, tee_tcb_svn: bytes) -> TCBLevel:
        """31: the highest level that the platform reaches.

        Raises:
            TCBUnsupported: it reaches none.
        """
        for level in self.levels:
            if level.is_reached_by(pck, tee_tcb_svn):
                return level
        raise TCBUnsupported(
            "the platform reaches no TCB level of its kind",
            found=f"components {bytes(pck.components).hex()}, PCESVN {pck.pce_svn}, TEE_TCB_SVN {tee_tcb_svn.hex()}",
        )


def match_module_level(identity: ModuleIdentity, tee_tcb_svn: bytes) -> ModuleLevel | None:
    """30: the highest level with an SVN up to ``tee_tcb_svn[0]``; None for a module of version 0, whose
    components the platform's levels judge.

    Raises:
        TCBUnsupported: the module is below every level.
    """
    if tee_tcb_svn[1] == 0:
        return None
    return match_isv_level(identity.levels, tee_tcb_svn[0], f"TDX module {identity.identifier}")


def match_isv_level(levels: tuple[ModuleLevel, ...], isv_svn: int, name: str) -> ModuleLevel:
    """The first of ``levels`` (highest first) with an SVN up to ``isv_svn``.

    Raises:
        TCBUnsupported: none.
    """
    for level in levels:
        if level.isv_svn <= isv_svn:
            return level
    raise TCBUnsupported(f"{name} is below every TCB level", found=f"SVN {isv_svn}")


def parse_tcb_info(body: bytes) -> TCBInfo:
    """The TCB Info in a PCS response body.

    Raises:
        TCBInfoMalformed: it is not a TDX TCB Info v3 in which every member has its form.
        ``tcb.mismatch``: TCB Info of another TEE.
    """
    signed = cut_signed_json(body, member="tcbInfo", refusal=TCBInfoMalformed)
    members = signed.members
    # 19: id TDX, version 3, tcbType 0.
    if (identifier := members.text("id")) != "TDX":
        raise NotAuthenticError(
            "TCB Info of another TEE", expected="id TDX", found=identifier[:16], code="tcb.mismatch"
        )
    if members.integer("version", maximum=255) != 3 or members.integer("tcbType", maximum=255) != 0:
        raise TCBInfoMalformed("TCB Info of another version or type", expected="version 3, tcbType 0")
    if "tdxModule" not in members:
        raise NotAuthenticError(
            "TCB Info without tdxModule cannot judge a TDX quote", code="tdx_module.mismatch"
        )
    return TCBInfo(
        signed=signed,
        fmspc=members.hexadecimal("fmspc", size=6),
        pceid=members.hexadecimal("pceId", size=2),
        evaluation_number=members.integer("tcbEvaluationDataNumber", maximum=0xFFFFFFFF),
        issue_date=members.instant("issueDate"),
        next_update=members.instant("nextUpdate"),
        module=_parse_module(members.object("tdxModule"), identifier="TDX_00", levels=()),
        module_identities=_parse_identities(members),
        levels=_parse_levels(members),
    )


def _parse_identities(members: Members) -> Mapping[str, ModuleIdentity]:
    identities: dict[str, ModuleIdentity] = {}
    if "tdxModuleIdentities" not in members:
        return identities
    for entry in members.objects("tdxModuleIdentities", maximum=MAX_LEVELS):
        identifier = entry.text("id").upper()
        if identifier in identities:
            raise entry.refuse("id", f"{identifier} once")
        identities[identifier] = _parse_module(
            entry, identifier=identifier, levels=parse_isv_levels(entry, maximum_svn=255)
        )
    return identities


def _parse_module(members: Members, *, identifier: str, levels: tuple[ModuleLevel, ...]) -> ModuleIdentity:
    return ModuleIdentity(
        identifier=identifier,
        mrsigner=members.hexadecimal("mrsigner", size=48),
        attributes=members.hexadecimal("attributes", size=8),
        attributes_mask=members.hexadecimal("attributesMask", size=8),
        levels=levels,
    )


def parse_isv_levels(members: Members, *, maximum_svn: int) -> tuple[ModuleLevel, ...]:
    """``tcbLevels`` of a TDX module or of QE Identity, highest SVN first.

    Raises:
        MalformedError: the document's own error, if a member has another form, a status is not one of the
            three legal ones (point 26), or two levels have the same SVN.
    """
    levels: dict[int, ModuleLevel] = {}
    for entry in members.objects("tcbLevels", maximum=MAX_LEVELS):
        isv_svn = entry.object("tcb").integer("isvsvn", maximum=maximum_svn)
        if isv_svn in levels:
            raise entry.refuse("tcb.isvsvn", "each SVN once")
        try:
            status = ComponentStatus(entry.text("tcbStatus"))
        except ValueError as error:
            raise entry.refuse("tcbStatus", "UpToDate, OutOfDate or Revoked") from error
        levels[isv_svn] = ModuleLevel(
            isv_svn=isv_svn,
            status=status,
            tcb_date=entry.instant("tcbDate"),
            advisories=frozenset(entry.texts("advisoryIDs", maximum=MAX_ADVISORIES)),
        )
    return tuple(levels[isv_svn] for isv_svn in sorted(levels, reverse=True))


def _parse_levels(members: Members) -> tuple[TCBLevel, ...]:
    """The platform's levels, highest first: by SGX components, then TDX components, then PCESVN."""
    levels: dict[tuple[tuple[int, ...], tuple[int, ...], int], TCBLevel] = {}
    for entry in members.objects("tcbLevels", maximum=MAX_LEVELS):
        level = _parse_level(entry)
        key = (level.sgx_components, level.tdx_components, level.pce_svn)
        if key in levels:
            raise entry.refuse("tcb", "each level once")
        levels[key] = level
    return tuple(levels[key] for key in sorted(levels, reverse=True))


def _parse_level(entry: Members) -> TCBLevel:
    tcb = entry.object("tcb")
    # 32: one of the seven legal strings.
    try:
        status = TCBStatus(entry.text("tcbStatus"))
    except ValueError as error:
        raise entry.refuse("tcbStatus", "a legal TCB status") from error
    if status not in DOCUMENT_STATUSES:
        raise entry.refuse("tcbStatus", "a status that TCB Info may carry")
    return TCBLevel(
        sgx_components=tcb.component_svns("sgxtcbcomponents"),
        pce_svn=tcb.integer("pcesvn", maximum=0xFFFF),
        tdx_components=tcb.component_svns("tdxtcbcomponents"),
        status=status,
        tcb_date=entry.instant("tcbDate"),
        advisories=frozenset(entry.texts("advisoryIDs", maximum=MAX_ADVISORIES)),
    )
