from __future__ import annotations

import hashlib
from dataclasses import replace

from affiant.attestation.release.platform_identity import QuotingEnclave
from affiant.attestation.simulated.platform.qe import encode_qe_report

POINT = bytes(range(64))


def test_a_report_is_384_bytes_with_each_field_in_its_place() -> None:
    enclave = QuotingEnclave(isv_prod_id=0x0102, isv_svn=0x0304)
    report = encode_qe_report(enclave, POINT)
    assert len(report) == 384
    assert report[48:64] == enclave.attributes
    assert (report[64:96], report[128:160]) == (enclave.mrenclave, enclave.mrsigner)
    assert report[256:260] == bytes((2, 1, 4, 3))


def test_its_report_data_binds_key_and_auth_data() -> None:
    enclave = QuotingEnclave()
    assert encode_qe_report(enclave, POINT)[320:] == hashlib.sha256(
        POINT + enclave.auth_data
    ).digest() + bytes(32)
    other = replace(enclave, auth_data=b"")
    assert encode_qe_report(other, POINT)[320:352] == hashlib.sha256(POINT).digest()


def test_other_report_data_stand_in_place_of_the_binding() -> None:
    enclave = QuotingEnclave(report_data=b"\x07" * 64)
    assert encode_qe_report(enclave, POINT)[320:] == b"\x07" * 64
    assert len(encode_qe_report(enclave, POINT)) == 384
