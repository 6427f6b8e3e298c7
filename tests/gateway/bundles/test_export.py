"""A real gateway's store, exported while the gateway runs and afterwards, is what the verifier accepts."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.verifier_js.as_periods import period_pinning_its_log, python_says_of_period
from tests.attestation.verifier_js.conftest import Question, ask
from tests.attestation.verifier_js.test_agreement import disagreements
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient
from tests.raising import raises_code
from tests.sigstore_authority.timestamps import TimestampAuthority

from affiant.__main__ import cli
from affiant.attestation.anchors.anchor_files import AnchorFolder
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.signatures.timestamps.imprint import message
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.gateway.bundles import export as export_module
from affiant.gateway.bundles.export import Asked, export_period
from affiant.gateway.bundles.period_store import StoreUnreadable, open_store
from affiant.gateway.log.transparency_log import log_folder
from affiant.gateway.store.journal import hold_store


@dataclass
class Told:
    """A store in which two boots served three sessions; the middle one alone lies after ``between``."""

    store: Path
    trust: bytes
    sessions: list[str]
    while_running: Path
    between: datetime
    after: datetime


def served(inside: object, platform: PlatformClient) -> SessionClient:
    session = SessionClient.start(inside, platform)
    session.say("hi")
    session.say("hi", stream=True)
    session.chat(b"garbage")
    session.submit(session.exec_record())
    session.submit(session.end_record())
    session.close()
    return session


def next_second() -> datetime:
    """Wait for the next whole second; leaves have whole ones."""
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    time.sleep((at - datetime.now(UTC)).total_seconds())
    return at


@pytest.fixture(scope="module")
def told(platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("export")
    store, running = folder / "store", folder / "running.affiant.zip"
    with in_process(platform, store) as inside:
        first = served(inside, platform)
        between = next_second()
        second = served(inside, platform)
        inside.run(inside.service.bundles.log.include())
        export_period(open_store(store), Asked(None, None), running, exporter="test")
        trust = simulated_trust_file(inside.service.admissions.appraiser.reference.raw, datetime.now(UTC))
        after = next_second()
    with in_process(platform, store) as inside:
        third = served(inside, platform)
        inside.run(inside.service.bundles.log.include())
    yield Told(store, trust, [first.id, second.id, third.id], running, between, after)


def judged(path: Path, told: Told, **more: object) -> Verdict:
    at = datetime.now(UTC) + timedelta(minutes=5)
    return verify_period(
        path, parse_trust_file(told.trust), verifiers=STANDARD_VERIFIERS, at=at, build="test", **more
    )


def row(verdict: Verdict, code: str) -> tuple[State, Tier | None]:
    check = next(check for check in verdict.checks if check.code == code)
    return check.state, check.tier


def refused(verdict: Verdict) -> list[object]:
    return [check for check in verdict.checks if check.state is State.REFUSED]


def test_what_a_running_gateway_gives_is_accepted(told: Told) -> None:
    verdict = judged(told.while_running, told)
    assert refused(verdict) == []
    assert verdict.exit_code == 40
    assert verdict.population.started == verdict.population.closed == 2
    for code in (
        "sig.receipts",
        "chain.contiguous",
        "session.close",
        "peer.ear",
        "log.inclusion",
        "tee.appraisal",
    ):
        assert row(verdict, code) == (State.HELD, Tier.AFFIRMING)


def test_all_of_a_store_over_two_boots_is_accepted(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "all.affiant.zip"
    done = export_period(open_store(told.store), Asked(None, None), place, exporter="test")
    verdict = judged(place, told, since=datetime(2020, 1, 1, tzinfo=UTC))
    assert refused(verdict) == []
    assert verdict.population.started == 3
    assert verdict.population.receipts == done.receipts == done.leaves
    assert row(verdict, "chain.coverage") == (State.HELD, Tier.AFFIRMING)
    assert not list(tmp_path.glob(".*"))


def test_the_second_verifier_says_the_same_of_what_is_exported(told: Told, tmp_path: Path) -> None:
    """All of the store, and a part of it; in JavaScript, with the log's key pinned."""
    store, at = open_store(told.store), datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    places = [tmp_path / "all.affiant.zip", tmp_path / "part.affiant.zip"]
    export_period(store, Asked(None, None), places[0], exporter="test")
    export_period(store, Asked(told.between, told.after), places[1], exporter="test")
    asked = [
        Question(places[0].read_bytes(), told.trust, at, since=datetime(2020, 1, 1, tzinfo=UTC)),
        Question(places[1].read_bytes(), told.trust, at, since=told.between, until=told.after),
    ]
    questions = [period_pinning_its_log(question, tmp_path) for question in asked]
    for question, theirs in zip(questions, ask(questions, tmp_path), strict=True):
        assert not disagreements(python_says_of_period(question, tmp_path), dict(theirs))
        assert (theirs["level"], theirs["exit_code"]) == ("L2", 40)
        coverage = next(check for check in theirs["checks"] if check["code"] == "chain.coverage")
        assert (coverage["state"], coverage["tier"]) == ("held", "affirming")


