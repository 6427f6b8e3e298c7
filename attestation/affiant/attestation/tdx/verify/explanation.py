"""Explains why a quote has its TCB status: each list of levels, which level applies, and what the next one needs.

A ladder is the platform's (TCB Info), the TDX module's (its identity) or the quoting enclave's (QE Identity).
The rung is found by the same predicates that verify; an explanation exists also where verification refuses,
because the platform is below every level or its level is revoked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.tdx.pki.pck import PCKExtension
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.tcb.tcb_info import ModuleLevel, TCBInfo, TCBLevel
from affiant.attestation.tdx.tcb.tcb_status import SEVERITY, TCBStatus
from affiant.attestation.tdx.verify.verify import AuthenticQuote, VerifiedQuote, verify_quote
from affiant.errors import AffiantError

__all__ = ["Explanation", "Gap", "Ladder", "Rung", "explain_quote"]


@dataclass(frozen=True, slots=True)
class Gap:
    """One SVN that is lower than a level requires."""

    kind: str
    """``SGX component``, ``TDX component``, ``PCESVN`` or ``ISVSVN``."""
    index: int | None
    """Position of a component, 1 to 16 as TCB Info numbers them."""
    name: str
    """What the document calls the component, ``category: type``; empty if it does not say."""
    found: int
    required: int

    def to_json(self) -> Mapping[str, object]:
        """The gap for a JSON document."""
        return {
            "kind": self.kind,
            "index": self.index,
            "name": self.name,
            "found": self.found,
            "required": self.required,
        }


@dataclass(frozen=True, slots=True)
class Rung:
    """One level, and what is missing to reach it."""

    status: str
    tcb_date: datetime
    advisories: frozenset[str]
    requires: str
    gaps: tuple[Gap, ...]

    @property
    def severity(self) -> int:
        """How bad its status is."""
        return SEVERITY[TCBStatus(self.status)]


@dataclass(frozen=True, slots=True)
class Ladder:
    """The levels of one part, highest first."""

    name: str
    found: str
    """The SVNs that were compared."""
    rungs: tuple[Rung, ...]

    @property
    def matched(self) -> int | None:
        """The index of the first level without a gap; None: below every level."""
        return next((index for index, rung in enumerate(self.rungs) if not rung.gaps), None)

    @property
    def above(self) -> Rung | None:
        """The level right above: its gaps are what decided that this one was matched, not that one."""
        matched = len(self.rungs) if self.matched is None else self.matched
        return self.rungs[matched - 1] if matched else None

    @property
    def better(self) -> Rung | None:
        """The nearest level above with a better status: what an update would have to reach."""
        matched = len(self.rungs) if self.matched is None else self.matched
        worst = max(SEVERITY.values()) + 1 if self.matched is None else self.rungs[matched].severity
        return next((rung for rung in reversed(self.rungs[:matched]) if rung.severity < worst), None)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Every ladder of one quote, and what verification made of them."""

    evidence_class: EvidenceClass
    ladders: tuple[Ladder, ...]
    verified: VerifiedQuote | None
    refusal: AffiantError | None
    """Why the levels do not verify; None if they do."""


def explain_quote(authentic: AuthenticQuote) -> Explanation:
    """The explanation of an authentic quote's TCB status."""
    verified: VerifiedQuote | None = None
    refusal: AffiantError | None = None
    try:
        verified = verify_quote(authentic.quote, authentic.collateral, now=authentic.now)
    except AffiantError as error:
        refusal = error
    return Explanation(
        evidence_class=authentic.collateral.evidence_class,
        ladders=_ladders(authentic),
        verified=verified,
        refusal=refusal,
    )


