"""What one bundle alone cannot show: two that contradict each other are refused, whatever each says by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.attestation.shared_gateway import SharedGateway, twice, two_sessions
from tests.attestation.story import NOW, Story, trust
from tests.attestation.verifier.checks.test_anchor_checks import note_over, whole
from tests.attestation.verifier.checks.test_anchor_checks import told as told_story
from tests.attestation.verifier.test_verify_bundle import at

from affiant.attestation.bundle.bundle import objects_by_digest
from affiant.attestation.bundle.bundle_anchors import Anchors, PublishedCheckpoint, StampedCheckpoint
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.tlog.note import Note
from affiant.attestation.tlog.note_signing import LogSigner
from affiant.attestation.verdict.verdict import Check, State, Tier
from affiant.attestation.verifier.across import Across
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.attestation.verifier.several import judge_several
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.trace import Trace, TracedKeyset, TracedRecord, TracedRoot
from affiant.attestation.verifier.verify_bundle import examine_bundle

QUESTION = Question(trust=trust(), verifiers=STANDARD_VERIFIERS, at=NOW, build="build")


def judge(*bundles: bytes, changes: Mapping[str, object] | None = None, **more: object) -> CombinedVerdict:
    question = replace(QUESTION, trust=trust(**(changes or {})))
    examine = [
        (f"{n}.affiant.json", partial(examine_bundle, data, question))
        for n, data in enumerate(bundles, start=1)
    ]
    return judge_several(examine, question.trust, at=NOW, build="build", **more)


def row(checks: Sequence[Check], code: str) -> Check:
    return next(check for check in checks if check.code == code)


def refused(verdict: CombinedVerdict) -> dict[str, str | None]:
    return {check.code: check.reason for check in verdict.across if check.state is State.REFUSED}


# -- bundles that were signed ------------------------------------------------------------------------------------


def test_two_sessions_of_one_gateway_agree() -> None:
    verdict = judge(*two_sessions())
    assert refused(verdict) == {}
    assert {check.state for check in verdict.across} == {State.HELD}
    assert (verdict.exit_code, verdict.tier, verdict.level) == (40, Tier.NONE, "L2")


def test_that_trees_of_two_sizes_are_one_tree_is_not_affirmed_without_witnesses() -> None:
    found = row(judge(*two_sessions()).across, "across.roots")
    assert (found.state, found.tier) == (State.HELD, Tier.WARNING)
    assert "nothing here says that different sizes are one tree" in found.detail
    alone = row(judge(two_sessions()[0]).across, "across.roots")
    assert alone.tier is Tier.AFFIRMING


def test_no_record_is_counted_twice() -> None:
    first, second = two_sessions()
    people = judge(first, second, first).population
    each = [examine_bundle(data, QUESTION).verdict.population for data in (first, second)]
    assert people.receipts == sum(one.receipts for one in each) - 1, "the boot record is in both"
    assert (people.started, people.closed, people.chains) == (2, 2, 3)
    assert people.refusals == sum(one.refusals for one in each)
    assert people.kinds is not None and people.kinds["boot"] == 3


def test_two_histories_under_one_key_are_refused_though_each_is_whole() -> None:
    """The gateway shows one auditor another answer: same chain, same numbers, same log, same ids."""
    one, other = twice(Story, alter=at("inference", res={"st": 201, "end": "complete"}))
    verdict = judge(one, other)
    assert all(each.verdict.exit_code == 40 for each in verdict.judged)
    assert verdict.exit_code == 20
    assert refused(verdict) == {
        "across.chains": "chain.fork",
        "across.ids": "chain.repeated_id",
        "across.sessions": "session.close",
        "across.places": "log.split_view",
        "across.roots": "log.split_view",
    }
    fork = row(verdict.across, "across.chains")
    assert "(1.affiant.json, 2.affiant.json)" in fork.detail
    assert fork.where


class TakesBack(SharedGateway):
    """Between two bundles the gateway goes back to its boot, and writes another session at the first one's numbers."""

    def tell(self) -> Story:
        if self.gateway_records:
            self.gateway._next, self.gateway._prev = 1, self.gateway_records[0].rh
            self.gateway_records, self.log = self.gateway_records[:1], self.log[:1]
        return super().tell()


def test_a_gateway_that_takes_a_session_back_is_refused() -> None:
    shared = TakesBack()
    verdict = judge(shared.tell().bytes(), shared.tell().bytes())
    assert all(each.verdict.exit_code == 40 for each in verdict.judged)
    assert set(refused(verdict)) == {"across.chains", "across.places", "across.roots"}
    assert verdict.exit_code == 20


