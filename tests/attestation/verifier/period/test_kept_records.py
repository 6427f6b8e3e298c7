"""A long session's records stay on disk while it is judged: every check finds there what it finds in memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest
from tests.attestation.period_builder import build
from tests.attestation.story import NOW, Clock, Story, new_id, trust, trust_bytes
from tests.attestation.vectors.test_period_vectors import CASES as ARCHIVES
from tests.attestation.vectors.test_period_vectors import judged as judged_vector
from tests.attestation.vectors.test_vectors import CASES, bundle_of, trust_of
from tests.attestation.verifier.checks.test_session_checks import Acts, command, moving
from tests.attestation.verifier_js.as_periods import as_period
from tests.properties import tried

from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, recall_receipt
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.verdict.trust_file import parse_instant
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.period import case_rows, kept_records
from affiant.attestation.verifier.period.kept_records import KeptRecords, OnDisk
from affiant.attestation.verifier.period.log.spill import Spill
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS


@pytest.fixture
def from_disk(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Judge every session from disk, and parse each payload anew; undone to judge in memory."""
    monkeypatch.setattr(case_rows, "_IN_MEMORY", 0)
    monkeypatch.setattr(kept_records, "_PARSED", 8)
    return monkeypatch


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_archive_of_the_vectors_is_judged_from_disk_as_in_memory(
    name: str, from_disk: pytest.MonkeyPatch
) -> None:
    disk = judged_vector(ARCHIVES[name])
    from_disk.undo()
    assert disk == judged_vector(ARCHIVES[name])


