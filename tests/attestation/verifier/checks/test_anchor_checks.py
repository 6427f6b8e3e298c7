"""A token over a checkpoint says by when every record of it existed; anything wrong with it is refused by name."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.story import NOW, Story, leaf_of, trust_bytes
from tests.attestation.verifier.checks.test_witness_checks import Watched, policy
from tests.attestation.verifier.test_verify_bundle import judge, row
from tests.sigstore_authority.timestamps import TimestampAuthority

from affiant.attestation.bundle.bundle import Bundle, BundleMalformed, objects_by_digest, parse_bundle
from affiant.attestation.bundle.bundle_anchors import Anchors, StampedCheckpoint
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.signatures.timestamps.imprint import message
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import Note, signed
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.tlog.tree_paths import MemoryNodes, consistency_path, range_hash
from affiant.attestation.verdict.verdict import LevelState, State, Tier, Verdict
from affiant.attestation.verifier.report.text import render

DAY = timedelta(days=1)
LATER = NOW + DAY
AUTHORITY = TimestampAuthority()
STRANGER = TimestampAuthority()


def tsa_roots(*authorities: TimestampAuthority, **more: object) -> list[dict[str, object]]:
    pems = [each.root.public_bytes(Encoding.PEM).decode() for each in authorities or (AUTHORITY,)]
    return [{"value": {"certificate": pem}, **more} for pem in pems]


def asking(**more: object) -> dict[str, object]:
    return {"tsa_roots": tsa_roots(), **more}


@cache
def told() -> tuple[Story, Bundle]:
    story = Watched(gateway_not_after=timedelta(days=400))
    return story, story.bundle()


def nodes(story: Story, more: int = 0) -> MemoryNodes:
    leaves = [leaf_of(each.jws).leaf_hash for each in (*story.gateway_records, *story.session_records)]
    return MemoryNodes([*leaves, *(hashlib.sha256(str(n).encode()).digest() for n in range(more))])


def note_over(
    size: int, *, root: bytes | None = None, signer: LogSigner | None = None, more: int = 0
) -> Note:
    story, _ = told()
    root = range_hash(nodes(story, more), 0, size) if root is None else root
    signer = story.log_signer if signer is None else signer
    return signed(Checkpoint(signer.name, size, root).to_text(), signer)


def tokens_over(text: str, *, at: datetime = LATER, by: TimestampAuthority = AUTHORITY) -> tuple[bytes, ...]:
    return (by.stamp(hashlib.sha256(message(text, ())).digest(), at=at),)


def whole() -> int:
    story, _ = told()
    return len(story.gateway_records) + len(story.session_records)


def anchored(
    note: Note | None = None,
    *,
    tokens: tuple[bytes, ...] | None = None,
    path: Sequence[bytes] | None = None,
    at: datetime = LATER,
    by: TimestampAuthority = AUTHORITY,
    kept: bool = True,
) -> Bundle:
    """The story's bundle with one anchor: over the tree of its own proofs, unless ``note`` is another."""
    story, bundle = told()
    note = note_over(whole()) if note is None else note
    raw = note.to_bytes()
    size = int(note.text.split("\n")[1])
    if path is None:
        old, new = sorted((size, whole()))
        path = consistency_path(nodes(story, max(0, size - whole())), old, new)
    entry = StampedCheckpoint(
        sha256_name(raw), tuple(path), tokens_over(note.text, at=at, by=by) if tokens is None else tokens
    )
    checkpoints = {**bundle.checkpoints, **(objects_by_digest([raw]) if kept else {})}
    return replace(bundle, checkpoints=checkpoints, anchors=Anchors((*bundle.anchors.tsr, entry)))


def judged(bundle: Bundle, *, at: datetime = LATER + DAY, **changes: object) -> Verdict:
    return judge(bundle.to_bytes(), changes=asking(**changes), at=at)


def refused(verdict: Verdict) -> str:
    found = row(verdict, "time.tsa")
    assert found.state is State.REFUSED, found
    assert verdict.exit_code == 20
    return str(found.reason)


def test_without_witnesses_a_token_gives_the_not_after_and_L3_is_still_not_made() -> None:
    verdict = judged(anchored())
    assert row(verdict, "time.tsa").state is State.HELD
    assert "every record existed by 2026-11-22T12:00:00Z" in row(verdict, "time.tsa").detail
    assert verdict.level_state("L3") is LevelState.NOT_MADE
    assert verdict.to_json()["time"] == {
        "not_before": None,
        "not_after": "2026-11-22T12:00:00Z",
        "by": {"not_before": None, "not_after": "timestamp authority"},
    }
    assert "no witnessed beginning; by a timestamp authority: to 2026-11-22T12:00:00Z" in render(verdict)


