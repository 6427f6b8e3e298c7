"""L3: witnesses that the reader names back the log, and a record is dated where they saw it; else it is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.attestation.story import NOW, Story, leaf_of, trust
from tests.attestation.verifier.test_verify_bundle import judge, row

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import Note, signed
from affiant.attestation.tlog.note_keys import CosignerKey
from affiant.attestation.tlog.note_signing import Cosigner
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path, range_hash
from affiant.attestation.verdict.trust_file import TrustFileMalformed
from affiant.attestation.verdict.verdict import Check, LevelState, State, Tier, Verdict
from affiant.attestation.verifier.report.text import render

KEYS = {name: Ed25519PrivateKey.from_private_bytes(name.encode() * 32) for name in "abc"}
NAMES = {name: f"witness.example/{name}" for name in KEYS}
START = int(NOW.timestamp())


def vkey(name: str) -> str:
    return CosignerKey(NAMES[name], KEYS[name].public_key().public_bytes_raw()).vkey()


def policy(quorum: int = 2) -> str:
    rows = [f"witness {name} {vkey(name)}" for name in KEYS]
    return "\n".join([*rows, f"group all {quorum} {' '.join(KEYS)}", "quorum all", ""])


SEEN = NOW + timedelta(minutes=20)
"""After the last cosignature of the story."""


def judged(data: bytes, *, witnesses: object = None, **more: object) -> Verdict:
    entries = [{"value": policy()}] if witnesses is None else witnesses
    return judge(data, changes={"witnesses": entries}, **{"at": SEEN, **more})


@dataclass
class Watched(Story):
    """A story whose log is cosigned: once for an epoch record right after the boot, and once at the end.

    Args:
        early, late: witness -> its clock, in seconds after the story's begin, at the first and the last checkpoint.
        epoch: whether the gateway's chain names the first.
    """

    early: Mapping[str, int] = field(default_factory=lambda: {"a": 1, "b": 1, "c": 1})
    late: Mapping[str, int] = field(default_factory=lambda: {"a": 60, "b": 61, "c": 62})
    epoch: bool = True
    size_said: int = 1
    kept: dict[str, bytes] = field(default_factory=dict)

    def make_session(self) -> None:
        if self.epoch:
            note = self.cosigned_over(self.gateway_records, self.early).to_bytes()
            self.kept |= objects_by_digest([note])
            members = {"n": 1, "inf": 0, "cp": b64u(hashlib.sha256(note).digest()), "cps": self.size_said}
            self.by_gateway("epoch", "epoch", members, of_session=False)
        super().make_session()

    def cosigned_over(self, records: Sequence[Issued], times: Mapping[str, int]) -> Note:
        leaves = [leaf_of(record.jws).leaf_hash for record in records]
        root = range_hash(MemoryNodes(leaves), 0, len(leaves))
        witnesses = [Cosigner(NAMES[name], KEYS[name], START + time) for name, time in times.items()]
        return signed(
            Checkpoint(self.config.origin, len(leaves), root).to_text(), self.log_signer, *witnesses
        )

    def bundle(self) -> Bundle:
        return replace(super().bundle(), checkpoints=self.kept)

    def proofs(self) -> Mapping[str, str]:
        records = [*self.gateway_records, *self.session_records]
        note = self.cosigned_over(records, self.late)
        nodes = MemoryNodes(leaf_of(record.jws).leaf_hash for record in records)
        return {
            record.rh: LogProof(n, inclusion_path(nodes, n, len(records)), note).to_bytes().decode()
            for n, record in enumerate(records)
        }


def refusal(verdict: Verdict, code: str) -> Check:
    found: Check = row(verdict, code)
    assert found.state is State.REFUSED, found
    assert verdict.exit_code == 20
    return found


def not_made(verdict: Verdict, code: str) -> str:
    found: Check = row(verdict, code)
    assert found.state is State.NOT_MADE, found
    assert verdict.level == "L2"
    return found.detail


def test_a_cosigned_story_reaches_L3() -> None:
    verdict = judged(Watched(gateway_not_after=timedelta(days=1)).bytes())
    assert row(verdict, "wit.quorum").state is State.HELD
    assert row(verdict, "wit.quorum").detail == "cosigned by a, b, c"
    assert row(verdict, "time.bracket").state is State.HELD
    assert verdict.level_state("L3") is LevelState.HELD
    assert verdict.level == "L4"
    assert verdict.to_json()["time"] == {
        "not_before": "2026-11-21T12:00:01Z",
        "not_after": "2026-11-21T12:01:01Z",
        "by": {"not_before": "witnesses", "not_after": "witnesses"},
    }
    assert "by witnesses: from 2026-11-21T12:00:01Z, to 2026-11-21T12:01:01Z" in render(verdict)


def test_what_precedes_the_first_named_checkpoint_has_no_not_before_and_that_is_a_warning() -> None:
    """The boot record alone: a new log has no witnessed tree before it."""
    found = row(judged(Watched().bytes()), "time.bracket")
    assert found.tier is Tier.WARNING
    assert found.detail == "1 record has no earlier cosigned checkpoint; none is after 2026-11-21T12:01:01Z"


def test_without_witnesses_in_the_trust_file_nothing_is_made_and_no_tier_follows() -> None:
    verdict = judge(Watched().bytes())
    for code in ("wit.quorum", "time.bracket"):
        assert row(verdict, code).tier is None
    assert "names no witnesses" in not_made(verdict, "wit.quorum")
    assert verdict.to_json()["time"] is None
    assert "the signers' word alone" in render(verdict)


def test_a_log_that_nobody_cosigned_stays_at_L2_and_the_verdict_is_none() -> None:
    verdict = judged(Story().bytes())
    assert "found no witness" in not_made(verdict, "wit.quorum")
    assert row(verdict, "wit.quorum").tier is Tier.NONE
    assert row(verdict, "time.bracket").state is State.NOT_MADE
    assert verdict.tier is Tier.NONE


@pytest.mark.parametrize("times", [{"a": 60}, {}, {"c": 1}])
def test_a_quorum_missed_at_the_end_is_not_made(times: Mapping[str, int]) -> None:
    not_made(judged(Watched(late=times).bytes()), "wit.quorum")


def test_a_quorum_missed_at_the_checkpoint_that_an_epoch_names_makes_no_bracket() -> None:
    verdict = judged(Watched(early={"a": 1}).bytes())
    assert row(verdict, "wit.quorum").state is State.HELD
    assert "not cosigned by the quorum" in not_made(verdict, "time.bracket")


def test_a_checkpoint_that_an_epoch_names_and_the_bundle_lacks_makes_no_bracket() -> None:
    bundle = replace(Watched().bundle(), checkpoints={})
    assert "not in the bundle" in not_made(judged(bundle.to_bytes()), "time.bracket")


def test_a_forged_cosignature_is_refused_even_where_others_are_a_quorum() -> None:
    story = Watched()
    bundle = story.bundle()
    forger = Cosigner(NAMES["c"], Ed25519PrivateKey.from_private_bytes(b"f" * 32), START + 60)
    records = [*story.gateway_records, *story.session_records]
    honest = story.cosigned_over(records, {"a": 60, "b": 60})
    line = forger.sign(honest.text)
    forged = replace(line, key=Cosigner(NAMES["c"], KEYS["c"], 1).verifier.key)
    note = replace(honest, signatures=(*honest.signatures, forged))
    nodes = MemoryNodes(leaf_of(record.jws).leaf_hash for record in records)
    proofs = {
        record.rh: LogProof(n, inclusion_path(nodes, n, len(records)), note).to_bytes().decode()
        for n, record in enumerate(records)
    }
    assert refusal(judged(replace(bundle, proofs=proofs).to_bytes()), "wit.quorum").reason == "note.signature"


def test_a_witness_that_the_trust_file_does_not_name_counts_for_nothing() -> None:
    only_c = f"witness c {vkey('c')}\nquorum c\n"
    verdict = judged(Watched(late={"a": 60, "b": 60}).bytes(), witnesses=[{"value": only_c}])
    not_made(verdict, "wit.quorum")


class Backdated(Watched):
    """The gateway's clock steps back by an hour after its epoch: what follows is dated before what witnesses saw."""

    def make_session(self) -> None:
        super().make_session()
        self.clock.now -= timedelta(hours=1)


