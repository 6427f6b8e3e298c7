from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affiant.attestation.evidence_source import TDRegisters
from affiant.attestation.simulated.boot import Image
from affiant.attestation.simulated.errors import RegisterError
from affiant.attestation.simulated.identity import MRSEAM, TD_ATTRIBUTES, XFAM
from affiant.attestation.simulated.platform import SimulatedPlatform
from affiant.attestation.simulated.quoting import QuoteLayout
from affiant.attestation.tdx import parse_quote

register = st.binary(min_size=48, max_size=48)


def launch(
    platform: SimulatedPlatform, mrtd: bytes = b"m" * 48, mrconfigid: bytes = b"c" * 48
) -> TDRegisters:
    return platform.launch(Image.SESSION, mrtd=mrtd, mrconfigid=mrconfigid, td_id=bytes(32))


@pytest.mark.parametrize("layout", list(QuoteLayout))
@settings(max_examples=20, deadline=None)
@given(mrtd=register, mrconfigid=register, report_data=st.binary(min_size=64, max_size=64))
def test_the_verifier_reads_back_every_register(
    platform: SimulatedPlatform, layout: QuoteLayout, mrtd: bytes, mrconfigid: bytes, report_data: bytes
) -> None:
    registers = launch(platform, mrtd, mrconfigid)
    body = parse_quote(platform.quote(registers, report_data, layout=layout)).body
    assert (body.mrtd, body.mrconfigid, body.report_data) == (mrtd, mrconfigid, report_data)
    assert (body.rtmrs, body.mrseam) == (registers.rtmrs, MRSEAM)
    assert (body.td_attributes, body.xfam) == (TD_ATTRIBUTES, XFAM)


def test_nothing_follows_the_authentication_data(platform: SimulatedPlatform) -> None:
    assert parse_quote(platform.quote(launch(platform), bytes(64))).trailing_bytes == 0


def test_the_header_says_simulated(platform: SimulatedPlatform) -> None:
    assert platform.quote(launch(platform), bytes(64))[28:48] == b"affiant SIMULATED TD"


@pytest.mark.parametrize("layout", list(QuoteLayout))
@pytest.mark.parametrize("size", [0, 63, 65])
def test_report_data_of_another_size_is_refused(
    platform: SimulatedPlatform, layout: QuoteLayout, size: int
) -> None:
    with pytest.raises(RegisterError, match="REPORTDATA"):
        platform.quote(launch(platform), bytes(size), layout=layout)


def test_v5_signs_the_bodys_type_and_size(platform: SimulatedPlatform) -> None:
    quote = platform.quote(launch(platform), bytes(64), layout=QuoteLayout.V5_TD15)
    assert quote[48:54] == bytes((3, 0)) + (648).to_bytes(4, "little")
    assert parse_quote(quote).signed == quote[: 54 + 648]
