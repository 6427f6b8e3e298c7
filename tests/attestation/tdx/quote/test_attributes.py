"""TD_ATTRIBUTES and XFAM, bit by bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.attestation.tdx.conftest import NOW, quote_of, random_bytes
from tests.raising import raises_code

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.tdx.quote.attributes import appraise_td_configuration
from affiant.attestation.tdx.quote.quote import TDReport, parse_quote

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
BODY = parse_quote(quote_of(PLATFORM, layout=QuoteLayout.V5_TD15)).body

TOLERATED = {16, 18, 19, 20, 21, 22, 27, 28, 30, 31, 62, 63}
"""Defined and harmless here: the reference values pin them exactly."""


def with_attributes(bits: int) -> TDReport:
    return replace(BODY, td_attributes=bits.to_bytes(8, "little"))


def with_xfam(bits: int) -> TDReport:
    return replace(BODY, xfam=bits.to_bytes(8, "little"))


def test_the_usual_td_is_accepted() -> None:
    appraise_td_configuration(BODY)
    assert BODY.td_attributes.hex() == "0000001000000000"


@pytest.mark.parametrize("bit", range(64))
def test_each_bit_has_its_answer(bit: int) -> None:
    body = with_attributes(1 << 28 | 1 << bit)
    if bit in TOLERATED:
        appraise_td_configuration(body)
    elif bit == 0:
        with raises_code("appraisal.debug"):
            appraise_td_configuration(body)
    else:
        with raises_code("appraisal.td_attributes"):
            appraise_td_configuration(body)


def test_sept_ve_disable_is_required() -> None:
    with raises_code("appraisal.td_attributes", match="SEPT_VE_DISABLE"):
        appraise_td_configuration(with_attributes(0))


def test_a_bound_service_td_is_refused() -> None:
    with raises_code("appraisal.service_td"):
        appraise_td_configuration(replace(BODY, mrservicetd=bytes(47) + b"\x01"))
    appraise_td_configuration(replace(BODY, mrservicetd=None))


@pytest.mark.parametrize("xfam", [0x602E7, 0x618E7, 0x600E7, 0x642E7, 0x61AE7, 0x207])
def test_features_that_were_seen_are_accepted(xfam: int) -> None:
    appraise_td_configuration(with_xfam(xfam))


@pytest.mark.parametrize("xfam", [0, 1, 2, 0x602E7 | 1 << 3, 0x602E7 | 1 << 19, 0x602E7 | 1 << 63])
def test_features_outside_of_the_masks_are_refused(xfam: int) -> None:
    with raises_code("appraisal.xfam"):
        appraise_td_configuration(with_xfam(xfam))
