"""A period judged now: every quote once, each beside what it was worth at its own time; what is named is bounded."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.attestation.log_builder import cosigner
from tests.attestation.period_builder import build, rezipped, sorted_records
from tests.attestation.story import BUILD, NOW, PLATFORM, Story, trust
from tests.attestation.verifier.test_judged_now import (
    LATER,
    SA,
    YEAR,
    accepting,
    changed,
    judge_now,
    published,
    rows,
    worse,
)
from tests.attestation.verifier.test_reports import HOSTILE, read
from tests.attestation.verifier.test_verify_bundle import row

from affiant.attestation.bundle.period.layout import object_name
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.records.receipt import Issued
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.ear import ear_digest
from affiant.attestation.statements.statement import KeysetStatement, report_data
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.since_archived import QuotesCounted
from affiant.attestation.verdict.verdict import State, Verdict
from affiant.attestation.verifier.case.question import Comparison, Question
from affiant.attestation.verifier.files.newer_collateral import collateral_at
from affiant.attestation.verifier.period.judged_now import examine_period_now
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from fault_scenarios.collateral_json import collateral_json

Finds = Callable[[TDQuote], Collateral]


def judged_now(path: Path, *, now: datetime = LATER, **more: object) -> Verdict:
    compared = Comparison(more.pop("at", None), more.pop("collateral", None))
    asked = {name: more.pop(name) for name in ("processes", "session", "since") if name in more}
    question = Question(
        trust=trust(**more),
        verifiers=STANDARD_VERIFIERS,
        at=now,
        build="build",
        compared=compared,
        **asked,
    )
    return examine_period_now(path, question).verdict


def counted(verdict: Verdict) -> QuotesCounted:
    found = changed(verdict).counted
    assert found is not None
    return found


# -- more than one session -----------------------------------------------------------------------------------------


def another(gateway: Story, *, at: datetime) -> Story:
    """One more session of the same gateway, with collateral of its own day."""
    told = Story(collateral_at=at, clock=gateway.clock)
    gateway.clock.now = at
    for name in (
        "gateway_signer",
        "ear_signer",
        "log_signer",
        "gateway_statement",
        "gateway_evidence",
        "gateway",
    ):
        setattr(told, name, getattr(gateway, name))
    told.next_seq = 0
    told.make_session()
    start = {
        "pol": told._pol(),
        "att": {"ses": {"ear": ear_digest(told.ear), "tier": "none"}},
        "man": {"man": told.manifest.digest, "act": told.activation.digest},
        "ini": {"iss": "local", "method": "uid"},
        "iso": told.iso,
        "rfs": told.rootfs,
    }
    told.by_gateway("start", "session-start", start)
    keysets = {"ks": told.session_statement.keyset_digest, "gks": gateway.gateway_statement.keyset_digest}
    told.by_supervisor("session-boot", "boot", {**keysets, "bld": BUILD}, of_session=False)
    told.by_supervisor("session-end", "end", {"why": "shutdown"}, of_session=False)
    told.close()
    return told


def objects(told: Story) -> Mapping[str, bytes]:
    """What a session's verifier needs beside its records."""
    found = {
        "keysets": told.session_statement.raw,
        "evidence": told.session_evidence,
        "endorsements": told.endorsements,
        "results": told.ear.encode(),
    }
    return {object_name(folder, sha256_name(data)): data for folder, data in found.items()}


def period(tmp_path: Path, *days: float, **more: object) -> tuple[Path, list[Story]]:
    """An archive of a session on the first day, and of one more after each of ``days``."""
    first = Story(gateway_not_after=timedelta(days=400)).tell()
    others = [another(first, at=NOW + timedelta(days=day)) for day in days]
    records: list[Issued] = sorted_records(first)
    for told in others:
        records += sorted_records(told)
    extra = {name: data for told in others for name, data in objects(told).items()}
    return build(tmp_path, first, records=records, extra=extra, **more), [first, *others]


def one_worse(statement: KeysetStatement, platform: SimulatedPlatform, at: datetime) -> Finds:
    """Collateral by which the quote of one signer alone is worth less."""
    bound = report_data(statement.raw)
    return lambda quote: (platform if quote.body.report_data == bound else PLATFORM).collateral(at)


@pytest.fixture(scope="module")
def story() -> Story:
    return Story().tell()


