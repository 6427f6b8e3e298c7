from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.release.boot import Image
from affiant.attestation.release.platform_identity import MRSEAM, TD_ATTRIBUTES, XFAM
from affiant.attestation.simulated.platform.errors import RegisterError
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteFrame, QuoteLayout
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.quote.quote import parse_quote

register = st.binary(min_size=48, max_size=48)


def launch(
    platform: SimulatedPlatform, mrtd: bytes = b"m" * 48, mrconfigid: bytes = b"c" * 48
) -> TDRegisters:
    return platform.launch(Image.SESSION, mrtd=mrtd, mrconfigid=mrconfigid, td_id=bytes(32))


@pytest.mark.parametrize("layout", list(QuoteLayout))
@thorough(20)
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


@pytest.mark.parametrize("layout", list(QuoteLayout))
def test_the_parts_joined_are_the_quote(platform: SimulatedPlatform, layout: QuoteLayout) -> None:
    registers = launch(platform)
    body = platform.report_body(registers, bytes(64), layout=layout)
    parts = platform.quote_parts(body, layout)
    assert parts.to_bytes() == platform.quote(registers, bytes(64), layout=layout)
    assert replace(parts, tail=b"padding").to_bytes() == parts.to_bytes() + b"padding"


def test_a_frame_is_signed_with_the_body(platform: SimulatedPlatform) -> None:
    body = platform.report_body(launch(platform), bytes(64), layout=QuoteLayout.V5_TD10)
    frame = QuoteFrame(version=7, key_type=3, tee_type=5, user_data=b"u" * 20, body_type=9, body_size=1)
    plain = platform.quote_parts(body, QuoteLayout.V5_TD10)
    framed = platform.quote_parts(body, QuoteLayout.V5_TD10, frame)
    assert framed.signed[:8] == bytes((7, 0, 3, 0, 5, 0, 0, 0))
    assert framed.signed[28:54] == b"u" * 20 + bytes((9, 0, 1, 0, 0, 0))
    assert framed.signature != plain.signature


def test_a_length_is_written_as_it_is_said(platform: SimulatedPlatform) -> None:
    body = platform.report_body(launch(platform), bytes(64))
    parts = platform.quote_parts(body, QuoteLayout.V4)
    plain, said = parts.to_bytes(), replace(parts, auth_size=1, outer_size=2, qe_auth_size=3).to_bytes()
    assert len(plain) == len(said)
    assert (said[632:636], said[766:770], said[1218:1220]) == (b"\1\0\0\0", b"\2\0\0\0", b"\3\0")
