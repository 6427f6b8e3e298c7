"""One spelling is found, or the file is named for what it is."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.quote.judge.quote_file import MAX_QUOTE_FILE, NotAQuote, read_quote_file
from affiant.errors import AffiantError

HEADER = bytes.fromhex("04000200810000000000000000000000939a7233f79c4ca9940a0db3957f0607")
TAILS = st.binary(min_size=600, max_size=900)


@given(TAILS)
def test_raw_hexadecimal_and_base64_of_one_quote_are_the_same_quote(tail: bytes) -> None:
    quote = HEADER + tail
    text = base64.b64encode(quote)
    spellings = {
        "raw": [quote],
        "hexadecimal": [
            quote.hex().encode(),
            quote.hex().upper().encode(),
            b"0x" + quote.hex().encode() + b"\n",
        ],
        "base64": [text, text.rstrip(b"="), base64.encodebytes(quote), text + b"\r\n"],
    }
    for encoding, files in spellings.items():
        for content in files:
            found = read_quote_file(content)
            assert (found.encoding, found.data) == (encoding, quote)


@given(TAILS)
def test_base64url_is_read_where_it_differs(tail: bytes) -> None:
    quote = HEADER + b"\xff\xef\xbe" + tail
    found = read_quote_file(base64.urlsafe_b64encode(quote))
    assert (found.encoding, found.data) == ("base64url", quote)


@given(TAILS)
def test_the_base64_of_a_quote_is_never_taken_for_hexadecimal(tail: bytes) -> None:
    for version in (b"\x03", b"\x04", b"\x05"):
        text = base64.b64encode(version + HEADER[1:] + tail)
        assert set(text) - set(b"0123456789abcdefABCDEF=")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", "empty"),
        (b"-----BEGIN CERTIFICATE-----\n", "PEM"),
        (b"\x30\x82\x02\x93", "DER"),
        (b"HCLA" + bytes(200), "Azure"),
        (b'{"typ":"affiant-bundle/1"}', "affiant verify"),
        (b' {"tcb_info_issuer_chain":""}', "--collateral"),
        (b'{"typ":"affiant-dcap-collateral/1"}', "--collateral"),
        (b'{"typ":"affiant-reference-values/1"}', "--reference"),
        (b'[{"imr":0,"event_payload":""}]', "affiant quote eventlog"),
        (b'{"quote":"0400"}', "member"),
        (b"{}", "JSON document"),
        (b"eyJhbGciOiJFUzI1NiJ9.e30.AA", "web token"),
        (b"\x02\0\0\0" + bytes(1180), "SEV-SNP"),
        (bytes(432), "SGX report"),
        (bytes(8) + b"\x03" + bytes(23) + b"Spec ID Event03\0" + bytes(300_000), "affiant quote eventlog"),
        (b"0400z", "neither"),
        (b"040", "neither"),
        (b"quote: 0400", "neither"),
        (b"a" * (MAX_QUOTE_FILE + 1), "too large"),
        (bytes(MAX_QUOTE_FILE + 1), "too large"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_quote_is_named(content: bytes, named: str) -> None:
    with pytest.raises(NotAQuote, match=named):
        read_quote_file(content)


@pytest.mark.parametrize("text", ["BAACAIEA=AAA", "BAACAIEAAB==", "BAACAIEAA", "BAAC-IE/", "BAACAIEAAA="])
def test_only_the_one_spelling_of_base64_is_read(text: str) -> None:
    with pytest.raises(NotAQuote):
        read_quote_file(text.encode())


@given(st.binary(max_size=2000) | st.text(max_size=300).map(str.encode))
def test_arbitrary_files_are_read_or_refused(content: bytes) -> None:
    try:
        assert read_quote_file(content).data
    except AffiantError as refusal:
        assert refusal.code == "quote.not_a_quote"
