"""Leaves: 66 bytes, byte for byte, and no others."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.schema.records import KINDS
from affiant.attestation.tlog.entry import ENTRY_SIZE, LogEntry, parse_entry
from affiant.attestation.tlog.errors import EntryMalformed

ENTRY = LogEntry("inference", b"c" * 16, 7, 1_780_000_000, b"r" * 32)


def test_the_bytes_are_those_of_the_specification() -> None:
    data = ENTRY.to_bytes()
    assert data == (
        b"\x01\x02" + b"c" * 16 + (7).to_bytes(8, "big") + (1_780_000_000).to_bytes(8, "big") + b"r" * 32
    )
    assert (len(data), ENTRY_SIZE) == (66, 66)
    assert ENTRY.leaf_hash == hashlib.sha256(b"\0" + data).digest()
    assert parse_entry(data) == ENTRY


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_has_its_own_code(kind: str) -> None:
    entry = LogEntry(kind, b"c" * 16, 0, 0, b"r" * 32)
    assert parse_entry(entry.to_bytes()) == entry
    assert entry.to_bytes()[1] == KINDS[kind].leaf


@pytest.mark.parametrize(
    "data",
    [
        b"",
        ENTRY.to_bytes()[:-1],
        ENTRY.to_bytes() + b"\0",
        b"\x00" + ENTRY.to_bytes()[1:],
        b"\x02" + ENTRY.to_bytes()[1:],
        b"\x01\x00" + ENTRY.to_bytes()[2:],
        b"\x01\xff" + ENTRY.to_bytes()[2:],
        ENTRY.to_bytes()[:18] + b"\x00\x20" + bytes(6) + ENTRY.to_bytes()[26:],
        ENTRY.to_bytes()[:26] + b"\xff" * 8 + ENTRY.to_bytes()[34:],
    ],
)
def test_another_size_version_kind_or_number_is_refused(data: bytes) -> None:
    with pytest.raises(EntryMalformed):
        parse_entry(data)


def test_values_that_no_leaf_can_have_are_refused() -> None:
    for values in (
        ("unknown", b"c" * 16, 0, 0, b"r" * 32),
        ("boot", b"c" * 15, 0, 0, b"r" * 32),
        ("boot", b"c" * 16, -1, 0, b"r" * 32),
        ("boot", b"c" * 16, 0, 2**53, b"r" * 32),
        ("boot", b"c" * 16, 0, 0, b"r" * 33),
    ):
        with pytest.raises(EntryMalformed):
            LogEntry(*values)


@given(st.binary(min_size=ENTRY_SIZE, max_size=ENTRY_SIZE) | st.binary(max_size=80))
def test_what_is_read_is_written_back(data: bytes) -> None:
    try:
        assert parse_entry(data).to_bytes() == data
    except EntryMalformed:
        pass
