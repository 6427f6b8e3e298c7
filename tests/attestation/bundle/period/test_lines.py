"""A line of receipts is one JWS between quotation marks, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.bundle.period.errors import LineMalformed
from affiant.attestation.bundle.period.lines import parse_receipt_line, receipt_line

FORM = re.compile(rb'"([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)"\Z')
CLOSE_TO_IT = st.lists(
    st.sampled_from([b'"', b".", b"a", b"-_", b"Z9", b"+", b"=", b"\\", b"\xc3", b" "]), max_size=9
)


@thorough(500)
@given(CLOSE_TO_IT.map(b"".join) | CLOSE_TO_IT.map(lambda parts: b'"%s"' % b"".join(parts)))
@example(b"")
@example(b'"')
@example(b'""')
@example(b'"a..b"')
@example(b'".a.b"')
@example(b'"a.b."')
@example(b'"a.b.c.d"')
@example(b'"a.b.c"\n')
def test_a_line_is_accepted_exactly_where_its_form_is(line: bytes) -> None:
    expected = FORM.match(line)
    if expected is None:
        with pytest.raises(LineMalformed):
            parse_receipt_line(line, where="here:1")
    else:
        assert parse_receipt_line(line, where="here:1") == expected[1].decode("ascii")


def test_what_is_written_is_read() -> None:
    assert parse_receipt_line(receipt_line("a-Z.b_9.c")[:-1], where="here:1") == "a-Z.b_9.c"
