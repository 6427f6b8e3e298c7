from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.attestation.fault_scenarios.conftest import bench

from affiant.attestation.quote.collateral.single_file import parse_collateral_file
from fault_scenarios.collateral_json import collateral_json


def test_the_reader_gets_back_exactly_the_items() -> None:
    issued = bench().issued()
    assert parse_collateral_file(collateral_json(issued)) == issued
    assert json.loads(collateral_json(issued)).keys() >= {"tcb_info", "qe_identity_signature", "root_ca_crl"}


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"tcbInfo":{},"signature":"00","more":1}', b'{"enclaveIdentity":{},"signature":"00"}', b"\xff"],
)
def test_a_body_that_the_common_form_cannot_hold_stands_in_our_own(body: bytes) -> None:
    odd = replace(bench().issued(), tcb_info=body)
    written = collateral_json(odd)
    assert json.loads(written)["typ"] == "affiant-dcap-collateral/1"
    assert parse_collateral_file(written) == odd


def test_a_body_with_a_longer_signature_is_not_cut() -> None:
    issued = bench().issued()
    odd = replace(issued, tcb_info=issued.tcb_info[:-2] + b'00"}')
    assert parse_collateral_file(collateral_json(odd)) == odd
