"""TCB Info and QE Identity: what they say, signed as they say it; and what was changed after they were signed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.tcb_documents import SVNLevel, Wording
from affiant.attestation.tdx.tcb.collateral import Collateral
from fault_scenarios.bench import Bench
from fault_scenarios.changes import (
    bench,
    current_level,
    module_levels,
    platform_levels,
    qe_identity,
    qe_levels,
    qe_wording,
    tcb_info,
    tcb_wording,
)
from fault_scenarios.scenario import Change, Refused, Scenario

__all__ = ["SCENARIOS"]

_TCB: Final = Refused("tcb.malformed", Stage.COLLATERAL)
_QE: Final = Refused("qe.malformed", Stage.COLLATERAL)
_FILE: Final = Refused("collateral.malformed", Stage.COLLATERAL)
_SIGNATURE: Final = Refused("collateral.signature", Stage.COLLATERAL)
_TAIL: Final = len(',"signature":"') + 128 + len('"}')
"""What stands behind the signed text, in bytes."""
_DEEP: Final = '"x":' + "[" * 10_000 + "]" * 10_000


def _unsigned(item: str, **content: Any) -> Change:
    """The document says something else than what was signed: its text is new, its signature old."""

    def change(it: Bench) -> Bench:
        document = "tcb_info" if item == "tcb_info" else "qe_identity"
        other = replace(it.platform, **{document: replace(getattr(it.platform, document), **content)})

        def repack(collateral: Collateral) -> Collateral:
            text = getattr(other.collateral(it.now), item)[:-_TAIL]
            return replace(collateral, **{item: text + getattr(collateral, item)[-_TAIL:]})

        return replace(it, repack=repack)

    return change


def _levels(edit: Any) -> Change:
    """The platform's levels as JSON, edited."""

    def change(it: SimulatedPlatform) -> SimulatedPlatform:
        level = current_level(it).to_json()
        edit(level)
        wording = Wording(members={"tcbLevels": [level]})
        return replace(it, tcb_info=replace(it.tcb_info, wording=wording))

    return lambda it: replace(it, platform=change(it.platform))


def _without_tdx_components(level: Any) -> None:
    del level["tcb"]["tdxtcbcomponents"]


def _svn_of_256(level: Any) -> None:
    level["tcb"]["sgxtcbcomponents"][3]["svn"] = 256


def _svn_of_true(level: Any) -> None:
    level["tcb"]["sgxtcbcomponents"][3]["svn"] = True


def _advisories_as_text(level: Any) -> None:
    level["advisoryIDs"] = "INTEL-SA-99901"


def _without_status(level: Any) -> None:
    del level["tcbStatus"]


def _body(item: str, edit: Any) -> Change:
    """The whole answer of the service, edited around the signed text."""
    return bench(repack=lambda it: replace(it, **{item: edit(getattr(it, item))}))


def _spaced(it: SimulatedPlatform) -> SimulatedPlatform:
    spaced = it.tcb_info.fmspc.hex()[:10] + " 4"
    return replace(it, tcb_info=replace(it.tcb_info, wording=Wording(members={"fmspc": spaced})))


def _listed_twice(it: SimulatedPlatform) -> SimulatedPlatform:
    record = it.tcb_info.modules[0]
    twice = tuple(replace(record, identifier=f"TDX_{major}") for major in ("0b", "0B"))
    return replace(it, tcb_info=replace(it.tcb_info, modules=(record, *twice)))


def _tcb(name: str, description: str, change: Change, points: tuple[int, ...] = (18, 19)) -> Scenario:
    return Scenario(name, description, points, _TCB, change)


def _qe(name: str, description: str, change: Change, points: tuple[int, ...] = (18, 20)) -> Scenario:
    return Scenario(name, description, points, _QE, change)


