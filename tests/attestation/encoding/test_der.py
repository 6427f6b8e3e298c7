"""DER has one spelling; every other one is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.encoding.der import (
    INTEGER,
    SEQUENCE,
    DERError,
    children,
    read_element,
    read_single,
    unsigned_integer,
)


def encoded(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes((tag, len(content))) + content
    size = (len(content).bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + len(content).to_bytes(size, "big") + content


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_what_was_encoded_is_read_back(contents: list[bytes]) -> None:
    sequence = encoded(SEQUENCE, b"".join(encoded(0x04, content) for content in contents))
    assert [element.content for element in children(read_single(sequence, SEQUENCE))] == contents


@pytest.mark.parametrize(
    "text",
    [
        "",
        "30",
        "3001",
        "3080 0000",  # indefinite
        "308100",  # long form of a short length
        "30817f" + "00" * 127,
        "3082007f" + "00" * 127,
        "3082 0080" + "00" * 128,
        "3084 00000001 00",
        "1f 01 00",  # tag of more than one byte
        "3000 00",  # bytes after
    ],
)
def test_any_other_spelling_is_refused(text: str) -> None:
    with pytest.raises(DERError):
        read_single(bytes.fromhex(text), SEQUENCE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("04", "cut short"),
        ("0405 616263", "cut short"),
        ("0481", "length"),
        ("0480 0000", "length"),
        ("048400000001 61", "length"),
        ("048101 61", "minimal"),
        ("1f0100", "tag"),
    ],
)
def test_an_element_never_reaches_beyond_its_container(text: str, reason: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(DERError, match=reason):
        read_element(data)
    with pytest.raises(DERError, match=reason):
        list(children(data))


@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_only_refused(data: bytes) -> None:
    try:
        element, end = read_element(data)
    except DERError:
        return
    assert element.encoded == data[:end]
    assert element.content == element.encoded[-len(element.content) or end :]


@given(st.integers(0, 1 << 64))
def test_an_integer_has_one_spelling(value: int) -> None:
    content = value.to_bytes(value.bit_length() // 8 + 1, "big")
    assert unsigned_integer(content) == value
    for other in (b"\0" + content, b"", b"\x80" + content):
        with pytest.raises(DERError):
            unsigned_integer(other)


def test_another_tag_is_refused() -> None:
    with pytest.raises(DERError):
        read_single(b"\x02\x01\x00", SEQUENCE)
    assert read_single(b"\x02\x01\x00", INTEGER) == b"\0"