def test_the_earlier_of_witnesses_and_authority_is_the_not_after() -> None:
    for at, by in ((NOW + timedelta(seconds=30), "timestamp authority"), (LATER, "witnesses")):
        verdict = judged(anchored(at=at), witnesses=[{"value": policy()}])
        assert verdict.level_state("L3") is LevelState.HELD
        time = verdict.to_json()["time"]
        assert time["by"] == {"not_before": "witnesses", "not_after": by}
        assert time["not_after"] == ("2026-11-21T12:00:30Z" if at < LATER else "2026-11-21T12:01:01Z")


def test_a_trust_file_that_names_no_authority_does_not_ask() -> None:
    verdict = judge(anchored().to_bytes(), changes={"witnesses": [{"value": policy()}]}, at=LATER + DAY)
    assert row(verdict, "time.tsa").state is State.NOT_ASKED
    assert verdict.level_state("L3") is LevelState.HELD
    assert verdict.to_json()["time"]["by"]["not_after"] == "witnesses"


def test_a_bundle_without_a_token_is_not_made_where_the_trust_file_asks_for_one() -> None:
    verdict = judged(told()[1], witnesses=[{"value": policy()}])
    assert row(verdict, "time.tsa").state is State.NOT_MADE
    assert verdict.level == "L2"
    assert verdict.tier is Tier.NONE


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_an_older_checkpoint_covers_the_records_that_it_has(size: int) -> None:
    found = row(judged(anchored(note_over(size))), "time.tsa")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert f"{whole() - size} of {whole()} records are covered by no token" in found.detail


@pytest.mark.parametrize("more", [1, 2, 300])
def test_a_newer_checkpoint_covers_all_if_it_is_shown_to_be_of_the_same_tree(more: int) -> None:
    verdict = judged(anchored(note_over(whole() + more, more=more)))
    assert row(verdict, "time.tsa").tier is Tier.AFFIRMING


def test_a_checkpoint_of_another_tree_is_refused() -> None:
    other = note_over(whole(), root=b"\x01" * 32)
    assert refused(judged(anchored(other))) == "anchor.unproven"
    grown = note_over(whole() + 2, root=b"\x01" * 32)
    assert refused(judged(anchored(grown))) == "anchor.unproven"


def test_a_checkpoint_without_its_proof_of_consistency_or_with_more_is_refused() -> None:
    grown = note_over(whole() + 2, more=2)
    assert refused(judged(anchored(grown, path=()))) == "anchor.unproven"
    assert refused(judged(anchored(path=(b"\x00" * 32,)))) == "anchor.unproven"


def test_a_checkpoint_of_another_log_is_refused() -> None:
    stranger = LogSigner("log.elsewhere/1", Ed25519PrivateKey.generate())
    assert refused(judged(anchored(note_over(whole(), signer=stranger)))) == "anchor.foreign_log"


def test_a_checkpoint_that_the_log_did_not_sign_is_refused() -> None:
    story, _ = told()
    forger = LogSigner(story.log_signer.name, Ed25519PrivateKey.generate())
    assert refused(judged(anchored(note_over(whole(), signer=forger)))) == "note.signature"


def test_a_token_over_another_checkpoint_is_refused() -> None:
    tokens = tokens_over(note_over(whole() - 1).text)
    assert refused(judged(anchored(tokens=tokens))) == "anchor.imprint"


def test_a_token_over_the_note_with_its_signatures_is_refused() -> None:
    tokens = tokens_over(note_over(whole()).to_bytes().decode())
    assert refused(judged(anchored(tokens=tokens))) == "anchor.imprint"


def test_a_checkpoint_that_has_none_of_the_records_is_refused() -> None:
    assert refused(judged(anchored(note_over(0), path=()))) == "anchor.not_covering"


def test_an_untrusted_authority_is_refused_where_no_other_vouches() -> None:
    strange = anchored(by=STRANGER)
    assert refused(judged(strange)) == "anchor.untrusted"
    both = replace(strange, anchors=Anchors((*strange.anchors.tsr, *anchored().anchors.tsr)))
    found = row(judged(both), "time.tsa")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
    assert row(judged(strange, tsa_roots=tsa_roots(AUTHORITY, STRANGER)), "time.tsa").state is State.HELD