def test_a_record_dated_before_what_it_follows_is_refused() -> None:
    found = refusal(judged(Backdated().bytes()), "time.bracket")
    assert found.reason == "time.outside"
    assert "from 2026-11-21T12:00:01Z" in found.detail


def test_a_record_dated_after_witnesses_saw_it_is_refused() -> None:
    story = Watched(late={"a": -600, "b": -600, "c": 60}, early={"a": -700, "b": -700, "c": -700})
    assert refusal(judged(story.bytes()), "time.bracket").reason == "time.outside"


def test_an_empty_bracket_is_refused() -> None:
    """A quorum saw the first tree after a quorum saw the last."""
    story = Watched(early={"a": 600, "b": 600, "c": 600}, late={"a": 60, "b": 60, "c": 60})
    found = refusal(judged(story.bytes()), "time.bracket")
    assert "empty time bounds" in str(found.detail)


def test_one_lying_witness_moves_no_end_of_a_bracket() -> None:
    """2 of 3: the not-before is what two do not stand before, the not-after what two do not stand after."""
    for liar in ({"a": 1_000_000}, {"a": -1_000_000}):
        story = Watched(
            early={"a": 1, "b": 1, "c": 1} | liar,
            late={"a": 60, "b": 60, "c": 60} | liar,
        )
        assert row(judged(story.bytes()), "time.bracket").state is State.HELD


