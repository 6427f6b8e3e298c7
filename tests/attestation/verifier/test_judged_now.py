"""What was archived, judged again now: newer collateral counts, older never, and what changed is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.attestation.story import NOW, PLATFORM, REQUEST, Story, leaf_of, new_id, reference_bytes, trust
from tests.attestation.verifier.checks.test_anchor_checks import asking, tokens_over
from tests.attestation.verifier.checks.test_witness_checks import Watched, policy
from tests.attestation.verifier.test_reports import HOSTILE, read
from tests.attestation.verifier.test_verify_bundle import row
from tests.raising import raises_code

from affiant.attestation.bundle.bundle_anchors import Anchors, StampedCheckpoint
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import signed
from affiant.attestation.tlog.tree_paths import MemoryNodes, range_hash
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.since_archived import Changed, QuoteChanged
from affiant.attestation.verdict.verdict import State, Verdict
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.judged_now import examine_now
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import examine_bundle
from fault_scenarios.bench import Bench
from fault_scenarios.scenarios.levels import reaching

LATER = NOW + timedelta(days=20)
"""When the archived collateral still holds."""
YEAR = NOW + timedelta(days=365)
SA = "INTEL-SA-99901"


def worse(status: str) -> SimulatedPlatform:
    """The same platform, when its maker has learned more of it."""
    return reaching(status, SA)(Bench(platform=PLATFORM, layout=QuoteLayout.V4, now=NOW)).platform


def published(platform: SimulatedPlatform, at: datetime) -> Callable[[TDQuote], Collateral]:
    return lambda _: platform.collateral(at)


def judge_now(
    data: bytes | None = None,
    *,
    now: datetime = LATER,
    at: datetime | None = None,
    collateral: Callable[[TDQuote], Collateral] | None = None,
    **changes: object,
) -> Verdict:
    question = Question(
        trust=trust(**changes),
        verifiers=STANDARD_VERIFIERS,
        at=now,
        build="build",
        compared=Comparison(at, collateral),
    )
    return examine_now(Story().bytes() if data is None else data, question).verdict


def changed(verdict: Verdict) -> Changed:
    assert verdict.changed is not None
    return verdict.changed


def rows(verdict: Verdict) -> dict[str, tuple[str, str, str | None]]:
    return {each.code: (each.state_before, each.state_after, each.reason) for each in changed(verdict).checks}


def accepting(*statuses: str) -> list[dict[str, object]]:
    document = json.loads(reference_bytes(tcb={"statuses": list(statuses), "min_evaluation": 1}))
    return [{"value": json.loads(reference_bytes())}, {"value": document}]


def gateway(verdict: Verdict) -> QuoteChanged:
    return next(each for each in changed(verdict).quotes if each.role == "gateway")


def test_where_nothing_changed_nothing_is_said_to_have() -> None:
    verdict = judge_now(collateral=published(PLATFORM, LATER))
    assert rows(verdict) == {}
    assert (verdict.exit_code, changed(verdict).exit_code) == (40, 40)
    assert [each.after.tcb for each in changed(verdict).quotes] == ["UpToDate", "UpToDate"]
    assert [each.appeared for each in changed(verdict).quotes] == [[], []]
    assert verdict.at == LATER.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert "no check came out otherwise" in render(verdict)


def test_a_platform_that_fell_out_of_date_is_refused_now_and_was_good_then() -> None:
    verdict = judge_now(collateral=published(worse("OutOfDate"), LATER))
    assert rows(verdict)["tee.appraisal"] == ("held", "refused", "appraisal.tcb_status")
    quote = gateway(verdict)
    assert (quote.before.tcb, quote.after.tcb) == ("UpToDate", "OutOfDate")
    assert quote.appeared == [SA]
    assert (quote.before.refused, quote.after.refused) == (None, "appraisal.tcb_status")
    assert (verdict.exit_code, changed(verdict).exit_code) == (20, 40)


def test_every_quote_is_judged_although_the_first_is_refused() -> None:
    verdict = judge_now(collateral=published(worse("OutOfDate"), LATER))
    assert {each.role for each in changed(verdict).quotes} == {"gateway", "session"}
    assert {each.after.tcb for each in changed(verdict).quotes} == {"OutOfDate"}


def test_a_platform_that_was_revoked_has_no_status_and_is_refused() -> None:
    verdict = judge_now(collateral=published(worse("Revoked"), LATER))
    assert gateway(verdict).after.tcb is None
    assert gateway(verdict).after.refused == "tcb.revoked"
    assert verdict.exit_code == 20


@pytest.mark.parametrize("role", [CertificateRole.PCK, CertificateRole.PCK_ISSUER])
def test_a_certificate_that_was_revoked_since_is_refused(role: CertificateRole) -> None:
    revoked = replace(PLATFORM, revoked=frozenset({role}))
    verdict = judge_now(collateral=published(revoked, LATER))
    assert gateway(verdict).after.refused == "cert.revoked"
    assert gateway(verdict).before.refused is None
    assert rows(verdict)["tee.appraisal"] == ("held", "refused", "cert.revoked")


def test_what_the_gateway_said_then_is_not_wrong_because_of_what_was_learned_since() -> None:
    """With an accepted status the results of then are held to the worth of then."""
    verdict = judge_now(
        collateral=published(worse("OutOfDate"), LATER), reference_values=accepting("UpToDate", "OutOfDate")
    )
    assert row(verdict, "tee.appraisal").state is State.HELD
    assert row(verdict, "peer.ear").state is State.HELD
    assert verdict.exit_code == 40
    assert gateway(verdict).after.tcb == "OutOfDate"


def test_a_result_that_was_wrong_then_is_refused_now_as_well() -> None:
    lied = Story(alter=lambda step, it: it | ({"tcb_status": "OutOfDate"} if step == "ear" else {}))
    verdict = judge_now(
        lied.bytes(),
        collateral=published(worse("OutOfDate"), LATER),
        reference_values=accepting("UpToDate", "OutOfDate"),
    )
    assert row(verdict, "peer.ear").reason == "peer.ear_mismatch"


def test_a_result_about_a_quote_that_was_good_at_no_time_of_the_bundle_is_held_to_nothing() -> None:
    """The archived collateral had expired by when the reader says that it was; that of now is fresh."""
    verdict = judge_now(now=YEAR, at=YEAR, collateral=published(PLATFORM, YEAR))
    assert gateway(verdict).before.refused is not None
    assert row(verdict, "tee.appraisal").state is State.HELD
    found = row(verdict, "peer.ear")
    assert (found.state, found.reason) == (State.NOT_MADE, None)
    assert "does not hold at the bundle's own time" in found.detail


def test_collateral_that_is_older_than_the_archived_is_no_newer_look() -> None:
    verdict = judge_now(collateral=published(PLATFORM, NOW - timedelta(days=3)))
    assert gateway(verdict).after.refused == "collateral.rollback"
    assert verdict.exit_code == 20


def test_collateral_of_another_root_is_refused() -> None:
    other = SimulatedPlatform.create(now=NOW - timedelta(days=1), random_bytes=bytes)
    assert judge_now(collateral=published(other, LATER)).exit_code == 20


def test_without_collateral_of_the_platform_the_quote_is_not_judged_and_nothing_is_affirmed() -> None:
    def absent(_: TDQuote) -> Collateral:
        raise NotMade("none there")

    verdict = judge_now(collateral=absent)
    assert row(verdict, "tee.appraisal").state is State.NOT_MADE
    assert gateway(verdict).after.refused == "not_made"
    assert verdict.level == "L1", "the log counts as attested"


def test_the_archived_collateral_is_stale_after_its_time_and_that_is_refused() -> None:
    verdict = judge_now(now=YEAR)
    assert changed(verdict).own_collateral is False
    assert gateway(verdict).before.refused is None
    assert (gateway(verdict).after.refused or "").endswith(("expired", "not_fresh", "window"))
    assert verdict.exit_code == 20


def test_entries_of_the_trust_file_that_ended_since_are_named() -> None:
    ended, revoked = (NOW + timedelta(days=n) for n in (1, 2))
    verdict = judge_now(
        collateral=published(PLATFORM, LATER),
        rootfs=[{"value": "host-usr", "until": f"{ended:%Y-%m-%dT%H:%M:%SZ}"}],
        log=[{"value": "attested", "revoked_at": f"{revoked:%Y-%m-%dT%H:%M:%SZ}"}],
    )
    assert [(each.list, each.value, each.why) for each in changed(verdict).ended] == [
        ("rootfs", "host-usr", "until"),
        ("log", "attested", "revoked_at"),
    ]
    assert verdict.exit_code == 20
    assert rows(verdict)["log.inclusion"] == ("held", "refused", "log.not_accepted")


# -- the bundle's own time ---------------------------------------------------------------------------------------


def test_the_own_time_is_the_end_of_the_bracket() -> None:
    verdict = judge_now(
        Watched().bytes(), collateral=published(PLATFORM, LATER), witnesses=[{"value": policy()}]
    )
    assert (changed(verdict).then, changed(verdict).by) == ("2026-11-21T12:01:01Z", "witnesses")


def test_witnesses_who_are_accepted_no_more_still_say_when_it_was() -> None:
    entry = {"value": policy(), "until": f"{NOW + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"}
    verdict = judge_now(Watched().bytes(), collateral=published(PLATFORM, LATER), witnesses=[entry])
    assert (changed(verdict).then, changed(verdict).by) == ("2026-11-21T12:01:01Z", "witnesses")
    assert rows(verdict)["wit.quorum"][:2] == ("held", "not made")
    (ended,) = changed(verdict).ended
    assert ended.list == "witnesses" and ended.value.startswith("sha256:")


def test_they_say_so_also_where_they_cosigned_long_after_the_last_record() -> None:
    late = Watched(late={"a": 3600, "b": 3600, "c": 3600})
    entry = {"value": policy(), "until": f"{NOW + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"}
    verdict = judge_now(late.bytes(), collateral=published(PLATFORM, LATER), witnesses=[entry])
    assert (changed(verdict).then, changed(verdict).by) == ("2026-11-21T13:00:00Z", "witnesses")
    assert rows(verdict)["wit.quorum"][:2] == ("held", "not made")


def test_an_anchor_before_the_cosignatures_does_not_take_them_away() -> None:
    """The token is over the same tree, which was cosigned later: its time is the bundle's own."""
    story = Watched(
        gateway_not_after=timedelta(days=400),
        late=dict.fromkeys("abc", int(timedelta(hours=6).total_seconds())),
    )
    plain = story.bundle()
    leaves = [leaf_of(each.jws).leaf_hash for each in (*story.gateway_records, *story.session_records)]
    root = range_hash(MemoryNodes(leaves), 0, len(leaves))
    note = signed(Checkpoint(story.config.origin, len(leaves), root).to_text(), story.log_signer)
    raw = note.to_bytes()
    tokens = tokens_over(note.text, at=NOW + timedelta(hours=1))
    anchors = Anchors((StampedCheckpoint(sha256_name(raw), (), tokens),))
    stamped = replace(plain, checkpoints={**plain.checkpoints, sha256_name(raw): raw}, anchors=anchors)
    verdict = judge_now(
        stamped.to_bytes(),
        collateral=published(PLATFORM, LATER),
        **asking(witnesses=[{"value": policy()}]),
    )
    assert changed(verdict).by == "timestamp authority"
    assert row(verdict, "wit.quorum").state is State.HELD
    assert "wit.quorum" not in rows(verdict)


