"""Renewals keep what they stamp believable, and say nothing about when it began."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from tests.attestation.anchors.conftest import AT, TEXT, root_of, stamped
from tests.raising import raises_code
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority

from affiant.attestation.signatures.timestamps.errors import (
    AnchorUntrusted,
)
from affiant.attestation.signatures.timestamps.imprint import message
from affiant.attestation.signatures.timestamps.renewal import MAX_TOKENS, Always, VerifiedStamp, verify_stamp
from affiant.attestation.verdict.accepted_values import Entry

YEAR = timedelta(days=365)


@dataclass
class Kept:
    """A checkpoint stamped each year by one authority after another."""

    authorities: tuple[DatedAuthority, ...]

    @property
    def tokens(self) -> tuple[bytes, ...]:
        found: tuple[bytes, ...] = ()
        for years, authority in enumerate(self.authorities):
            found += (stamped(authority, at=AT + years * YEAR, before=found),)
        return found


def judged(
    kept: Kept, *, at: datetime, revoked: datetime | None = None, tokens: tuple[bytes, ...] | None = None
) -> VerifiedStamp:
    """The first authority's root may be revoked; the others' is not."""
    first, *others = kept.authorities
    roots = [
        (Entry("", None, None, revoked), root_of(first)),
        *((Always(), root_of(each)) for each in others),
    ]
    return verify_stamp(TEXT, kept.tokens if tokens is None else tokens, roots=roots, at=at)


@pytest.fixture(scope="module")
def kept(dated: DatedAuthority) -> Kept:
    return Kept((dated, DatedAuthority(), DatedAuthority()))


def test_the_first_token_says_when_and_the_others_that_it_still_counts(kept: Kept) -> None:
    found = judged(kept, at=AT + 3 * YEAR)
    assert found.not_after == int(AT.timestamp())
    assert [each.at for each in found.tokens] == [AT, AT + YEAR, AT + 2 * YEAR]


def test_a_root_that_was_revoked_counts_for_what_was_renewed_before(kept: Kept) -> None:
    revoked = AT + 2 * YEAR + timedelta(days=1)
    assert judged(kept, at=AT + 5 * YEAR, revoked=revoked)
    with pytest.raises(AnchorUntrusted):
        judged(kept, at=AT + 5 * YEAR, revoked=revoked, tokens=kept.tokens[:1])
    with pytest.raises(AnchorUntrusted):
        judged(kept, at=AT + 5 * YEAR, revoked=AT + timedelta(days=1))


def test_a_root_counts_from_and_until_the_tokens_own_time(dated: DatedAuthority) -> None:
    token = (stamped(dated),)
    for begins, ends, counts in (
        (AT, None, True),
        (AT + timedelta(seconds=1), None, False),
        (None, AT + timedelta(seconds=1), True),
        (None, AT, False),
    ):
        roots = [(Entry("", begins, ends, None), root_of(dated))]
        if counts:
            assert verify_stamp(TEXT, token, roots=roots, at=AT + 9 * YEAR)
        else:
            with pytest.raises(AnchorUntrusted):
                verify_stamp(TEXT, token, roots=roots, at=AT + 9 * YEAR)


def test_a_renewal_of_other_tokens_or_of_another_text_is_refused(kept: Kept, dated: DatedAuthority) -> None:
    first, second, third = kept.tokens
    for tokens in ((first, third), (second,), (first, first), (second, first), (first, third, second)):
        with raises_code("anchor.imprint"):
            judged(kept, at=AT + 3 * YEAR, tokens=tokens)
    again = stamped(dated, at=AT)
    assert again != first
    with raises_code("anchor.imprint"):
        judged(kept, at=AT + 3 * YEAR, tokens=(again, second))


def test_a_renewal_before_what_it_renews_is_refused(dated: DatedAuthority) -> None:
    first = stamped(dated, at=AT)
    early = stamped(dated, at=AT - timedelta(seconds=1), before=(first,))
    with raises_code("anchor.order"):
        verify_stamp(TEXT, (first, early), roots=[(Always(), root_of(dated))], at=AT)


@pytest.mark.parametrize("count", [0, MAX_TOKENS + 1])
def test_no_token_and_too_many_are_refused(dated: DatedAuthority, count: int) -> None:
    with raises_code("anchor.token"):
        verify_stamp(TEXT, (stamped(dated),) * count, roots=[(Always(), root_of(dated))], at=AT)


def test_what_a_first_token_stamps_is_no_renewal_of_anything() -> None:
    """What follows a renewal's first line is 64 bytes of a digest for each, and in a text a decimal number."""
    assert message(TEXT, ()) == TEXT.encode()
    assert message(TEXT, (b"a",)) != message(TEXT, (b"b",))
    assert len(message(TEXT, (b"a", b"b"))) == 25 + 3 * 64