_TCB_INFO: Final = (
    _tcb("tcb-info-version-2", "TCB Info is of version 2.", tcb_wording(members={"version": 2})),
    _tcb("tcb-info-type-1", "TCB Info is of type 1.", tcb_wording(members={"tcbType": 1})),
    _tcb("tcb-info-without-version", "TCB Info has no version.", tcb_wording(without=frozenset({"version"}))),
    _tcb(
        "tcb-info-member-twice", "TCB Info names two FMSPCs.", tcb_wording(inserted=',"fmspc":"000000000000"')
    ),
    _tcb("tcb-info-with-a-float", "TCB Info has a number with a fraction.", tcb_wording(inserted=',"x":1.5')),
    _tcb(
        "tcb-info-nested-deeply",
        "TCB Info is nested 10,000 levels deep.",
        tcb_wording(inserted="," + _DEEP),
        (1, 18),
    ),
    _tcb(
        "tcb-info-too-large",
        "TCB Info has half a megabyte.",
        tcb_wording(members={"x": "x" * (1 << 19)}),
        (1, 18),
    ),
    _tcb(
        "tcb-info-fmspc-with-a-space",
        "The FMSPC in TCB Info has a space in it.",
        lambda it: replace(it, platform=_spaced(it.platform)),
    ),
    _tcb(
        "tcb-info-date-with-an-offset",
        "TCB Info is dated in another zone than UTC.",
        tcb_wording(members={"issueDate": "2020-01-01T00:00:00+01:00"}),
    ),
    _tcb(
        "tcb-info-date-without-zone",
        "TCB Info is dated without a zone.",
        tcb_wording(members={"nextUpdate": "2099-01-01T00:00:00"}),
    ),
    _tcb(
        "tcb-info-evaluation-number-as-text",
        "The evaluation number is a text.",
        tcb_wording(members={"tcbEvaluationDataNumber": "1"}),
        (18, 21),
    ),
    _tcb(
        "tcb-status-unknown",
        "A level has a status that there is not.",
        platform_levels(lambda it: (current_level(it, status="Fine"),)),
        (32,),
    ),
    _tcb(
        "tcb-status-of-a-verdict",
        "A level has a status that only a verdict can have: TDRelaunchAdvised.",
        platform_levels(lambda it: (current_level(it, status="TDRelaunchAdvised"),)),
        (32, 33),
    ),
    _tcb(
        "tcb-levels-of-another-form",
        "The levels are an object.",
        tcb_wording(members={"tcbLevels": {}}),
        (18, 31),
    ),
    _tcb(
        "tcb-advisories-of-another-form",
        "A level's advisories are a text.",
        _levels(_advisories_as_text),
        (18, 35),
    ),
    _tcb("tcb-level-without-status", "A level has no status.", _levels(_without_status), (32,)),
    _tcb(
        "tcb-15-sgx-components",
        "A level has 15 SGX components.",
        platform_levels(lambda it: (current_level(it, sgx_components=(0,) * 15),)),
        (31,),
    ),
    _tcb(
        "tcb-17-sgx-components",
        "A level has 17 SGX components.",
        platform_levels(lambda it: (current_level(it, sgx_components=(0,) * 17),)),
        (31,),
    ),
    _tcb(
        "tcb-4-tdx-components",
        "A level has 4 TDX components.",
        platform_levels(lambda it: (current_level(it, tdx_components=(0,) * 4),)),
        (31,),
    ),
    _tcb(
        "tcb-without-tdx-components",
        "A level has no TDX components.",
        _levels(_without_tdx_components),
        (31,),
    ),
    _tcb("tcb-component-svn-256", "A component's SVN has nine bits.", _levels(_svn_of_256), (18, 31)),
    _tcb("tcb-component-svn-true", "A component's SVN is `true`, not 1.", _levels(_svn_of_true), (18, 31)),
    _tcb(
        "tcb-level-twice",
        "The same level stands twice, with two statuses.",
        platform_levels(lambda it: (current_level(it), current_level(it, status="OutOfDate"))),
        (18, 31),
    ),
    _tcb(
        "module-listed-twice",
        "The TDX module's version is listed twice, in lower and upper case.",
        lambda it: replace(it, platform=_listed_twice(it.platform)),
        (18, 28),
    ),
    _tcb(
        "module-status-illegal",
        "A level of the TDX module has a status that only platforms can have.",
        module_levels(SVNLevel(isv_svn=5, status="SWHardeningNeeded")),
        (30,),
    ),
    _tcb(
        "module-level-twice",
        "A level of the TDX module stands twice, with two statuses.",
        module_levels(SVNLevel(isv_svn=5), SVNLevel(isv_svn=5, status="OutOfDate")),
        (18, 30),
    ),
    Scenario(
        "tcb-info-without-module",
        "TCB Info has no tdxModule.",
        (28,),
        Refused("tdx_module.mismatch", Stage.COLLATERAL),
        tcb_wording(without=frozenset({"tdxModule"})),
    ),
    Scenario(
        "tcb-info-of-sgx",
        "TCB Info is that of SGX.",
        (19,),
        Refused("tcb.mismatch", Stage.COLLATERAL),
        tcb_info(identifier="SGX"),
    ),
    Scenario(
        "tcb-info-of-another-fmspc",
        "TCB Info is that of another FMSPC.",
        (19,),
        Refused("tcb.mismatch", Stage.VERIFICATION),
        tcb_info(fmspc=b"OTHERS"),
    ),
    Scenario(
        "tcb-info-of-another-pceid",
        "TCB Info is that of another PCEID.",
        (19,),
        Refused("tcb.mismatch", Stage.VERIFICATION),
        tcb_info(pce_id=b"\x01\x00"),
    ),
)