def _ladders(authentic: AuthenticQuote) -> tuple[Ladder, ...]:
    body = authentic.quote.body
    info, pck = authentic.collateral.tcb_info, authentic.chain.extension
    ladders = []
    svns = [("", body.tee_tcb_svn)]
    if body.tee_tcb_svn2 is not None:
        svns = [(" at launch", body.tee_tcb_svn), (" now", body.tee_tcb_svn2)]
    for when, svn in svns:
        ladders.append(_platform_ladder(f"platform{when}", info, pck, svn))
        ladders.extend(_module_ladders(when, info, svn))
    report = authentic.quote.authentication.qe_report
    levels = authentic.collateral.qe_identity.levels
    ladders.append(_svn_ladder("quoting enclave", levels, report.isv_svn))
    return tuple(ladders)


def _platform_ladder(name: str, info: TCBInfo, pck: PCKExtension, svn: bytes) -> Ladder:
    names = _component_names(info)
    return Ladder(
        name=name,
        found=f"SGX {_numbers(pck.components)}, PCESVN {pck.pce_svn}, TDX {_numbers(svn)}",
        rungs=tuple(
            Rung(
                status=level.status.value,
                tcb_date=level.tcb_date,
                advisories=level.advisories,
                requires=f"SGX {_numbers(level.sgx_components)}, PCESVN {level.pce_svn}, "
                f"TDX {_numbers(level.tdx_components)}",
                gaps=_platform_gaps(level, pck, svn, names),
            )
            for level in info.levels
        ),
    )


def _numbers(svns: Sequence[int]) -> str:
    """SVNs with the zeros at their end left out."""
    text = " ".join(map(str, svns))
    while text.endswith(" 0"):
        text = text[:-2]
    return text


def _component_names(info: TCBInfo) -> Mapping[str, tuple[str, ...]]:
    """For either array, what TCB Info calls the components: the first level that names one counts."""
    entries = info.signed.members.objects("tcbLevels", maximum=len(info.levels))
    return {
        kind: tuple(
            next((name for name in column if name), "")
            for column in zip(*(entry.object("tcb").component_names(kind) for entry in entries), strict=True)
        )
        for kind in ("sgxtcbcomponents", "tdxtcbcomponents")
    }


def _platform_gaps(
    level: TCBLevel, pck: PCKExtension, svn: bytes, names: Mapping[str, tuple[str, ...]]
) -> tuple[Gap, ...]:
    """31: component by component. With a module version above 0, TDX components 1 and 2 are the module's own."""
    first = 2 if svn[1] > 0 else 0
    sgx = [
        Gap("SGX component", index + 1, names["sgxtcbcomponents"][index], found, required)
        for index, (found, required) in enumerate(zip(pck.components, level.sgx_components, strict=True))
        if found < required
    ]
    tdx = [
        Gap("TDX component", index + 1, names["tdxtcbcomponents"][index], found, required)
        for index, (found, required) in enumerate(zip(svn, level.tdx_components, strict=True))
        if index >= first and found < required
    ]
    pce = [Gap("PCESVN", None, "", pck.pce_svn, level.pce_svn)] if pck.pce_svn < level.pce_svn else []
    return (*sgx, *pce, *tdx)


def _module_ladders(when: str, info: TCBInfo, svn: bytes) -> list[Ladder]:
    """28 and 30: none for version 0, which the platform's levels judge, nor for a version that is not listed."""
    identity = info.module_identities.get(f"TDX_{svn[1]:02X}") if svn[1] else None
    if identity is None:
        return []
    return [_svn_ladder(f"TDX module {identity.identifier}{when}", identity.levels, svn[0])]


def _svn_ladder(name: str, levels: tuple[ModuleLevel, ...], found: int) -> Ladder:
    return Ladder(
        name=name,
        found=f"ISVSVN {found}",
        rungs=tuple(
            Rung(
                status=level.status.value,
                tcb_date=level.tcb_date,
                advisories=level.advisories,
                requires=f"ISVSVN {level.isv_svn}",
                gaps=(Gap("ISVSVN", None, "", found, level.isv_svn),) if found < level.isv_svn else (),
            )
            for level in levels
        ),
    )
