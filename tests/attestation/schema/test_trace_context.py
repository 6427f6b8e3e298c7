"""A ``traceparent`` is read one way or not at all."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.schema.records import shape_of
from affiant.attestation.schema.trace_context import TraceContext, trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_valid_header_is_read_and_kept_as_it_came() -> None:
    found = trace_of([VALID])
    assert found is not None
    assert (found.trace, found.span, found.header) == (TRACE, SPAN, VALID)
    shape_of("inference", role="gateway", cls="simulated").hidden["trc"].check(found.to_json(), "trc")


@pytest.mark.parametrize(
    "values",
    [
        [],
        [VALID, VALID],
        [VALID, b""],
        [b""],
        [VALID + b"\n"],
        [VALID + b" "],
        [b" " + VALID],
        [VALID + b"\r\nX-Evil: 1"],
        [VALID + b"," + VALID],
        [VALID + b"-more"],
        [VALID.upper()],
        [VALID.replace(b"4bf9", b"4BF9")],
        [b"01" + VALID[2:]],
        [b"cc" + VALID[2:]],
        [b"ff" + VALID[2:]],
        [b"00-" + b"0" * 32 + VALID[35:]],
        [VALID[:36] + b"0" * 16 + VALID[52:]],
        [VALID.replace(b"-", b"_")],
        [VALID[:-1]],
        [VALID[:-3]],
        [VALID[:-2] + b"0g"],
        ["00-{}-{}-01".format("\u0661" * 32, SPAN).encode()],
        [VALID * 10_000],
    ],
    ids=range(23),
)
def test_anything_else_is_no_trace(values: list[bytes]) -> None:
    assert trace_of(values) is None


@given(
    st.lists(
        st.binary(max_size=60)
        | st.from_regex(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True),
        max_size=2,
    )
)
def test_what_goes_on_is_always_55_bytes_without_anything_to_smuggle(values: list[bytes]) -> None:
    found = trace_of(values)
    assert found is None or (
        [found.header] == values
        and len(found.header) == 55
        and re.fullmatch(rb"[0-9a-f-]+", found.header) is not None
        and found == TraceContext(f"00-{found.trace}-{found.span}-".encode() + found.header[-2:])
        and int(found.trace, 16)
        and int(found.span, 16)
    )
