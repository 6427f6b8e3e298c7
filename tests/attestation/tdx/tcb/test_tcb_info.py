"""TCB Info and QE Identity: what is malformed is refused, and what is shuffled is sorted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, random_bytes
from tests.raising import raises_code

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.quote.errors import QEIdentityMalformed, TCBInfoMalformed
from affiant.attestation.tdx.tcb.qe_identity import parse_qe_identity
from affiant.attestation.tdx.tcb.tcb_info import parse_tcb_info
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.errors import AffiantError

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
COLLATERAL = PLATFORM.collateral(NOW)
TCB_INFO = json.loads(COLLATERAL.tcb_info)["tcbInfo"]
QE_IDENTITY = json.loads(COLLATERAL.qe_identity)["enclaveIdentity"]


def tcb_info(members: Any) -> bytes:
    return json.dumps({"tcbInfo": members, "signature": "00" * 64}).encode()


def qe_identity(members: Any) -> bytes:
    return json.dumps({"enclaveIdentity": members, "signature": "00" * 64}).encode()


def changed(members: Any, change: Callable[[Any], object]) -> Any:
    copy = json.loads(json.dumps(members))
    change(copy)
    return copy


REMOVALS = [
    lambda m: m.pop("id"),
    lambda m: m.pop("version"),
    lambda m: m.pop("issueDate"),
    lambda m: m.pop("nextUpdate"),
    lambda m: m.pop("tcbEvaluationDataNumber"),
    lambda m: m.pop("tcbLevels"),
    lambda m: m.update(tcbLevels={}),
    lambda m: m.update(tcbLevels=[1]),
    lambda m: m.update(tcbLevels=m["tcbLevels"] * 2),
    lambda m: m.update(tcbLevels=[{}] * 300),
    lambda m: m["tcbLevels"][0].pop("tcb"),
    lambda m: m["tcbLevels"][0].pop("tcbDate"),
    lambda m: m["tcbLevels"][0].pop("tcbStatus"),
    lambda m: m["tcbLevels"][0].update(tcbStatus="uptodate"),
    lambda m: m["tcbLevels"][0].update(tcbStatus=["UpToDate"]),
    lambda m: m["tcbLevels"][0].update(tcbDate="2024-03-13"),
    lambda m: m["tcbLevels"][0].update(advisoryIDs="INTEL-SA-1"),
    lambda m: m["tcbLevels"][0].update(advisoryIDs=["x" * 65]),
    lambda m: m.update(issueDate="2026-01-01T00:00:00+01:00"),
    lambda m: m.update(tcbEvaluationDataNumber=-1),
    lambda m: m.update(tcbEvaluationDataNumber="17"),
    lambda m: m.update(tcbEvaluationDataNumber=True),
    lambda m: m.update(version="3"),
    lambda m: m.update(version=4),
]
TCB_REMOVALS = [
    lambda m: m.pop("fmspc"),
    lambda m: m.pop("pceId"),
    lambda m: m.pop("tcbType"),
    lambda m: m.update(tcbType=1),
    lambda m: m.update(fmspc="00 11 22 33 4"),
    lambda m: m.update(fmspc="0011223344"),
    lambda m: m.update(tdxModule={}),
    lambda m: m["tdxModule"].update(mrsigner="00"),
    lambda m: m.update(tdxModuleIdentities=1),
    lambda m: m.update(tdxModuleIdentities=m["tdxModuleIdentities"] * 2),
    lambda m: m["tdxModuleIdentities"][0].pop("id"),
    lambda m: m["tdxModuleIdentities"][0].pop("tcbLevels"),
    lambda m: m["tdxModuleIdentities"][0]["tcbLevels"][0].update(tcbStatus="SWHardeningNeeded"),
    lambda m: m["tdxModuleIdentities"][0]["tcbLevels"][0]["tcb"].update(isvsvn=256),
    lambda m: m["tcbLevels"][0].update(tcbStatus="TDRelaunchAdvised"),
    lambda m: m["tcbLevels"][0]["tcb"].pop("pcesvn"),
    lambda m: m["tcbLevels"][0]["tcb"].update(pcesvn=65536),
    lambda m: m["tcbLevels"][0]["tcb"].pop("sgxtcbcomponents"),
    lambda m: m["tcbLevels"][0]["tcb"].pop("tdxtcbcomponents"),
    lambda m: m["tcbLevels"][0]["tcb"]["sgxtcbcomponents"].pop(),
    lambda m: m["tcbLevels"][0]["tcb"]["tdxtcbcomponents"].append({"svn": 0}),
]
QE_REMOVALS = [
    lambda m: m.pop("miscselect"),
    lambda m: m.pop("miscselectMask"),
    lambda m: m.pop("attributes"),
    lambda m: m.pop("attributesMask"),
    lambda m: m.pop("mrsigner"),
    lambda m: m.pop("isvprodid"),
    lambda m: m.update(mrsigner="00" * 31),
    lambda m: m.update(isvprodid=65536),
    lambda m: m["tcbLevels"][0].update(tcbStatus="ConfigurationNeeded"),
]


def test_the_platforms_own_documents_are_read() -> None:
    info = parse_tcb_info(tcb_info(TCB_INFO))
    assert info.fmspc == b"SIMULA"
    assert [level.status for level in info.levels] == [TCBStatus.UP_TO_DATE, TCBStatus.OUT_OF_DATE]
    assert parse_qe_identity(qe_identity(QE_IDENTITY)).isv_prod_id == 2


@pytest.mark.parametrize("change", REMOVALS + TCB_REMOVALS)
def test_a_misshapen_tcb_info_is_refused(change: Callable[[Any], object]) -> None:
    with pytest.raises(TCBInfoMalformed):
        parse_tcb_info(tcb_info(changed(TCB_INFO, change)))


@pytest.mark.parametrize("change", REMOVALS + QE_REMOVALS)
def test_a_misshapen_qe_identity_is_refused(change: Callable[[Any], object]) -> None:
    with pytest.raises(QEIdentityMalformed):
        parse_qe_identity(qe_identity(changed(QE_IDENTITY, change)))


def test_documents_of_another_tee_are_told_apart() -> None:
    with raises_code("tcb.mismatch"):
        parse_tcb_info(tcb_info(changed(TCB_INFO, lambda m: m.update(id="SGX"))))
    with raises_code("qe.identity"):
        parse_qe_identity(qe_identity(changed(QE_IDENTITY, lambda m: m.update(id="QE"))))


def test_tcb_info_without_a_module_judges_no_td() -> None:
    with raises_code("tdx_module.mismatch"):
        parse_tcb_info(tcb_info(changed(TCB_INFO, lambda m: m.pop("tdxModule"))))


def test_unknown_members_are_ignored() -> None:
    extended = changed(TCB_INFO, lambda m: m.update(future={"a": [1]}))
    assert parse_tcb_info(tcb_info(extended)).levels == parse_tcb_info(tcb_info(TCB_INFO)).levels


@given(st.permutations(range(6)))
def test_levels_are_sorted_whatever_their_order(order: list[int]) -> None:
    def spread(members: Any) -> None:
        level = members["tcbLevels"][0]
        members["tcbLevels"] = [json.loads(json.dumps(level)) | {"tcbStatus": "OutOfDate"} for _ in order]
        for entry, number in zip(members["tcbLevels"], order, strict=True):
            entry["tcb"]["pcesvn"] = number

    info = parse_tcb_info(tcb_info(changed(TCB_INFO, spread)))
    assert [level.pce_svn for level in info.levels] == [5, 4, 3, 2, 1, 0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(sorted(TCB_INFO)), inner),
)


@given(JSON)
def test_no_document_does_more_than_refuse(members: object) -> None:
    for parse, make in ((parse_tcb_info, tcb_info), (parse_qe_identity, qe_identity)):
        with pytest.raises(AffiantError):
            parse(make(members))


def test_genuine_responses_are_read(vectors: Any) -> None:
    for name in (
        "2023-06/tcb_info_50806f000000",
        "2026-01/tcb_info_00a06d080000",
        "2026-01/tcb_info_90c06f000000",
    ):
        info = parse_tcb_info(vectors.read(f"pcs/{name}.json"))
        assert info.fmspc.hex() == name[-12:]
        assert info.levels
    for year in ("2023-06", "2026-01"):
        assert parse_qe_identity(vectors.read(f"pcs/{year}/qe_identity.json")).levels