@pytest.fixture(scope="module")
def archive(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("now"), story)


# -- then and now --------------------------------------------------------------------------------------------------


def test_where_nothing_changed_nothing_is_said_to_have(archive: Path) -> None:
    verdict = judged_now(archive, collateral=published(PLATFORM, LATER))
    assert rows(verdict) == {}
    assert (verdict.exit_code, changed(verdict).exit_code) == (40, 40)
    assert changed(verdict).quotes == ()
    assert counted(verdict) == QuotesCounted(
        judged=2, changed=0, unnamed=0, not_judged=0, moves={("UpToDate", "UpToDate"): 2}
    )
    assert verdict.at == LATER.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert "no check came out otherwise" in render(verdict)


@pytest.mark.parametrize(
    "collateral",
    [
        published(worse("OutOfDate"), LATER),
        published(worse("Revoked"), LATER),
        published(PLATFORM, NOW - timedelta(days=3)),
        None,
    ],
    ids=["out of date", "revoked", "older", "archived"],
)
@pytest.mark.parametrize("now", [LATER, YEAR], ids=["later", "a year later"])
def test_it_says_of_a_session_what_a_single_bundle_says(
    story: Story, archive: Path, collateral: Finds | None, now: datetime
) -> None:
    one = judge_now(story.bytes(), now=now, collateral=collateral)
    many = judged_now(archive, now=now, collateral=collateral)
    assert rows(many) == rows(one)
    assert (many.exit_code, many.level, many.tier) == (one.exit_code, one.level, one.tier)
    then = [(each.exit_code, each.tier, each.level, each.by, each.then) for each in map(changed, (one, many))]
    assert then[0] == then[1]
    named = {quote.key: quote for quote in changed(many).quotes}
    for quote in changed(one).quotes:
        differs = quote.before.same != quote.after.same
        assert (quote.key in named) == differs
        if differs:
            found = named[quote.key]
            assert (found.role, found.after) == (quote.role, quote.after)
            assert found.before == quote.before
    states = {check.code: (check.state, check.tier, check.reason) for check in many.checks}
    expected = {check.code: (check.state, check.tier, check.reason) for check in one.checks}
    assert states | {"chain.coverage": 0} == expected | {"chain.coverage": 0}


def test_the_one_session_whose_platform_was_revoked_since_is_named(tmp_path: Path) -> None:
    path, told = period(tmp_path, 1, 2)
    verdict = judged_now(path, collateral=one_worse(told[1].session_statement, worse("Revoked"), LATER))
    (quote,) = changed(verdict).quotes
    assert (quote.role, quote.session) == ("session", told[1].session)
    assert (quote.before.tcb, quote.after.refused) == ("UpToDate", "tcb.revoked")
    assert counted(verdict).moves == {("UpToDate", "UpToDate"): 3, ("UpToDate", "[tcb.revoked]"): 1}
    check = row(verdict, "tee.appraisal")
    assert (check.state, check.reason, check.where) == (State.REFUSED, "tcb.revoked", (told[1].session,))
    assert rows(verdict)["tee.appraisal"] == ("held", "refused", "tcb.revoked")
    assert verdict.exit_code == 20


def test_one_that_is_out_of_date_and_accepted_is_named_and_refuses_nothing(tmp_path: Path) -> None:
    path, told = period(tmp_path, 1)
    verdict = judged_now(
        path,
        collateral=one_worse(told[1].session_statement, worse("OutOfDate"), LATER),
        reference_values=accepting("UpToDate", "OutOfDate"),
    )
    (quote,) = changed(verdict).quotes
    assert (quote.session, quote.after.tcb, quote.appeared) == (told[1].session, "OutOfDate", [SA])
    assert row(verdict, "tee.appraisal").state is row(verdict, "peer.ear").state is State.HELD
    assert "tee.appraisal" not in rows(verdict)


def test_the_gateway_alone_that_went_bad_is_told_of_once(tmp_path: Path) -> None:
    path, told = period(tmp_path, 1)
    verdict = judged_now(path, collateral=one_worse(told[0].gateway_statement, worse("Revoked"), LATER))
    assert [(each.role, each.session) for each in changed(verdict).quotes] == [("gateway", None)]
    assert counted(verdict).judged == 3
    assert rows(verdict)["tee.appraisal"] == ("held", "refused", "tcb.revoked")


