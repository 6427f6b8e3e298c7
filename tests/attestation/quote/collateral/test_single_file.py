"""One file of collateral, in two closed forms; every byte that is signed stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.quote.collateral.conftest import Simulated
from tests.attestation.tdx.conftest import verify

from affiant.attestation.quote.collateral.single_file import parse_collateral_file
from affiant.attestation.tdx.quote.errors import CollateralMalformed
from affiant.attestation.tdx.tcb.collateral import Collateral


def as_qcv3(collateral: Collateral) -> dict[str, str]:
    """The members of QuoteCollateralV3, cut from the exact bodies."""

    def cut(body: bytes, member: str) -> tuple[str, str]:
        text = body.decode()
        return text[len(member) + 4 : text.rindex(',"signature"')], json.loads(text)["signature"]

    tcb, tcb_signature = cut(collateral.tcb_info, "tcbInfo")
    qe, qe_signature = cut(collateral.qe_identity, "enclaveIdentity")
    return {
        "pck_crl_issuer_chain": collateral.pck_crl_issuer_chain.decode(),
        "root_ca_crl": collateral.root_ca_crl.hex(),
        "pck_crl": collateral.pck_crl.hex(),
        "tcb_info_issuer_chain": collateral.tcb_info_issuer_chain.decode(),
        "tcb_info": tcb,
        "tcb_info_signature": tcb_signature,
        "qe_identity_issuer_chain": collateral.qe_identity_issuer_chain.decode(),
        "qe_identity": qe,
        "qe_identity_signature": qe_signature,
    }


def test_both_forms_give_the_same_seven_items(simulated: Simulated) -> None:
    collateral = simulated.collateral()
    theirs = json.dumps(as_qcv3(collateral)).encode()
    assert parse_collateral_file(theirs) == collateral
    assert parse_collateral_file(collateral.to_bytes()) == collateral
    assert parse_collateral_file(collateral.to_bytes() + b"\n") == collateral
    with_chain = json.dumps(as_qcv3(collateral) | {"pck_certificate_chain": "never read"}).encode()
    assert parse_collateral_file(with_chain) == collateral


def test_a_text_cannot_be_moved_out_of_its_signature(simulated: Simulated) -> None:
    """The body is put together from two members; what would end the first one early verifies under nothing."""
    members = as_qcv3(simulated.collateral())
    forged = members["tcb_info"].replace("OutOfDate", "UpToDate")
    for text in (
        forged + f',"signature":"{members["tcb_info_signature"]}","x":{{}}',
        f'{members["tcb_info"]},"signature":"{members["tcb_info_signature"]}"}},{{"tcbInfo":{forged}',
        forged,
    ):
        with pytest.raises((CollateralMalformed, Exception)) as refused:
            verify(
                simulated.platform,
                collateral=parse_collateral_file(json.dumps(members | {"tcb_info": text}).encode()),
            )
        assert refused.value.code in {"tcb.malformed", "collateral.signature"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change",
    [
        {"root_ca_crl": "30 82"},
        {"root_ca_crl": "308"},
        {"root_ca_crl": "zz"},
        {"pck_crl": 7},
        {"tcb_info": None},
        {"tcb_info": "\ud800"},
        {"more": ""},
        {"typ": "affiant-dcap-collateral/1"},
        {"typ": "affiant-dcap-collateral/2"},
    ],
    ids=str,
)
def test_another_form_is_refused(simulated: Simulated, change: Any) -> None:
    content = json.dumps(as_qcv3(simulated.collateral()) | change).encode()
    with pytest.raises(CollateralMalformed):
        parse_collateral_file(content)


def test_a_missing_or_doubled_member_is_refused(simulated: Simulated) -> None:
    members = as_qcv3(simulated.collateral())
    for name in members:
        less = {key: value for key, value in members.items() if key != name}
        with pytest.raises(CollateralMalformed, match=name):
            parse_collateral_file(json.dumps(less).encode())
        text = json.dumps(members)
        with pytest.raises(CollateralMalformed):
            parse_collateral_file((text[:-1] + f',"{name}":""}}').encode())


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_only_refused(content: bytes) -> None:
    with pytest.raises(CollateralMalformed):
        parse_collateral_file(content)
