"""The end of a DEFLATE stream in its last byte is found exactly, in streams that are written bit by bit."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.deflate_streams import ENDING_AT, STREAMS, Stream, coded

from affiant.attestation.bundle.period.deflate_end import last_byte
from affiant.attestation.bundle.period.errors import ZipContentMismatch


def unpacked(packed: bytes) -> bytes:
    """All of ``packed``, whose last byte goes through the function under test."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflate.decompress(packed[:-1])
    assert not inflate.eof
    content += last_byte(inflate, packed[-1], where="here")
    assert inflate.eof
    return content


def demand_exact(stream: Stream) -> None:
    """Accepted as it is; refused with any combination of its padding bits set."""
    assert unpacked(stream.packed) == stream.content
    for padding in range(1, 1 << (8 - stream.used)):
        with pytest.raises(ZipContentMismatch, match="padding bits") as refused:
            unpacked(stream.with_padding(padding))
        assert refused.value.where == "here"


@pytest.mark.parametrize("name", STREAMS)
def test_the_end_of_every_kind_of_last_block_is_found(name: str) -> None:
    demand_exact(STREAMS[name])


@pytest.mark.parametrize("used", range(1, 9))
def test_a_stream_may_end_at_every_bit(used: int) -> None:
    assert ENDING_AT[used].used == used
    demand_exact(ENDING_AT[used])


@given(st.binary(max_size=300))
def test_every_padding_bit_behind_any_content_is_found(content: bytes) -> None:
    demand_exact(coded(content))


@given(
    st.one_of(st.binary(max_size=300), st.lists(st.sampled_from([b"a", b"ab", bytes(40)])).map(b"".join)),
    st.integers(0, 9),
    st.sampled_from([zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE]),
)
def test_what_zlib_packs_is_never_refused(content: bytes, level: int, strategy: int) -> None:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, strategy=strategy)
    assert unpacked(deflate.compress(content) + deflate.flush()) == content


def test_a_bit_that_is_read_is_no_padding_even_if_its_flip_changes_no_content() -> None:
    """Otherwise the highest set bit would seem to be padding here."""
    one, other = (STREAMS[f"a distance of the fixed code, bits {each}"] for each in ("10", "00"))
    assert (one.content, one.packed[-1], one.used) == (other.content, 1, 8)
    assert one.packed[:-1] == other.packed[:-1]
    assert unpacked(one.packed) == unpacked(other.packed)


def test_a_stream_that_does_not_end_in_its_last_byte_is_left_to_the_caller() -> None:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    assert last_byte(inflate, 0xF3, where="here") == b""
    assert not inflate.eof
