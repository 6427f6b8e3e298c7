from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.release.platform_identity import ModuleIdentity
from affiant.attestation.simulated.platform.errors import RegisterError
from affiant.attestation.simulated.platform.registers import (
    encode_td10_body,
    encode_td15_body,
    extend,
    launch_registers,
)
from affiant.attestation.statements.evidence_source import TDRegisters

ZERO = bytes(48)


def launched(**changed: bytes) -> TDRegisters:
    values = {"mrtd": b"m" * 48, "mrconfigid": b"c" * 48, "td_id": b"i" * 32} | changed
    return launch_registers(rtmrs=(b"0" * 48, b"1" * 48, b"2" * 48, ZERO), **values)


def test_an_extension_is_sha384_of_old_and_digest() -> None:
    digest = b"d" * 48
    once = extend(launched(), 3, digest)
    assert once.rtmrs[3] == hashlib.sha384(ZERO + digest).digest()
    assert extend(once, 3, digest).rtmrs[3] == hashlib.sha384(once.rtmrs[3] + digest).digest()


def test_an_extension_changes_nothing_else() -> None:
    before = launched()
    after = extend(before, 3, b"d" * 48)
    assert after.rtmrs[:3] == before.rtmrs[:3]
    assert (after.mrtd, after.mrconfigid, after.td_id) == (before.mrtd, before.mrconfigid, before.td_id)


@pytest.mark.parametrize("index", [0, 1, 2, 4, -1, 3.5])
def test_only_rtmr3_can_be_extended(index: int) -> None:
    with pytest.raises(RegisterError, match="RTMR3"):
        extend(launched(), index, ZERO)


@thorough(30)
@given(st.binary(max_size=100).filter(lambda data: len(data) != 48))
def test_a_digest_of_another_size_is_refused(digest: bytes) -> None:
    with pytest.raises(RegisterError, match="48 bytes"):
        extend(launched(), 3, digest)


@pytest.mark.parametrize("name", ["mrtd", "mrconfigid", "td_id", "td_attributes", "xfam"])
@pytest.mark.parametrize("size", [0, 7, 31, 47, 49, 64])
def test_a_launch_register_of_another_size_is_refused(name: str, size: int) -> None:
    with pytest.raises(RegisterError, match="size"):
        launched(**{name: bytes(size)})


def test_a_td_cannot_be_launched_with_short_rtmrs() -> None:
    with pytest.raises(RegisterError, match="RTMR2"):
        launch_registers(mrtd=ZERO, mrconfigid=ZERO, td_id=bytes(32), rtmrs=(ZERO, ZERO, b"", ZERO))


def test_a_body_has_its_types_size_exactly() -> None:
    module = ModuleIdentity()
    assert len(encode_td10_body(launched(), module, bytes(64))) == 584
    body = encode_td15_body(launched(), module, bytes(64), current_tee_tcb_svn=bytes(16), mrservicetd=ZERO)
    assert len(body) == 648


@pytest.mark.parametrize("size", [0, 32, 63, 65, 128])
def test_report_data_is_never_padded_or_cut(size: int) -> None:
    with pytest.raises(RegisterError, match="REPORTDATA"):
        encode_td10_body(launched(), ModuleIdentity(), bytes(size))