def test_the_time_that_is_asked_is_before_any_quorum_of_later() -> None:
    asked = NOW + timedelta(minutes=10)
    late = Watched(late={"a": 3600, "b": 3600, "c": 3600})
    verdict = judge_now(
        late.bytes(), at=asked, collateral=published(PLATFORM, LATER), witnesses=[{"value": policy()}]
    )
    assert rows(verdict)["wit.quorum"][:2] == ("not made", "held")


def test_without_witnesses_it_is_the_signers_word_and_said_to_be() -> None:
    verdict = judge_now(collateral=published(PLATFORM, LATER))
    assert changed(verdict).by == "signers"
    assert "by the signers' own clocks alone" in " ".join(render(verdict).split())


def test_the_reader_may_say_when_it_was() -> None:
    verdict = judge_now(collateral=published(PLATFORM, LATER), at=NOW + timedelta(hours=1))
    assert (changed(verdict).then, changed(verdict).by) == ("2026-11-21T13:00:00Z", "asked")


def test_a_bundle_that_dates_itself_back_gets_no_better_verdict() -> None:
    """Then it was good, it says; the verdict, and the exit code, are those of now."""
    verdict = judge_now(now=YEAR, collateral=published(worse("Revoked"), YEAR))
    assert changed(verdict).exit_code == 40
    assert verdict.exit_code == 20


