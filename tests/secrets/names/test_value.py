import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.secrets.names.errors import SecretTooWeak, SecretValueInvalid
from affiant.secrets.names.value import SecretValue

GOOD = b"ghp_9sX2kQ7vLm4TzR1bYwE6"


def test_a_value_comes_back_only_when_revealed() -> None:
    value = SecretValue(GOOD)
    assert value.reveal() == GOOD
    assert GOOD.decode() not in f"{value!r} {value!s} {value} {[value]}"


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_value_is_neither_pickled_nor_copied(attempt) -> None:
    with pytest.raises(TypeError) as refusal:
        attempt(SecretValue(GOOD))
    assert GOOD.decode() not in str(refusal.value)


def test_a_value_equals_only_itself() -> None:
    assert SecretValue(GOOD) != SecretValue(GOOD)
    assert SecretValue(GOOD) != GOOD


@pytest.mark.parametrize("control", [b"\r", b"\n", b"\r\n", b"\0", b"\t", b"\x1b", b"\x7f"])
@pytest.mark.parametrize("where", [0, 7, len(GOOD)])
def test_control_characters_are_refused(control: bytes, where: int) -> None:
    with pytest.raises(SecretValueInvalid):
        SecretValue(GOOD[:where] + control + GOOD[where:])


@pytest.mark.parametrize(
    "weak",
    [
        b"",
        b"hunter2",
        b"123456789012345",
        b"a" * 64,
        b"passwordpassword",
        b"abcabcabcabcabcabcabcabc",
        b"0123456789abcdefghij",
        b"zyxwvutsrqponmlkjihg",
        b"0000000000000000000000001",
        b"aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb",
    ],
)
def test_short_or_regular_values_are_refused(weak: bytes) -> None:
    with pytest.raises(SecretTooWeak) as refusal:
        SecretValue(weak)
    assert refusal.value.code == "secret_too_weak"
    assert not weak or weak.decode() not in str(refusal.value)


def test_a_value_that_redaction_could_not_hold_back_is_refused() -> None:
    with pytest.raises(SecretValueInvalid):
        SecretValue(GOOD * 300)


@thorough(200)
@given(st.binary(min_size=16, max_size=64))
def test_no_refusal_spells_the_value(data: bytes) -> None:
    try:
        SecretValue(data)
    except (SecretTooWeak, SecretValueInvalid) as refusal:
        assert data.decode("latin-1") not in str(refusal)


@thorough(200)
@given(st.text(alphabet="0123456789abcdef", min_size=32, max_size=32), st.random_module())
def test_random_hexadecimal_of_128_bits_is_strong(text: str, _module) -> None:
    import random

    SecretValue("".join(random.choice("0123456789abcdef") for _ in range(32)).encode())
