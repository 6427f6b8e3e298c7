"""Parsing: offsets on genuine quotes, lengths that fit exactly, and no input that does more than refuse."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import NOW, quote_of, random_bytes
from tests.raising import raises_code

from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.tdx.quote.quote import MAX_QUOTE_BYTES, TDQuote, parse_quote, parse_td_report
from affiant.errors import AffiantError

PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))
V4 = quote_of(PLATFORM)
V5 = quote_of(PLATFORM, layout=QuoteLayout.V5_TD15)
AUTH = 636
"""Where the authentication data of a v4 quote begins."""


def patched(raw: bytes, offset: int, value: bytes) -> bytes:
    return raw[:offset] + value + raw[offset + len(value) :]


BODY_FIELDS = {
    "mr_config_id": "mrconfigid",
    "mr_owner": "mrowner",
    "mr_owner_config": "mrownerconfig",
    "mr_seam": "mrseam",
    "mr_service_td": "mrservicetd",
    "mr_signer_seam": "mrsignerseam",
    "mr_td": "mrtd",
    "report_data": "report_data",
    "seam_attributes": "seam_attributes",
    "td_attributes": "td_attributes",
    "tee_tcb_svn": "tee_tcb_svn",
    "tee_tcb_svn2": "tee_tcb_svn2",
    "xfam": "xfam",
}
EXTENSION_FIELDS = {
    "cur_service_td_attributes": "current_service_td_attributes",
    "cur_service_td_hash": "current_service_td_hash",
    "dev_info": "device_info",
    "init_cpu_svn": "initial_cpu_svn",
    "init_service_td_attributes": "initial_service_td_attributes",
    "init_service_td_hash": "initial_service_td_hash",
    "init_tee_fmspc": "initial_fmspc",
    "init_tee_tcb_svn": "initial_tee_tcb_svn",
    "td_id": "td_id",
    "vmid": "vm_id",
}


def body_as_recorded(quote: TDQuote, names: Any) -> dict[str, str]:
    values = {ours: getattr(quote.body, ours) for ours in BODY_FIELDS.values()}
    recorded = {theirs: values[ours].hex() for theirs, ours in BODY_FIELDS.items() if theirs in names}
    recorded |= {f"rtmr{number}": value.hex() for number, value in enumerate(quote.body.rtmrs)}
    if quote.body.extension is not None:
        recorded |= {
            theirs: getattr(quote.body.extension, ours).hex() for theirs, ours in EXTENSION_FIELDS.items()
        }
    return recorded


def test_every_field_of_every_genuine_quote_is_at_its_offset(vectors: Any) -> None:
    quotes = vectors.expected["quotes"]
    assert len(quotes) == 17
    for name, record in quotes.items():
        fields = record["fields"]
        if fields["inner_cert_type"] != 5:
            continue
        quote = parse_quote(vectors.quote(name))
        assert body_as_recorded(quote, fields["body"]) == fields["body"], name
        assert quote.header.version == fields["version"]
        assert quote.header.tee_type == fields["tee_type"] == 0x81
        assert len(quote.signed) == fields["signed_length"]
        assert quote.trailing_bytes == fields["trailing_bytes"]
        assert len(quote.authentication.qe_auth_data) == fields["qe_auth_length"]
        report = quote.authentication.qe_report
        assert report.mrsigner.hex() == fields["qe"]["mrsigner"]
        assert report.attributes.hex() == fields["qe"]["attributes"]
        assert (report.isv_prod_id, report.isv_svn) == (fields["qe"]["isvprodid"], fields["qe"]["isvsvn"])
        assert quote.body_type == fields.get("body_type", 2) or fields["version"] == 4


@pytest.mark.parametrize("raw", [V4, V5], ids=["v4", "v5"])
def test_every_cut_is_refused(raw: bytes) -> None:
    for length in range(len(raw)):
        with pytest.raises(AffiantError):
            parse_quote(raw[:length])


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (V4[:47], "within its header"),
        (V5[:53], "within its header"),
        (V4[:635], "within its body"),
        (V4[:632] + struct.pack("<I", 583) + V4[636:], "authentication data is cut"),
        (patched(V4, AUTH + 582, b"\xff\xff"), "quoting enclave reaches beyond"),
        (patched(V4, AUTH + 582, struct.pack("<H", len(V4) - AUTH - 584)), "quoting enclave reaches beyond"),
        (patched(V5, 48, struct.pack("<HI", 9, 648)), "unknown body type"),
    ],
)
def test_each_bound_is_named(raw: bytes, reason: str) -> None:
    with raises_code("quote.malformed", match=reason):
        parse_quote(raw)


@pytest.mark.parametrize("tee", [1, 0x80, 0x82, 0x8100])
def test_an_unknown_tee_is_refused(tee: int) -> None:
    with raises_code("quote.not_tdx", match="another TEE"):
        parse_quote(patched(V4, 4, struct.pack("<I", tee)))


@given(st.binary(max_size=3000))
def test_unsigned_padding_is_ignored_and_never_read(padding: bytes) -> None:
    quote = parse_quote(V4 + padding)
    assert quote.trailing_bytes == len(padding)
    assert quote.authentication == parse_quote(V4).authentication


@given(st.binary(max_size=2048))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    with pytest.raises(AffiantError):
        parse_quote(data)


@given(
    st.sampled_from([V4, V5]),
    st.lists(st.tuples(st.integers(0, len(V4) - 1), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_no_change_of_bytes_does_more_than_refuse(raw: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(raw)
    for offset, value in changes:
        changed[offset] = value
    try:
        parse_quote(bytes(changed))
    except AffiantError as refusal:
        assert refusal.code.startswith("quote.")


def test_a_quote_of_more_than_the_cap_is_refused_unread() -> None:
    with raises_code("quote.malformed", match="too large"):
        parse_quote(V4 + bytes(MAX_QUOTE_BYTES))


def test_an_sgx_quote_has_its_own_answer() -> None:
    sgx_v3 = struct.pack("<HHI", 3, 2, 0) + bytes(1000)
    for raw in (sgx_v3, patched(V4, 4, bytes(4)), patched(V5, 4, bytes(4)), patched(V5, 48, b"\x01\x00")):
        with raises_code("quote.not_tdx"):
            parse_quote(raw)


def test_a_local_report_has_its_own_answer() -> None:
    report = bytes((0x81, 0, 0, 0)) + bytes(1020)
    with raises_code("quote.local_report", match="TDREPORT"):
        parse_quote(report)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 6, 0xFFFF])
def test_an_unknown_version_is_refused(version: int) -> None:
    with raises_code("quote.unsupported"):
        parse_quote(patched(V4, 0, struct.pack("<H", version)))


@pytest.mark.parametrize("key_type", [0, 1, 3])
def test_another_kind_of_attestation_key_is_refused(key_type: int) -> None:
    with raises_code("quote.unsupported"):
        parse_quote(patched(V4, 2, struct.pack("<H", key_type)))


def test_another_vendor_of_the_quoting_enclave_is_refused() -> None:
    with raises_code("quote.malformed", match="vendor"):
        parse_quote(patched(V4, 12, bytes(16)))


@pytest.mark.parametrize(("body_type", "size"), [(2, 648), (3, 584), (3, 647), (4, 648), (5, 648), (0, 0)])
def test_a_v5_body_has_exactly_the_size_of_its_type(body_type: int, size: int) -> None:
    with raises_code("quote.malformed"):
        parse_quote(patched(V5, 48, struct.pack("<HI", body_type, size)))


@pytest.mark.parametrize("outer", [0, 1, 5, 7])
def test_another_outer_certification_is_refused(outer: int) -> None:
    with raises_code("quote.malformed", match="outer"):
        parse_quote(patched(V4, AUTH + 128, struct.pack("<H", outer)))


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 6, 7])
def test_certification_without_a_chain_has_its_own_answer(kind: int) -> None:
    with raises_code("quote.no_pck_chain"):
        parse_quote(patched(V4, AUTH + 584 + 32, struct.pack("<H", kind)))


@pytest.mark.parametrize("delta", [-1, 1, 100])
@pytest.mark.parametrize("offset", [632, AUTH + 130, AUTH + 582, AUTH + 584 + 34])
def test_every_length_must_fit_exactly(offset: int, delta: int) -> None:
    size = 2 if offset == AUTH + 582 else 4
    value = int.from_bytes(V4[offset : offset + size], "little") + delta
    with raises_code("quote.malformed"):
        parse_quote(patched(V4, offset, value.to_bytes(size, "little")))


def test_junk_inside_of_the_certification_data_is_refused() -> None:
    grown = int.from_bytes(V4[632:636], "little") + 7
    outer = int.from_bytes(V4[AUTH + 130 : AUTH + 134], "little") + 7
    raw = patched(patched(V4, 632, struct.pack("<I", grown)), AUTH + 130, struct.pack("<I", outer))
    with raises_code("quote.malformed", match="inner"):
        parse_quote(raw + b"JUNKY!!")


def test_a_td_report_of_another_length_is_refused() -> None:
    with raises_code("quote.malformed"):
        parse_td_report(bytes(583), body_type=2)


def test_a_quote_does_not_print_its_bytes() -> None:
    assert "raw" not in repr(parse_quote(V4))