def test_a_bundle_that_cannot_be_read_is_refused_and_nothing_is_compared() -> None:
    verdict = judge_now(b"garbage")
    assert (verdict.exit_code, verdict.changed) == (20, None)


# -- how it is shown ---------------------------------------------------------------------------------------------


def test_document_text_and_page_say_the_same() -> None:
    verdict = judge_now(collateral=published(worse("OutOfDate"), LATER))
    document = json.loads(json.dumps(verdict.to_json()))["changed"]
    assert document["then"]["exit_code"] == 40 and document["collateral"] == "own"
    assert document["quotes"][0]["advisories_appeared"] == [SA]
    text, page = " ".join(render(verdict).split()), render_html(verdict)
    for said in (SA, "TCB UpToDate", "TCB OutOfDate", "CHANGED SINCE"):
        assert said in text
    for said in (SA, "TCB OutOfDate", "What changed since its own time", "refused contraindicated"):
        assert said in page
    read(page)


def test_without_being_asked_the_document_is_as_it_was() -> None:
    question = Question(trust=trust(), verifiers=STANDARD_VERIFIERS, at=NOW, build="")
    examined = examine_bundle(Story().bytes(), question)
    assert "changed" not in examined.verdict.to_json()


def test_hostile_text_stays_text() -> None:
    verdict = judge_now(collateral=published(worse("OutOfDate"), LATER))
    bad = replace(changed(verdict), by=HOSTILE, ended=(), checks=changed(verdict).checks)
    page = render_html(replace(verdict, changed=bad))
    assert "<script" not in page
    read(page)


def test_bodies_and_session_are_judged_as_without_it() -> None:
    question = Question(
        trust=trust(), verifiers=STANDARD_VERIFIERS, at=LATER, build="", compared=Comparison()
    )
    held = examine_now(Story().bytes(), replace(question, request=REQUEST))
    assert row(held.verdict, "body.request").state is State.HELD
    with raises_code("verifier.session"):
        examine_now(Story().bytes(), replace(question, session=new_id()))
