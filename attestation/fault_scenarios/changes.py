"""The few moves that scenarios are put together from: each gives a function from one bench to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from affiant.attestation.simulated.platform.crls import CRLForm
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.pki import (
    CertificateForm,
    CertificateRole,
    Certificates,
    issue_certificates,
)
from affiant.attestation.simulated.platform.platform import CollateralPart, SimulatedPlatform
from affiant.attestation.simulated.platform.tcb_documents import PlatformLevel, SVNLevel, Wording
from fault_scenarios.bench import Bench
from fault_scenarios.scenario import Change

__all__ = [
    "another_root",
    "bench",
    "certificates",
    "crl_form",
    "current_level",
    "each",
    "enclave",
    "machine",
    "module",
    "module_levels",
    "on_platform",
    "parts",
    "platform",
    "platform_levels",
    "qe_identity",
    "qe_levels",
    "qe_wording",
    "quoted_certificates",
    "renewed_signer",
    "shifted",
    "signed_by",
    "tcb_info",
    "tcb_wording",
    "unchanged",
]


def unchanged(it: Bench) -> Bench:
    """Nothing is wrong."""
    return it


def each(*changes: Change) -> Change:
    """All of ``changes``, in their order."""

    def change(it: Bench) -> Bench:
        for one in changes:
            it = one(it)
        return it

    return change


def bench(**fields: Any) -> Change:
    """Other fields of the bench."""
    return lambda it: replace(it, **fields)


def parts(**fields: Any) -> Change:
    """Other fields of the quote's parts, after it was signed."""
    return bench(reshape=lambda made: replace(made, **fields))


def on_platform(change: Callable[[SimulatedPlatform], SimulatedPlatform]) -> Change:
    """Another platform, made from the bench's own."""
    return lambda it: replace(it, platform=change(it.platform))


def platform(**fields: Any) -> Change:
    """Other fields of the platform."""
    return on_platform(lambda it: replace(it, **fields))


def machine(**fields: Any) -> Change:
    """Another machine, under the same keys: certificate and TCB Info say so."""
    return on_platform(
        lambda it: SimulatedPlatform.from_seed(
            it.seed,
            created=it.created,
            machine=replace(it.machine, **fields),
            module=it.module,
            enclave=it.enclave,
        )
    )


def module(**fields: Any) -> Change:
    """Another TDX module; TCB Info says what it said before."""
    return on_platform(lambda it: replace(it, module=replace(it.module, **fields)))


def enclave(**fields: Any) -> Change:
    """Another quoting enclave; QE Identity says what it said before."""
    return on_platform(lambda it: replace(it, enclave=replace(it.enclave, **fields)))


def tcb_info(**fields: Any) -> Change:
    """Another content of TCB Info."""
    return on_platform(lambda it: replace(it, tcb_info=replace(it.tcb_info, **fields)))


def qe_identity(**fields: Any) -> Change:
    """Another content of QE Identity."""
    return on_platform(lambda it: replace(it, qe_identity=replace(it.qe_identity, **fields)))


def tcb_wording(**fields: Any) -> Change:
    """Another text of TCB Info, signed as it stands."""
    return tcb_info(wording=Wording(**fields))


def qe_wording(**fields: Any) -> Change:
    """Another text of QE Identity, signed as it stands."""
    return qe_identity(wording=Wording(**fields))


def current_level(it: SimulatedPlatform, **fields: Any) -> PlatformLevel:
    """The level that exactly this platform reaches, with other ``fields``."""
    return replace(it.tcb_info.levels[0], **fields)


def platform_levels(make: Callable[[SimulatedPlatform], tuple[PlatformLevel, ...]]) -> Change:
    """Other levels of the platform."""
    return on_platform(lambda it: replace(it, tcb_info=replace(it.tcb_info, levels=make(it))))


def module_levels(*levels: SVNLevel) -> Change:
    """Other levels of the one TDX module that TCB Info lists."""

    def change(it: SimulatedPlatform) -> SimulatedPlatform:
        record = replace(it.tcb_info.modules[0], levels=levels)
        return replace(it, tcb_info=replace(it.tcb_info, modules=(record,)))

    return on_platform(change)


def qe_levels(*levels: SVNLevel) -> Change:
    """Other levels of the quoting enclave."""
    return qe_identity(levels=levels)


def certificates(**forms: CertificateForm) -> Change:
    """Certificates that depart from their role, by its name, in quote and collateral alike."""
    return on_platform(lambda it: replace(it, certificates=_issue(it, forms)))


def quoted_certificates(**forms: CertificateForm) -> Change:
    """The same in the quote alone; the collateral's chains are good."""
    return on_platform(lambda it: replace(it, quoted=_issue(it, forms)))


def _issue(it: SimulatedPlatform, forms: dict[str, CertificateForm]) -> Certificates:
    by_role = {CertificateRole[name.upper()]: form for name, form in forms.items()}
    return issue_certificates(it.seed, created=it.created, machine=it.machine, pck=it.pck_role, forms=by_role)


def shifted(part: CollateralPart, days: int) -> Change:
    """One part of the collateral is dated so many days off."""
    return platform(shifts=MappingProxyType({part: timedelta(days=days)}))


def crl_form(part: CollateralPart, **fields: Any) -> Change:
    """One list has another form."""
    return platform(crl_forms=MappingProxyType({part: CRLForm(**fields)}))


def another_root(it: Bench) -> SimulatedPlatform:
    """A platform with the same names and other keys."""
    return SimulatedPlatform.from_seed(
        bytes(byte ^ 0xFF for byte in it.platform.seed), created=it.platform.created
    )


def renewed_signer(it: Bench) -> Bench:
    """QE Identity comes with a renewed certificate of the key that signs both documents."""
    form = CertificateForm(serial=0x52, shift=timedelta(hours=1))
    renewed = _issue(it.platform, {"tcb_signing": form}).chain(CertificateRole.TCB_SIGNING)
    return platform(issuer_chains=MappingProxyType({CollateralPart.QE_IDENTITY: renewed}))(it)


def signed_by(part: CollateralPart, key: Role) -> Change:
    """One list is signed by another key than its issuer's."""
    return platform(crl_keys=MappingProxyType({part: key}))
