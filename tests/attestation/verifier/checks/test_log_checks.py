"""L2: a receipt is in the log that its gateway's quote binds, or the level is not reached; forgeries are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.attestation.story import Story, leaf_of, trust
from tests.attestation.verifier.test_verify_bundle import judge, row

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import signed
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.tlog.proof import LogProof, parse_log_proof
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path, range_hash
from affiant.attestation.verdict.verdict import Check, LevelState, State, Tier, Verdict

STRANGER = LogSigner("log.example/stranger", Ed25519PrivateKey.from_private_bytes(b"s" * 32))


def told() -> Story:
    return Story().tell()


def changed(story: Story, change: Callable[[dict[str, str]], Mapping[str, str]], **how: Any) -> Verdict:
    bundle = story.bundle()
    return judge(replace(bundle, proofs=change(dict(bundle.proofs))).to_bytes(), **how)


def refusal(verdict: Verdict, code: str = "log.inclusion") -> str:
    found: Check = row(verdict, code)
    assert found.state is State.REFUSED, found
    assert verdict.exit_code == 20
    assert verdict.level in (None, "L0", "L1")
    return str(found.reason)


def in_another_tree(
    story: Story, *, signer: LogSigner | None = None, more: int = 3, only: int | None = None
) -> Callable[[dict[str, str]], Mapping[str, str]]:
    """Proofs of the same records in a tree of other leaves, signed by ``signer``; ``only``: for one record."""
    records = [*story.gateway_records, *story.session_records]
    signer = signer or story.log_signer
    leaves = [*(leaf_of(record.jws).leaf_hash for record in records), *(bytes([n]) * 32 for n in range(more))]
    nodes, size = MemoryNodes(leaves), len(leaves)
    note = signed(Checkpoint(signer.name, size, range_hash(nodes, 0, size)).to_text(), signer)

    def change(proofs: dict[str, str]) -> Mapping[str, str]:
        for index, record in enumerate(records):
            if only in (None, index):
                path = inclusion_path(nodes, index, size)
                proofs[record.rh] = LogProof(index, path, note).to_bytes().decode()
        return proofs

    return change


def test_every_receipt_of_a_true_story_is_in_the_log() -> None:
    verdict = judge(told().bundle().to_bytes())
    assert (row(verdict, "log.inclusion").state, row(verdict, "log.consistency").state) == (State.HELD,) * 2
    assert verdict.level == "L2"
    assert verdict.level_state("L3") is LevelState.NOT_MADE
    assert "12 leaves" in row(verdict, "log.inclusion").detail


def test_a_bundle_without_proofs_stays_at_L1_and_says_so() -> None:
    verdict = changed(told(), lambda _: {})
    found = row(verdict, "log.inclusion")
    assert (found.state, found.tier) == (State.NOT_MADE, Tier.NONE)
    assert "12 of 12 receipts have no proof" in found.detail
    assert verdict.level == "L1"


def test_one_receipt_without_a_proof_keeps_the_bundle_from_L2() -> None:
    story = told()
    verdict = changed(
        story, lambda proofs: {k: v for k, v in proofs.items() if k != story.gateway_records[3].rh}
    )
    assert row(verdict, "log.inclusion").state is State.NOT_MADE
    assert verdict.level == "L1"


def test_the_proof_of_another_receipt_is_refused() -> None:
    story = told()
    one, two = story.gateway_records[2].rh, story.gateway_records[3].rh
    swap = changed(story, lambda proofs: {**proofs, one: proofs[two], two: proofs[one]})
    assert refusal(swap) == "log.inclusion"


def test_a_key_that_no_quote_binds_is_refused() -> None:
    story = told()
    forger = LogSigner(story.config.origin, Ed25519PrivateKey.from_private_bytes(b"f" * 32))
    assert refusal(changed(story, in_another_tree(story, signer=forger))) == "note.signature"
    assert refusal(changed(story, in_another_tree(story, signer=STRANGER))) == "note.signature"


def test_a_checkpoint_of_another_origin_under_the_right_key_is_refused() -> None:
    story = told()

    def renamed(proofs: dict[str, str]) -> Mapping[str, str]:
        proof = parse_log_proof(next(iter(proofs.values())).encode())
        text = proof.note.text.replace(story.config.origin, "log.example/other")
        note = signed(text, story.log_signer)
        return {
            rh: replace(parse_log_proof(value.encode()), note=note).to_bytes().decode()
            for rh, value in proofs.items()
        }

    assert refusal(changed(story, renamed)) == "log.unbound"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("index 2\n", "index 3\n"),
        ("index 2\n", "index 40\n"),
        ("c2sp.org/tlog-proof@v1", "c2sp.org/tlog-proof@v2"),
        ("index 2\n", "index 2\n" + "A" * 43 + "=\n"),
    ],
)
def test_a_changed_proof_is_refused(old: str, new: str) -> None:
    story = told()
    rh = story.gateway_records[2].rh
    verdict = changed(story, lambda proofs: {**proofs, rh: proofs[rh].replace(old, new, 1)})
    assert refusal(verdict) in {"log.proof", "log.inclusion"}
    assert story.gateway_records[2].payload["jti"] in str(row(verdict, "log.inclusion").where)


@pytest.mark.parametrize("text", ["", "x", "\ud800", "c2sp.org/tlog-proof@v1\nindex 0\n\n"])
def test_what_is_no_proof_is_refused_and_crashes_nothing(text: str) -> None:
    story = told()
    rh = story.gateway_records[0].rh
    bundle = replace(story.bundle(), proofs={**story.bundle().proofs, rh: text})
    assert refusal(judge(bundle.to_bytes())) in {"log.proof", "note.malformed"}


def test_two_roots_over_the_same_number_of_leaves_are_a_split_view() -> None:
    """Both signed by the log itself: the proofs hold, and contradict each other."""
    story = told()
    first = in_another_tree(story, more=1)
    records = [*story.gateway_records, *story.session_records]
    leaves = [*(leaf_of(record.jws).leaf_hash for record in records), b"z" * 32]
    nodes, size = MemoryNodes(leaves), len(leaves)
    text = Checkpoint(story.config.origin, size, range_hash(nodes, 0, size)).to_text()
    note = signed(text, story.log_signer)

    def both(proofs: dict[str, str]) -> Mapping[str, str]:
        proofs = dict(first(proofs))
        proofs[records[4].rh] = LogProof(4, inclusion_path(nodes, 4, size), note).to_bytes().decode()
        return proofs

    verdict = changed(story, both)
    assert row(verdict, "log.inclusion").state is State.HELD
    assert refusal(verdict, "log.consistency") == "log.split_view"


def test_two_receipts_at_one_index_are_a_split_view() -> None:
    story = told()
    records = [*story.gateway_records, *story.session_records]
    leaves = [leaf_of(record.jws).leaf_hash for record in records]
    swapped = [*leaves[:4], leaves[5], leaves[4], *leaves[6:]]
    nodes, size = MemoryNodes(swapped), len(swapped)
    note = signed(
        Checkpoint(story.config.origin, size, range_hash(nodes, 0, size)).to_text(), story.log_signer
    )

    def change(proofs: dict[str, str]) -> Mapping[str, str]:
        return {
            **proofs,
            records[5].rh: LogProof(4, inclusion_path(nodes, 4, size), note).to_bytes().decode(),
        }

    assert refusal(changed(story, change)) == "log.split_view"


def test_checkpoints_of_two_sizes_need_a_proof_that_is_not_there() -> None:
    story = told()
    verdict = changed(story, in_another_tree(story, only=4))
    assert row(verdict, "log.inclusion").state is State.HELD
    assert row(verdict, "log.consistency").state is State.NOT_MADE
    assert verdict.level == "L1"


def test_the_trust_file_pins_a_log_by_its_key() -> None:
    story = told()
    own = story.log_signer.verifier.vkey()
    pinned = judge(story.bundle().to_bytes(), changes={"log": [{"value": own}]})
    assert row(pinned, "log.inclusion").tier is Tier.AFFIRMING
    other = judge(story.bundle().to_bytes(), changes={"log": [{"value": STRANGER.verifier.vkey()}]})
    assert refusal(other) == "log.not_accepted"
    ended = [{"value": own, "until": "2020-01-01T00:00:00Z"}]
    assert refusal(judge(story.bundle().to_bytes(), changes={"log": ended})) == "log.not_accepted"


def test_a_log_that_is_not_pinned_is_a_warning() -> None:
    verdict = judge(told().bundle().to_bytes(), changes={"log": ...})
    found = row(verdict, "log.inclusion")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert "not pinned" in found.detail


def test_attested_counts_only_as_far_as_the_quote_that_binds_the_key() -> None:
    """A gateway whose quote is refused names a log key like any other."""
    verdict = judge(Story(gateway_mrconfigid=b"x" * 48).bytes())
    assert row(verdict, "conf.bound").state is State.REFUSED
    assert row(verdict, "log.inclusion").state is State.NOT_MADE


def test_a_keyset_and_a_configuration_that_name_different_logs_are_refused() -> None:
    story = Story()
    honest = story.config.origin
    story.make_gateway()
    assert story.gateway_statement.log is not None
    assert story.gateway_statement.log.origin == honest

    class Liar(Story):
        def make_gateway(self) -> None:
            mine, self.config = self.config, replace(self.config, origin="log.example/liar")
            super().make_gateway()
            self.config = mine

    verdict = judge(Liar().bytes())
    found = row(verdict, "conf.bound")
    assert (found.state, found.reason) == (State.REFUSED, "conf.unbound")
    assert "different logs" in found.detail


def test_a_bundle_keeps_its_proofs_byte_for_byte() -> None:
    from affiant.attestation.bundle.bundle import parse_bundle

    bundle: Bundle = told().bundle()
    assert parse_bundle(bundle.to_bytes()) == bundle
    assert trust().log is not None
