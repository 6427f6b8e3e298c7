"""``affiant verify`` as a user runs it: exit codes, tables, JSON, wrong input."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from tests.attestation.period_builder import build
from tests.attestation.story import NOW, PLATFORM, REQUEST, Story, trust_bytes

from affiant.attestation.cli.bundle.verify_command import verify
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from fault_scenarios.bench import Bench
from fault_scenarios.collateral_json import collateral_json
from fault_scenarios.scenarios.levels import reaching

AT = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "session.affiant.json").write_bytes(Story().bytes())
    (tmp_path / "trust.json").write_bytes(trust_bytes())
    (tmp_path / "request.json").write_bytes(REQUEST)
    return tmp_path


def run(files: Path, *more: str, bundle: str = "session.affiant.json") -> Result:
    arguments = [str(files / bundle), "--trust", str(files / "trust.json"), "--at", AT, *more]
    return CliRunner().invoke(verify, arguments)


def test_a_simulated_session_exits_with_40_and_says_so(files: Path) -> None:
    result = run(files)
    assert result.exit_code == 40
    assert result.output.splitlines()[-1].startswith("SIMULATED")
    assert "verified" not in result.output.lower()
    assert result.output.splitlines()[0].startswith("bundle")


def test_the_json_document_says_the_same(files: Path) -> None:
    document = json.loads(run(files, "--json", "--request", str(files / "request.json")).output)
    assert document["typ"] == "affiant-verdict/1"
    assert (document["exit_code"], document["simulated"], document["tier"]) == (40, True, "none")
    assert document["levels"]["L5"] == "held"
    assert "wit.quorum" in document["not_made"]


def test_one_flipped_byte_exits_with_20_and_the_reason(files: Path) -> None:
    data = bytearray((files / "session.affiant.json").read_bytes())
    position = data.index(b'"sdjwt"') + 400
    data[position] = ord("A") if data[position] != ord("A") else ord("B")
    (files / "flipped.json").write_bytes(data)
    result = run(files, bundle="flipped.json")
    assert result.exit_code == 20
    assert "REFUSED" in result.output


def test_another_body_exits_with_20(files: Path) -> None:
    (files / "request.json").write_bytes(b"{}")
    assert run(files, "--request", str(files / "request.json")).exit_code == 20


@pytest.mark.parametrize("more", [["--at", "yesterday"], ["--trust", "missing.json"], ["--nonsense"]])
def test_wrong_usage_exits_with_2(files: Path, more: list[str]) -> None:
    assert run(files, *more).exit_code == 2


def test_a_broken_trust_file_is_a_usage_error_that_names_the_place(files: Path) -> None:
    (files / "trust.json").write_text('{"typ":"affiant-trust/1","tee_roots":[]}')
    result = run(files)
    assert result.exit_code == 2
    assert "tee_roots" in result.output


def test_it_is_never_without_a_trust_file(files: Path) -> None:
    assert CliRunner().invoke(verify, [str(files / "session.affiant.json")]).exit_code == 2


# -- several bundles -----------------------------------------------------------------------------------------------


def run_all(files: Path, *arguments: str) -> Result:
    return CliRunner().invoke(verify, [*arguments, "--trust", str(files / "trust.json"), "--at", AT])


def test_a_folder_is_judged_as_several_even_if_it_holds_one(files: Path) -> None:
    document = json.loads(run_all(files, str(files), "--json").output)
    assert document["typ"] == "affiant-verdicts/1"
    assert len(document["verdicts"]) == 1
    assert document["verdicts"][0]["file"].endswith("session.affiant.json")


def test_the_exit_code_of_several_is_that_of_the_worst(files: Path) -> None:
    (files / "broken.affiant.json").write_bytes(b"{")
    names = [str(files / name) for name in ("session.affiant.json", "broken.affiant.json")]
    result = run_all(files, *names)
    assert result.exit_code == 20
    assert result.output.splitlines()[0] == "bundles          2"
    assert run_all(files, *names[:1]).exit_code == 40


def test_a_period_is_held_against_the_other_bundles(files: Path) -> None:
    paths = [build(files / name, Story().tell()) for name in ("one", "other")]
    document = json.loads(run_all(files, *map(str, paths), "--json").output)
    assert "not made" not in {row["state"] for row in document["across"]}
    alone = json.loads(run_all(files, str(paths[0].parent), "--json").output)
    assert {row["state"] for row in alone["across"]} == {"held"}
    assert alone["counts"] == alone["verdicts"][0]["counts"]


def test_a_report_to_what_is_no_file_is_written_there(files: Path) -> None:
    pipe = files / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        assert run(files, "--html", str(pipe)).exit_code == 40
        assert read.result(10).startswith("<!doctype html>")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


@pytest.mark.parametrize("place", ["session.affiant.json", "trust.json", "request.json", "other"])
def test_a_report_replaces_nothing_that_is_read(files: Path, place: str) -> None:
    before = {path: path.read_bytes() for path in files.iterdir()}
    asked = ["--request", str(files / "request.json"), "--junit", str(files / "other")]
    result = run(files, *asked, "--html", str(files / "." / place))
    assert result.exit_code == 2 and "replace" in " ".join(result.output.split())
    assert {path: path.read_bytes() for path in files.iterdir()} == before


def test_a_full_disk_is_one_line_and_no_verdict(files: Path) -> None:
    command = [sys.executable, "-m", "affiant", "verify", str(files / "session.affiant.json"), "--at", AT]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command, "--trust", str(files / "trust.json"), "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: its output cannot be written: No space left on device\n"


def test_reports_of_several_are_written(files: Path) -> None:
    names = {"--html": "r.html", "--sarif": "r.sarif", "--junit": "r.xml"}
    options = [part for option, name in names.items() for part in (option, str(files / name))]
    assert run_all(files, str(files), *options).exit_code == 40
    assert 'href="#bundle-1"' in (files / "r.html").read_text()
    assert "artifacts" in (files / "r.sarif").read_text()
    assert "<testsuites>" in (files / "r.xml").read_text()


def test_what_asks_about_one_bundle_is_refused_for_several(files: Path) -> None:
    for more in (["--request", str(files / "request.json")], ["--session", "A" * 22]):
        result = run_all(files, str(files), *more)
        assert result.exit_code == 2
        assert "one bundle" in result.output


def test_a_folder_without_a_bundle_is_no_success(files: Path) -> None:
    (files / "empty").mkdir()
    result = run_all(files, str(files / "empty"))
    assert result.exit_code == 2
    assert "no bundle" in result.output


def test_progress_is_told_to_terminals_alone(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        (files / f"{number}.affiant.json").write_bytes(b"{")
    assert run_all(files, str(files)).stderr == ""
    terminal = SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("affiant.attestation.bundle.period.progress.sys", terminal)
    told = run_all(files, str(files)).stderr
    assert "judged" in told and "16 %" in told


# -- judged now ----------------------------------------------------------------------------------------------------


LATER = NOW + timedelta(days=20)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is twenty days later."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return LATER

    monkeypatch.setattr("affiant.attestation.cli.bundle.verify_command.datetime", Clock)


def run_now(files: Path, *more: str) -> Result:
    arguments = [str(files / "session.affiant.json"), "--trust", str(files / "trust.json"), "--now"]
    return CliRunner().invoke(verify, [*arguments, *more])


def collateral_in(files: Path, platform: SimulatedPlatform) -> str:
    folder = files / "collateral"
    folder.mkdir()
    (folder / "collateral.json").write_bytes(collateral_json(platform.collateral(LATER)))
    return str(folder)


@pytest.mark.usefixtures("later")
def test_judged_now_with_the_readers_own_collateral(files: Path) -> None:
    bench = Bench(platform=PLATFORM, layout=QuoteLayout.V4, now=NOW)
    worse = reaching("Revoked", "INTEL-SA-99901")(bench).platform
    result = run_now(files, "--collateral", collateral_in(files, worse), "--json")
    document = json.loads(result.output)
    assert (result.exit_code, document["changed"]["then"]["exit_code"]) == (20, 40)
    assert document["at"] == LATER.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert document["changed"]["collateral"] == "own"
    assert {each["after"]["refused"] for each in document["changed"]["quotes"]} == {"tcb.revoked"}


@pytest.mark.usefixtures("later")
def test_judged_now_takes_the_time_that_is_asked_as_the_bundles_own(files: Path) -> None:
    document = json.loads(run_now(files, "--at", AT, "--json").output)
    assert document["changed"]["then"] == {
        "at": AT,
        "by": "asked",
        "tier": "none",
        "level": "L2",
        "exit_code": 40,
    }
    assert document["changed"]["collateral"] == "archived"


@pytest.mark.usefixtures("later")
def test_a_folder_without_the_platforms_collateral_affirms_nothing(files: Path) -> None:
    (files / "empty").mkdir()
    document = json.loads(run_now(files, "--collateral", str(files / "empty"), "--json").output)
    assert "tee.appraisal" in document["not_made"]
    assert document["level"] == "L1"


@pytest.mark.usefixtures("later")
def test_several_bundles_are_judged_now_as_well(files: Path) -> None:
    (files / "deep").mkdir()
    (files / "deep" / "b.affiant.json").write_bytes(Story().bytes())
    arguments = [str(files), "--trust", str(files / "trust.json"), "--now", "--json"]
    document = json.loads(CliRunner().invoke(verify, arguments).output)
    assert len([each for each in document["verdicts"] if "changed" in each]) == 2


@pytest.mark.usefixtures("later")
def test_a_period_is_judged_now_with_the_same_exit_codes_and_in_every_report(files: Path) -> None:
    bench = Bench(platform=PLATFORM, layout=QuoteLayout.V4, now=NOW)
    worse = reaching("Revoked", "INTEL-SA-99901")(bench).platform
    path = build(files / "period", Story().tell())
    names = {"--html": "r.html", "--sarif": "r.sarif", "--junit": "r.xml"}
    options = [part for option, name in names.items() for part in (option, str(files / name))]
    asked = [str(path), "--trust", str(files / "trust.json"), "--now"]
    held = CliRunner().invoke(verify, [*asked, "--json"])
    assert (held.exit_code, json.loads(held.output)["changed"]["quotes_counted"]["changed"]) == (40, 0)
    asked += ["--collateral", collateral_in(files, worse)]
    told = CliRunner().invoke(verify, [*asked, "--json", *options])
    document = json.loads(told.output)
    assert (told.exit_code, document["changed"]["then"]["exit_code"]) == (20, 40)
    assert {each["after"]["refused"] for each in document["changed"]["quotes"]} == {"tcb.revoked"}
    shown = " ".join(CliRunner().invoke(verify, asked).output.split())
    assert "2 judged then and now, 2 are worth something else now" in shown
    assert "What changed since its own time" in (files / "r.html").read_text()
    assert "tcb.revoked" in (files / "r.sarif").read_text()
    assert "tcb.revoked" in (files / "r.xml").read_text()


def test_collateral_without_now_is_a_usage_error(files: Path) -> None:
    result = run(files, "--collateral", str(files))
    assert result.exit_code == 2
    assert "--now" in result.output


def test_off_is_what_the_trust_file_switched_off_asked_or_not(files: Path) -> None:
    document = json.loads(run(files, "--json").output)
    assert document["requirements_off"] == [] and "body.request" in document["not_asked"]
    assert "requirements off none" in run(files).output
    trust = json.loads((files / "trust.json").read_bytes())
    wanted = [row["code"] for row in document["checks"] if row["code"] not in ("time.tsa", "chain.end")]
    (files / "trust.json").write_text(json.dumps({**trust, "require": wanted}))
    assert json.loads(run(files, "--json").output)["requirements_off"] == ["chain.end", "time.tsa"]
    assert "requirements off chain.end, time.tsa" in run(files).output


def test_a_bundle_with_its_openings_still_sealed_is_named(files: Path) -> None:
    sealed = {"bundle": json.loads((files / "session.affiant.json").read_bytes()), "openings": []}
    (files / "sealed.json").write_text(json.dumps(sealed))
    result = run(files, bundle="sealed.json")
    assert result.exit_code == 20
    assert "affiant gateway bundle SESSION --openings KEYFILE" in " ".join(result.output.split())


# -- outcome, platform, what is demanded ---------------------------------------------------------------------------


def test_a_bundle_without_its_evidence_is_no_genuine_one(files: Path) -> None:
    bundle = Story().bundle()
    (files / "bare.json").write_bytes(replace(bundle, evidence={}).to_bytes())
    genuine, bare = run(files), run(files, bundle="bare.json")
    assert (genuine.exit_code, bare.exit_code) == (40, 30)
    assert "outcome          HOLDS IN PART" in genuine.output
    assert "outcome          CANNOT BE JUDGED" in bare.output
    assert "platform         SIMULATED" in bare.output


@pytest.mark.parametrize("option", ["--json", "--html", "--sarif", "--junit"])
def test_outcome_and_platform_are_in_every_report(files: Path, option: str) -> None:
    more = [option] if option == "--json" else [option, str(files / "report")]
    output = run(files, *more).output
    text = output if option == "--json" else (files / "report").read_text()
    assert "holds in part" in text and "simulated" in text.lower()
    if option == "--json":
        document = json.loads(text)
        assert (document["outcome"], document["platform_class"]) == ("holds in part", "simulated")
    if option == "--sarif":
        found = json.loads(text)["runs"][0]["properties"]
        assert (found["outcome"], found["platform_class"]) == ("holds in part", "simulated")
    if option == "--junit":
        facts = {each.get("name"): each.get("value") for each in ET.fromstring(text).iter("property")}
        assert facts == {"outcome": "holds in part", "platform_class": "simulated"}


@pytest.mark.parametrize("period", [False, True])
def test_a_session_that_the_bundle_does_not_have_is_a_usage_error(files: Path, *, period: bool) -> None:
    story = Story().tell()
    (files / "one.json").write_bytes(story.bytes())
    bundle = str(build(files / "period", story)) if period else "one.json"
    assert run(files, "--session", story.session, bundle=bundle).exit_code == 40
    found = run(files, "--session", "A" * 22, bundle=bundle)
    assert found.exit_code == 2
    assert "no record of this session" in " ".join(found.output.split())


def test_a_session_without_its_keyset_cannot_be_judged_alone(files: Path) -> None:
    story = Story().tell()
    keyset = sha256_name(story.session_statement.raw)
    bundle = story.bundle()
    own = {each.jws for each in story.session_records}
    receipts = tuple(text for text in bundle.receipts if text.partition("~")[0] not in own)
    keysets = {name: raw for name, raw in bundle.keysets.items() if name != keyset}
    (files / "left.json").write_bytes(replace(bundle, receipts=receipts, keysets=keysets).to_bytes())
    for more in ((), ("--session", story.session)):
        assert run(files, *more, bundle="left.json").exit_code == 30


def cut(story: Story) -> bytes:
    """Both chains without their tails: neither close nor end, nor the refusal before them."""
    left = {each.jws for each in (*story.gateway_records[:3], *story.session_records[:2])}
    bundle = story.bundle()
    receipts = tuple(text for text in bundle.receipts if text.partition("~")[0] in left)
    return replace(bundle, receipts=receipts).to_bytes()


def test_a_session_whose_tails_are_cut_is_open_and_the_verdict_says_so_first(files: Path) -> None:
    (files / "cut.json").write_bytes(cut(Story().tell()))
    result = run(files, "--html", str(files / "report.html"), bundle="cut.json")
    assert result.exit_code == 40
    lines = result.output.splitlines()
    (sessions,) = [line for line in lines if line.startswith("sessions")]
    assert "1 of 1 open" in sessions
    (l1,) = [line for line in lines if line.startswith("L1")]
    assert l1.startswith("L1  open") and "without gap" not in l1
    page = (files / "report.html").read_text()
    unproven = page[page.index("What is not proven") : page.index("Who is in it")]
    assert "1 of 1 open" in unproven


@pytest.mark.parametrize(
    ("require", "whole", "open_one"),
    [("L2,complete", 40, 30), ("L2", 40, 40), ("complete", 40, 30), ("L3", 30, 30), ("L3,complete", 30, 30)],
)
def test_below_what_is_required_it_exits_with_30(
    files: Path, require: str, whole: int, open_one: int
) -> None:
    story = Story().tell()
    (files / "whole.json").write_bytes(story.bytes())
    (files / "cut.json").write_bytes(cut(story))
    assert run(files, "--require", require, bundle="whole.json").exit_code == whole
    found = run(files, "--require", require, bundle="cut.json")
    assert found.exit_code == open_one
    assert ("NOT REACHED" in found.output) == (open_one == 30)


def test_of_several_bundles_each_must_reach_what_is_required(files: Path) -> None:
    story = Story().tell()
    (files / "session.affiant.json").write_bytes(story.bytes())
    (files / "one.affiant.json").write_bytes(cut(story))
    found = run_all(files, str(files), "--require", "complete", "--json")
    assert found.exit_code == 30
    document = json.loads(found.output)
    assert (document["outcome"], document["platform_class"]) == ("holds in part", "simulated")
    unmet = {Path(each["file"]).name: each["demand"]["unmet"] for each in document["verdicts"]}
    assert unmet == {"one.affiant.json": ["complete"], "session.affiant.json": []}
    assert run_all(files, str(files)).exit_code == 40
    assert "NOT REACHED" in run_all(files, str(files), "--require", "complete").output


def test_what_is_refused_is_refused_whatever_is_required(files: Path) -> None:
    data = (files / "session.affiant.json").read_bytes()
    (files / "bad.json").write_bytes(data[:-20])
    assert run(files, "--require", "L3,complete", bundle="bad.json").exit_code == 20


def test_a_trust_file_can_ask_for_complete_sessions(files: Path) -> None:
    (files / "cut.json").write_bytes(cut(Story().tell()))
    (files / "trust.json").write_bytes(trust_bytes(sessions="complete"))
    assert run(files).exit_code == 40
    found = run(files, "--json", bundle="cut.json")
    assert found.exit_code == 30
    assert json.loads(found.output)["demand"] == {"level": None, "complete": True, "unmet": ["complete"]}
    (files / "trust.json").write_bytes(trust_bytes(sessions="open"))
    assert run(files).exit_code == 2


@pytest.mark.parametrize("text", ["L9", "L3;complete", ""])
def test_another_requirement_is_a_usage_error(files: Path, text: str) -> None:
    assert run(files, "--require", text).exit_code == 2
