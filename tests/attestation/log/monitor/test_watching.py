"""A round finds what a log must not do, writes both documents, and remembers only what holds."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from tests.attestation.log.monitor.conftest import POLICY, Watched, codes
from tests.attestation.log_builder import (
    NOW,
    LogBuilder,
    chain,
    cosigner,
    entry,
    log_signer,
    mldsa_cosigner,
    write,
)
from tests.raising import raises_code

from affiant.attestation.encoding.merkle import leaf_hash
from affiant.attestation.log.monitor.errors import MonitorBusy
from affiant.attestation.log.monitor.signer_chains import Rules
from affiant.attestation.log.monitor.state import open_monitor_state
from affiant.attestation.log_reading.errors import LogAbsent, LogUnreachable
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.log_trust import trust_of
from affiant.attestation.log_reading.severity import Severity
from affiant.attestation.tlog.entry import parse_entry
from affiant.attestation.tlog.note import parse_note, signed, verify_note
from affiant.attestation.tlog.proof import parse_log_proof, verify_log_proof

END = NOW + 2100
"""When the last leaf of the log was made, and a little more."""


def fork(watched: Watched, size: int = 200) -> LogBuilder:
    """Another story with the same beginning of ``size`` leaves, in the log's own folder from now on."""
    shutil.rmtree(watched.folder / "log")
    return LogBuilder(
        watched.folder / "log",
        [*map(parse_entry, watched.log.leaves[:size]), *chain("three", 250, start=NOW + 100, end=True)],
    )


def test_a_log_that_grows_is_read_once(watched: Watched) -> None:
    watched.sign(END)
    first = watched.round(END)
    assert (first.findings, first.read, first.remembered, first.time) == ((), 400, True, END)
    assert (first.open_chains, first.ended_chains, first.severity) == (1, 1, None)
    assert first.tails[0][1:] == (199, NOW + 1990)
    again = watched.round(END + 5)
    assert (again.findings, again.read) == ((), 0)
    watched.log.add(
        entry("epoch" if n % 6 == 0 else "tool", "one", 200 + n, NOW + 2020 + 10 * n) for n in range(30)
    )
    watched.sign(END + 200)
    grown = watched.round(END + 200)
    assert (codes(grown), grown.read) == ([], 30)


