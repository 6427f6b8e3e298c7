"""What an upstream says of a pause is believed, up to five minutes, and nothing else is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.gateway.upstream.cooldown import Cooldown, seconds_of

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"0", 0),
        (b"1", 1),
        (b"300", 300),
        (b"86400", 300),
        (b"Sat, 21 Nov 2026 12:00:30 GMT", 30),
        (b"Saturday, 21-Nov-26 12:00:30 GMT", 30),
        (b"Sat, 21 Nov 2026 11:59:30 GMT", 0),
        (b"Sat, 21 Nov 9999 12:00:30 GMT", 300),
        (b"", 0),
        (b"-1", 0),
        (b"1.5", 0),
        (b"1e3", 0),
        (b"0x10", 0),
        (b"9999999999", 0),
        (b"\xff", 0),
        (b"soon", 0),
    ],
)
def test_the_two_forms_of_the_header_are_read_and_no_other(value: bytes, seconds: int) -> None:
    assert seconds_of(value, now=NOW) == seconds


@thorough(300)
@given(st.binary(max_size=80))
def test_no_value_makes_a_pause_of_more_than_five_minutes(value: bytes) -> None:
    assert 0 <= seconds_of(value, now=NOW) <= 300


@pytest.mark.parametrize(("status", "code"), [(429, "upstream.rate_limited"), (503, "upstream.overloaded")])
def test_an_upstream_is_not_asked_until_the_pause_is_over(status: int, code: str) -> None:
    seconds = Seconds()
    cooldown = Cooldown(seconds)
    cooldown.require_over()
    cooldown.take(status, b"10", now=NOW)
    seconds.now += 9.5
    with raises_code(code) as refused:
        cooldown.require_over()
    assert getattr(refused.value, "retry_after_s", None) == cooldown.left_s == 1
    seconds.now += 0.5
    cooldown.require_over()


def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    cooldown = Cooldown(Seconds())
    cooldown.take(429, b"10", now=NOW)
    cooldown.take(503, b"5", now=NOW)
    assert cooldown.left_s == 10
    with raises_code("upstream.rate_limited"):
        cooldown.require_over()


@pytest.mark.parametrize(
    ("status", "value"), [(200, b"10"), (500, b"10"), (413, b"10"), (429, None), (429, b"soon")]
)
def test_nothing_else_is_a_pause(status: int, value: bytes | None) -> None:
    cooldown = Cooldown(Seconds())
    cooldown.take(status, value, now=NOW)
    cooldown.require_over()