def test_every_session_is_compared_with_its_own_time_as_long_as_the_period_may_be(tmp_path: Path) -> None:
    """The first session's collateral had expired when the last one ran: what it was worth is not what it was then."""
    path, told = period(tmp_path, 40, 80)
    end = NOW + timedelta(days=81)
    verdict = judged_now(path, now=end, collateral=published(PLATFORM, end))
    assert counted(verdict).moves == {("UpToDate", "UpToDate"): 4}
    assert "tee.appraisal" not in rows(verdict)
    assert row(verdict, "tee.appraisal").state is State.HELD
    spoiled = judged_now(
        path, now=end, collateral=one_worse(told[1].session_statement, worse("OutOfDate"), end)
    )
    (quote,) = changed(spoiled).quotes
    assert (quote.then or "")[:10] == (NOW + timedelta(days=40)).strftime("%Y-%m-%d")


def test_the_time_that_is_asked_is_that_of_everything(tmp_path: Path) -> None:
    path, told = period(tmp_path, 40)
    at = NOW + timedelta(days=41)
    verdict = judged_now(path, now=at, at=at, collateral=published(PLATFORM, at))
    assert changed(verdict).by == "asked"
    stale = {quote.session or quote.role for quote in changed(verdict).quotes}
    assert stale == {"gateway", told[0].session}, "archived collateral that had expired at the time asked"
    assert all(quote.before.refused and quote.after.refused is None for quote in changed(verdict).quotes)


def test_an_entry_that_ended_within_the_period_is_named(tmp_path: Path) -> None:
    path, _ = period(tmp_path, 10)
    entry = {"value": "host-usr", "until": f"{NOW + timedelta(days=5):%Y-%m-%dT%H:%M:%SZ}"}
    verdict = judged_now(path, collateral=published(PLATFORM, LATER), rootfs=[entry])
    (ended,) = changed(verdict).ended
    assert (ended.list, ended.value, ended.why) == ("rootfs", "host-usr", "until")
    assert rows(verdict)["rfs.accepted"][1] == "refused", "of one session then, of both now"
    assert "2 of 2" in row(verdict, "rfs.accepted").detail


# -- bounds --------------------------------------------------------------------------------------------------------


def test_what_is_named_is_bounded_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = period(tmp_path, 1, 2)
    monkeypatch.setattr("affiant.attestation.verifier.period.changed_quotes.MAX_QUOTES", 1)
    verdict = judged_now(path, collateral=published(worse("OutOfDate"), LATER))
    assert len(changed(verdict).quotes) == 1
    assert (counted(verdict).changed, counted(verdict).unnamed) == (4, 3)
    assert "3 quotes more that changed are not shown" in render_html(verdict)
    monkeypatch.setattr("affiant.attestation.verifier.report.text_changed._MAX_QUOTES", 1)
    assert "and 3 quotes more that changed" in render(verdict)


def test_what_is_refused_is_named_before_what_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, told = period(tmp_path, 1, 2)
    monkeypatch.setattr("affiant.attestation.verifier.period.changed_quotes.MAX_QUOTES", 1)
    revoked = one_worse(told[2].session_statement, worse("Revoked"), LATER)

    def find(quote: TDQuote) -> Collateral:
        found = revoked(quote)
        return worse("OutOfDate").collateral(LATER) if found == PLATFORM.collateral(LATER) else found

    verdict = judged_now(path, collateral=find, reference_values=accepting("UpToDate", "OutOfDate"))
    (quote,) = changed(verdict).quotes
    assert quote.after.refused == "tcb.revoked"
    assert counted(verdict).unnamed == 3


def test_keysets_whose_quote_was_not_come_to_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = period(tmp_path, 1)
    with monkeypatch.context() as patched:
        patched.setattr("affiant.attestation.verifier.period.case_rows.MAX_SESSION", 5)
        verdict = judged_now(path, collateral=published(PLATFORM, LATER))
    assert (counted(verdict).judged, counted(verdict).not_judged) == (2, 1)
    assert row(verdict, "session.close").state is State.NOT_MADE
    alone = judged_now(path, collateral=published(PLATFORM, LATER), session=told[1].session)
    assert (counted(alone).judged, counted(alone).not_judged) == (2, 1)
    assert "of 1 keysets the quote was not judged" in " ".join(render(alone).split())