_QE_IDENTITY: Final = (
    _qe("qe-identity-version-1", "QE Identity is of version 1.", qe_wording(members={"version": 1})),
    _qe("qe-identity-member-twice", "QE Identity names two products.", qe_wording(inserted=',"isvprodid":1')),
    _qe(
        "qe-identity-nested-deeply",
        "QE Identity is nested 10,000 levels deep.",
        qe_wording(inserted="," + _DEEP),
        (1, 18),
    ),
    _qe(
        "qe-identity-without-mrsigner",
        "QE Identity has no MRSIGNER.",
        qe_wording(without=frozenset({"mrsigner"})),
        (20, 25),
    ),
    _qe(
        "qe-identity-mask-too-short",
        "A mask in QE Identity has 3 bytes.",
        qe_wording(members={"miscselectMask": "FFFFFF"}),
        (18, 25),
    ),
    _qe(
        "qe-identity-date-of-february-30",
        "QE Identity is dated on a day that there is not.",
        qe_wording(members={"issueDate": "2026-02-30T00:00:00Z"}),
    ),
    _qe(
        "qe-product-beyond-16-bits",
        "The product's number has 17 bits.",
        qe_identity(isv_prod_id=0x10000),
        (18, 25),
    ),
    _qe(
        "qe-status-illegal",
        "A level of the quoting enclave has a status that only platforms can have.",
        qe_levels(SVNLevel(isv_svn=6, status="ConfigurationNeeded")),
        (26,),
    ),
    Scenario(
        "qe-identity-of-sgx",
        "QE Identity is that of the SGX quoting enclave.",
        (20,),
        Refused("qe.identity", Stage.COLLATERAL),
        qe_identity(identifier="QE"),
    ),
)

_EDITED: Final = (
    Scenario(
        "tcb-info-edited",
        "TCB Info was changed after it was signed: the evaluation number is higher.",
        (15,),
        _SIGNATURE,
        _unsigned("tcb_info", evaluation_number=9),
    ),
    Scenario(
        "tcb-info-reformatted",
        "TCB Info says the same as what was signed, with other white space.",
        (15,),
        _SIGNATURE,
        _body("tcb_info", lambda body: body.replace(b'"version":3', b'"version": 3', 1)),
    ),
    Scenario(
        "qe-identity-edited",
        "QE Identity was changed after it was signed: it names another MRSIGNER.",
        (15, 25),
        _SIGNATURE,
        _unsigned("qe_identity", mrsigner=b"\x01" * 32),
    ),
    Scenario(
        "tcb-info-signature-zero",
        "r and s of TCB Info's signature are zero.",
        (5, 15),
        _SIGNATURE,
        _body("tcb_info", lambda body: body[:-130] + b"0" * 128 + b'"}'),
    ),
    Scenario(
        "tcb-info-signature-too-short",
        "TCB Info's signature has 63 bytes.",
        (15, 18),
        _TCB,
        _body("tcb_info", lambda body: body[:-130] + b"0" * 126 + b'"}'),
    ),
    Scenario(
        "tcb-info-with-more-behind",
        "Behind TCB Info's signature stands another member.",
        (15, 18),
        _TCB,
        _body("tcb_info", lambda body: body[:-1] + b',"more":1}'),
    ),
    Scenario(
        "documents-exchanged",
        "TCB Info and QE Identity stand in each other's place.",
        (15, 19),
        _TCB,
        bench(repack=lambda it: replace(it, tcb_info=it.qe_identity, qe_identity=it.tcb_info)),
    ),
    Scenario(
        "collateral-of-garbage",
        "The collateral's file is no JSON.",
        (1, 18),
        _FILE,
        bench(refile=lambda _: b"SIMULATED"),
    ),
    Scenario(
        "collateral-with-an-empty-item",
        "A collateral document of affiant's own form holds an item without a byte.",
        (14, 18),
        _FILE,
        lambda it: replace(it, refile=lambda _: replace(it.issued(), root_ca_crl=b"").to_bytes()),
    ),
    Scenario(
        "collateral-member-twice",
        "A member of the collateral's file stands twice.",
        (18,),
        _FILE,
        bench(refile=lambda file: file.replace(b"{", b'{"pck_crl":"00",', 1)),
    ),
    Scenario(
        "collateral-crl-not-hexadecimal",
        "A revocation list in the file has spaces between its digits.",
        (18,),
        _FILE,
        bench(refile=lambda file: file.replace(b'"pck_crl": "30', b'"pck_crl": "30 ', 1)),
    ),
)

SCENARIOS: Final = (*_TCB_INFO, *_QE_IDENTITY, *_EDITED)