def test_a_bundle_that_cannot_be_read_is_its_own_verdict_and_stops_no_other() -> None:
    verdict = judge(b"garbage", Story().bytes())
    assert [each.verdict.exit_code for each in verdict.judged] == [20, 40]
    assert verdict.exit_code == 20
    for check in verdict.across:
        assert (check.state, check.tier) == (State.NOT_MADE, Tier.NONE)
        assert "1.affiant.json" in check.detail
    assert verdict.population.started == 1


def test_a_bundle_without_proofs_keeps_the_rows_of_the_log_from_being_made() -> None:
    story = Story()
    bare = replace(story.bundle(), proofs={}).to_bytes()
    verdict = judge(bare, Story().bytes())
    states = {check.code: check.state for check in verdict.across}
    assert states["across.places"] is states["across.roots"] is State.NOT_MADE
    assert states["across.chains"] is State.HELD


def test_a_forged_receipt_hides_no_contradiction_of_the_others() -> None:
    one, other = twice(Story, alter=at("inference", res={"st": 201, "end": "complete"}))
    document = json.loads(other)
    document["receipts"][-1]["sdjwt"] = document["receipts"][-1]["sdjwt"][:-9] + "AAAAAAAA~"
    verdict = judge(one, json.dumps(document).encode())
    assert "across.chains" in refused(verdict)


def test_what_is_not_required_still_refuses_but_need_not_be_made() -> None:
    changes = {"require": ["sig.receipts"]}
    assert judge(b"garbage", changes=changes).across[0].required is False
    one, other = twice(Story, alter=at("inference", res={"st": 201, "end": "complete"}))
    assert judge(one, other, changes=changes).exit_code == 20


def test_nothing_is_better_in_company_and_of_nothing_there_is_no_verdict() -> None:
    bundles = two_sessions()
    worst = judge(*bundles, b"garbage")
    assert worst.tier is Tier.CONTRAINDICATED and worst.level is None
    assert judge().tier is Tier.NONE and judge().exit_code == 30


def test_the_document_has_every_verdict_as_it_is_alone() -> None:
    first, second = two_sessions()
    document = json.loads(json.dumps(judge(first, second).to_json()))
    assert document["typ"] == "affiant-verdicts/1"
    alone = examine_bundle(second, QUESTION).verdict.to_json()
    assert document["verdicts"][1] == {"file": "2.affiant.json", **json.loads(json.dumps(alone))}
    assert set(document) >= {"across", "tier", "exit_code", "counts", "simulated"}


def test_timelines_share_the_room_that_a_report_has() -> None:
    first, second = two_sessions()
    verdict = judge(first, second, moments=5)
    assert [(len(each.verdict.timeline), each.untold > 0) for each in verdict.judged] == [
        (5, True),
        (0, True),
    ]


# -- facts -------------------------------------------------------------------------------------------------------


def record(**changes: object) -> TracedRecord:
    plain = TracedRecord(
        "rh", "prev", "key", "chain", 4, "id", "inference", "gateway", "session", place=("log", 9)
    )
    return plain._replace(**changes)


def told(*traces: Trace) -> Mapping[str, str | None]:
    across = Across()
    for number, trace in enumerate(traces):
        across.add(str(number), replace(trace, authentic=True, logged=True))
    return {
        check.code: check.reason for check in across.checks(required=True) if check.state is State.REFUSED
    }


def records(*those: TracedRecord) -> Trace:
    return Trace(records=those)


OTHER = {"rh": "other", "jti": "other", "seq": 7, "place": None}


@pytest.mark.parametrize(
    ("one", "other", "row", "reason"),
    [
        (record(), record(**OTHER | {"seq": 4}), "across.chains", "chain.fork"),
        (record(), record(**OTHER | {"seq": 5, "prev": "another"}), "across.chains", "chain.fork"),
        (record(), record(**OTHER | {"jti": "id"}), "across.ids", "chain.repeated_id"),
        (record(), record(**OTHER | {"place": ("log", 9)}), "across.places", "log.split_view"),
        (
            record(kind="session-close"),
            record(**OTHER | {"kind": "session-close"}),
            "across.sessions",
            "session.close",
        ),
        (
            record(kind="session-start"),
            record(**OTHER | {"kind": "session-start"}),
            "across.sessions",
            "session.start",
        ),
    ],
)
def test_one_thing_that_is_said_twice_is_refused_by_its_row(
    one: TracedRecord, other: TracedRecord, row: str, reason: str
) -> None:
    assert told(records(one), records(other)) == {row: reason}
    assert told(records(other), records(one)) == {row: reason}
    assert told(records(one), records(one)) == {}


def test_a_start_and_a_close_of_one_session_are_two_things() -> None:
    close = record(**OTHER | {"kind": "session-close"})
    assert told(records(record(kind="session-start")), records(close)) == {}


