"""Everything that a quote claims is shown by name; nothing in it can reach the terminal as more than text."""

from __future__ import annotations

import base64
import json
import unicodedata
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tdx.conftest import MRCONFIGID, NOW, REPORT_DATA, key_of, quote_of
from tests.raising import raises_code

from affiant.attestation.quote.judge.quote_file import read_quote_file
from affiant.attestation.quote.show.inspection import inspect_quote
from affiant.attestation.quote.show.inspection_text import render_inspection
from affiant.attestation.simulated.platform.keys import Role
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout, encode_quote
from affiant.attestation.simulated.platform.registers import encode_td10_body
from affiant.attestation.tdx.quote.certification import CertificationType
from affiant.attestation.tdx.quote.quote import dissect_quote, parse_quote
from affiant.errors import AffiantError


def inspect(data: bytes) -> tuple[Any, str]:
    document = inspect_quote(dissect_quote(data), read_quote_file(data))
    return document, render_inspection(document)


def test_every_claim_of_a_simulated_quote_is_shown(platform: SimulatedPlatform) -> None:
    data = quote_of(platform, layout=QuoteLayout.V5_TD15)
    quote = parse_quote(data)
    document, text = inspect(data)
    assert document["verified"] is False
    assert "NOTHING HERE IS VERIFIED" in text.splitlines()[0]
    for value in (quote.body.mrtd, MRCONFIGID, REPORT_DATA, *quote.body.rtmrs, quote.body.mrseam):
        assert value.hex() in text
        assert value.hex() in json.dumps(document)
    assert document["header"]["body"] == "TD 1.5"
    assert document["certification"]["name"] == "PCK certificate chain, PEM"
    assert document["certification"]["pck"]["fmspc"] == platform.machine.fmspc.hex()
    assert document["configuration"]["td_attributes_set"] == ["SEPT_VE_DISABLE"]
    assert document["configuration"]["objection"] is None
    assert [item["key_is_intel_root"] for item in document["certification"]["certificates"]] == [False] * 3
    assert text.count("NOT Intel's root key") == 1


def test_trailing_padding_is_reported_and_never_read(platform: SimulatedPlatform) -> None:
    data = quote_of(platform)
    assert "trailing            none" in inspect(data)[1]
    document, text = inspect(data + bytes(70))
    assert document["file"]["trailing_bytes"] == 70
    assert document["file"]["trailing_all_zero"] is True
    assert "70 bytes after the quote, all zero" in text
    assert "NOT all zero" in inspect(data + b"\0x")[1]


def test_what_appraisal_would_refuse_is_said(platform: SimulatedPlatform) -> None:
    document, text = inspect(quote_of(platform, td={"td_attributes": (1 | 1 << 28).to_bytes(8, "little")}))
    assert document["configuration"]["td_attributes_set"] == ["DEBUG", "SEPT_VE_DISABLE"]
    assert document["configuration"]["objection"]["code"] == "appraisal.debug"
    assert "WOULD BE REFUSED" in text


def certified(platform: SimulatedPlatform, number: int, data: bytes) -> bytes:
    """A quote whose inner certification data is this; everything around it keeps its lengths."""
    quote = quote_of(platform)
    parsed = parse_quote(quote)
    inner = len(parsed.authentication.certification_data)
    tail = len(quote) - parsed.trailing_bytes
    start = tail - inner - 6
    auth_at = len(parsed.signed)
    auth = quote[auth_at + 4 : start] + number.to_bytes(2, "little") + len(data).to_bytes(4, "little") + data
    auth = auth[:130] + (len(auth) - 134).to_bytes(4, "little") + auth[134:]
    return quote[:auth_at] + len(auth).to_bytes(4, "little") + auth


@pytest.mark.parametrize(
    ("number", "size", "shown"),
    [
        (1, 36, "plain PPID"),
        (2, 276, "encrypted for Intel"),
        (3, 404, "RSA-3072"),
        (4, 8, "CANNOT BE READ"),
        (6, 9, "report of the quoting enclave"),
        (7, 100, "platform manifest"),
        (9, 3, "no type that is known"),
    ],
)
def test_other_certification_data_is_told_apart_and_refused_by_the_verifier(
    platform: SimulatedPlatform, number: int, size: int, shown: str
) -> None:
    data = certified(platform, number, b"\x07" * size)
    document, text = inspect(data)
    assert document["certification"]["type"] == number
    assert shown in text
    assert "cannot be verified by what is at hand" in text
    with raises_code("quote.no_pck_chain"):
        parse_quote(data)
    with raises_code("quote.no_pck_chain"):
        _ = dissect_quote(data).authentication.pck_chain


