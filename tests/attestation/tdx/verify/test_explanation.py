"""An explanation agrees with the verdict it explains, and names exactly what is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.attestation.tdx.conftest import NOW, quote_of, trust_of
from tests.attestation.tdx.test_vectors import CASES

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.simulated.platform.tcb_documents import PlatformLevel, SVNLevel
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.attestation.tdx.quote.errors import TCBRevoked, TCBUnsupported
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.explanation import Explanation, Gap, Ladder, explain_quote
from affiant.attestation.tdx.verify.verify import authenticate_quote
from affiant.errors import AffiantError


def explain(platform: SimulatedPlatform, quote: bytes | None = None) -> Explanation:
    checked = verify_collateral(platform.collateral(NOW), now=NOW, trust=trust_of(platform))
    return explain_quote(authenticate_quote(parse_quote(quote or quote_of(platform)), checked, now=NOW))


def ladder(explanation: Explanation, name: str) -> Ladder:
    return next(found for found in explanation.ladders if found.name == name)


def with_levels(platform: SimulatedPlatform, *levels: PlatformLevel) -> SimulatedPlatform:
    return replace(platform, tcb_info=replace(platform.tcb_info, levels=levels))


def raised(platform: SimulatedPlatform, index: int, by: int = 1, **changes: Any) -> PlatformLevel:
    """The platform's own level with one SGX component higher."""
    own = platform.tcb_info.levels[0]
    svns = list(own.sgx_components)
    svns[index] += by
    return replace(own, sgx_components=tuple(svns), **changes)


def test_the_highest_level_needs_nothing(platform: SimulatedPlatform) -> None:
    explanation = explain(platform)
    assert explanation.evidence_class is EvidenceClass.SIMULATED
    assert [found.name for found in explanation.ladders] == [
        "platform",
        "TDX module TDX_01",
        "quoting enclave",
    ]
    for found in explanation.ladders:
        assert (found.matched, found.above, found.better) == (0, None, None)
    assert explanation.verified is not None
    assert explanation.refusal is None


def test_exactly_the_components_that_must_rise_are_named(platform: SimulatedPlatform) -> None:
    own = platform.tcb_info.levels[0]
    top = replace(raised(platform, 7, by=2), pce_svn=own.pce_svn + 1)
    top = replace(top, tdx_components=(9, 9, own.tdx_components[2] + 4, *own.tdx_components[3:]))
    found = ladder(explain(with_levels(platform, top, replace(own, status="OutOfDate"))), "platform")
    assert found.matched == 1
    assert found.above is found.better
    assert found.above is not None
    svn, pce, tdx = platform.machine.sgx_components[7], own.pce_svn, own.tdx_components[2]
    assert found.above.gaps == (
        Gap("SGX component", 8, "", svn, svn + 2),
        Gap("PCESVN", None, "", pce, pce + 1),
        Gap("TDX component", 3, "", tdx, tdx + 4),
    ), "TDX components 1 and 2 belong to a module of version 1 and are judged with it"


def test_an_update_that_improves_nothing_is_passed_over(platform: SimulatedPlatform) -> None:
    """The level right above decided; the next better status is two levels up."""
    own = platform.tcb_info.levels[0]
    levels = (
        raised(platform, 0, by=2),
        raised(platform, 0, by=1, status="OutOfDate"),
        replace(own, status="OutOfDate", advisories=("INTEL-SA-1",)),
    )
    found = ladder(explain(with_levels(platform, *levels)), "platform")
    assert found.matched == 2
    assert found.above is found.rungs[1]
    assert found.better is found.rungs[0]
    same = ladder(explain(with_levels(platform, *levels[1:])), "platform")
    assert same.above is not None
    assert same.better is None


def test_below_every_level_is_explained_though_refused(platform: SimulatedPlatform) -> None:
    explanation = explain(with_levels(platform, raised(platform, 3)))
    assert isinstance(explanation.refusal, TCBUnsupported)
    assert explanation.verified is None
    found = ladder(explanation, "platform")
    assert found.matched is None
    assert found.above is found.better is found.rungs[0]
    assert [gap.index for gap in found.rungs[0].gaps] == [4]


