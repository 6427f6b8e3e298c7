"""One spelling per value."""

from __future__ import annotations

import base64

import pytest
from hypothesis import example, given
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


@given(st.binary(max_size=8), st.binary(min_size=1, max_size=2), st.integers(0))
@example(b"abc", b"=", 4)
@example(b"abc", b"==", 3)
def test_a_changed_text_decodes_only_if_it_encodes_what_it_decodes_to(
    data: bytes, change: bytes, at: int
) -> None:
    """Held against Python's lenient decoder, whose answer is encoded again and compared."""
    text = b64u(data)
    at %= len(text) + 1
    changed = text[:at] + change.decode("latin-1") + text[at + len(change) :]
    try:
        expected = base64.urlsafe_b64decode(changed + "=" * (-len(changed) % 4))
    except ValueError:
        expected = None
    accepted = expected is not None and base64.urlsafe_b64encode(expected).rstrip(b"=").decode() == changed
    if accepted:
        assert from_b64u(changed) == expected
    else:
        with pytest.raises(EncodingError):
            from_b64u(changed)


def _ends(length: int) -> set[str]:
    """Every encoding of ``length`` characters that begins with zero bits alone."""
    size = length * 6 // 8
    return {b64u(bytes(size - 1) + bytes([last])) for last in range(256)}


def test_of_each_last_character_exactly_the_encodings_own_is_accepted() -> None:
    for head in ("A", "AA", "AAA"):
        accepted = _ends(len(head) + 1)
        for last in map(chr, range(256)):
            text = head + last
            if text in accepted:
                assert b64u(from_b64u(text)) == text
            else:
                with pytest.raises(EncodingError):
                    from_b64u(text)


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
