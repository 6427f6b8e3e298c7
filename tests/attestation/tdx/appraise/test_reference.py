"""Reference values: nothing empty, nothing contradictory, nothing unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, random_bytes, reference_of, trust_of
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_canonical
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI, EvidenceClass, TrustRoots
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.errors import AffiantError

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
RAW = reference_of(PLATFORM).raw
INTEL = sha256_name(INTEL_SGX_ROOT_CA_SPKI)


def changed(change: Callable[[Any], object]) -> bytes:
    document: Any = parse_canonical(RAW)
    change(document)
    return canonical(document)


def test_the_platforms_own_values_are_read() -> None:
    reference = parse_reference_values(RAW)
    assert reference.cls is EvidenceClass.SIMULATED
    assert reference.statuses == {TCBStatus.UP_TO_DATE}
    assert reference.to_bytes() == RAW
    assert reference.digest == sha256_name(RAW)
    assert reference.trust_roots() == trust_of(PLATFORM)
    assert len(reference.images["gateway"]) == len(reference.images["session"]) == 1


def test_hardware_values_trust_the_compiled_in_root() -> None:
    reference = parse_reference_values(changed(lambda d: d.update(cls="hardware", roots=[INTEL])))
    assert reference.trust_roots() == TrustRoots.intel()


IMAGE = {"mrtd": "00" * 48, "rtmr0": "00" * 48, "rtmr1": "00" * 48, "rtmr2": "00" * 48}


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(typ="affiant-reference-values/2"),
        lambda d: d.pop("typ"),
        lambda d: d.update(more=1),
        lambda d: d.pop("xfam"),
        lambda d: d.update(cls="software"),
        lambda d: d.update(cls=None),
        lambda d: d.update(roots=[]),
        lambda d: d.update(roots=[INTEL]),
        lambda d: d.update(roots=d["roots"] + [INTEL]),
        lambda d: d.update(roots=d["roots"] * 2),
        lambda d: d.update(roots=[1]),
        lambda d: d.update(roots=["sha256:00"]),
        lambda d: d.update(roots="sha256:" + "00" * 32),
        lambda d: d.update(cls="hardware"),
        lambda d: d.update(cls="hardware", roots=d["roots"] + [INTEL]),
        lambda d: d.update(images=[]),
        lambda d: d["images"].pop("gateway"),
        lambda d: d["images"].update(gateway=[]),
        lambda d: d["images"].update(witness=[IMAGE]),
        lambda d: d["images"].update(gateway=[IMAGE, IMAGE]),
        lambda d: d["images"].update(gateway=[1]),
        lambda d: d["images"].update(gateway=[{**IMAGE, "rtmr3": "00" * 48}]),
        lambda d: d["images"].update(gateway=[{**IMAGE, "mrtd": "00" * 47}]),
        lambda d: d["images"].update(gateway=[{**IMAGE, "mrtd": "AA" * 48}]),
        lambda d: d["images"].update(gateway=[{**IMAGE, "mrtd": 0}]),
        lambda d: d.update(tcb=1),
        lambda d: d["tcb"].update(statuses=[]),
        lambda d: d["tcb"].update(statuses=["Revoked"]),
        lambda d: d["tcb"].update(statuses=["UpToDate", "Revoked"]),
        lambda d: d["tcb"].update(statuses=["Fine"]),
        lambda d: d["tcb"].update(statuses=[["UpToDate"]]),
        lambda d: d["tcb"].update(statuses=["UpToDate", "UpToDate"]),
        lambda d: d["tcb"].update(min_evaluation=-1),
        lambda d: d["tcb"].update(min_evaluation="1"),
        lambda d: d["tcb"].update(min_evaluation=True),
        lambda d: d["tcb"].update(more=1),
        lambda d: d.update(td_attributes="00"),
        lambda d: d.update(xfam="e702060000000000 "),
    ],
)
def test_a_gap_or_a_contradiction_is_refused(change: Callable[[Any], object]) -> None:
    with raises_code("reference.malformed"):
        parse_reference_values(changed(change))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", RAW + b"\n", RAW.replace(b":", b": ", 1)])
def test_another_layout_is_refused(data: bytes) -> None:
    with raises_code("reference.malformed"):
        parse_reference_values(data)


@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_document(offset: int, change: int) -> None:
    data = bytearray(RAW)
    data[offset] ^= change
    try:
        other = parse_reference_values(bytes(data))
    except AffiantError as error:
        assert error.code == "reference.malformed"
        return
    assert other.digest != sha256_name(RAW)
