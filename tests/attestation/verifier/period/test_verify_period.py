"""A period bundle is judged by the rules of a single one, along its log; every tampering has its code."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.attestation.log_builder import LogBuilder, cosigner
from tests.attestation.period_builder import build, rezipped, sorted_records
from tests.attestation.story import NOW, REQUEST, RESPONSE, Story, leaf_of, link, trust
from tests.attestation.vectors.test_period_vectors import CASES as PERIOD_CASES
from tests.attestation.vectors.test_period_vectors import judged as judged_vector
from tests.attestation.verifier.checks.test_erasure_checks import AUTHORITY, story_with
from tests.attestation.verifier.checks.test_witness_checks import KEYS, NAMES, START, Watched
from tests.attestation.verifier.checks.test_witness_checks import judged as watched_alone
from tests.attestation.verifier.checks.test_witness_checks import policy as watched_by
from tests.attestation.verifier.period.test_judged_now import period

from affiant.attestation.bundle.period.layout import object_name
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.note_signing import Cosigner
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.outcome import Demand, Outcome
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.case.question import Question
from affiant.attestation.verifier.period.log.coverage import Coverage
from affiant.attestation.verifier.period.verify_period import examine_period, verify_period
from affiant.attestation.verifier.report.banner import banner_rows
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.text import render
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle

LATER = NOW + timedelta(hours=1)
BEFORE = NOW - timedelta(days=1)


@pytest.fixture(scope="module")
def story() -> Story:
    return Story().tell()


@pytest.fixture(scope="module")
def archive(story: Story, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("period"), story)


def judged(path: Path, **more: object) -> Verdict:
    return verify_period(
        path, trust(), verifiers=STANDARD_VERIFIERS, **{"at": LATER, "build": "test", **more}
    )


def row(verdict: Verdict, code: str) -> Check:
    return next(check for check in verdict.checks if check.code == code)


def refusals(verdict: Verdict) -> dict[str, str | None]:
    return {check.code: check.reason for check in verdict.checks if check.state is State.REFUSED}


def test_it_says_of_a_session_what_a_single_bundle_says(story: Story, archive: Path) -> None:
    one = verify_bundle(story.bytes(), trust(), verifiers=STANDARD_VERIFIERS, at=LATER, build="test")
    many = judged(archive)
    states = {check.code: (check.state, check.tier) for check in one.checks}
    found = {check.code: (check.state, check.tier) for check in many.checks}
    assert found.pop("chain.coverage") == (State.NOT_MADE, Tier.NONE)
    states.pop("chain.coverage")
    assert found == states
    assert many.population == one.population
    assert many.people == one.people
    assert len(many.people.started) == 1 and len(many.people.signed) == 2
    assert many.stretch == one.stretch == "not known: time.bracket does not hold"
    assert many.evidence_class == one.evidence_class == "simulated"
    assert (many.level, many.exit_code) == (one.level, one.exit_code)
    assert many.to_json()["typ"] == "affiant-verdict/1"


def test_bodies_are_found_in_the_session_that_has_them(archive: Path) -> None:
    verdict = judged(archive, request=REQUEST, response=RESPONSE)
    assert row(verdict, "body.request").state is row(verdict, "body.response").state is State.HELD
    assert refusals(judged(archive, response=b"other")) == {"body.response": "body.mismatch"}


def test_the_timeline_is_kept_only_if_asked(story: Story, archive: Path) -> None:
    assert judged(archive).timeline == ()
    assert len(judged(archive, timeline=5000).timeline) == len(sorted_records(story))


def test_more_processes_say_the_same(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.attestation.verifier.period.verify_period._SMALL", 0)
    assert judged(archive, processes=2).to_json() == judged(archive).to_json()


# -- coverage: the auditor's range, never the exporter's --------------------------------------------------------


def test_no_range_is_no_coverage(archive: Path) -> None:
    check = row(judged(archive), "chain.coverage")
    assert (check.state, check.tier) == (State.NOT_MADE, Tier.NONE)
    assert "--from" in check.detail


def test_every_record_of_the_range_is_here(story: Story, archive: Path) -> None:
    last = NOW + timedelta(seconds=len(sorted_records(story)))
    check = row(judged(archive, since=BEFORE, until=last), "chain.coverage")
    assert (check.state, check.tier) == (State.HELD, Tier.AFFIRMING)
    assert check.detail.startswith(f"{len(sorted_records(story)) - 1} leaves")


def test_a_range_that_goes_beyond_the_checkpoint_is_a_warning(archive: Path) -> None:
    check = row(judged(archive, since=BEFORE, until=LATER), "chain.coverage")
    assert (check.state, check.tier) == (State.HELD, Tier.WARNING)
    assert "the checkpoint ends" in check.detail


def test_a_withheld_record_is_counted_and_contradicts_nothing_of_the_chain(
    story: Story, tmp_path: Path
) -> None:
    records = sorted_records(story)
    at = next(
        i for i, r in enumerate(records) if r.payload["kind"] == "refusal" and r.payload["role"] == "gateway"
    )
    verdict = judged(build(tmp_path, story, withhold=[at]), since=BEFORE)
    check = row(verdict, "chain.coverage")
    assert (check.state, check.tier) == (State.HELD, Tier.WARNING)
    assert check.detail.startswith("1 of")
    assert check.where == (f"{records[at].payload['chn']}:{records[at].payload['seq']}",)
    assert row(verdict, "chain.contiguous").tier is Tier.WARNING
    # the session itself has a hole
    assert refusals(verdict) == {"session.order": "session.order", "session.counter": "session.counter"}


def test_a_range_that_the_archive_cuts_is_not_judged() -> None:
    def taken(
        size: int, leaves: list[tuple[int, int, bool]], since: int | None, until: int | None
    ) -> Coverage:
        coverage = Coverage(since, until, size)
        for index, iat, new in leaves:
            coverage.take(index, iat, new=new, here=True, name="x")
        return coverage

    whole = [(256, 90, True), (257, 100, False), (258, 110, False), (259, 200, False)]
    assert taken(1000, whole, 100, 200).finding({}, {}).tier is Tier.AFFIRMING
    assert taken(1000, whole, 101, 105).finding({}, {}).detail.startswith("0 leaves")
    for since, until in ((80, 200), (None, 200), (100, 300), (100, None), (500, 600), (10, 20)):
        with pytest.raises(NotMade):
            taken(1000, whole, since, until).finding({}, {})
    assert taken(260, whole, 100, 300).finding({}, {}).tier is Tier.WARNING
    part = taken(1000, [(256, 90, True)], 95, 200)
    for index, iat, new in whole[1:]:
        part.take(index, iat, new=new, here=False, name=f"c:{index}", rh=f"hash {index}")
    assert part.finding({}, {}).detail.startswith("2 of")
    gone = part.finding({"c:257": "hash 257", "c:258": "another"}, {})
    assert gone.detail.startswith("1 of 2 leaves of the range without a record, 1 erased by order")
    pruned = part.finding({}, {"c": (258, "hash 258"), "another": (999, "x")})
    assert pruned.detail.startswith("2 leaves in the range, each with its record, 2 erased by order")
    assert pruned.tier is Tier.WARNING
    for last in ((258, "another"), (257, "hash 257")):  # not that record, or not up to it
        assert part.finding({}, {"c": last}).detail.startswith(
            "1 of 2 leaves of the range without a record, 1 er"
        )
    assert gone.where == ("c:258",)
    holed = [*whole[:2], (600, 150, True), (601, 300, False)]
    with pytest.raises(NotMade, match="leaves out"):
        taken(1000, holed, 100, 200).finding({}, {})


# -- tampering -------------------------------------------------------------------------------------------------


def changed(jws: str, story: Story, change: Callable[[dict], None]) -> str:
    """The record with other claims, under its own signature."""
    from affiant.attestation.encoding.binary_text import b64u, from_b64u
    from affiant.attestation.encoding.canonical import canonical

    head, payload, signature = jws.split(".")
    claims = json.loads(from_b64u(payload))
    change(claims)
    return ".".join((head, b64u(canonical(claims)), signature))


def with_lines(story: Story, tmp_path: Path, lines: list[str]) -> Path:
    """An archive with these receipts, under the log of the story as it was."""
    records = sorted_records(story)
    other = copy.copy(story)
    made = [Issued(line, (), {}) for line in lines]
    return build(tmp_path, other, records=made, log=records)


@pytest.fixture
def lines(story: Story) -> list[str]:
    return [record.jws for record in sorted_records(story)]


def test_a_changed_claim_is_refused(story: Story, tmp_path: Path, lines: list[str]) -> None:
    lines[3] = changed(lines[3], story, lambda claims: claims.update(iat=claims["iat"] + 1))
    verdict = judged(with_lines(story, tmp_path, lines))
    assert refusals(verdict) == {"sig.receipts": "sig.invalid"}
    assert row(verdict, "sig.receipts").where[0].startswith("receipts/000000.ndjson:4")
    assert verdict.exit_code == 20


def test_every_bad_line_is_counted_and_named(story: Story, tmp_path: Path, lines: list[str]) -> None:
    for at in (2, 5, 7):
        lines[at] = lines[at][:-4] + ("AAAA" if lines[at][-4:] != "AAAA" else "BBBB")
    check = row(judged(with_lines(story, tmp_path, lines)), "sig.receipts")
    assert check.detail.startswith("3 exceptions")
    assert [where.rpartition(":")[2].split(".")[0] for where in check.where] == ["3", "6", "8"]


def test_two_lines_in_another_order_are_refused(story: Story, tmp_path: Path, lines: list[str]) -> None:
    lines[4], lines[5] = lines[5], lines[4]
    verdict = judged(with_lines(story, tmp_path, lines))
    assert refusals(verdict)["log.inclusion"] == "log.not_included"


def test_a_line_twice_is_refused(story: Story, tmp_path: Path, lines: list[str]) -> None:
    verdict = judged(with_lines(story, tmp_path, [*lines[:5], lines[4], *lines[5:]]))
    found = refusals(verdict)
    assert found["chain.ids"] == "chain.repeated_id"
    assert found["log.inclusion"] == "log.not_included"


def test_a_record_that_the_log_does_not_hold_is_refused(story: Story, tmp_path: Path) -> None:
    records = sorted_records(story)
    path = build(tmp_path, story, records=records, log=[*records[:4], *records[5:]])
    found = refusals(judged(path))
    assert found["log.inclusion"] == "log.not_included"
    assert found["chain.contiguous"] == "chain.gap"


def test_many_records_that_the_log_does_not_hold_take_no_time(
    story: Story, tmp_path: Path, lines: list[str]
) -> None:
    path = with_lines(story, tmp_path, lines[:1] + lines[:0:-1] * 20)
    assert refusals(judged(path))["log.inclusion"] == "log.not_included"


def test_a_checkpoint_of_another_key_is_refused(story: Story, archive: Path, tmp_path: Path) -> None:
    other = Story()
    other.make_gateway()
    records = sorted_records(story)
    builder = LogBuilder(tmp_path / "other", [leaf_of(r.jws) for r in records], signer=other.log_signer)
    with zipfile.ZipFile(archive) as source:
        assert len(builder.note().to_bytes()) == len(source.read("log/checkpoint"))
    path = build_with(story, tmp_path, {"log/checkpoint": builder.note().to_bytes()})
    found = refusals(judged(path))
    assert set(found) == {"log.inclusion"}
    assert found["log.inclusion"].startswith("note.") or found["log.inclusion"].startswith("log.")


def build_with(story: Story, tmp_path: Path, extra: dict[str, bytes]) -> Path:
    return build(tmp_path / "built", story, extra=extra)


@pytest.mark.parametrize("which", ["log/tile/0/", "log/tile/entries/"])
def test_tiles_of_another_tree_are_refused(story: Story, archive: Path, tmp_path: Path, which: str) -> None:
    with zipfile.ZipFile(archive) as source:
        name = next(name for name in source.namelist() if name.startswith(which))
        data = bytearray(source.read(name))
    data[40] ^= 1
    found = refusals(judged(build_with(story, tmp_path, {name: bytes(data)})))
    assert found  # where it is read: the log's own row, or the archive's
    assert set(found) & {"log.inclusion", "fmt.bundle"}


def test_a_file_that_was_changed_is_refused(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        name = next(name for name in source.namelist() if name.startswith("policies/"))
        data = source.read(name)
    path = rezipped(archive, tmp_path / "x.zip", {name: data[:-1] + b" "})
    verdict = judged(path)
    assert verdict.exit_code == 20
    assert "period.digest" in refusals(verdict).values()


@pytest.mark.parametrize(
    ("which", "code"),
    [
        ("log/checkpoint", "log.inclusion"),
        ("log/tile/0/", "log.inclusion"),
        ("evidence/", "key.evidence"),
        ("endorsements/", "tee.appraisal"),
        ("results/", "tee.appraisal"),
        ("policies/", "conf.bound"),
    ],
)
def test_what_is_missing_is_not_made_and_warned_of(
    archive: Path, tmp_path: Path, which: str, code: str
) -> None:
    with zipfile.ZipFile(archive) as source:
        gone = {name: None for name in source.namelist() if name.startswith(which)}
    verdict = judged(rezipped(archive, tmp_path / "x.zip", gone))
    assert row(verdict, code).state is State.NOT_MADE
    assert row(verdict, "fmt.bundle").tier is Tier.WARNING
    assert "listed and not there" in row(verdict, "fmt.bundle").detail
    assert refusals(verdict) == {}


def test_leaves_of_another_width_than_the_checkpoint_has_are_not_shown(archive: Path, tmp_path: Path) -> None:
    """As if they were not here: the records have no leaf, and nothing is wrong with the archive itself."""
    with zipfile.ZipFile(archive) as source:
        name = next(name for name in source.namelist() if name.startswith("log/tile/entries/"))
        data = source.read(name)
    narrow = name.rpartition("/")[0] + "/3"
    path = rezipped(archive, tmp_path / "x.zip", listed(archive, {name: None, narrow: data[: 3 * 68]}))
    assert refusals(judged(path)) == {"log.inclusion": "log.not_included"}


def listed(archive: Path, changes: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """``changes``, and the manifest that lists the files as they then are."""
    with zipfile.ZipFile(archive) as source:
        manifest = json.loads(source.read("manifest.json"))
    for name, data in changes.items():
        manifest["files"].pop(name, None)
        if data is not None:
            manifest["files"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}
    return {**changes, "manifest.json": canonical(manifest)}


def test_chains_are_counted_also_where_the_log_is_not_here(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        gone = {name: None for name in source.namelist() if name.startswith("log/")}
    assert judged(rezipped(archive, tmp_path / "x.zip", gone)).population.chains == 2


def test_what_is_not_required_is_marked_so_where_it_is_not_asked_too(archive: Path) -> None:
    required = {"require": ["sig.receipts"]}
    verdict = verify_period(
        archive, trust(**required), verifiers=STANDARD_VERIFIERS, at=LATER, build="test", request=REQUEST
    )
    assert not any(row(verdict, code).required for code in ("time.tsa", "time.sigstore", "body.request"))


def test_an_order_counts_only_where_the_archive_shows_that_it_is_logged(tmp_path: Path) -> None:
    told = story_with(lambda story: story.order("erasure", {"del": [story.item(story.the("inference"))]}))
    records = sorted_records(told)
    gone = [at for at, record in enumerate(records) if record.payload["kind"] == "inference"]
    path = build(tmp_path, told, withhold=gone)
    with zipfile.ZipFile(path) as source:
        log = {name: None for name in source.namelist() if name.startswith("log/")}
    accepted = trust(erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}])
    whole, without_log = (
        verify_period(each, accepted, verifiers=STANDARD_VERIFIERS, at=LATER, build="test")
        for each in (path, rezipped(path, tmp_path / "x.zip", log))
    )
    assert refusals(whole) == {}
    assert row(whole, "erasure.authority").tier is Tier.WARNING
    assert len(row(whole, "erasure.authority").where) == 1  # once, in however many cases it counts
    found = refusals(without_log)
    assert found["erasure.authority"] == "chain.gap"
    assert found["session.order"] == "session.order"  # nothing excuses what is missing


def test_an_unknown_file_is_a_warning(archive: Path, tmp_path: Path) -> None:
    check = row(judged(rezipped(archive, tmp_path / "x.zip", {"x/notes.md": b"hi"})), "fmt.bundle")
    assert (check.state, check.tier, check.where) == (State.HELD, Tier.WARNING, ("x/notes.md",))


def test_an_archive_that_cannot_be_read_is_refused(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(archive.read_bytes() + b"x")
    verdict = judged(tmp_path / "x.zip")
    assert refusals(verdict) == {"fmt.bundle": "zip.structure"}
    assert {check.code for check in verdict.checks} == {check.code for check in judged(archive).checks}
    assert verdict.exit_code == 20


def test_a_mistake_of_the_verifier_refuses_the_archive(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("affiant.attestation.verifier.period.log.first_pass.parse_entry", fail)
    verdict = judged(archive)
    assert refusals(verdict) == {"fmt.bundle": "verifier.fault"}
    assert row(verdict, "sig.receipts").state is State.NOT_MADE


def test_a_chain_cut_in_the_log_is_refused(tmp_path: Path) -> None:
    story = Story().tell()
    records = [r for r in sorted_records(story) if r.payload["kind"] != "inference"]
    assert refusals(judged(build(tmp_path, story, records=records)))["chain.contiguous"] == "chain.gap"


def test_no_boot_is_refused(story: Story, tmp_path: Path) -> None:
    found = refusals(judged(build(tmp_path, story, withhold=[0])))
    assert found["chain.boot"] == "chain.no_boot"


def test_another_session_is_refused_by_its_own_rules(tmp_path: Path) -> None:
    def alter(step: str, members: dict) -> dict:
        if step == "close":
            members["n"] += 1
        return members

    verdict = judged(build(tmp_path, Story(alter=alter).tell()))
    assert refusals(verdict) == {"session.close": "session.close"}


def test_a_session_that_is_too_large_is_not_judged_and_the_verdict_says_so(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.attestation.verifier.period.case_rows.MAX_SESSION", 3)
    verdict = judged(archive)
    check = row(verdict, "session.close")
    assert (check.state, check.tier) == (State.NOT_MADE, Tier.NONE)
    assert "more than 3" in check.detail
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNJUDGED, 30)
    banner = dict(banner_rows(verdict))
    assert banner["outcome"].startswith("CANNOT BE JUDGED: it holds more than this verifier judges together")


def test_long_sessions_are_judged_by_one_process_and_by_two_alike(
    two: tuple[Path, list[Story]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.attestation.verifier.period.verify_period._SMALL", 0)
    plain = judged(two[0])
    monkeypatch.setattr("affiant.attestation.verifier.period.case_rows._IN_MEMORY", 3)
    assert judged(two[0], processes=2) == judged(two[0]) == plain


# -- several sessions ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Story]]:
    """An archive of two sessions of one gateway."""
    found: tuple[Path, list[Story]] = period(tmp_path_factory.mktemp("two"), 0.0003)
    return found


def test_what_sessions_count_is_added_up_and_what_they_share_counted_once(
    two: tuple[Path, list[Story]], archive: Path
) -> None:
    one, both = judged(archive), judged(two[0])
    assert row(both, "session.start").detail == "2 of 2: 2 sessions, each with one start"
    assert row(one, "tee.appraisal").detail.endswith("2 quotes: chain, CRLs, image, registers; TCB UpToDate")
    assert row(both, "tee.appraisal").detail.endswith(
        ": 3 quotes: chain, CRLs, image, registers; TCB UpToDate"
    )
    assert row(both, "peer.ear").detail.startswith("2 of 2: 3 records rest on a result")
    counts = [int(row(each, "bundle.objects").detail.partition(": ")[2].split()[0]) for each in (one, both)]
    assert counts[1] - counts[0] == 4  # evidence, key, result and collateral of one session more


def test_only_the_session_that_is_asked_for_is_told(two: tuple[Path, list[Story]]) -> None:
    path, (first, _) = two
    whole, alone = judged(path), judged(path, session=first.session)
    assert (whole.summary.uses["known_by"], whole.summary.uses["end"]) == ({"uid": 2}, {"done": 2})
    assert (alone.summary.uses["known_by"], alone.summary.uses["end"]) == ({"uid": 1}, {"done": 1})
    assert (alone.population.ends, alone.population.foreign) == ("1 of 1 closed, 1 not judged", 1)


def test_without_any_supervisors_keyset_nothing_can_be_judged() -> None:
    verdict = judged_vector(PERIOD_CASES["valid/keysets-missing"])
    assert (verdict.outcome, verdict.exit_code) == (Outcome.UNJUDGED, 30)
    assert row(verdict, "bundle.objects").state is State.NOT_MADE


def test_a_period_is_complete_only_if_every_session_of_it_was_judged(two: tuple[Path, list[Story]]) -> None:
    path, (first, second) = two
    asked = {"at": LATER, "build": "test", "trust": trust(), "verifiers": STANDARD_VERIFIERS}
    complete = Question(**asked, demand=Demand(complete=True))
    assert examine_period(path, complete).verdict.unmet == {}
    of_one = replace(complete, session=first.session)
    assert examine_period(path, of_one).verdict.unmet == {}
    cut = without_session(path, second)
    found = examine_period(cut, complete).verdict
    assert (found.population.foreign, list(found.unmet), found.exit_code) == (1, ["complete"], 30)
    assert examine_period(cut, of_one).verdict.unmet == {}


def without_session(path: Path, story: Story) -> Path:
    """Without the keyset and the records of one supervisor, as an exporter could leave them out."""
    name = object_name("keysets", sha256_name(story.session_statement.raw))
    own = {json.dumps(record.jws).encode() for record in story.session_records}
    with zipfile.ZipFile(path) as source:
        lines = source.read("receipts/000000.ndjson").splitlines()
        gone = {each for each in source.namelist() if each.startswith("disclosures/")}
    changes: dict[str, bytes | None] = {name: None, **dict.fromkeys(gone)}
    changes["receipts/000000.ndjson"] = b"".join(line + b"\n" for line in lines if line not in own)
    return rezipped(path, path.parent / "cut.zip", listed(path, changes))


# -- time ------------------------------------------------------------------------------------------------------

WITNESSES = "log {log}\nwitness w1 {one}\nquorum w1\n"


def witnessed_trust(story: Story, seconds: int) -> object:
    text = WITNESSES.format(log=story.log_signer.verifier.vkey(), one=cosigner(1, seconds).verifier.vkey())
    return trust(witnesses=[{"value": text}])


def test_time_is_bracketed_by_the_cosigned_checkpoint(tmp_path: Path) -> None:
    story = Story().tell()
    seconds = int(NOW.timestamp()) + 60
    path = build(tmp_path, story, witnesses=[cosigner(1, seconds)])
    verdict = verify_period(
        path, witnessed_trust(story, seconds), verifiers=STANDARD_VERIFIERS, at=LATER, build="test"
    )
    assert row(verdict, "wit.quorum").state is State.HELD
    assert row(verdict, "time.bracket").state is State.HELD
    assert verdict.time is not None
    assert verdict.time.not_after == seconds


def watched(tmp_path: Path, story: Watched) -> tuple[Verdict, Verdict]:
    """The verdicts on a story whose log is cosigned twice: as a single bundle, and as a period."""
    one = watched_alone(story.tell().bytes())
    late = [Cosigner(NAMES[name], KEYS[name], START + time) for name, time in story.late.items()]
    (early,) = story.kept.values()
    path = build(tmp_path, story, witnesses=late, checkpoints={1: early})
    accepted = trust(witnesses=[{"value": watched_by()}])
    return one, verify_period(path, accepted, verifiers=STANDARD_VERIFIERS, at=LATER, build="test")


def test_the_longest_unwitnessed_stretch_is_that_of_a_single_bundle(tmp_path: Path) -> None:
    one, many = watched(tmp_path, Watched())
    assert many.unwitnessed is not None and one.unwitnessed is not None
    assert many.unwitnessed.seconds == one.unwitnessed.seconds == 60
    assert many.unwitnessed.without_beginning == one.unwitnessed.without_beginning == 1
    assert many.to_json()["unwitnessed"]["longest_s"] == 60
    assert "60 s, from 2026-11-21T12:00:01Z" in render(many)
    assert "60 s, from 2026-11-21T12:00:01Z" in render_html(many)


@pytest.mark.parametrize(("beyond", "told"), [(0, ""), (1, "records {0}"), (3, "records {0} to {1}")])
def test_records_that_were_signed_before_a_crash_and_have_no_leaf_are_told(
    tmp_path: Path, beyond: int, told: str
) -> None:
    class Crashed(Story):
        def close(self) -> None:
            super().close()
            head = self.gateway.head
            lost = {"chn": head.chn, "seq": head.seq + 1 + beyond, "rh": link("lost")}
            self.by_gateway("gap", "gap", {"lst": lost, "src": "untrusted-store"}, of_session=False)

    story = Crashed().tell()
    last = story.gateway.head.seq
    detail = row(judged(build(tmp_path, story)), "chain.gaps").detail
    shown = "1 gap disclosed after a crash"
    if told:
        named = f"{told.format(last + 1, last + beyond)} of chain {story.gateway.head.chn}"
        shown += f"; {named} were signed before it and never logged: sessions may have been lost in them"
    assert detail == shown


def test_a_record_that_names_a_checkpoint_of_which_it_would_be_a_leaf_is_of_another_log(
    tmp_path: Path,
) -> None:
    one, many = watched(tmp_path, Watched(size_said=500))
    for verdict in (one, many):
        found = row(verdict, "log.consistency")
        assert (found.state, found.reason, len(found.where)) == (State.REFUSED, "log.split_view", 1)


def test_a_quorum_that_cosigned_after_the_instant_judged_at_has_seen_nothing_yet(tmp_path: Path) -> None:
    later = {name: time + 86_400 * 400 for name, time in Watched().late.items()}
    for verdict in watched(tmp_path, Watched(late=later)):
        assert row(verdict, "wit.quorum").state is State.NOT_MADE


def test_a_checkpoint_of_the_newest_size_that_nobody_cosigned_bounds_nothing(tmp_path: Path) -> None:
    """One that was anchored, and cosigned later, stands there in both forms."""
    story = Story().tell()
    seconds = int(NOW.timestamp()) + 60
    records = sorted_records(story)
    builder = LogBuilder(tmp_path / "same", [leaf_of(r.jws) for r in records], signer=story.log_signer)
    bare = {len(records): builder.note().to_bytes()}
    path = build(tmp_path, story, witnesses=[cosigner(1, seconds)], checkpoints=bare)
    verdict = verify_period(
        path, witnessed_trust(story, seconds), verifiers=STANDARD_VERIFIERS, at=LATER, build="test"
    )
    assert row(verdict, "wit.quorum").state is row(verdict, "time.bracket").state is State.HELD


def test_a_forged_cosignature_on_an_older_checkpoint_is_refused_as_what_it_is(tmp_path: Path) -> None:
    story = Watched().tell()
    late = [Cosigner(NAMES[name], KEYS[name], START + time) for name, time in story.late.items()]
    (early,) = story.kept.values()
    text, _, lines = early.decode().partition("\n\n")
    *others, last = lines.splitlines()
    name = last.split()[1]
    forged = base64.b64decode(last.split()[2])
    forged = forged[:-1] + bytes([forged[-1] ^ 1])
    spoiled = "\n".join((text, "", *others, f"\u2014 {name} {base64.b64encode(forged).decode()}", ""))
    path = build(tmp_path, story, witnesses=late, checkpoints={1: spoiled.encode()})
    verdict = verify_period(
        path, trust(witnesses=[{"value": watched_by()}]), verifiers=STANDARD_VERIFIERS, at=LATER, build="test"
    )
    assert refusals(verdict) == {"time.bracket": "note.signature"}


def test_without_a_bracket_no_stretch_is_told(tmp_path: Path) -> None:
    _, many = watched(tmp_path, Watched(size_said=2))
    assert row(many, "time.bracket").state is State.REFUSED
    assert many.unwitnessed is None


def test_nobody_is_named_by_receipts_of_which_one_is_not_authentic(
    story: Story, tmp_path: Path, lines: list[str]
) -> None:
    lines[3] = changed(lines[3], story, lambda claims: claims.update(iat=claims["iat"] + 1))
    people = judged(with_lines(story, tmp_path, lines)).people
    assert not any(those for _, _, those, _ in people.lists())


def test_a_signer_whose_quote_is_refused_is_not_called_appraised(tmp_path: Path) -> None:
    people = judged(build(tmp_path, Story(session_mrtd=bytes(48)).tell())).people
    quotes = {one.facts["role"]: one.facts["quote"] for one in people.signed}
    assert quotes == {"gateway": "appraised", "session": "not appraised"}


def test_a_record_dated_after_the_checkpoint_that_covers_it_is_refused(tmp_path: Path) -> None:
    story = Story().tell()
    seconds = int(NOW.timestamp()) - 3600
    path = build(tmp_path, story, witnesses=[cosigner(1, seconds)])
    verdict = verify_period(
        path, witnessed_trust(story, seconds), verifiers=STANDARD_VERIFIERS, at=LATER, build="test"
    )
    check = row(verdict, "time.bracket")
    assert (check.state, check.reason) == (State.REFUSED, "time.outside")


def test_a_second_root_over_the_same_leaves_is_a_split_view(tmp_path: Path) -> None:
    story = Story().tell()
    records = sorted_records(story)
    builder = LogBuilder(
        tmp_path / "fork", [leaf_of(r.jws) for r in reversed(records)], signer=story.log_signer
    )
    path = build(tmp_path, story, checkpoints={5: builder.note(5).to_bytes()})
    assert refusals(judged(path)) == {"log.consistency": "log.split_view"}


def test_an_older_checkpoint_of_the_same_tree_holds(tmp_path: Path) -> None:
    story = Story().tell()
    builder = LogBuilder(
        tmp_path / "same", [leaf_of(r.jws) for r in sorted_records(story)], signer=story.log_signer
    )
    path = build(tmp_path, story, checkpoints={size: builder.note(size).to_bytes() for size in (1, 5, 8)})
    check = row(judged(path), "log.consistency")
    assert (check.state, check.detail) == (State.HELD, "4 checkpoints, all of one tree")
