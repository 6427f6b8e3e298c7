"""TCB levels: every status that a verdict can have, how parts are merged, and the platforms that reach no level."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.tcb_documents import PlatformLevel, SVNLevel
from fault_scenarios.bench import Bench
from fault_scenarios.changes import (
    bench,
    current_level,
    each,
    enclave,
    module,
    module_levels,
    platform_levels,
    qe_levels,
    tcb_info,
)
from fault_scenarios.scenario import TD15, Accepted, Change, Refused, Scenario

__all__ = ["SCENARIOS", "reaching", "relaunched"]

_PLATFORM: Final = "INTEL-SA-99901"
_MODULE: Final = "INTEL-SA-99902"
_ENCLAVE: Final = "INTEL-SA-99903"
_UNSUPPORTED: Final = Refused("tcb.unsupported", Stage.VERIFICATION)
_REVOKED: Final = Refused("tcb.revoked", Stage.VERIFICATION)

_STATUSES: Final = {
    "sw-hardening-needed": "SWHardeningNeeded",
    "configuration-needed": "ConfigurationNeeded",
    "configuration-and-sw-hardening-needed": "ConfigurationAndSWHardeningNeeded",
    "out-of-date": "OutOfDate",
    "out-of-date-configuration-needed": "OutOfDateConfigurationNeeded",
}
_WITH_OUT_OF_DATE: Final = {
    "UpToDate": "OutOfDate",
    "SWHardeningNeeded": "OutOfDate",
    "ConfigurationNeeded": "OutOfDateConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded": "OutOfDateConfigurationNeeded",
    "OutOfDate": "OutOfDate",
    "OutOfDateConfigurationNeeded": "OutOfDateConfigurationNeeded",
}
"""Platform -> merged, with a TDX module or quoting enclave that is out of date. Written apart from the verifier."""


def _found(status: str, *advisories: str) -> Accepted:
    return Accepted(status, frozenset(advisories))


def reaching(status: str, *advisories: str) -> Change:
    """The platform reaches exactly the level with this status; a better one is out of its reach."""
    return platform_levels(
        lambda it: (
            current_level(it, pce_svn=it.machine.pce_svn + 1),
            current_level(it, status=status, advisories=advisories),
        )
    )


def _old_module(status: str = "OutOfDate") -> Change:
    return module_levels(SVNLevel(isv_svn=6), SVNLevel(isv_svn=0, status=status, advisories=(_MODULE,)))


def _old_enclave(status: str = "OutOfDate") -> Change:
    return qe_levels(SVNLevel(isv_svn=7), SVNLevel(isv_svn=0, status=status, advisories=(_ENCLAVE,)))


def _one_level(array: str, index: int) -> Change:
    """A level that one component misses by one, while the component before it is higher than needed."""

    def make(it: SimulatedPlatform) -> tuple[PlatformLevel, ...]:
        wanted = list(getattr(current_level(it), array))
        wanted[index] += 1
        wanted[index - 1] = 0
        return (current_level(it, **{array: tuple(wanted)}),)

    return platform_levels(make)


def _lexicographic(it: SimulatedPlatform) -> tuple[PlatformLevel, ...]:
    """An earlier component is above the first level's, a later one below: compared as words, it would be reached."""
    wanted = list(it.machine.sgx_components)
    wanted[0] -= 1
    wanted[7] += 1
    old = current_level(
        it,
        sgx_components=(0,) * 16,
        pce_svn=0,
        tdx_components=(0,) * 16,
        status="OutOfDate",
        advisories=(_PLATFORM,),
    )
    return current_level(it, sgx_components=tuple(wanted)), old


def relaunched(*changes: Change) -> Change:
    """A TD that was launched under an older TDX module than the one that runs now."""

    def change(it: Bench) -> Bench:
        now = it.platform.module.tee_tcb_svn
        launch = bytes((4,)) + now[1:]
        return each(
            module_levels(
                SVNLevel(isv_svn=5), SVNLevel(isv_svn=0, status="OutOfDate", advisories=(_MODULE,))
            ),
            *changes,
            module(tee_tcb_svn=launch),
            bench(current_tee_tcb_svn=now),
        )(it)

    return change


def _stepped_back(status: str) -> Change:
    """A TDX module that was good at the TD's launch, and an older one, worth ``status``, that runs now."""

    def change(it: Bench) -> Bench:
        older = bytes((4,)) + it.platform.module.tee_tcb_svn[1:]
        levels = module_levels(SVNLevel(isv_svn=5), SVNLevel(isv_svn=0, status=status, advisories=(_MODULE,)))
        return replace(levels(it), current_tee_tcb_svn=older)

    return change


def _merged(part: str, slug: str, status: str, old: Change, advisory: str) -> Scenario:
    return Scenario(
        f"{part}-out-of-date-on-{slug}",
        f"The {'TDX module' if part == 'module' else 'quoting enclave'} is out of date on a platform that is "
        f"{status}: the status is {_WITH_OUT_OF_DATE[status]}, never better.",
        (30, 34) if part == "module" else (26, 34),
        _found(_WITH_OUT_OF_DATE[status], _PLATFORM, advisory),
        each(reaching(status, _PLATFORM), old),
    )


