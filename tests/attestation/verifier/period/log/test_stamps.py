"""Anchors of a period are judged as those of a single bundle: each covers the leaves below its size, or is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.attestation.log_builder import LogBuilder
from tests.attestation.period_builder import build, sorted_records
from tests.attestation.story import NOW, Story, leaf_of, trust
from tests.attestation.verifier.checks.test_anchor_checks import (
    AUTHORITY,
    DAY,
    LATER,
    STRANGER,
    tokens_over,
    tsa_roots,
)
from tests.attestation.verifier.checks.test_witness_checks import KEYS, NAMES, START, Watched, policy
from tests.attestation.verifier.test_sigstore_anchors import signed_over, sigstore_root
from tests.attestation.verifier.test_verify_bundle import row
from tests.sigstore_authority.timestamps import TimestampAuthority

from affiant.attestation.signatures.sigstore.sigstore_anchor import checkpoint_statement
from affiant.attestation.signatures.timestamps.errors import NotCovering
from affiant.attestation.tlog.note import Note
from affiant.attestation.tlog.note_signing import Cosigner
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.case.statement_verifiers import Word
from affiant.attestation.verifier.checks.anchor_checks import TOKENS
from affiant.attestation.verifier.checks.chain_rules import Link
from affiant.attestation.verifier.period.log.stamps import Stamps
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS


@pytest.fixture(scope="module")
def story() -> Story:
    return Story(gateway_not_after=timedelta(days=400)).tell()


def note_over(story: Story, tmp_path: Path, size: int | None = None) -> Note:
    records = [leaf_of(each.jws) for each in sorted_records(story)]
    return LogBuilder(tmp_path / "as it was", records, signer=story.log_signer).note(size)


def archive(
    story: Story, tmp_path: Path, anchors: Mapping[int, bytes], *, ending: str = ".tsr", kept: bool = True
) -> Path:
    notes = {size: note_over(story, tmp_path / str(size), size).to_bytes() for size in anchors}
    extra = {f"anchors/{size}{ending}": data for size, data in anchors.items()}
    return build(tmp_path / "period", story, extra=extra, checkpoints=notes if kept else {})


def stamp(
    story: Story,
    tmp_path: Path,
    size: int,
    *,
    at: datetime = LATER,
    by: TimestampAuthority = AUTHORITY,
) -> bytes:
    return b"".join(tokens_over(note_over(story, tmp_path / "stamped", size).text, at=at, by=by))


def judged(path: Path, **changes: object) -> Verdict:
    return verify_period(
        path,
        trust(**{"tsa_roots": tsa_roots(), **changes}),
        verifiers=STANDARD_VERIFIERS,
        at=LATER + DAY,
        build="",
    )


def whole(story: Story) -> int:
    return len(sorted_records(story))


@pytest.mark.parametrize("kept", [True, False])
def test_a_token_over_the_checkpoint_covers_all_and_is_the_not_after(
    story: Story, tmp_path: Path, kept: bool
) -> None:
    size = whole(story)
    verdict = judged(archive(story, tmp_path, {size: stamp(story, tmp_path, size)}, kept=kept))
    found = row(verdict, "time.tsa")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
    assert "every record existed by 2026-11-22T" in found.detail
    assert verdict.time is not None and verdict.time.not_before is None
    assert verdict.time.to_json()["by"]["not_after"] == "timestamp authority"


def test_an_older_checkpoint_covers_the_leaves_below_its_size(story: Story, tmp_path: Path) -> None:
    size = whole(story)
    verdict = judged(archive(story, tmp_path, {5: stamp(story, tmp_path, 5)}))
    found = row(verdict, "time.tsa")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert found.detail.startswith(f"{size - 5} of {size} records are covered by no token")
    assert found.where[0] == sorted_records(story)[5].payload["jti"]
    assert verdict.time is None


def test_of_two_tokens_over_a_leaf_the_earlier_counts(story: Story, tmp_path: Path) -> None:
    size = whole(story)
    late = LATER + timedelta(hours=1)
    alone = judged(
        archive(story, tmp_path / "one", {size: stamp(story, tmp_path / "late", size, at=late)})
    ).time
    before = stamp(story, tmp_path / "before", size - 1, at=late)
    both = judged(
        archive(story, tmp_path / "two", {size - 1: before, size: stamp(story, tmp_path, size)})
    ).time
    assert alone is not None and both is not None
    assert both.not_after == alone.not_after - 3600


def test_a_token_by_a_stranger_is_refused_where_no_other_vouches(story: Story, tmp_path: Path) -> None:
    size = whole(story)
    strange = stamp(story, tmp_path, size, by=STRANGER)
    found = row(judged(archive(story, tmp_path / "alone", {size: strange})), "time.tsa")
    assert (found.state, found.reason) == (State.REFUSED, "anchor.untrusted")
    anchors = {size: stamp(story, tmp_path, size), 5: stamp(story, tmp_path, 5, by=STRANGER)}
    assert row(judged(archive(story, tmp_path / "beside", anchors)), "time.tsa").state is State.HELD


def test_a_token_over_another_checkpoint_is_refused(story: Story, tmp_path: Path) -> None:
    size = whole(story)
    found = row(judged(archive(story, tmp_path, {size: stamp(story, tmp_path, 5)})), "time.tsa")
    assert (found.state, found.reason) == (State.REFUSED, "anchor.imprint")


@pytest.mark.parametrize("content", [b"", b"0", b"\x30\x03\x02\x01\x00"])
def test_what_is_no_token_is_refused(story: Story, tmp_path: Path, content: bytes) -> None:
    found = row(judged(archive(story, tmp_path, {whole(story): content})), "time.tsa")
    assert (found.state, found.reason) == (State.REFUSED, "anchor.token")


def test_a_token_that_is_older_than_what_it_covers_is_refused(story: Story, tmp_path: Path) -> None:
    size = whole(story)
    early = stamp(story, tmp_path, size, at=NOW - timedelta(hours=1))
    found = row(judged(archive(story, tmp_path, {size: early})), "time.tsa")
    assert (found.state, found.reason) == (State.REFUSED, "time.outside")


def test_an_anchor_without_its_checkpoint_is_not_made(story: Story, tmp_path: Path) -> None:
    found = row(judged(archive(story, tmp_path, {5: stamp(story, tmp_path, 5)}, kept=False)), "time.tsa")
    assert found.state is State.NOT_MADE
    assert "not in the bundle" in found.detail


def test_a_checkpoint_of_another_tree_gives_no_time(story: Story, tmp_path: Path) -> None:
    other = [leaf_of(each.jws) for each in reversed(sorted_records(story))]
    note = LogBuilder(tmp_path / "fork", other, signer=story.log_signer).note(5)
    extra = {"anchors/5.tsr": b"".join(tokens_over(note.text))}
    path = build(tmp_path / "period", story, extra=extra, checkpoints={5: note.to_bytes()})
    verdict = judged(path)
    assert row(verdict, "log.consistency").reason == "log.split_view"
    assert row(verdict, "time.tsa").state is State.NOT_MADE
    assert verdict.time is None


def test_a_checkpoint_that_has_none_of_the_records_is_refused() -> None:
    stamps = Stamps(TOKENS, {5: Word(100, "authority")}, 0)
    stamps.take(Link("c", 0, "rh", "boot", 90, None, "id", None), 5, None)
    with pytest.raises(NotCovering):
        stamps.finding()


def test_it_is_not_asked_without_an_authority_and_not_made_without_a_token(
    story: Story, tmp_path: Path
) -> None:
    size = whole(story)
    path = archive(story, tmp_path, {size: stamp(story, tmp_path, size)})
    unasked = row(
        verify_period(path, trust(), verifiers=STANDARD_VERIFIERS, at=LATER + DAY, build=""), "time.tsa"
    )
    assert unasked.state is State.NOT_ASKED
    assert row(judged(build(tmp_path / "bare", story)), "time.tsa").state is State.NOT_MADE


def test_the_earlier_of_witnesses_and_authority_is_the_not_after(tmp_path: Path) -> None:
    story = Watched(gateway_not_after=timedelta(days=400))
    story.tell()
    late = [Cosigner(NAMES[name], KEYS[name], START + time) for name, time in story.late.items()]
    (early,) = story.kept.values()
    size = whole(story)
    at = NOW + timedelta(seconds=30)
    path = build(
        tmp_path / "period",
        story,
        witnesses=late,
        checkpoints={1: early},
        extra={f"anchors/{size}.tsr": stamp(story, tmp_path, size, at=at)},
    )
    verdict = judged(path, witnesses=[{"value": policy()}])
    assert row(verdict, "time.bracket").state is row(verdict, "time.tsa").state is State.HELD
    assert verdict.time is not None
    assert verdict.time.to_json()["by"]["not_after"] == "timestamp authority"
    assert START + 30 <= verdict.time.not_after < START + 60


def test_a_signature_that_sigstore_recorded_counts_alike(story: Story, tmp_path: Path) -> None:
    size = whole(story)
    content = signed_over(checkpoint_statement(note_over(story, tmp_path, size).text))
    path = archive(story, tmp_path, {size: content}, ending=".sigstore.json")
    verdict = verify_period(
        path, trust(sigstore_root=sigstore_root()), verifiers=STANDARD_VERIFIERS, at=LATER + DAY, build=""
    )
    assert row(verdict, "time.sigstore").state is State.HELD
    assert verdict.time is not None
    assert verdict.time.to_json()["by"]["not_after"] == "sigstore log"
    other = archive(story, tmp_path / "other", {5: content}, ending=".sigstore.json")
    refused = row(
        verify_period(
            other,
            trust(sigstore_root=sigstore_root()),
            verifiers=STANDARD_VERIFIERS,
            at=LATER + DAY,
            build="",
        ),
        "time.sigstore",
    )
    assert (refused.state, refused.reason) == (State.REFUSED, "anchor.imprint")