@pytest.mark.parametrize("what", ["key", "chain", "session"])
def test_two_keysets_that_claim_one_name_are_refused(what: str) -> None:
    one, other = (Trace(keysets=[TracedKeyset(what, "name", digest)]) for digest in ("one", "other"))
    assert told(one, other) == {"across.keysets": "chain.broken"}
    assert told(one, one) == {}


def test_two_roots_over_one_size_are_refused_and_over_two_sizes_not() -> None:
    one = Trace(roots=[TracedRoot("log", 5, b"one")])
    assert told(one, Trace(roots=[TracedRoot("log", 5, b"other")])) == {"across.roots": "log.split_view"}
    assert told(one, Trace(roots=[TracedRoot("log", 6, b"other")])) == {}
    assert told(one, Trace(roots=[TracedRoot("other", 5, b"other")])) == {}


def test_beyond_the_facts_that_are_kept_nothing_is_affirmed_but_what_was_found_stays() -> None:
    across = Across(limit=4)
    across.add("a", records(record(), record(**OTHER)))
    across.add("b", records(record(rh="else")))
    rows = {check.code: check for check in across.checks(required=True)}
    assert rows["across.chains"].state is State.REFUSED
    assert rows["across.keysets"].state is State.NOT_MADE
    assert "more than 4 facts" in rows["across.keysets"].detail


def test_a_thousand_contradictions_are_counted_and_ten_are_named() -> None:
    across = Across()
    across.add("a", records(*(record(seq=n, jti=f"a{n}", place=None) for n in range(0, 2000, 2))))
    across.add("b", records(*(record(seq=n, jti=f"b{n}", rh="x", place=None) for n in range(0, 2000, 2))))
    found = row(across.checks(required=True), "across.chains")
    assert found.detail.endswith("; and 990 more")
    assert len(found.where) == 10 and len(found.detail) < 2000


def test_a_session_is_closed_or_lost_as_soon_as_any_bundle_says_so() -> None:
    def people(*more: TracedRecord) -> tuple[int, int, int]:
        across = Across()
        judged = frozenset({"session"})
        across.add("a", Trace(records=[record(kind="session-start")], judged=judged))
        across.add("b", Trace(records=more, judged=judged))
        found = across.population()
        assert found.started == 1
        return found.closed, found.lost, found.open

    close = record(**OTHER | {"kind": "session-close"})
    assert people() == (0, 0, 1)
    assert people(close._replace(close="done")) == (1, 0, 0)
    assert people(close._replace(close="lost")) == (0, 1, 0)
    gap = record(**OTHER | {"kind": "gap", "session": None, "gap": "chain", "chn": "later"})
    assert people(gap) == (0, 1, 0)
    assert people(gap._replace(chn="chain")) == (0, 0, 1), "a chain cannot say that it is itself gone"


# -- checkpoints of anchors ----------------------------------------------------------------------------------------


def with_anchor(note: Note, *, kind: str = "tsr", kept: bool = True) -> bytes:
    """The story's bundle with an anchor that nobody believes over ``note``."""
    bundle, raw = told_story()[1], note.to_bytes()
    name = sha256_name(raw)
    carried = (
        Anchors(tsr=(StampedCheckpoint(name, (), (b"token",)),))
        if kind == "tsr"
        else Anchors(sigstore=(PublishedCheckpoint(name, (), b"bundle"),))
    )
    objects = objects_by_digest([raw]) if kept else {}
    return replace(bundle, checkpoints={**bundle.checkpoints, **objects}, anchors=carried).to_bytes()


@pytest.mark.parametrize("kind", ["tsr", "sigstore"])
def test_an_anchored_checkpoint_of_another_tree_is_a_split_view_whoever_anchored_it(kind: str) -> None:
    plain = told_story()[1].to_bytes()
    other = note_over(whole(), root=b"o" * 32)
    both = judge(plain, with_anchor(other, kind=kind))
    assert refused(both) == {"across.roots": "log.split_view"}
    assert both.exit_code == 20 and all(each.verdict.exit_code != 20 for each in both.judged)
    small = (with_anchor(note_over(3, root=root), kind=kind) for root in (None, b"o" * 32))
    assert refused(judge(*small)) == {"across.roots": "log.split_view"}, "of a size that no proof is under"


def test_an_anchored_checkpoint_that_fits_or_is_not_the_logs_contradicts_nothing() -> None:
    plain = told_story()[1].to_bytes()
    stranger = LogSigner(note_over(3).text.split("\n")[0], Ed25519PrivateKey.generate())
    forged = note_over(whole(), root=b"o" * 32, signer=stranger)
    other = note_over(whole(), root=b"o" * 32)
    for bundle in (
        with_anchor(note_over(whole())),
        with_anchor(note_over(3)),
        with_anchor(forged),
        with_anchor(other, kept=False),
    ):
        verdict = judge(plain, bundle)
        assert refused(verdict) == {}
        assert row(verdict.across, "across.roots").tier is Tier.AFFIRMING