def test_a_revoked_level_is_explained_though_refused(platform: SimulatedPlatform) -> None:
    own = platform.tcb_info.levels[0]
    levels = (raised(platform, 1), replace(own, status="Revoked"))
    explanation = explain(with_levels(platform, *levels))
    assert isinstance(explanation.refusal, TCBRevoked)
    found = ladder(explanation, "platform")
    assert found.better is found.rungs[0]


def test_a_module_and_an_enclave_that_are_behind_are_named(platform: SimulatedPlatform) -> None:
    module = platform.tcb_info.modules[0]
    levels = (SVNLevel(isv_svn=9), SVNLevel(isv_svn=2, status="OutOfDate"))
    enclave_levels = (SVNLevel(isv_svn=8), SVNLevel(isv_svn=1, status="OutOfDate"))
    old = replace(
        platform,
        tcb_info=replace(platform.tcb_info, modules=(replace(module, levels=levels),)),
        qe_identity=replace(platform.qe_identity, levels=enclave_levels),
    )
    explanation = explain(old)
    for name, found, required in (("TDX module TDX_01", 5, 9), ("quoting enclave", 6, 8)):
        better = ladder(explanation, name).better
        assert better is not None
        assert better.gaps == (Gap("ISVSVN", None, "", found, required),)


def test_launch_and_now_are_two_ladders(platform: SimulatedPlatform) -> None:
    svn = platform.module.tee_tcb_svn
    own = platform.tcb_info.levels[0]
    newer = replace(own, tdx_components=(*svn[:2], svn[2] + 1, *svn[3:]))
    old = with_levels(platform, newer, replace(own, status="OutOfDate"))
    quote = quote_of(
        old, layout=QuoteLayout.V5_TD15, current_tee_tcb_svn=bytes((*svn[:2], svn[2] + 1)) + bytes(13)
    )
    explanation = explain(old, quote)
    assert ladder(explanation, "platform at launch").matched == 1
    assert ladder(explanation, "platform now").matched == 0
    assert explanation.verified is not None
    assert explanation.verified.statuses.merged.value == "TDRelaunchAdvised"


def test_components_are_called_what_the_document_calls_them(vectors: Any) -> None:
    explanation = _explain_case(vectors, "real/phala_emr_v4@b0c06f_2026-10")
    better = ladder(explanation, "platform").better
    assert better is not None
    assert [(gap.index, gap.name, gap.found, gap.required) for gap in better.gaps] == [
        (1, "BIOS: Early Microcode Update", 3, 4),
        (2, "OS/VMM: SGX Late Microcode Update", 3, 4),
        (3, "OS/VMM: TDX Late Microcode Update", 3, 4),
    ]


def _explain_case(vectors: Any, identifier: str) -> Explanation:
    case = next(case for case in CASES if case["id"] == identifier)
    now = datetime.fromtimestamp(case["now"], UTC)
    checked = verify_collateral(
        vectors.collateral(case["collateral"]), now=now, trust=vectors.trust(case["root"])
    )
    return explain_quote(authenticate_quote(parse_quote(vectors.read(case["quote"])), checked, now=now))


def test_it_agrees_with_the_verdict_on_every_vector(vectors: Any) -> None:
    explained = 0
    for case in CASES:
        try:
            explanation = _explain_case(vectors, case["id"])
        except AffiantError:
            assert not case["expected"]["accepted"], case["id"]
            continue
        if explanation.verified is None:
            assert not case["expected"]["accepted"], case["id"]
            continue
        statuses = explanation.verified.statuses
        advisories: set[str] = set()
        for found in explanation.ladders:
            assert found.matched is not None
            rung = found.rungs[found.matched]
            advisories |= rung.advisories
            expected = {
                "platform": statuses.platform,
                "platform at launch": statuses.platform,
                "platform now": statuses.current_platform,
                "quoting enclave": statuses.qe,
            }.get(found.name, statuses.current_module if found.name.endswith("now") else statuses.module)
            assert expected is not None
            assert rung.status == expected.value, case["id"]
        assert advisories == explanation.verified.advisories
        explained += 1
    if not CASES:
        pytest.skip("the TDX vectors (../shared/vectors/tdx) are not there")
    assert explained > 30
