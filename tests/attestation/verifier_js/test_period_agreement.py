"""Both verifiers judge every period archive alike, row by row; where they cannot, it is listed here and why."""

from __future__ import annotations

import base64
import importlib
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.period_builder import build, rezipped, sorted_records
from tests.attestation.story import NOW, REQUEST, RESPONSE, Story, link, trust_bytes
from tests.attestation.verifier_js import muddled_periods
from tests.attestation.verifier_js.as_periods import as_period, period_pinning_its_log, python_says_of_period
from tests.attestation.verifier_js.conftest import Question, Verdicts
from tests.attestation.verifier_js.recorded import asked_of
from tests.attestation.verifier_js.test_agreement import APPRAISED, Ask, disagreements
from tests.attestation.verifier_js.test_vectors import NOT_APPRAISED, NOT_STAMPED, apart, question_of, vectors

from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.note_signing import Cosigner
from affiant.attestation.verdict.trust_file import parse_instant

period_vectors = importlib.import_module("tests.attestation.vectors.test_period_vectors")
period_tests = importlib.import_module("tests.attestation.verifier.period.test_verify_period")
CASES, FOLDER = period_vectors.CASES, period_vectors.FOLDER

judged_now_tests = importlib.import_module("tests.attestation.verifier.period.test_judged_now")

ABOUT_ATTESTED = {"valid/without-evidence": {"chain.coverage", "log.consistency", "log.inclusion"}}
"""Rows that a case is about only as long as the log is ``attested``; here it is pinned, so that they are made."""
LATER = NOW + timedelta(hours=1)
BEFORE = NOW - timedelta(days=1)

Row = dict[str, Any]


def asked(case: dict[str, Any]) -> Question:
    names = (("since", "from"), ("until", "to"))
    between = {name: parse_instant(case[key]) for name, key in names if key in case}
    data, trust = (FOLDER / case["file"]).read_bytes(), (FOLDER / case["trust"]).read_bytes()
    return Question(data, trust, parse_instant(case["at"]), period=True, **between)


