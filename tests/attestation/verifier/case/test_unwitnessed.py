"""The longest unwitnessed stretch: what it is measured between, and that what nobody witnessed never shortens it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.attestation.story import Story, leaf_of
from tests.attestation.verifier.checks.test_witness_checks import Watched, judged
from tests.attestation.verifier.test_verify_bundle import judge

from affiant.attestation.bundle.bundle import objects_by_digest
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path
from affiant.attestation.verdict.time_bounds import Unwitnessed
from affiant.attestation.verdict.verdict import Tier
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render


def stretch(story: Story) -> Unwitnessed:
    verdict = judged(story.bytes())
    assert verdict.exit_code == 40, verdict.checks
    assert verdict.unwitnessed is not None
    return verdict.unwitnessed


@dataclass
class TwiceWatched(Watched):
    """A second checkpoint right before the close, which an epoch record names."""

    middle: Mapping[str, int] = field(default_factory=lambda: {"a": 25, "b": 26, "c": 27})
    logged: list[Issued] = field(default_factory=list)
    """The log as it was then: what is written later stands after it."""

    def proofs(self) -> Mapping[str, str]:
        after = [each for each in self.gateway_records if each not in self.logged]
        records = [*self.logged, *after]
        assert len(records) == len(self.gateway_records) + len(self.session_records)
        note, size = self.cosigned_over(records, self.late), len(records)
        nodes = MemoryNodes(leaf_of(record.jws).leaf_hash for record in records)
        return {
            record.rh: LogProof(n, inclusion_path(nodes, n, size), note).to_bytes().decode()
            for n, record in enumerate(records)
        }

    def close(self) -> None:
        self.logged = records = [*self.gateway_records, *self.session_records]
        note = self.cosigned_over(records, self.middle).to_bytes()
        self.kept |= objects_by_digest([note])
        count = len(self.gateway_records)
        members = {"n": count, "inf": 0, "cp": b64u(hashlib.sha256(note).digest()), "cps": len(records)}
        self.by_gateway("middle", "epoch", members, of_session=False)
        super().close()


def test_it_is_the_time_between_the_checkpoints_around_a_record() -> None:
    found = stretch(Watched())
    assert (found.seconds, found.without_beginning) == (60, 1)
    assert found.to_json()["from"] == "2026-11-21T12:00:01Z"
    assert found.to_json()["to"] == "2026-11-21T12:01:01Z"


def test_a_checkpoint_in_between_ends_it_for_what_it_covers() -> None:
    """From 1 to 26 before it, from 26 to 61 after it: the longer of both."""
    found = stretch(TwiceWatched())
    assert found.seconds == 61 - 26
    earlier = stretch(TwiceWatched(middle={"a": 55, "b": 56, "c": 57}, late={"a": 60, "b": 60, "c": 60}))
    assert earlier.seconds == 56 - 1


def test_the_receipt_that_is_named_lies_in_it() -> None:
    story = TwiceWatched()
    found = stretch(story)
    late = [record.payload["jti"] for record in story.gateway_records[-2:]]
    assert found.receipt in late


def test_a_checkpoint_that_covers_no_record_does_not_end_it() -> None:
    """The log of the boot record alone was cosigned again, later: nothing more is witnessed by that."""

    @dataclass
    class Stale(TwiceWatched):
        def close(self) -> None:
            self.logged = [*self.gateway_records, *self.session_records]
            note = self.cosigned_over(self.gateway_records[:1], self.middle).to_bytes()
            self.kept |= objects_by_digest([note])
            members = {
                "n": len(self.gateway_records),
                "inf": 0,
                "cp": b64u(hashlib.sha256(note).digest()),
                "cps": 1,
            }
            self.by_gateway("middle", "epoch", members, of_session=False)
            Watched.close(self)

    assert stretch(Stale()).seconds == 60


def test_a_checkpoint_that_nobody_names_shortens_nothing() -> None:
    story = Watched()
    bundle = story.bundle()
    note = story.cosigned_over([*story.gateway_records, *story.session_records], dict.fromkeys("abc", 2))
    more = replace(bundle, checkpoints={**bundle.checkpoints, **objects_by_digest([note.to_bytes()])})
    verdict = judged(more.to_bytes())
    assert verdict.unwitnessed is not None and verdict.unwitnessed.seconds == 60


def test_without_a_beginning_it_has_no_length() -> None:
    found = stretch(Watched(epoch=False))
    assert (found.begin, found.seconds, found.receipt) == (None, None, None)
    assert found.without_beginning == 12
    assert "not known; no witnessed beginning: 12 records" in str(found)


def test_without_witnesses_it_is_not_known_and_every_report_says_so() -> None:
    verdict = judge(Story().bytes())
    assert verdict.unwitnessed is None
    assert verdict.to_json()["unwitnessed"] is None
    assert "not known: time.bracket does not hold" in render(verdict)
    assert "not known: time.bracket does not hold" in render_html(verdict)


def test_the_operators_own_witness_is_named_as_such_wherever_time_rests_on_it() -> None:
    verdict = judged(Watched().bytes())
    assert "own witness" not in verdict.stretch
    checks = [
        replace(check, tier=Tier.WARNING) if check.code == "wit.quorum" else check for check in verdict.checks
    ]
    assert replace(verdict, checks=checks).stretch.endswith("; by the operator's own witness alone")