SCENARIOS: Final = (
    *(
        Scenario(
            slug,
            f"The platform's TCB level is {status}, with one advisory.",
            (31, 32, 35),
            _found(status, _PLATFORM),
            reaching(status, _PLATFORM),
        )
        for slug, status in _STATUSES.items()
    ),
    *(
        _merged("module", slug, status, _old_module(), _MODULE)
        for slug, status in {"up-to-date": "UpToDate", **_STATUSES}.items()
    ),
    *(
        _merged("qe", slug, status, _old_enclave(), _ENCLAVE)
        for slug, status in {"up-to-date": "UpToDate", **_STATUSES}.items()
    ),
    Scenario(
        "advisories-of-all-parts",
        "Platform, TDX module and quoting enclave have an advisory each; one advisory stands twice.",
        (34, 35),
        _found("OutOfDate", _PLATFORM, _MODULE, _ENCLAVE),
        each(reaching("SWHardeningNeeded", _PLATFORM, _MODULE), _old_module(), _old_enclave()),
    ),
    Scenario(
        "component-lower-after-a-higher-one",
        "A component is lower than the best level asks, an earlier one higher: the next level counts.",
        (31,),
        _found("OutOfDate", _PLATFORM),
        platform_levels(_lexicographic),
    ),
    Scenario(
        "module-components-belong-to-the-module",
        "The level asks more of TDX components 0 and 1, which count only for a module of version 0.",
        (31,),
        _found("UpToDate"),
        platform_levels(
            lambda it: (current_level(it, tdx_components=(255, 255, *it.module.tee_tcb_svn[2:])),)
        ),
    ),
    Scenario(
        "td-relaunch-advised",
        "The TDX module was updated below a running TD.",
        (33,),
        _found("TDRelaunchAdvised", _MODULE),
        relaunched(),
        TD15,
    ),
    Scenario(
        "td-relaunch-advised-configuration-needed",
        "The TDX module was updated below a running TD, on a platform that needs configuration.",
        (33,),
        _found("TDRelaunchAdvisedConfigurationNeeded", _MODULE, _PLATFORM),
        relaunched(reaching("ConfigurationNeeded", _PLATFORM)),
        TD15,
    ),
    Scenario(
        "td-relaunch-and-old-qe",
        "A relaunch would repair the TDX module, not the quoting enclave: out of date it stays.",
        (33, 34),
        _found("OutOfDate", _MODULE, _ENCLAVE),
        relaunched(_old_enclave()),
        TD15,
    ),
    Scenario(
        "td-launched-newer-than-now",
        "The module that runs now is older than the one at launch, and out of date.",
        (33,),
        _found("OutOfDate", _MODULE),
        _stepped_back("OutOfDate"),
        TD15,
    ),
    Scenario(
        "platform-revoked",
        "The platform's TCB level is revoked.",
        (32, 34),
        _REVOKED,
        reaching("Revoked", _PLATFORM),
    ),
    Scenario(
        "module-revoked", "The TDX module's level is revoked.", (30, 34), _REVOKED, _old_module("Revoked")
    ),
    Scenario(
        "qe-revoked", "The quoting enclave's level is revoked.", (26, 34), _REVOKED, _old_enclave("Revoked")
    ),
    Scenario(
        "module-revoked-at-launch",
        "The TDX module at the TD's launch is revoked, the one that runs now is good.",
        (33, 34),
        _REVOKED,
        each(relaunched(), module_levels(SVNLevel(isv_svn=5), SVNLevel(isv_svn=0, status="Revoked"))),
        TD15,
    ),
    Scenario(
        "module-revoked-now",
        "The TDX module that runs now is revoked, the one at the TD's launch was good.",
        (33, 34),
        _REVOKED,
        _stepped_back("Revoked"),
        TD15,
    ),
    Scenario(
        "no-platform-levels",
        "TCB Info lists no level of the platform.",
        (32,),
        _UNSUPPORTED,
        tcb_info(levels=()),
    ),
    Scenario(
        "sgx-component-too-low",
        "One SGX component misses the only level by one, and the one before it is higher.",
        (31, 32),
        _UNSUPPORTED,
        _one_level("sgx_components", 7),
    ),
    Scenario(
        "tdx-component-too-low",
        "One TDX component misses the only level by one, and the one before it is higher.",
        (31, 32),
        _UNSUPPORTED,
        _one_level("tdx_components", 2),
    ),
    Scenario(
        "last-tdx-component-too-low",
        "The last of the sixteen TDX components misses the only level by one.",
        (31, 32),
        _UNSUPPORTED,
        _one_level("tdx_components", 15),
    ),
    Scenario(
        "pce-svn-too-low",
        "The PCESVN misses the only level by one.",
        (31, 32),
        _UNSUPPORTED,
        platform_levels(lambda it: (current_level(it, pce_svn=it.machine.pce_svn + 1),)),
    ),
    Scenario(
        "module-svn-too-low",
        "The TDX module is below every level of its version.",
        (30,),
        _UNSUPPORTED,
        module_levels(SVNLevel(isv_svn=6)),
    ),
    Scenario(
        "module-without-levels",
        "The TDX module's version is listed without a level.",
        (30,),
        _UNSUPPORTED,
        module_levels(),
    ),
    Scenario(
        "qe-svn-too-low", "The quoting enclave is below every level.", (26,), _UNSUPPORTED, enclave(isv_svn=0)
    ),
    Scenario("qe-without-levels", "QE Identity lists no level.", (26,), _UNSUPPORTED, qe_levels()),
    Scenario(
        "current-module-too-low",
        "The TDX module that runs now is below every level of its version.",
        (30, 33),
        _UNSUPPORTED,
        lambda it: replace(
            module_levels(SVNLevel(isv_svn=5))(it),
            current_tee_tcb_svn=bytes((4,)) + it.platform.module.tee_tcb_svn[1:],
        ),
        TD15,
    ),
)