def test_a_smaller_tree_after_a_larger_is_a_rollback(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    watched.sign(END, size=300)
    report = watched.round(END)
    assert codes(report) == ["log.rollback"] and not report.remembered
    assert report.severity is Severity.CONTRAINDICATED
    held, seen = documents(watched)
    assert "\n400\n" in held and "\n300\n" in seen


def documents(watched: Watched, names: tuple[str, str] = ("held.note", "seen.note")) -> list[str]:
    """The two notes of the one finding, each verified under the log's key."""
    (folder,) = watched.findings
    notes = [parse_note((folder / name).read_bytes()) for name in names]
    for note in notes:
        verify_note(note, [log_signer().verifier])
    assert json.loads((folder / "finding.json").read_bytes())["typ"] == "affiant-monitor-finding/1"
    return [note.text for note in notes]


def test_another_root_over_the_same_size_is_a_split_view(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    other = fork(watched)
    watched.sign(END, log=other, size=400)
    report = watched.round(END)
    assert codes(report) == ["log.split_view"] and not report.remembered
    assert len(set(documents(watched))) == 2


def test_a_larger_tree_that_does_not_begin_with_the_old_one_is_inconsistent(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    watched.sign(END, log=fork(watched))
    report = watched.round(END)
    assert codes(report) == ["log.consistency"] and not report.remembered
    assert len(set(documents(watched))) == 2


def test_a_contradiction_that_the_log_has_signed_is_never_forgotten(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    other = LogBuilder(watched.folder / "other", chain("three", 300))
    watched.others = [("witness a", other.note())]
    watched.round(END)
    watched.others = []
    report = watched.round(END)
    assert report.findings == () and report.remembered
    assert (report.contradictions, report.severity) == (1, Severity.CONTRAINDICATED)
    assert len(watched.findings) == 1


def test_what_anybody_in_between_could_do_is_refused_and_not_held_against_the_log(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    watched.sign(END, size=300)
    assert watched.round(END).severity is Severity.CONTRAINDICATED
    thief = log_signer(label="thief")
    write(watched.folder / "log/checkpoint", signed(watched.log.note().text, thief).to_bytes())
    assert watched.round(END).severity is Severity.CONTRAINDICATED
    watched.sign(END)
    report = watched.round(END)
    assert (report.contradictions, report.severity) == (0, None)
    assert {path.parent.name for path in watched.findings} == {"passing"} and len(watched.findings) == 2


def test_files_of_such_findings_leave_room_for_the_logs_own(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.attestation.log.monitor.proof_files._MAX_PASSING", 2)
    for number in range(4):
        note = signed(watched.log.note().text, log_signer(f"thief.example/{number}"))
        write(watched.folder / "log/checkpoint", note.to_bytes())
        watched.round(END)
    assert len(watched.findings) == 2
    watched.sign(END)
    watched.others = [("witness a", LogBuilder(watched.folder / "other", chain("three", 300)).note())]
    watched.round(END)
    assert len(watched.findings) == 3


def test_a_contradiction_is_found_without_the_quorum(watched: Watched) -> None:
    """A log that forks does not ask witnesses: their silence hides nothing."""
    watched.sign(END)
    watched.round(END)
    fork(watched).sign()
    assert codes(watched.round(END)) == ["log.consistency"]


def test_too_few_witnesses_warn_and_nothing_is_remembered(watched: Watched) -> None:
    watched.log.sign(cosigner(1, END))
    report = watched.round(END)
    assert codes(report) == ["wit.quorum"] and not report.remembered and report.read == 0
    line = mldsa_cosigner(2, END).sign(watched.log.note(300).text)
    note = watched.log.note(None, cosigner(1, END)).with_signatures([line])
    write(watched.folder / "log/checkpoint", note.to_bytes())
    assert codes(watched.round(END)) == ["wit.quorum"]
    watched.sign(END)
    assert watched.round(END).read == 400


def test_a_checkpoint_of_another_key_is_refused(watched: Watched) -> None:
    watched.sign(END)
    thief = log_signer(label="thief")
    write(watched.folder / "log/checkpoint", signed(watched.log.note().text, thief).to_bytes())
    report = watched.round(END)
    assert codes(report) == ["note.signature"] and report.checkpoint is None and not report.remembered


def test_an_old_or_a_future_checkpoint_is_warned_of(watched: Watched) -> None:
    watched.sign(END)
    assert codes(watched.round(END + 300)) == []
    assert codes(watched.round(END + 301)) == ["log.stale"]
    assert codes(watched.round(END - 31)) == ["wit.future"]


@pytest.mark.parametrize(
    ("size", "code"), [(300, "log.split_view"), (400, "log.split_view"), (450, "log.behind")]
)
def test_what_somebody_else_was_shown_is_compared(watched: Watched, size: int, code: str) -> None:
    watched.sign(END)
    other = LogBuilder(watched.folder / "other", chain("three", 450))
    watched.others = [("witness a", other.note(size))]
    report = watched.round(END)
    assert codes(report) == [code] and report.remembered
    if code == "log.split_view":
        documents(watched, ("log.note", "other.note"))


def test_a_split_view_that_lasts_is_one_contradiction(watched: Watched) -> None:
    other = LogBuilder(watched.folder / "other", chain("three", 300))
    watched.others = [("witness a", other.note())]
    for number in range(3):
        watched.log.add([entry("epoch", "one", 200 + number, END + number)])
        watched.sign(END + number)
        assert "log.split_view" in codes(watched.round(END + number))
    assert len(watched.findings) == 1
    assert watched.round(END + 3).contradictions == 1


def test_a_log_that_goes_silent_takes_nothing_back(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(source: FolderLog, path: str, *, limit: int) -> bytes | None:
        if path.startswith("tile/entries"):
            raise LogUnreachable("silent")
        return real(source, path, limit=limit)

    real = FolderLog.read
    monkeypatch.setattr(FolderLog, "read", silent)
    watched.sign(END)
    with pytest.raises(LogUnreachable):
        watched.round(END)
    watched.others = [("witness a", LogBuilder(watched.folder / "other", chain("three", 300)).note())]
    report = watched.round(END)
    assert codes(report) == ["log.split_view", "log.unreachable"] and not report.remembered
    assert (report.contradictions, len(watched.findings)) == (1, 1)


def test_what_others_have_of_the_same_tree_is_no_finding(watched: Watched) -> None:
    watched.sign(END)
    watched.others = [("a", watched.log.note(size)) for size in (0, 1, 256, 399, 400)]
    assert codes(watched.round(END)) == []


def test_what_the_log_did_not_sign_says_nothing_about_it(watched: Watched) -> None:
    watched.sign(END)
    other = LogBuilder(watched.folder / "other", chain("three", 400), signer=log_signer(label="thief"))
    watched.others = [("file x", other.note())]
    report = watched.round(END)
    assert codes(report) == [] and "file x" in report.not_made[0]


def test_changed_tiles_and_leaves_are_contradictions_and_missing_ones_warnings(watched: Watched) -> None:
    watched.sign(END)
    for name, code in (("tile/0/000", "log.root"), ("tile/entries/000", "log.leaf")):
        path = watched.folder / "log" / name
        original = path.read_bytes()
        write(path, original[:40] + b"\xff" + original[41:])
        report = watched.round(END)
        assert code in codes(report) and not report.remembered and report.read == 0
        write(path, original)
    (watched.folder / "log/tile/entries/001.p/144").unlink()
    report = watched.round(END)
    assert codes(report) == ["log.missing"] and not report.remembered
    watched.sign(END)
    assert watched.round(END).read == 400


def test_faults_of_chains_come_with_leaves_and_proofs(watched: Watched) -> None:
    watched.log.add([entry("tool", "one", 205, NOW + 2000), entry("tool", "two", 200, NOW + 2100)])
    watched.sign(END)
    report = watched.round(END)
    assert sorted(codes(report)) == ["chain.after_end", "chain.gap"] and report.remembered
    key = log_signer().verifier
    for folder in watched.findings:
        proofs = sorted(folder.glob("*.tlog-proof"))
        assert len(proofs) == 2
        for path in proofs:
            leaf = path.with_suffix(".bin").read_bytes()
            proof = parse_log_proof(path.read_bytes())
            assert verify_log_proof(proof, leaf_hash(leaf), log=[key], origin=key.name).index == proof.index
            assert watched.log.leaves[proof.index] == leaf


def test_chains_are_followed_over_rounds(watched: Watched) -> None:
    watched.sign(END, size=250)
    watched.round(END)
    watched.log.leaves[:] = watched.log.leaves[:400]
    watched.log.add([entry("tool", "one", 201, NOW + 2000), *chain("two", 3, start=NOW + 2000)])
    watched.sign(END + 10)
    found = codes(watched.round(END + 10, replace(Rules(), merge_delay_s=5000)))
    assert sorted(found) == ["chain.gap", "chain.reused"]


def test_a_leaf_that_is_none_is_named_and_the_rest_is_read(watched: Watched) -> None:
    bad = b"\x02" + watched.log.leaves[0][1:]
    watched.log.leaves.append(bad)
    watched.log.nodes.append(leaf_hash(bad))
    watched.log.add([entry("tool", "one", 200, NOW + 2000)])
    watched.sign(END)
    report = watched.round(END)
    assert (codes(report), report.read) == (["log.entry"], 402)
    assert {path.name for path in watched.findings[0].iterdir()} >= {"leaf-400.bin", "leaf-400.tlog-proof"}


def test_leaves_that_come_late_or_from_the_future_are_warned_of(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    at = END + 100
    watched.log.add([entry("tool", "one", 200, END - 91), entry("tool", "one", 201, at + 32)])
    watched.sign(at)
    assert {"log.late", "log.future"} <= set(codes(watched.round(at)))


def test_an_open_chain_that_stops_is_told_once(watched: Watched) -> None:
    watched.sign(END)
    assert codes(watched.round(END)) == []
    watched.sign(END + 60)
    report = watched.round(END + 60)
    assert codes(report) == ["chain.silent"] and "not provable" in report.findings[0].message
    assert codes(watched.round(END + 61)) == []


def test_without_witnesses_the_checks_that_need_them_are_said_not_to_be_made(watched: Watched) -> None:
    policy = POLICY.replace(b"quorum both", b"quorum none")
    watched.trust = trust_of([], policy)
    watched.log.sign()
    report = watched.round(END)
    assert report.findings == () and report.remembered and "no witnesses" in report.not_made[0]


def test_the_state_of_another_log_is_refused_and_stays(watched: Watched, tmp_path: Path) -> None:
    watched.sign(END)
    watched.round(END)
    signer = log_signer("log.example/other", "other")
    other = LogBuilder(tmp_path / "log", chain("one", 5), signer=signer)
    vkeys = f"log {signer.verifier.vkey()}\n".encode()
    other.sign(cosigner(1, END), mldsa_cosigner(2, END))
    watched.trust = trust_of([], POLICY + vkeys)
    with raises_code("monitor.state", match="another log"):
        watched.round(END)


def test_no_log_at_all_changes_nothing(watched: Watched) -> None:
    watched.sign(END)
    watched.round(END)
    (watched.folder / "log/checkpoint").unlink()
    with pytest.raises(LogAbsent):
        watched.round(END)
    watched.sign(END)
    assert watched.round(END).read == 0


def test_two_monitors_do_not_share_a_round(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.attestation.log.monitor.state._BUSY_S", 0.1)
    watched.sign(END)
    with open_monitor_state(watched.folder / "state") as state, state.round(), pytest.raises(MonitorBusy):
        watched.round(END)


def test_a_damaged_state_is_refused(watched: Watched) -> None:
    (watched.folder / "state").mkdir()
    write(watched.folder / "state/monitor.sqlite", b"x" * 5000)
    with raises_code("monitor.state"):
        watched.round(END)


def test_memory_is_bounded_over_many_chains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 chains of one record each, of which 64 at most are in memory."""
    monkeypatch.setattr("affiant.attestation.log.monitor.state._HOT", 64)
    log = LogBuilder(tmp_path / "log", (entry("boot", f"chain {n}", 0, NOW) for n in range(4000)))
    watched = Watched(tmp_path, log)
    watched.sign(NOW)
    tracemalloc.start()
    try:
        report = watched.round(NOW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (report.findings, report.open_chains) == ((), 4000)
    assert peak < 4_000_000


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_leaves_are_watched_in_bounded_memory(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "log")
    for number in range(1000):
        log.add(chain(f"chain {number}", 1000, start=NOW, step=1, end=True))
    watched = Watched(tmp_path, log)
    watched.sign(NOW + 1000)
    tracemalloc.start()
    try:
        report = watched.round(NOW + 1000, replace(Rules(), merge_delay_s=2000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (report.findings, report.read, report.ended_chains) == ((), 1_000_000, 1000)
    assert peak < 16_000_000