def folder(tmp_path: Path, platform: SimulatedPlatform, at: datetime) -> Path:
    place = tmp_path / "collateral"
    place.mkdir()
    (place / "collateral.json").write_bytes(collateral_json(platform.collateral(at)))
    return place


def test_a_long_session_on_disk_is_compared_as_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = period(tmp_path, 1)
    memory = judged_now(path, collateral=published(PLATFORM, LATER))
    monkeypatch.setattr("affiant.attestation.verifier.period.case_rows._IN_MEMORY", 0)
    assert judged_now(path, collateral=published(PLATFORM, LATER)) == memory


def test_more_processes_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = period(tmp_path, 1)
    find = collateral_at(folder(tmp_path, worse("OutOfDate"), LATER))
    alone = judged_now(path, collateral=find)
    monkeypatch.setattr("affiant.attestation.verifier.period.verify_period._SMALL", 0)
    assert judged_now(path, collateral=find, processes=2).to_json() == alone.to_json()


# -- collateral that says nothing ----------------------------------------------------------------------------------


def test_a_folder_without_collateral_of_the_platform_affirms_nothing(archive: Path, tmp_path: Path) -> None:
    verdict = judged_now(archive, collateral=collateral_at(tmp_path))
    assert row(verdict, "tee.appraisal").state is State.NOT_MADE
    assert counted(verdict).moves == {("UpToDate", "[not_made]"): 2}
    assert verdict.level == "L1", "the log counts as attested"


def test_collateral_of_another_root_is_refused(archive: Path) -> None:
    other = SimulatedPlatform.create(now=NOW - timedelta(days=1), random_bytes=bytes)
    verdict = judged_now(archive, collateral=published(other, LATER))
    assert verdict.exit_code == 20
    assert all(quote.after.refused for quote in changed(verdict).quotes)


def test_what_was_good_then_and_is_revoked_is_not_better_for_being_dated_back(archive: Path) -> None:
    verdict = judged_now(archive, now=YEAR, collateral=published(worse("Revoked"), YEAR))
    assert (changed(verdict).exit_code, verdict.exit_code) == (40, 20)


# -- the period's own time -----------------------------------------------------------------------------------------

WITNESSES = "log {log}\nwitness w1 {one}\nquorum w1\n"


def watched(
    tmp_path: Path, after: timedelta = timedelta(minutes=1), **entry: str
) -> tuple[Path, list[dict[str, str]], datetime]:
    """An archive that is cosigned, the entry of its witness, and when it was."""
    story = Story().tell()
    at = NOW + after
    witness = cosigner(1, int(at.timestamp()))
    text = WITNESSES.format(log=story.log_signer.verifier.vkey(), one=witness.verifier.vkey())
    return build(tmp_path, story, witnesses=[witness]), [{"value": text, **entry}], at


def test_the_own_time_is_the_end_of_the_bracket(tmp_path: Path) -> None:
    path, entries, at = watched(tmp_path)
    verdict = judged_now(path, collateral=published(worse("OutOfDate"), LATER), witnesses=entries)
    told = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    assert (changed(verdict).then, changed(verdict).by) == (told, "witnesses")
    assert {quote.then for quote in changed(verdict).quotes} == {told}


def test_witnesses_who_are_accepted_no_more_still_say_when_it_was(tmp_path: Path) -> None:
    path, entries, at = watched(tmp_path, until=f"{NOW + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}")
    verdict = judged_now(path, collateral=published(PLATFORM, LATER), witnesses=entries)
    assert (changed(verdict).then, changed(verdict).by) == (f"{at:%Y-%m-%dT%H:%M:%SZ}", "witnesses")
    assert rows(verdict)["wit.quorum"][:2] == ("held", "not made")
    assert [each.list for each in changed(verdict).ended] == ["witnesses"]


def test_they_say_so_also_where_they_cosigned_long_after_the_last_record(tmp_path: Path) -> None:
    until = f"{NOW + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    path, entries, at = watched(tmp_path, timedelta(hours=6), until=until)
    verdict = judged_now(path, collateral=published(PLATFORM, LATER), witnesses=entries)
    assert (changed(verdict).then, changed(verdict).by) == (f"{at:%Y-%m-%dT%H:%M:%SZ}", "witnesses")
    assert rows(verdict)["wit.quorum"][:2] == ("held", "not made")