def test_a_platform_name_is_shown_in_its_parts(platform: SimulatedPlatform) -> None:
    data = bytes(range(16)) + b"\x0a" * 16 + b"\x0d\x00" + b"\x00\x01"
    named = inspect(certified(platform, CertificationType.PLAIN_PPID, data))[0]["certification"]["platform"]
    assert named == {
        "ppid": bytes(range(16)).hex(),
        "ppid_encrypted": False,
        "cpu_svn": "0a" * 16,
        "pce_svn": 13,
        "pceid": "0001",
    }


HOSTILE = "Evil\x1b[2J\nCERTIFICATE 9: verified\u202egnp.exe\x07"


def test_a_hostile_subject_cannot_move_the_cursor_or_forge_a_line(platform: SimulatedPlatform) -> None:
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "Intel SGX PCK Certificate"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, HOSTILE),
        ]
    )
    key = key_of(platform, Role.PCK)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, NOW, NOW + timedelta(days=1))
    pem = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    signer = replace(platform.quote_signer(), pck_chain=pem)
    registers = platform.launch(platform_image(), mrconfigid=MRCONFIGID, mrtd=bytes(48), td_id=bytes(32))
    body = encode_td10_body(registers, platform.module, REPORT_DATA)
    document, text = inspect(encode_quote(body, QuoteLayout.V4, signer))
    assert "Evil" in text
    assert not [char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf")]
    assert not [line for line in text.splitlines() if line.startswith("CERTIFICATE 9")]
    assert json.dumps(document, ensure_ascii=True).isascii()


def platform_image() -> Any:
    from affiant.attestation.release.boot import Image

    return Image.SESSION


@given(st.data())
def test_a_damaged_quote_is_shown_or_refused(platform: SimulatedPlatform, data: Any) -> None:
    damaged = bytearray(quote_of(platform))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        _, text = inspect(bytes(damaged)[: data.draw(st.integers(0, len(damaged)))])
    except AffiantError as refusal:
        assert refusal.code.startswith("quote.")
    else:
        assert text.isprintable() or set(text) - {"\n"}


@pytest.mark.parametrize("which", ["issuer", "subject"])
def test_a_name_that_is_no_text_is_shown_as_such(platform: SimulatedPlatform, which: str) -> None:
    """A PrintableString or UTF8String with bytes that it cannot have; the certificate's frame is sound."""
    quote = quote_of(platform)
    leaf = platform.certificates.pck.public_bytes(Encoding.DER)
    organisation = b"affiant SIMULATED platform"
    at = leaf.index(organisation) if which == "issuer" else leaf.rindex(organisation)
    damaged = leaf[:at] + b"\xff\xfe" + leaf[at + 2 :]
    spelled = [b"".join(base64.encodebytes(der).split()) for der in (leaf, damaged)]
    text = quote.decode("latin-1")
    pem = [pem_of(each) for each in spelled]
    assert pem[0] in text
    document, _ = inspect(text.replace(pem[0], pem[1], 1).encode("latin-1"))
    assert document["certification"]["certificates"][0][which] == "(a name that has no text form)"


def pem_of(text: bytes) -> str:
    """Base64 in lines of 64 characters."""
    return "\n".join(text[at : at + 64].decode() for at in range(0, len(text), 64))


def test_every_genuine_quote_is_shown(vectors: Any) -> None:
    """All fields that the collection lists, of 17 quotes from four clouds and bare metal."""
    for name, quote in vectors.expected["quotes"].items():
        fields = quote["fields"]
        document, text = inspect(vectors.read(quote["file"]))
        assert document["file"]["bytes"] == fields["length"], name
        assert document["file"]["signed_bytes"] == fields["signed_length"], name
        assert document["certification"]["type"] == fields["inner_cert_type"], name
        assert len(document["certification"].get("certificates", [])) == fields["pem_certificates"], name
        for ours, theirs in (("mrtd", "mr_td"), ("mrseam", "mr_seam"), ("mrconfigid", "mr_config_id")):
            assert document["body"][ours] == fields["body"][theirs], name
        for register in ("rtmr0", "rtmr1", "rtmr2", "rtmr3", "report_data"):
            assert document["body"][register] == fields["body"][register], name
        if "pck" in fields:
            pck = document["certification"]["pck"]
            assert (pck["fmspc"], pck["pceid"], pck["pce_svn"], pck["cpu_svn"]) == tuple(
                fields["pck"][key] for key in ("fmspc", "pceid", "pcesvn", "cpusvn")
            ), name
            assert (pck["dynamic_platform"], pck["cached_keys"], pck["smt_enabled"]) == tuple(
                fields["pck"][key] for key in ("dynamic_platform", "cached_keys", "smt_enabled")
            ), name
            roots = [item["key_is_intel_root"] for item in document["certification"]["certificates"]]
            assert roots[-1] == fields["pck"]["intel_root"], name
        assert text.endswith("\n")
