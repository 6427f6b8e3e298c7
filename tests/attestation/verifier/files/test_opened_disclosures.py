"""What is sealed counts only if its receipt commits to it; everything that hides something is counted once."""

from __future__ import annotations

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.attestation.sealed_before import seal_before, seal_bytes
from tests.attestation.story import Story

from affiant.attestation.records.receipt import Issued, parse_receipt
from affiant.attestation.records.sealed_disclosures import SessionSealing, recipient
from affiant.attestation.verifier.files.opened_disclosures import Opener, Outcome, told

KEY, OTHER = X25519PrivateKey.generate(), X25519PrivateKey.generate()


@pytest.fixture(scope="module")
def answer() -> Issued:
    story = Story().tell()
    return next(record for record in story.gateway_records if record.payload["kind"] == "inference")


def sealed(record: Issued, *disclosures: str, key: X25519PrivateKey = KEY, rh: str = "") -> str:
    return seal_before(disclosures or record.disclosures, to=recipient(key), rh=rh or record.rh)


def outcome(opener: Opener) -> Outcome:
    (found,) = (each for each, count in opener.counts.items() if count)
    assert opener.counts[found] == 1
    return found


def opened(record: Issued, text: str | None, *, erased: bool = False) -> tuple[Outcome, tuple[str, ...]]:
    opener = Opener([OTHER, KEY])
    found = opener.disclosures(record.jws, {record.rh: text}.get, rh=record.rh, erased=erased)
    return outcome(opener), found


def test_what_the_receipt_commits_to_is_opened(answer: Issued) -> None:
    assert opened(answer, sealed(answer)) == (Outcome.OPENED, answer.disclosures)
    part = answer.disclosures[:1]
    assert opened(answer, sealed(answer, *part)) == (Outcome.OPENED, part)


def test_what_is_sealed_to_another_key_or_changed_stays_hidden(answer: Issued) -> None:
    stranger = X25519PrivateKey.generate()
    text = sealed(answer)
    changed = text[:-4] + ("AAAA" if text[-4:] != "AAAA" else "BBBB")
    for found in (sealed(answer, key=stranger), changed, sealed(answer, rh="A" * 43)):
        assert opened(answer, found) == (Outcome.OTHER_KEY, ())


def test_what_the_receipt_does_not_commit_to_is_left_out_whole(answer: Issued) -> None:
    good = answer.disclosures
    other = next(record for record in Story().tell().gateway_records if record.payload["kind"] == "inference")
    raw = seal_bytes(b"\xff\x80" + bytes(1022), to=recipient(KEY), rh=answer.rh)
    for found in (
        sealed(answer, *other.disclosures),
        sealed(answer, *good, other.disclosures[0]),
        sealed(answer, *good, good[0]),
        sealed(answer, "bm8"),
        sealed(answer, "not base64 url"),
        sealed(answer, *["bm8"] * 100),
        raw,
        "not base64url!",
        "",
    ):
        assert opened(answer, found)[0] in (Outcome.UNFIT, Outcome.OTHER_KEY)
        assert opened(answer, found)[1] == ()
    assert opened(answer, sealed(answer, *good, good[0]))[0] is Outcome.UNFIT
    assert opened(answer, raw)[0] is Outcome.UNFIT


def test_what_is_not_here_was_erased_by_order_or_is_absent(answer: Issued) -> None:
    assert opened(answer, None, erased=True) == (Outcome.ERASED, ())
    assert opened(answer, None) == (Outcome.ABSENT, ())


def test_what_hides_nothing_is_not_counted() -> None:
    boot = Story().tell().gateway_records[0]

    def nothing(_name: str) -> None:
        return None

    opener = Opener([KEY])
    assert opener.disclosures(boot.jws, nothing, rh=boot.rh, erased=False) == ()
    assert opener.disclosures("no.receipt", nothing, rh="A" * 43, erased=False) == ()
    assert opener.disclosures("nothing", nothing, rh="A" * 43, erased=False) == ()
    assert set(opener.counts.values()) == {0}
    assert told(opener.counts) == "0 opened"


def sealed_for(record: Issued, *disclosures: str, key: X25519PrivateKey = KEY) -> dict[str, str]:
    """Version 2, by what each text is kept under."""
    kid, session = parse_receipt(record.jws + "~").split.kid, str(record.payload["agt"]["ses"])
    to = SessionSealing(to=recipient(key), session=session, kid=kid, random_bytes=os.urandom)
    return {to.name: to.sealed_key, record.rh: to.seal(disclosures or record.disclosures, rh=record.rh)}


def opened_of(record: Issued, kept: dict[str, str], *, erased: bool = False) -> Outcome:
    opener = Opener([OTHER, KEY])
    found = opener.disclosures(record.jws, kept.get, rh=record.rh, erased=erased)
    assert found == (record.disclosures if outcome(opener) is Outcome.OPENED else ())
    return outcome(opener)


def test_what_is_sealed_by_a_sessions_key_is_opened_with_it_alone(answer: Issued) -> None:
    kept = sealed_for(answer)
    (name,) = kept.keys() - {answer.rh}
    assert opened_of(answer, kept) is Outcome.OPENED
    assert opened_of(answer, sealed_for(answer, "bm8")) is Outcome.UNFIT
    assert opened_of(answer, sealed_for(answer, key=X25519PrivateKey.generate())) is Outcome.OTHER_KEY
    assert opened_of(answer, {**kept, name: sealed_for(answer)[name]}) is Outcome.OTHER_KEY


def test_an_erased_key_of_a_session_leaves_nothing_that_opens(answer: Issued) -> None:
    kept = sealed_for(answer)
    without = {answer.rh: kept[answer.rh]}
    assert opened_of(answer, without) is Outcome.ABSENT
    assert opened_of(answer, without, erased=True) is Outcome.ERASED


def test_keys_are_not_shown() -> None:
    assert "X25519" not in repr(Opener([KEY]))
