"""The issuer chain in a header: what re-encoders do is read, what could mean two things is refused."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

import pytest
from tests.attestation.quote.collateral.conftest import Recorded, Simulated

from affiant.attestation.quote.collateral.errors import ResponseRefused
from affiant.attestation.quote.collateral.issuer_header import MAX_HEADER_CHAIN, decode_issuer_chain


@pytest.fixture(scope="module")
def pem(simulated: Simulated) -> bytes:
    return simulated.collateral().tcb_info_issuer_chain


def decode(value: str) -> bytes:
    return decode_issuer_chain(value, name="TCB-Info-Issuer-Chain")


def test_intels_own_encoding_gives_the_chain(pem: bytes) -> None:
    assert decode(quote(pem.decode(), safe="")) == pem


@pytest.mark.parametrize(
    "name", ["tcb_info_90c06f000000_chain.txt", "qe_identity_chain.txt", "pck_crl_platform_chain.txt"]
)
def test_intels_recorded_headers_give_their_chains(recorded: Recorded, name: str) -> None:
    assert decode(recorded.header(name)).count(b"-----BEGIN CERTIFICATE-----") == 2


def test_a_plus_sign_of_base64_may_stand_unencoded(pem: bytes) -> None:
    assert b"+" in pem
    assert decode(quote(pem.decode(), safe="+/=-")) == pem


def test_digits_in_lower_case_are_read(pem: bytes) -> None:
    encoded = quote(pem.decode(), safe="")
    assert decode("".join(encoded[i : i + 1] for i in range(len(encoded))).replace("%0A", "%0a")) == pem


def test_form_encoding_is_read_as_such(pem: bytes) -> None:
    assert decode(quote_plus(pem.decode())) == pem


def test_carriage_returns_and_blanks_around_are_read(pem: bytes) -> None:
    crlf = pem.replace(b"\n", b"\r\n")
    assert decode(f" {quote(crlf.decode(), safe='')}\t") == crlf


def test_a_blank_left_in_place_is_read(pem: bytes) -> None:
    assert decode(quote(pem.decode(), safe=" ")) == pem


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: quote(text, safe=""), "encoded twice"),
        (lambda text: text + "%", "not URL-encoded"),
        (lambda text: text + "%zz", "not URL-encoded"),
        (lambda text: text + '"', "not URL-encoded"),
        (lambda text: text + "\u00e9", "not URL-encoded"),
        (lambda text: text + "more", "cannot be read"),
        (lambda text: text.replace("CERTIFICATE", "X509%20CRL"), "cannot be read"),
        (lambda text: text[: len(text) // 2], "cannot be read"),
        (lambda text: text * 2, "cannot be read"),
        (lambda text: "%00" + text, "cannot be read"),
        (lambda _: "", "not URL-encoded"),
        (lambda text: text + "%20" * MAX_HEADER_CHAIN, "too long"),
    ],
)
def test_anything_else_is_refused(pem: bytes, change: object, says: str) -> None:
    with pytest.raises(ResponseRefused, match=says) as refused:
        decode(change(quote(pem.decode(), safe="")))  # type: ignore[operator]
    assert "TCB-Info-Issuer-Chain" in str(refused.value)
    assert refused.value.code == "collateral.response"
