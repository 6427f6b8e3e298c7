"""Lines of any file: bounded, counted as an editor counts them, none lost."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.audit.records_of_others.line_file import lines_of

LONGEST = 8


def read(data: bytes) -> list:
    return list(lines_of(io.BytesIO(data), longest=LONGEST))


def test_ends_belong_to_no_line_and_empty_lines_are_none() -> None:
    assert read(b"one\r\n\ntwo\nthree") == [(1, "one", None), (3, "two", None), (4, "three", None)]


def test_a_line_of_exactly_the_limit_is_read_and_a_longer_one_is_passed_over() -> None:
    assert read(b"x" * 8 + b"\n" + b"y" * 9 + b"\n" + b"z" * 8 + b"\r\nw") == [
        (1, "x" * 8, None),
        (2, None, "longer than 8 bytes"),
        (3, "z" * 8, None),
        (4, "w", None),
    ]


def test_what_is_no_text_says_why() -> None:
    assert [why for _, _, why in read(b"a\0b\n\xff\n")] == ["a NUL byte", "not UTF-8"]


@given(
    st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")), max_size=12), st.booleans()
)
def test_every_line_that_is_not_empty_comes_once_under_its_number(lines: list[bytes], ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    expected = [n for n, line in enumerate(lines, 1) if line.removesuffix(b"\r")]
    assert [number for number, _, _ in read(data)] == expected