def test_the_time_that_is_asked_is_before_any_quorum_of_later(tmp_path: Path) -> None:
    path, entries, at = watched(tmp_path, timedelta(hours=6))
    asked = at - timedelta(hours=5)
    verdict = judged_now(path, at=asked, collateral=published(PLATFORM, LATER), witnesses=entries)
    assert rows(verdict)["wit.quorum"][:2] == ("not made", "held")


def test_without_witnesses_it_is_the_signers_word_and_said_to_be(story: Story, archive: Path) -> None:
    verdict = judged_now(archive, collateral=published(PLATFORM, LATER))
    latest = max(record.payload["iat"] for record in sorted_records(story))
    assert changed(verdict).by == "signers"
    assert changed(verdict).then.endswith(datetime.fromtimestamp(latest, NOW.tzinfo).strftime("%H:%M:%SZ"))


# -- archives that cannot be judged --------------------------------------------------------------------------------


def test_an_archive_that_cannot_be_read_is_refused_and_nothing_is_compared(
    archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.zip").write_bytes(archive.read_bytes()[:-1])
    verdict = judged_now(tmp_path / "x.zip")
    assert (verdict.exit_code, verdict.changed) == (20, None)
    damaged = rezipped(archive, tmp_path / "y.zip", {"receipts/000000.ndjson": b'"x"\n'})
    verdict = judged_now(damaged)
    assert (verdict.exit_code, verdict.changed) == (20, None)


@pytest.mark.parametrize("which", ["log/checkpoint", "log/tile/0/", "evidence/", "endorsements/", "results/"])
def test_what_is_missing_is_missing_then_and_now(archive: Path, tmp_path: Path, which: str) -> None:
    with zipfile.ZipFile(archive) as source:
        gone = {name: None for name in source.namelist() if name.startswith(which)}
    spoiled = rezipped(archive, tmp_path / "x.zip", gone)
    verdict = judged_now(spoiled, collateral=published(PLATFORM, LATER))
    plain = verify_period(spoiled, trust(), verifiers=STANDARD_VERIFIERS, at=LATER, build="")
    assert {check.code: check.state for check in verdict.checks} == {
        check.code: check.state for check in plain.checks
    }
    assert rows(verdict) == {}
    if which.startswith("log/"):
        assert counted(verdict).moves == {("UpToDate", "UpToDate"): 2}
    else:
        assert ("[not_made]", "[not_made]") in counted(verdict).moves
    assert (counted(verdict).judged, changed(verdict).by) == (2, "signers")


def test_of_receipts_that_are_not_authentic_no_quote_is_judged(story: Story, tmp_path: Path) -> None:
    records = sorted_records(story)
    head, payload, _ = records[3].jws.split(".")
    forged = replace(records[3], jws=".".join((head, payload, records[4].jws.split(".")[2])))
    path = build(tmp_path, story, records=[*records[:3], forged, *records[4:]], log=records)
    verdict = judged_now(path, collateral=published(PLATFORM, LATER))
    assert verdict.exit_code == 20
    assert (counted(verdict).judged, counted(verdict).not_judged) == (0, 2)


# -- how it is shown -----------------------------------------------------------------------------------------------


def test_document_text_and_page_say_the_same(tmp_path: Path) -> None:
    path, told = period(tmp_path, 1)
    verdict = judged_now(path, collateral=one_worse(told[1].session_statement, worse("OutOfDate"), LATER))
    document = json.loads(json.dumps(verdict.to_json()))["changed"]
    assert document["quotes"][0]["session"] == told[1].session
    assert document["quotes"][0]["advisories_appeared"] == [SA]
    assert document["quotes_counted"]["moves"] == [
        {"before": "UpToDate", "after": "UpToDate", "count": 2},
        {"before": "UpToDate", "after": "[appraisal.tcb_status]", "count": 1},
    ]
    text, page = " ".join(render(verdict).split()), render_html(verdict)
    for said in (SA, told[1].session, "3 judged then and now, 1 are worth something else now"):
        assert said in text
        assert said in page
    assert "2: UpToDate -> UpToDate" in text
    bad = replace(
        changed(verdict), quotes=tuple(replace(q, session=HOSTILE) for q in changed(verdict).quotes)
    )
    page = render_html(replace(verdict, changed=bad))
    assert "<script" not in page
    read(page)
