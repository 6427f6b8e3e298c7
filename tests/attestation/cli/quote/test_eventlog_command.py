"""``affiant quote eventlog``, and ``quote verify --event-log``, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.attestation.tdx.conftest import NOW, log_of, quote_of
from tests.attestation.tdx.logs import array, ccel, event, runtime

from affiant.__main__ import cli
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.event_log.eventlog import EventLog


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["quote", *map(str, arguments)])


@pytest.fixture
def files(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    (tmp_path / "quote.bin").write_bytes(quote_of(platform))
    (tmp_path / "log.json").write_bytes(log_of().to_bytes())
    (tmp_path / "cut.json").write_bytes(EventLog(log_of().entries[:-1]).to_bytes())
    (tmp_path / "collateral.json").write_bytes(platform.collateral(NOW).to_bytes())
    (tmp_path / "root.der").write_bytes(platform.root_spki())
    return tmp_path


def test_a_log_that_replays_exits_with_0(files: Path) -> None:
    result = run("eventlog", files / "log.json", "--quote", files / "quote.bin")
    assert result.exit_code == 0, result.output
    assert result.output.count("as in the quote") == 4
    assert "verified" in result.output.splitlines()[0], "that it is a claim until then"
    document = json.loads(
        run("eventlog", files / "log.json", "--quote", files / "quote.bin", "--json").output
    )
    assert document["matches_quote"] == [True] * 4
    assert document["verified"] is False


def test_a_log_that_does_not_exits_with_1_and_says_where(files: Path) -> None:
    result = run("eventlog", files / "cut.json", "--quote", files / "quote.bin")
    assert result.exit_code == 1
    assert "NOT AS IN THE QUOTE" in result.stdout
    assert "[eventlog.replay]" in result.stderr
    document = json.loads(
        run("eventlog", files / "cut.json", "--quote", files / "quote.bin", "--json").stdout
    )
    assert document["refused"]["code"] == "eventlog.replay"
    assert document["matches_quote"] == [True, True, True, False]
    assert run("eventlog", files / "cut.json").exit_code == 0, (
        "without a quote there is nothing to differ from"
    )


def test_what_is_no_log_is_refused(files: Path) -> None:
    result = run("eventlog", files / "quote.bin")
    assert result.exit_code == 1
    assert "[eventlog.malformed]" in result.stderr
    document = json.loads(run("eventlog", files / "quote.bin", "--json").stdout)
    assert document["refused"]["code"] == "eventlog.malformed"


def test_the_application_s_part_of_a_dstack_log_is_marked(tmp_path: Path) -> None:
    log = array(runtime("app-id", b"\1"), runtime("system-ready"), runtime("mine", b"hello"))
    (tmp_path / "log.json").write_bytes(log)
    lines = run("eventlog", tmp_path / "log.json").output.splitlines()
    mark = next(index for index, line in enumerate(lines) if "application's word" in line)
    assert "mine = 'hello'" in lines[mark + 1]
    assert "app-id = 01" in lines[mark - 2]


def test_hostile_contents_stay_on_their_line(tmp_path: Path) -> None:
    evil = "x\x1b[2J\nRTMR0 as in the quote\u202e"
    (tmp_path / "log.json").write_bytes(array(runtime(evil, b"\x1b[0m")))
    (tmp_path / "ccel.bin").write_bytes(ccel(event(1, 0x80000007, evil.encode())))
    for name in ("log.json", "ccel.bin"):
        output = run("eventlog", tmp_path / name).output
        assert "\x1b" not in output
        assert "\u202e" not in output
        assert not [line for line in output.splitlines() if line.startswith("RTMR0 as")]


def verify(files: Path, log: str) -> Result:
    arguments = ["--collateral", files / "collateral.json", "--root", files / "root.der"]
    at = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
    return run("verify", files / "quote.bin", *arguments, "--at", at, "--event-log", files / log, "--json")


def test_verify_appraises_a_log(files: Path) -> None:
    result = verify(files, "log.json")
    assert result.exit_code == 40
    document = json.loads(result.output)
    rows = [row for row in document["checks_made"] if row["point"] == 44]
    assert "replays to RTMR0, RTMR1, RTMR2, RTMR3" in rows[0]["detail"]
    assert document["inputs"]["event_log"].startswith("sha256:")


@pytest.mark.parametrize(
    ("log", "code"), [("cut.json", "eventlog.replay"), ("quote.bin", "eventlog.malformed")]
)
def test_verify_refuses_a_log_that_does_not_replay(files: Path, log: str, code: str) -> None:
    result = verify(files, log)
    assert result.exit_code == 20
    assert json.loads(result.output)["refused"]["code"] == code


def test_a_genuine_quote_with_its_genuine_log(vectors: Any) -> None:
    root = vectors.root
    arguments = [root / "quotes/dstack_16cpu_v4.bin", "--at", "1772707803"]
    arguments += ["--collateral", root / "collateral/90c06f_2026-02-18.json"]
    result = run("verify", *arguments, "--event-log", root / "eventlog/dstack_16cpu.json")
    assert result.exit_code == 30
    assert "replays to RTMR0, RTMR1, RTMR2, RTMR3" in " ".join(result.output.split())
    result = run("verify", *arguments, "--event-log", root / "eventlog/dstack_16cpu.reordered.json")
    assert result.exit_code == 20


@pytest.mark.parametrize("name", ["dstack_16cpu", "nearai_gateway"])
def test_the_lite_form_of_a_genuine_log_replays_to_its_genuine_quote(
    vectors: Any, tmp_path: Path, name: str
) -> None:
    """As dstack's agent hands it out: boot events without payload, runtime events without digest."""
    log, quote = vectors.root / f"eventlog/{name}.json", vectors.root / f"quotes/{name}_v4.bin"
    lite = [
        {**entry, "digest": ""} if entry["imr"] == 3 else {**entry, "event_payload": ""}
        for entry in json.loads(log.read_text())
    ]
    (tmp_path / "lite.json").write_text(json.dumps(lite))
    result = run("eventlog", tmp_path / "lite.json", "--quote", quote)
    assert result.exit_code == 0, result.output
    lite[-1]["event_payload"] += "00"
    (tmp_path / "changed.json").write_text(json.dumps(lite))
    assert run("eventlog", tmp_path / "changed.json", "--quote", quote).exit_code != 0
