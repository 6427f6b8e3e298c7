"""Windows include both ends; a time without a zone is no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.raising import raises_code

from affiant.attestation.tdx.pki.times import Window, earliest_expiry, parse_rfc3339_utc, utc
from affiant.attestation.tdx.quote.errors import CollateralExpired, CollateralNotYetValid

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 2, 1, tzinfo=UTC)
WINDOW = Window("part", START, END, CollateralNotYetValid, CollateralExpired)


def test_both_ends_belong_to_the_window() -> None:
    for now in (START, END, START + timedelta(days=1)):
        WINDOW.check(now)
    with pytest.raises(CollateralNotYetValid):
        WINDOW.check(START - timedelta(microseconds=1))
    with pytest.raises(CollateralExpired):
        WINDOW.check(END + timedelta(microseconds=1))


def test_the_earliest_end_counts() -> None:
    longer = Window("part", START, END + timedelta(days=9), CollateralNotYetValid, CollateralExpired)
    assert earliest_expiry((longer, WINDOW)) == END


def test_zones_are_converted_and_their_absence_refused() -> None:
    assert utc(datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == START
    with raises_code("tdx.naive_time"):
        utc(datetime(2026, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize(
    "text",
    [
        None,
        20260101,
        "",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T00:00:00.5Z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00z",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:01Z",
        "2026-01-01T00:00:00Z\n",
        "２026-01-01T00:00:00Z",
    ],
)
def test_only_the_signed_form_is_a_time(text: object) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339_utc(text)


def test_the_signed_form_is_utc() -> None:
    assert parse_rfc3339_utc("2026-01-01T00:00:00Z") == START