def test_of_two_tokens_the_earlier_counts() -> None:
    early, late = anchored(at=LATER), anchored(at=LATER + DAY)
    both = replace(early, anchors=Anchors((*late.anchors.tsr, *early.anchors.tsr)))
    assert judged(both).to_json()["time"]["not_after"] == "2026-11-22T12:00:00Z"


def test_an_authority_whose_certificate_had_expired_is_refused() -> None:
    gone = TimestampAuthority(ends=NOW)
    assert refused(judged(anchored(by=gone), tsa_roots=tsa_roots(gone))) == "anchor.expired"


def test_a_root_that_was_revoked_counts_no_more_however_early_the_token_says_it_is() -> None:
    revoked = f"{LATER + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    roots = tsa_roots(AUTHORITY, revoked_at=revoked)
    assert refused(judged(anchored(), tsa_roots=roots)) == "anchor.untrusted"
    assert row(judged(anchored(), tsa_roots=roots, at=LATER), "time.tsa").state is State.HELD


def test_a_token_that_is_older_than_what_it_covers_is_refused() -> None:
    """By what witnesses saw before the record; and, without witnesses, by what the record says of itself."""
    early = anchored(at=NOW - timedelta(hours=1))
    assert refused(judged(early, witnesses=[{"value": policy()}])) == "time.empty"
    assert refused(judged(early)) == "time.outside"
    within = anchored(at=NOW - timedelta(seconds=30))
    assert row(judged(within), "time.tsa").state is State.HELD


@pytest.mark.parametrize("end", [0, 10, 100, -1])
def test_a_truncated_token_is_refused(end: int) -> None:
    (token,) = tokens_over(note_over(whole()).text)
    if end == 0:
        with pytest.raises(BundleMalformed):
            parse_bundle(anchored(tokens=(b"",)).to_bytes())
    else:
        assert refused(judged(anchored(tokens=(token[:end],)))) == "anchor.token"


def test_an_anchor_whose_checkpoint_is_missing_is_not_made() -> None:
    found = row(judged(anchored(kept=False)), "time.tsa")
    assert (found.state, found.tier) == (State.NOT_MADE, Tier.NONE)


def test_an_anchor_says_nothing_of_records_that_the_log_does_not_show() -> None:
    bundle = anchored()
    for proofs in ({}, {**bundle.proofs, next(iter(bundle.proofs)): "no proof"}):
        verdict = judged(replace(bundle, proofs=proofs))
        assert row(verdict, "log.inclusion").state is not State.HELD
        assert (row(verdict, "time.tsa").state, row(verdict, "time.tsa").tier) == (State.NOT_MADE, Tier.NONE)


def test_without_the_library_the_check_is_not_made_and_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['rfc3161_client'] = None\n"
        "from datetime import datetime, UTC\n"
        "from affiant.attestation.verdict.trust_file import parse_trust_file\n"
        "from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS\n"
        "from affiant.attestation.verifier.verify_bundle import verify_bundle\n"
        "bundle, trust = (open(name, 'rb').read() for name in sys.argv[1:])\n"
        "verdict = verify_bundle(\n"
        "    bundle, parse_trust_file(trust), verifiers=STANDARD_VERIFIERS, build='b',\n"
        "    at=datetime(2026, 11, 23, tzinfo=UTC)\n"
        ")\n"
        "row = next(check for check in verdict.checks if check.code == 'time.tsa')\n"
        "assert row.state == 'not made' and 'affiant[timestamps]' in row.detail, row\n"
    )
    bundle, trust = tmp_path / "bundle", tmp_path / "trust"
    bundle.write_bytes(anchored().to_bytes())
    trust.write_bytes(trust_bytes(**asking()))
    subprocess.run([sys.executable, "-c", program, str(bundle), str(trust)], check=True, timeout=60)


def test_what_is_carried_is_read_back_as_it_was() -> None:
    bundle = anchored(note_over(whole() + 3, more=3))
    assert parse_bundle(bundle.to_bytes()) == bundle
    assert parse_bundle(bundle.to_bytes()).to_bytes() == bundle.to_bytes()


@pytest.mark.parametrize("flips", range(3))
def test_no_changed_byte_of_an_anchor_makes_the_time_earlier(flips: int) -> None:
    chance = random.Random(flips)
    bundle = anchored()
    (entry,) = bundle.anchors.tsr
    for _ in range(25):
        token = bytearray(entry.tokens[0])
        token[chance.randrange(len(token))] ^= chance.randrange(1, 256)
        verdict = judged(replace(bundle, anchors=Anchors((replace(entry, tokens=(bytes(token),)),))))
        time = verdict.to_json()["time"]
        assert time is None or time["not_after"] == "2026-11-22T12:00:00Z"