def test_an_epoch_that_names_another_size_is_refused() -> None:
    assert "another size" in str(refusal(judged(Watched(size_said=2).bytes()), "time.bracket").detail)


def test_clocks_within_the_trust_files_tolerance_hold() -> None:
    story = Watched(late={"a": -20, "b": -20, "c": -20}, early={"a": -30, "b": -30, "c": -30})
    assert row(judged(story.bytes()), "time.bracket").state is State.HELD
    verdict = judge(
        Watched(late=story.late, early=story.early).bytes(),
        changes={"witnesses": [{"value": policy()}], "clock_tolerance_s": 5},
    )
    refusal(verdict, "time.bracket")


def ended(at: datetime) -> list[dict[str, object]]:
    return [{"value": policy(), "until": f"{at:%Y-%m-%dT%H:%M:%SZ}"}]


def test_a_policy_that_ended_counts_no_more() -> None:
    data = Watched().bytes()
    assert row(judged(data, witnesses=ended(NOW + timedelta(hours=1))), "wit.quorum").state is State.HELD
    not_made(judged(data, witnesses=ended(NOW - timedelta(hours=1))), "wit.quorum")


@pytest.mark.parametrize(
    "text",
    [
        "quorum none\n",
        "",
        f"witness a {vkey('a')}\n",
        "quorum nobody\n",
        f"witness a {vkey('a')}\nwitness a {vkey('a')}\nquorum a\n",
        "witness a nonsense\nquorum a\n",
        "\ud800",
    ],
)
def test_a_trust_file_whose_witnesses_ask_nobody_or_are_no_policy_is_refused(text: str) -> None:
    with pytest.raises(TrustFileMalformed, match=r"witness|quorum|policy|JSON|surrogate"):
        trust(witnesses=[{"value": text}])


def with_self(quorum: str) -> list[dict[str, object]]:
    """``a`` is the operator's own."""
    rows = [f"witness self {vkey('a')}", f"witness b {vkey('b')}", f"witness c {vkey('c')}"]
    return [{"value": "\n".join([*rows, f"group some {quorum}", "quorum some", ""])}]


@pytest.mark.parametrize("quorum", ["1 self", "2 self b", "all self b c"])
def test_a_quorum_that_needs_the_operators_own_witness_is_a_warning(quorum: str) -> None:
    verdict = judged(Watched().bytes(), witnesses=with_self(quorum))
    found = row(verdict, "wit.quorum")
    assert found.state is State.HELD and found.tier is Tier.WARNING
    assert found.detail.startswith("witness: self. ") and "not a determined operator" in found.detail
    assert row(verdict, "time.bracket").tier is Tier.WARNING
    assert verdict.level_state("L3") is LevelState.HELD


@pytest.mark.parametrize("quorum", ["1 self b", "2 self b c", "any self c"])
def test_a_quorum_that_stands_without_the_operators_own_witness_is_none(quorum: str) -> None:
    found = row(judged(Watched().bytes(), witnesses=with_self(quorum)), "wit.quorum")
    assert found.tier is Tier.AFFIRMING
    assert found.detail == "cosigned by b, c, self"


def test_a_time_that_only_the_operators_own_witness_backs_is_a_warning_even_where_the_end_is_not() -> None:
    """Others cosigned the last checkpoint, and the operator's own alone the one that the epoch names."""
    story = Watched(early={"a": 1})
    verdict = judged(story.bytes(), witnesses=with_self("any self b c"))
    assert row(verdict, "wit.quorum").tier is Tier.AFFIRMING
    assert row(verdict, "time.bracket").tier is Tier.WARNING


def test_the_first_lines_say_that_the_time_is_the_operators_own_witnesss_word() -> None:
    verdict = judged(Watched().bytes(), witnesses=with_self("1 self"))
    assert "by the operator's own witness: from 2026-11-21T12:00:01Z" in render(verdict)