def test_every_tampered_session_of_the_vectors_is_judged_from_disk_as_in_memory(
    from_disk: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = random.Random(4).sample(sorted(CASES), k=tried(len(CASES), quick=40))
    refused: set[str] = set()
    for number, name in enumerate(names):
        case = CASES[name]
        (folder := tmp_path / str(number)).mkdir()
        archive = as_period(bundle_of(case), folder)
        if archive is None:
            continue
        path = folder / "one.affiant.zip"
        path.write_bytes(archive)
        verdicts = []
        for most in (0, 1_000_000):
            from_disk.setattr(case_rows, "_IN_MEMORY", most)
            verdicts.append(
                verify_period(
                    path,
                    trust_of(case["trust"]),
                    verifiers=STANDARD_VERIFIERS,
                    at=parse_instant(case["at"]),
                    build="test",
                )
            )
        disk, memory = verdicts
        assert disk == memory, name
        refused |= {check.code for check in disk.checks if check.state is State.REFUSED}
    assert len(refused) > 5


def recalled(path: Path, spill: Spill) -> tuple[list[VerifiedReceipt], KeptRecords]:
    """The archive's records in memory, and those that are kept on disk."""
    with PeriodBundle(path) as bundle:
        statements = [parse_statement(data) for data in bundle.objects("keysets").values()]
        texts = [parse_receipt(text) for text in bundle.receipts()]
    by_key = {each.receipt_kid: each for each in statements}

    def recall(kept: tuple[str, str]) -> VerifiedReceipt:
        text = parse_receipt(kept[1])
        return recall_receipt(text, by_key[text.split.kid], rh=kept[0])

    for text in texts:
        spill.put("session", text.rh, text.sdjwt)
    return [recall((text.rh, text.sdjwt)) for text in texts], KeptRecords(OnDisk(spill, "session"), recall)


@pytest.mark.parametrize("most", [4_096, 2, 0])
def test_a_record_on_disk_says_what_it_says_in_memory(
    most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every field and every member by its path, whether records have it in common or not."""
    monkeypatch.setattr(kept_records, "_MOST_COMMON", most)
    with Spill() as spill:
        memory, kept = recalled(build(tmp_path, Story().tell()), spill)
        disk = kept.all()
        assert len(disk) == len(memory) > 10
        for one, other in zip(memory, disk, strict=True):
            for field in fields(VerifiedReceipt):
                assert getattr(other, field.name) == getattr(one, field.name)
            names = {name for record in memory for name in record.payload}
            paths = [(name, inner) for name in names for inner in ("_sd", *inner_names(memory, name), "none")]
            for path in paths:
                assert other.member(*path) == one.member(*path), path
            for name in names - set(kept_records._OFTEN):
                assert other.member(name) == one.member(name)


def inner_names(records: list[VerifiedReceipt], name: str) -> set[str]:
    values = (record.payload.get(name) for record in records)
    # of what records have in common, digests of what they hide are not kept: `_sd` is asked for by itself
    return {inner for value in values if isinstance(value, dict) for inner in value}


class Fast(Clock):
    """A thousand records a second."""

    def step(self, seconds: float = 1) -> None:
        super().step(seconds / 1000)


def long_story(commands: int, files: int) -> Acts:
    acts = [act for number in range(commands) for act in command(f"command-{number}")]
    acts += [act for number in range(files) for act in moving(f"file-{number}", "in")]
    return Acts(acts=acts, clock=Fast())


_VERIFY = """
import json, re, sys
from datetime import datetime
from pathlib import Path
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
path, trust, at = sys.argv[1:]
verdict = verify_period(Path(path), parse_trust_file(Path(trust).read_bytes()), verifiers=STANDARD_VERIFIERS,
                        at=datetime.fromisoformat(at), build="test")
states = {check.code: str(check.state) for check in verdict.checks}
(peak,) = re.findall(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(json.dumps([int(peak) / 1024, verdict.level, states]))
"""


def judged_apart(path: Path, folder: Path) -> tuple[float, str, dict[str, str]]:
    """In a process of its own: MiB of memory at most, the level, the state of each check."""
    (folder / "trust.json").write_bytes(trust_bytes())
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _VERIFY,
            str(path),
            str(folder / "trust.json"),
            NOW.replace(hour=23).isoformat(),
        ],
        check=True,
        stdout=subprocess.PIPE,
    )
    memory, level, states = json.loads(done.stdout)
    return memory, level, states


@pytest.mark.slow
def test_a_session_of_1000_commands_and_10000_files_needs_memory_for_hundreds_of_bytes_of_each(
    tmp_path: Path,
) -> None:
    """The same in a session of ten records is what the verifier itself takes; in memory they would be 21 KiB each."""
    story = long_story(1_000, 10_000).tell()
    (tmp_path / "short").mkdir()
    base, _, _ = judged_apart(build(tmp_path / "short", Story().tell()), tmp_path)
    path = build(tmp_path, story)
    memory, level, states = judged_apart(path, tmp_path)
    count = len(story.session_records) + len(story.gateway_records)
    assert count > 12_000
    assert (level, states["session.intents"], states["session.close"]) == ("L2", "held", "held")
    assert memory - base < count * 2 / 1024 + 12


def test_one_wrong_outcome_deep_in_a_long_session_is_found(
    from_disk: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def alter(step: str, members: dict[str, object]) -> dict[str, object]:
        if step == "command-150-o":
            members["par"] = [new_id()]
        return members

    story = long_story(200, 100)
    story.alter = alter
    verdict = verify_period(
        build(tmp_path, story), trust(), verifiers=STANDARD_VERIFIERS, at=NOW.replace(hour=23), build="test"
    )
    refused = [check for check in verdict.checks if check.state is State.REFUSED]
    assert [check.code for check in refused] == ["session.intents"]
    assert story.done["command-150-o"].payload["jti"] in refused[0].where


def test_a_record_on_disk_is_read_whole_a_bounded_number_of_times(
    from_disk: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = kept_records.KeptRecords._whole
    read: Counter[int] = Counter()
    from_disk.setattr(
        kept_records.KeptRecords, "_whole", lambda self, at: read.update([at]) or whole(self, at)
    )
    archive = build(tmp_path, long_story(100, 0))
    verify_period(archive, trust(), verifiers=STANDARD_VERIFIERS, at=NOW.replace(hour=23), build="test")
    assert max(read.values()) <= 6