# -- the published archives ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers(judge_all: Ask, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Case -> the first and the second verifier's verdict, the archive's own log pinned."""
    folder = tmp_path_factory.mktemp("vectors")
    questions = {name: period_pinning_its_log(asked(case), folder) for name, case in CASES.items()}
    theirs = judge_all(list(questions.values()))
    return {
        name: (python_says_of_period(question, folder), dict(verdict))
        for (name, question), verdict in zip(questions.items(), theirs, strict=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_both_judge_every_published_archive_alike(answers: dict[str, tuple[Any, Any]], name: str) -> None:
    ours, theirs = answers[name]
    assert not disagreements(ours, theirs)


@pytest.mark.parametrize("name", CASES)
def test_every_published_archive_gets_what_its_case_says(
    answers: dict[str, tuple[Any, Any]], name: str
) -> None:
    """What the generator expects, which shares no code with either: exit code, refusals, what is not made, warnings."""
    expected, (_, theirs) = CASES[name]["expect"], answers[name]
    rows = theirs["checks"]
    refused = {row["code"]: row["reason"] for row in rows if row["state"] == "refused"}
    assert (theirs["exit_code"], refused) == (expected["exit_code"], expected["refused"])
    if not refused:
        made = ABOUT_ATTESTED.get(name, set())
        warned = {row["code"] for row in rows if row["state"] == "held" and row["tier"] == "warning"}
        assert set(theirs["not_made"]) == {*expected["not_made"], *APPRAISED} - made
        assert warned - made == set(expected["warnings"])
    assert theirs["tier"] in ("none", "contraindicated")


def test_a_log_that_counts_as_attested_is_not_judged_without_the_quote(judge_all: Ask) -> None:
    (verdict,) = judge_all([asked(CASES["valid/session"])])
    rows = {row["code"]: row for row in verdict["checks"]}
    for code in ("log.inclusion", "log.consistency", "chain.coverage"):
        assert rows[code]["state"] == "not made"
    assert (verdict["level"], verdict["exit_code"]) == ("L1", 40)


# -- single bundles as periods ---------------------------------------------------------------------------------

ONE_IN = 9
CLASSES = ("valid", "chain", "session", "act", "erasure", "log", "witness", "platform", "peer", "content")


@pytest.mark.slow
def test_what_is_wrong_with_a_single_bundle_is_wrong_with_the_same_as_a_period(
    judge_all: Ask, tmp_path: Path
) -> None:
    """Of the published single bundles every ninth, as an archive of the same receipts, objects and checkpoints."""
    chosen = [name for name in vectors.CASES if name.split("/")[0] in CLASSES][::ONE_IN]
    questions: dict[str, Question] = {}
    for name in chosen:
        question = question_of(vectors.CASES[name])
        (tmp_path / name.replace("/", "-")).mkdir()
        data = as_period(question.bundle, tmp_path / name.replace("/", "-"))
        if data is not None:
            questions[name] = period_pinning_its_log(replace(question, bundle=data, period=True), tmp_path)
    refused = set()
    for (name, question), theirs in zip(questions.items(), judge_all(list(questions.values())), strict=True):
        ours = python_says_of_period(question, tmp_path)
        assert ours["counts"] == theirs["counts"], name
        for mine, other in apart(ours, dict(theirs)):
            assert (mine["code"], mine["reason"]) in NOT_APPRAISED | NOT_STAMPED, name
            assert other["state"] == "not made"
        refused |= {(row["code"], row["reason"]) for row in theirs["checks"] if row["state"] == "refused"}
    assert len(questions) > 30
    assert len(refused) > 15


# -- archives that only a period can be ------------------------------------------------------------------------


def spoiled(path: Path, folder: Path, start: str, at: int) -> bytes:
    """One flipped bit in the file whose name starts so, which the manifest lists as it was."""
    with zipfile.ZipFile(path) as source:
        name = next(name for name in source.namelist() if name.startswith(start))
        data = bytearray(source.read(name))
    data[at] ^= 1
    return rezipped(path, folder / "spoiled.zip", {name: bytes(data)}).read_bytes()


def of_story(folder: Path) -> list[Question]:
    story = Story().tell()
    records = sorted_records(story)
    lines = [record.jws for record in records]

    def made(name: str, **how: Any) -> bytes:
        return build(folder / name, story, **how).read_bytes()

    def of_lines(name: str, changed: Sequence[str]) -> bytes:
        return made(name, records=[Issued(line, (), {}) for line in changed], log=records)

    bad = [line[:-4] + ("AAAA" if line[-4:] != "AAAA" else "BBBB") for line in lines]
    whole = build(folder / "whole", story)
    with zipfile.ZipFile(whole) as source:
        entries = next(name for name in source.namelist() if name.startswith("log/tile/entries/"))
        narrow = {entries: None, entries.rpartition("/")[0] + "/3": source.read(entries)[: 3 * 68]}
    contents = [
        rezipped(whole, folder / "narrow.zip", period_tests.listed(whole, narrow)).read_bytes(),
        rezipped(whole, folder / "no leaves.zip", {entries: None}).read_bytes(),
        whole.read_bytes(),
        *(made(f"without {at}", withhold=[at]) for at in (0, 3, 6, len(lines) - 1)),
        made("not logged", records=records, log=[*records[:4], *records[5:]]),
        made("cut", records=[record for record in records if record.payload["kind"] != "inference"]),
        made("two shards", extra={"receipts/000001.ndjson": b""}),
        made("no line", extra={"receipts/000001.ndjson": b'"a.b"\n'}),
        of_lines("bad", [*lines[:2], bad[2], *lines[3:5], bad[5], *lines[6:]]),
        of_lines("backwards", lines[:1] + lines[:0:-1]),
        of_lines("swapped", [*lines[:4], lines[5], lines[4], *lines[6:]]),
        *(
            spoiled(whole, folder, start, 40)
            for start in ("log/tile/0/", "log/tile/entries/", "log/checkpoint")
        ),
        *(spoiled(whole, folder, start, 40) for start in ("keysets/", "policies/")),
        spoiled(whole, folder, "receipts/", 1),
    ]
    trust = trust_bytes(log=[{"value": story.log_signer.verifier.vkey()}])
    questions = [Question(data, trust, LATER, since=BEFORE, period=True) for data in contents]
    last = NOW + timedelta(seconds=len(lines))
    more = [
        {"until": last},
        {"since": NOW + timedelta(seconds=1), "until": last},
        {"since": LATER, "until": LATER + timedelta(hours=1)},
        {"request": REQUEST, "response": RESPONSE},
        {"request": b"other", "response": RESPONSE},
        {"session": "A" * 22},
        {"at": BEFORE},
        {"trust": trust_bytes(log=[{"value": story.log_signer.verifier.vkey()}], require=["sig.receipts"])},
    ]
    return [*questions, *(replace(questions[2], **each) for each in more)]


def of_erasures(folder: Path) -> list[Question]:
    erasures = asked_of("test_erasure_checks")
    told: list[Callable[[Any], object]] = [
        lambda story: story.order("erasure", {"del": [story.item(story.the("inference"))]}),
        lambda story: story.order("erasure", {"del": [story.item(story.the("inference"), 1)]}),
        lambda story: story.order(
            "erasure", {"del": [{**story.item(story.the("inference")), "rh": "A" * 43}]}
        ),
        lambda story: (
            story.order("hold", {"tgt": story.session, "basis": "a case"}),
            story.order("erasure", {"del": [story.item(story.the("inference"))]}),
        ),
    ]
    questions = []
    for number, orders in enumerate(told):
        story = erasures.story_with(orders)
        records = sorted_records(story)
        gone = [at for at, record in enumerate(records) if record.payload["kind"] == "inference"]
        path = build(folder / str(number), story, withhold=gone)
        with zipfile.ZipFile(path) as source:
            log = {name: None for name in source.namelist() if name.startswith("log/")}
        authority = public_jwk(erasures.AUTHORITY.public_key)
        trust = trust_bytes(
            log=[{"value": story.log_signer.verifier.vkey()}], erasure_authorities=[{"value": authority}]
        )
        without_log = rezipped(path, folder / f"{number}.zip", log)
        nobody = trust_bytes(log=[{"value": story.log_signer.verifier.vkey()}])
        asked = Question(path.read_bytes(), trust, LATER, since=BEFORE, period=True)
        questions += [asked, replace(asked, bundle=without_log.read_bytes()), replace(asked, trust=nobody)]
    return questions


def of_witnesses(folder: Path) -> list[Question]:
    watching = asked_of("test_witness_checks")
    story = watching.Watched().tell()
    late = [
        Cosigner(watching.NAMES[name], watching.KEYS[name], watching.START + time)
        for name, time in story.late.items()
    ]
    (early,) = story.kept.values()
    pins = {"log": [{"value": story.log_signer.verifier.vkey()}], "witnesses": [{"value": watching.policy()}]}

    def asked(name: str, checkpoints: dict[int, bytes], witnesses: list[Cosigner]) -> Question:
        path = build(folder / name, story, witnesses=witnesses, checkpoints=checkpoints)
        return Question(path.read_bytes(), trust_bytes(**pins), NOW, since=BEFORE, period=True)

    unsigned = b"\n".join(early.split(b"\n")[:-2]) + b"\n"
    return [
        asked("whole", {1: early}, late),
        asked("forged", {1: forged(early)}, late),
        asked("unsigned", {1: unsigned}, late),
        asked("another size", {2: early}, late),
        asked("unnamed", {}, late),
        asked("unwitnessed", {1: early}, []),
    ]


def forged(note: bytes) -> bytes:
    """Another last bit in the last signature line."""
    lines = note.decode().split("\n")
    mark, name, encoded = lines[-2].split(" ")
    signature = bytearray(base64.b64decode(encoded))
    signature[-1] ^= 1
    return "\n".join([*lines[:-2], f"{mark} {name} {base64.b64encode(signature).decode()}", ""]).encode()


@pytest.mark.parametrize("made", [of_story, of_erasures, of_witnesses])
def test_both_judge_alike_what_only_a_period_can_be(
    judge_all: Ask, tmp_path: Path, made: Callable[[Path], list[Question]]
) -> None:
    questions = made(tmp_path)
    theirs: Verdicts = judge_all(questions)
    for number, (question, verdict) in enumerate(zip(questions, theirs, strict=True)):
        assert not disagreements(python_says_of_period(question, tmp_path), dict(verdict)), number
        assert "verifier.fault" not in {row["reason"] for row in verdict.get("checks", [])}
        assert verdict.get("tier", "none") in ("none", "contraindicated")


def test_both_tell_alike_which_records_were_signed_before_a_crash_and_never_logged(
    judge_all: Ask, tmp_path: Path
) -> None:
    def question(beyond: int, withheld: int) -> Question:
        class Crashed(Story):
            def close(self) -> None:
                super().close()
                head = self.gateway.head
                lost = {"chn": head.chn, "seq": head.seq + 1 + beyond, "rh": link("lost")}
                self.by_gateway("gap", "gap", {"lst": lost, "src": "untrusted-store"}, of_session=False)

        story = Crashed().tell()
        withhold = [at for at, each in enumerate(sorted_records(story)) if each.payload["kind"] == "end"]
        path = build(tmp_path / f"{beyond} {withheld}", story, withhold=withhold[:withheld])
        trust = trust_bytes(log=[{"value": story.log_signer.verifier.vkey()}])
        return Question(path.read_bytes(), trust, LATER, since=BEFORE, period=True)

    questions = [question(beyond, withheld) for beyond in (0, 1, 3) for withheld in (0, 2)]
    for asked, theirs in zip(questions, judge_all(questions), strict=True):
        ours = python_says_of_period(asked, tmp_path)
        told = [
            [row["detail"] for row in verdict["checks"] if row["code"] == "chain.gaps"]
            for verdict in (ours, theirs)
        ]
        assert told[0] == told[1] and told[0][0].startswith("1 gap disclosed")


def test_both_count_and_tell_alike_the_sessions_in_question(judge_all: Ask, tmp_path: Path) -> None:
    path, (first, second) = judged_now_tests.period(tmp_path, 0.0003)
    trust = trust_bytes(log=[{"value": first.log_signer.verifier.vkey()}])
    whole = Question(path.read_bytes(), trust, LATER, since=BEFORE, period=True)
    cut = replace(whole, bundle=period_tests.without_session(path, second).read_bytes())
    questions = {
        "both": whole,
        "the first": replace(whole, session=first.session),
        "the first of one": replace(cut, session=first.session),
        "one of both": cut,
    }
    theirs = judge_all(list(questions.values()))
    refused = demand_the_same(questions, theirs, tmp_path)
    assert refused == {("session.counter", "session.counter")}  # the second one's end has no counter
    demanding = judge_all([replace(each, require="complete") for each in questions.values()])
    assert [verdict["demand"]["unmet"] for verdict in demanding] == [[], [], [], ["complete"]]
    assert [verdict["summary"]["uses"]["end"]["done"] for verdict in theirs] == [2, 1, 1, 1]


def test_any_flipped_byte_never_raises_tier_or_level(judge_all: Ask, tmp_path: Path) -> None:
    """Of a published archive, whose bytes never change: in another one a flip may find a match of the same content."""
    whole = period_pinning_its_log(asked(CASES["valid/session"]), tmp_path)
    size = len(whole.bundle)
    flips = [(at * 7919 % size, 1 << at % 8) for at in range(60)]
    best, *verdicts = judge_all([whole, *(replace(whole, flip=[flip]) for flip in flips)])
    held = {row["code"] for row in best["checks"] if row["state"] == "held"}
    for verdict in verdicts:
        assert verdict["exit_code"] == 20
        assert {row["code"] for row in verdict["checks"] if row["state"] == "held"} < held
        assert verdict["checks"][0]["state"] == "refused"  # the manifest lists every byte


# -- lines and leaves that no exporter writes --------------------------------------------------------------------


def demand_the_same(questions: dict[str, Question], theirs: Verdicts, folder: Path) -> set[tuple[str, str]]:
    """Both verifiers' rows, one by one, and what they say where both hold; what was refused."""
    refused: set[tuple[str, str]] = set()
    for (name, question), verdict in zip(questions.items(), theirs, strict=True):
        ours = python_says_of_period(question, folder)
        assert not disagreements(ours, dict(verdict)), name
        if "usage" in ours:  # a session that the archive does not have: no verdict, for both
            continue
        for mine, other in zip(ours["checks"], verdict["checks"], strict=True):
            both_hold = mine["state"] == other["state"] == "held"
            assert not both_hold or mine["detail"] == other["detail"], (name, mine["code"])
            refused |= {(mine["code"], mine["reason"])} if mine["state"] == "refused" else set()
        assert "verifier.fault" not in {row["reason"] for row in verdict["checks"]}, name
    return refused


def test_both_judge_alike_what_stands_otherwise_in_lines_than_in_the_log(
    judge_all: Ask, tmp_path: Path
) -> None:
    questions = muddled_periods.named(tmp_path)
    refused = demand_the_same(questions, judge_all(list(questions.values())), tmp_path)
    assert refused >= {("erasure.authority", "chain.gap"), ("hold.respected", "hold.broken")}
    assert refused >= {("log.inclusion", "log.not_included"), ("chain.time", "chain.time")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_both_judge_alike_whatever_stands_in_lines_and_log(judge_all: Ask, tmp_path: Path, seed: int) -> None:
    questions = muddled_periods.by_chance(tmp_path, seed=seed, count=60)
    assert len(demand_the_same(questions, judge_all(list(questions.values())), tmp_path)) > 8