def test_a_range_is_whole_by_its_leaves_and_its_sessions(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "part.affiant.zip"
    done = export_period(open_store(told.store), Asked(told.between, told.after), place, exporter="test")
    verdict = judged(place, told, since=told.between, until=told.after)
    assert refused(verdict) == []
    assert row(verdict, "chain.coverage") == (State.HELD, Tier.AFFIRMING)
    assert verdict.population.started == 1
    assert verdict.population.kinds["boot"] == 2  # the gateway's, from before the range, and the session's
    assert done.receipts == done.leaves + 1
    wider = judged(place, told, since=told.between - timedelta(seconds=30), until=told.after)
    assert row(wider, "chain.coverage")[1] is not Tier.AFFIRMING


def test_one_session_is_accepted_and_the_others_count_as_withheld(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "one.affiant.zip"
    export_period(open_store(told.store), Asked(None, None, (told.sessions[1],)), place, exporter="test")
    with PeriodBundle(place) as bundle:
        assert bundle.manifest.range.sessions == (told.sessions[1],)
    verdict = judged(place, told, since=datetime(2020, 1, 1, tzinfo=UTC))
    assert refused(verdict) == []
    assert verdict.population.started == 1
    assert row(verdict, "chain.coverage") == (State.HELD, Tier.WARNING)
    assert row(verdict, "session.close") == (State.HELD, Tier.AFFIRMING)


def test_the_same_range_gives_the_same_bytes(told: Told, tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip", "a.zip"):
        export_period(open_store(told.store), Asked(told.between, None), tmp_path / name, exporter="test")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


class Stop(Exception):
    pass


def stopping_at(step: int) -> object:
    count = 0

    def progress(*_: object) -> None:
        nonlocal count
        count += 1
        if count == step:
            raise Stop

    return progress


def test_a_stopped_export_goes_on_at_every_step(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "LINES_PER_FILE", 7)
    whole, place = tmp_path / "whole.zip", tmp_path / "x.zip"
    export_period(open_store(told.store), Asked(told.between, None), whole, exporter="test")
    stops = 0
    for step in range(1, 200, 3):
        (tmp_path / "x.zip").unlink(missing_ok=True)
        try:
            export_period(
                open_store(told.store),
                Asked(told.between, None),
                place,
                exporter="test",
                progress=stopping_at(step),
            )
        except Stop:
            stops += 1
            done = export_period(open_store(told.store), Asked(told.between, None), place, exporter="test")
            assert done.resumed
            assert place.read_bytes() == whole.read_bytes()
            continue
        break
    assert stops > 2


_KILLED = """
import os, signal, sys
from pathlib import Path
from affiant.gateway.bundles.export import Asked, export_period
from affiant.gateway.bundles.period_store import open_store
steps = 0
def progress(*_):
    global steps
    steps += 1
    if steps == 5:
        os.kill(os.getpid(), signal.SIGKILL)
export_period(open_store(Path(sys.argv[1])), Asked(None, None), Path(sys.argv[2]), exporter="test", progress=progress)
"""


def test_a_killed_export_goes_on(told: Told, tmp_path: Path) -> None:
    place, whole = tmp_path / "x.zip", tmp_path / "whole.zip"
    command = [sys.executable, "-c", _KILLED, str(told.store), str(place)]
    assert subprocess.run(command, check=False, timeout=60).returncode == -signal.SIGKILL
    assert not place.exists()
    assert export_period(open_store(told.store), Asked(None, None), place, exporter="test").resumed
    export_period(open_store(told.store), Asked(None, None), whole, exporter="test")
    assert place.read_bytes() == whole.read_bytes()


def test_another_request_begins_anew(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "x.zip"
    with pytest.raises(Stop):
        export_period(
            open_store(told.store), Asked(None, None), place, exporter="test", progress=stopping_at(2)
        )
    done = export_period(open_store(told.store), Asked(told.between, None), place, exporter="test")
    assert not done.resumed
    export_period(open_store(told.store), Asked(told.between, None), tmp_path / "y.zip", exporter="test")
    assert place.read_bytes() == (tmp_path / "y.zip").read_bytes()


def test_two_exports_of_one_file_do_not_meet(told: Told, tmp_path: Path) -> None:
    place, asked = tmp_path / "x.zip", Asked(None, None)
    with pytest.raises(Stop):
        export_period(open_store(told.store), asked, place, exporter="test", progress=stopping_at(2))
    with hold_store(tmp_path / ".x.zip.draft"), raises_code("export.busy"):
        export_period(open_store(told.store), asked, place, exporter="test")


def test_nothing_and_no_store_are_refused(told: Told, tmp_path: Path) -> None:
    store, place = open_store(told.store), tmp_path / "x.zip"
    past = datetime(2020, 1, 1, tzinfo=UTC)
    with raises_code("export.nothing"):
        export_period(store, Asked(None, past), place, exporter="test")
    with raises_code("export.nothing"):
        export_period(store, Asked(None, None, ("A" * 22,)), place, exporter="test")
    with pytest.raises(StoreUnreadable):
        open_store(tmp_path)
    assert not place.exists()


def test_the_commands_export_show_and_verify(told: Told, tmp_path: Path) -> None:
    place, runner = tmp_path / "x.affiant.zip", CliRunner()
    (tmp_path / "trust.json").write_bytes(told.trust)
    done = runner.invoke(cli, ["bundle", "export", "--store", str(told.store), "-o", str(place), "--json"])
    assert done.exit_code == 0, done.output
    made = json.loads(done.output)
    assert made["disclosures"] is False
    shown = runner.invoke(cli, ["bundle", "show", str(place), "--json"])
    assert json.loads(shown.output)["receipts"] == made["receipts"]
    assert "form" in runner.invoke(cli, ["bundle", "show", str(place)]).output
    later = str(int(datetime.now(UTC).timestamp()) + 300)
    arguments = ["verify", str(place), "--trust", str(tmp_path / "trust.json"), "--at", later]
    verified = runner.invoke(cli, [*arguments, "--json", "--html", str(tmp_path / "report.html")])
    assert verified.exit_code == 40, verified.output
    document = json.loads(verified.output)
    assert document["counts"]["receipts"] == made["receipts"]
    assert "chain.coverage" in document["not_made"]
    ranged = runner.invoke(cli, [*arguments, "--from", "2020-01-01T00:00:00Z"])
    assert "chain.coverage" in ranged.output
    assert "every leaf" in ranged.output or "each with its record" in ranged.output
    assert (tmp_path / "report.html").stat().st_size > 10_000
    wrong = ["bundle", "export", "--store", str(told.store), "--from", "20", "--to", "10", "-o", str(place)]
    assert runner.invoke(cli, wrong).exit_code == 2


# -- anchors -------------------------------------------------------------------------------------------------------


def anchored(told: Told, tmp_path: Path, sizes: Sequence[int], authority: TimestampAuthority) -> Path:
    """A copy of the store whose log has these anchors beside it."""
    store = tmp_path / "store"
    shutil.copytree(told.store, store)
    opened = open_store(store)
    note, newest = opened.newest()
    folder = AnchorFolder(log_folder(store, opened.log.origin) / "anchors")
    for size in sizes:
        assert size == newest.size, "the log signs anew only as it grows"
        digest = hashlib.sha256(message(note.text, ())).digest()
        folder.write(size, note.to_bytes(), [authority.stamp(digest, at=datetime.now(UTC))])
    return store


def test_the_anchor_that_covers_a_period_goes_with_it_and_is_accepted(told: Told, tmp_path: Path) -> None:
    authority = TimestampAuthority()
    size = open_store(told.store).newest()[1].size
    store = anchored(told, tmp_path, [size], authority)
    place = tmp_path / "all.affiant.zip"
    export_period(open_store(store), Asked(told.between, told.after), place, exporter="test")
    with PeriodBundle(place) as bundle:
        assert bundle.anchors == (f"anchors/{size}.tsr",)
    document = json.loads(told.trust)
    root = authority.root.public_bytes(Encoding.PEM).decode()
    document["tsa_roots"] = [{"value": {"certificate": root}}]
    trust = parse_trust_file(json.dumps(document).encode())
    verdict = verify_period(
        place, trust, verifiers=STANDARD_VERIFIERS, at=datetime.now(UTC) + timedelta(minutes=5), build="test"
    )
    assert refused(verdict) == []
    assert row(verdict, "time.tsa") == (State.HELD, Tier.AFFIRMING)
    assert verdict.time is not None and verdict.time.not_after is not None


def test_an_anchor_that_does_not_hold_is_left_out(told: Told, tmp_path: Path) -> None:
    size = open_store(told.store).newest()[1].size
    store = anchored(told, tmp_path, [size], TimestampAuthority())
    (place,) = store.rglob("anchors/*.tsr")
    place.write_bytes(b"no token")
    export_period(open_store(store), Asked(None, None), tmp_path / "x.zip", exporter="test")
    with PeriodBundle(tmp_path / "x.zip") as bundle:
        assert bundle.anchors == ()
