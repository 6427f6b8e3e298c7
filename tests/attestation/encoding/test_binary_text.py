"""One spelling per value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.encoding.binary_text import EncodingError, b64u, b64u_each, from_b64u, from_hex


@given(st.binary(max_size=100))
def test_what_is_encoded_decodes(data: bytes) -> None:
    assert from_b64u(b64u(data)) == data
    assert from_hex(data.hex()) == data


@given(st.integers(1, 40).flatmap(lambda size: st.lists(st.binary(min_size=size, max_size=size), max_size=5)))
def test_a_series_is_encoded_as_each_of_its_pieces(pieces: list[bytes]) -> None:
    size = len(pieces[0]) if pieces else 16
    assert b64u_each(pieces, size=size) == [b64u(piece) for piece in pieces]


@given(st.text(max_size=20))
def test_a_text_that_decodes_is_the_only_spelling(text: str) -> None:
    try:
        data = from_b64u(text)
    except EncodingError:
        return
    assert b64u(data) == text


@pytest.mark.parametrize(
    "text",
    ["AB", "AA=", "AA==", "A", "A A", "A\n", "+/", "AA+A", "/AAA", "AAAAA", "-_=", "AAAB=", "é", "AAA\x00"],
)
def test_other_spellings_are_refused(text: str) -> None:
    with pytest.raises(EncodingError):
        from_b64u(text)


@pytest.mark.parametrize("text", ["AB", "a", "0 0", "0x00", "gg", "00\n", "٠٠"])
def test_other_hexadecimal_is_refused(text: str) -> None:
    with pytest.raises(EncodingError):
        from_hex(text)


def test_another_size_is_refused() -> None:
    with pytest.raises(EncodingError, match="31 bytes"):
        from_b64u(b64u(bytes(31)), size=32)
    with pytest.raises(EncodingError):
        from_hex("00" * 31, size=32)
