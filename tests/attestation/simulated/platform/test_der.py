from __future__ import annotations

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.simulated.platform import der


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "020100"),
        (127, "02017f"),
        (128, "02020080"),
        (255, "020200ff"),
        (256, "02020100"),
        (65535, "020300ffff"),
    ],
)
def test_an_integer_takes_the_fewest_bytes_and_stays_positive(value: int, encoded: str) -> None:
    assert der.integer(value).hex() == encoded


@pytest.mark.parametrize(("size", "prefix"), [(0, "0400"), (127, "047f"), (128, "048180"), (256, "04820100")])
def test_a_length_is_in_its_shortest_form(size: int, prefix: str) -> None:
    encoded = der.octet_string(bytes(size))
    assert encoded.hex().startswith(prefix)
    assert len(encoded) == len(prefix) // 2 + size


@thorough(50)
@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=8))
def test_an_object_identifier_reads_back_elsewhere(arcs: list[int]) -> None:
    dotted = ".".join(["1", "2", *map(str, arcs)])
    encoded = der.sequence(der.oid(dotted))
    # the same identifier, written by another library inside a one-element EKU extension
    assert x509.ExtendedKeyUsage([x509.ObjectIdentifier(dotted)]).public_bytes() == encoded


def test_true_and_false_are_der() -> None:
    assert (der.boolean(True).hex(), der.boolean(False).hex()) == ("0101ff", "010100")
    assert der.enumerated(2).hex() == "0a0102"
