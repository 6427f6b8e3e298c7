import itertools
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.secrets.injection.placeholder import Binding, Endpoint, PlaceholderTable, mint_placeholder
from affiant.secrets.names.errors import SecretNameInvalid

PLACES = frozenset({Endpoint("api.example.com", 443)})


def test_a_placeholder_holds_at_least_128_bits_and_no_name() -> None:
    placeholder = mint_placeholder(os.urandom)
    prefix, random = placeholder[:11], placeholder[11:]
    assert prefix == "affiant-ph-"
    assert len(random) * math.log2(62) >= 128
    assert random.isalnum()


def test_every_character_is_equally_likely() -> None:
    """Bytes of 248 and more are thrown away: 256 is no multiple of 62."""
    given_bytes = itertools.cycle(range(256))
    minted = mint_placeholder(lambda size: bytes(itertools.islice(given_bytes, size)), shape="{248}")
    assert {minted.count(char) for char in set(minted)} == {4}


def test_a_shape_is_kept() -> None:
    assert mint_placeholder(os.urandom, shape="ghp_{36}").startswith("ghp_")
    assert len(mint_placeholder(os.urandom, shape="ghp_{36}")) == 40
    first, second, third = mint_placeholder(os.urandom, shape="xoxb-{12}-{24}").split("-")
    assert (first, len(second), len(third)) == ("xoxb", 12, 24)


@pytest.mark.parametrize(
    "shape",
    [
        "", "ghp_", "ghp_{21}", "{0}{30}", "ghp_{}", "{1000}", "{321}", "a b{36}", "{36}\n", "{36", "é{36}", "{-36}",
        "{36}" + "a" * 300,
    ],
)  # fmt: skip
def test_a_guessable_or_strange_shape_is_refused(shape: str) -> None:
    with raises_code("secret.shape"):
        mint_placeholder(os.urandom, shape=shape)


@thorough(50)
@given(st.binary(min_size=1, max_size=64))
def test_no_two_sessions_share_a_placeholder(_noise: bytes) -> None:
    assert mint_placeholder(os.urandom) != mint_placeholder(os.urandom)


@pytest.mark.parametrize("placeholder", ["", "x", "a" * 21, "a" * 21 + " ", "affiant-ph-" + "ä" * 30])
def test_an_empty_short_or_strange_placeholder_is_impossible(placeholder: str) -> None:
    with raises_code("secret.grants"):
        Binding("A", placeholder, PLACES)


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("", 443),
        ("API.example.com", 443),
        ("api.example.com.", 443),
        ("ä.com", 443),
        ("a.com", 0),
        ("a.com", 65536),
    ],
)
def test_an_endpoint_is_canonical(host: str, port: int) -> None:
    with raises_code("secret.grants"):
        Endpoint(host, port)


def test_a_binding_covers_its_https_places_only() -> None:
    binding = Binding("A", mint_placeholder(os.urandom), PLACES)
    assert binding.covers(scheme="https", host="api.example.com", port=443)
    assert not binding.covers(scheme="http", host="api.example.com", port=443)
    assert not binding.covers(scheme="https", host="api.example.com", port=8443)
    assert not binding.covers(scheme="https", host="evil.example.com", port=443)
    assert not Binding("A", mint_placeholder(os.urandom), frozenset()).covers(
        scheme="https", host="api.example.com", port=443
    )


def test_a_table_that_contradicts_itself_is_refused() -> None:
    placeholder = mint_placeholder(os.urandom)
    with raises_code("secret.grants"):
        PlaceholderTable([Binding("A", placeholder, PLACES), Binding("B", placeholder, PLACES)])
    with raises_code("secret.grants"):
        PlaceholderTable([Binding("A", placeholder, PLACES), Binding("B", placeholder + "x", PLACES)])
    with raises_code("secret.grants"):
        PlaceholderTable([Binding("A", mint_placeholder(os.urandom), PLACES) for _ in range(2)])
    with pytest.raises(SecretNameInvalid):
        Binding("A B", placeholder, PLACES)


def test_unresolved_secrets_lose_their_placeholder() -> None:
    table = PlaceholderTable(Binding(name, mint_placeholder(os.urandom), PLACES) for name in "ABC")
    assert [binding.name for binding in table.restricted_to({"C", "A", "D"})] == ["A", "C"]
    assert table.binding("B") is not None
    assert table.restricted_to(()).binding("B") is None
