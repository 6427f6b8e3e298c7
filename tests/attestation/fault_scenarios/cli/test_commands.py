"""``affiant platform evidence`` and the command line that it prints."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.attestation.fault_scenarios.conftest import SEED, run

from fault_scenarios.cli.catalogue import CATALOGUE
from fault_scenarios.scenario import Accepted

TIME = "2026-05-04T12:00:00Z"
FIXED = ("--at", TIME, "--seed", SEED.hex())

SHOWN = (
    "up-to-date",
    "everything-asked",
    "out-of-date",
    "pck-revoked",
    "tcb-info-edited",
    "quote-cut-in-body",
    "td-debug",
    "policy-grace-over",
    "policy-holds",
    "other-report-data",
    "log-lacks-the-last-event",
    "reference-of-another-root",
)


@pytest.mark.usefixtures("manifest")
@pytest.mark.parametrize("name", SHOWN)
def test_the_printed_command_gives_the_outcome_that_was_said(name: str, tmp_path: Path) -> None:
    made = run("platform", "evidence", "--output", tmp_path / "e", "--scenario", name, *FIXED, "--json")
    assert made.exit_code == 0, made.output
    affiant, *arguments = shlex.split(json.loads(made.stdout)["command"])
    verdict = run(*arguments, "--json")
    shown, expected = json.loads(verdict.stdout), CATALOGUE[name].expected
    assert affiant == "affiant"
    if isinstance(expected, Accepted):
        assert (verdict.exit_code, shown["refused"]) == (40, None)
        assert shown["verification"]["statuses"]["merged"] == expected.status
    else:
        assert verdict.exit_code == 20
        assert (shown["refused"]["code"], shown["refused"]["stage"]) == (expected.code, expected.stage)
    assert run("quote", "conformance", tmp_path / "e").exit_code == 0


def test_a_process_of_its_own_gives_the_same(tmp_path: Path) -> None:
    program = (sys.executable, "-m", "affiant")
    words = (*program, "platform", "evidence", "--output", "e", "--scenario", "pck-revoked", *FIXED)
    made = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
    assert made.stdout.startswith("SIMULATED evidence in e\n")
    command = shlex.split(made.stdout.splitlines()[-1])
    judged = subprocess.run(
        (*program, *command[1:]), cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60
    )
    assert judged.returncode == 20
    assert "[cert.revoked]" in judged.stdout
    again = run("platform", "evidence", "--output", tmp_path / "again", "--scenario", "pck-revoked", *FIXED)
    assert again.exit_code == 0
    for file in (tmp_path / "again").iterdir():
        if file.name != "SIMULATED.txt":  # which names the folder
            assert file.read_bytes() == (tmp_path / "e" / file.name).read_bytes()


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    refused = run("platform", "evidence", "--output", tmp_path)
    assert refused.exit_code == 2
    assert "[scenario.folder]" in refused.output
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_without_a_seed_no_two_roots_are_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert run("platform", "evidence", "--output", tmp_path / name).exit_code == 0
    assert (tmp_path / "a" / "root.pem").read_bytes() != (tmp_path / "b" / "root.pem").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scenario", "no-such"), "[scenario.unknown]"),
        (("--scenario", "sgx-body", "--layout", "v4"), "expected v5 or v5-td15"),
        (("--all", "--scenario", "up-to-date"), "give one of them"),
        (("--seed", "00"), "32 bytes"),
        (("--seed", "G" * 64), "32 bytes"),
        (("--at", "yesterday"), "not a timestamp"),
        (("--at", "1950-01-01T00:00:00Z"), "the years 2000 to 2099"),
        (("--at", "99999999999"), "the years 2000 to 2099"),
        (("--layout", "v3"), "v3"),
    ],
)
def test_a_wrong_command_line_writes_nothing(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    refused = run("platform", "evidence", "--output", tmp_path / "e", *arguments)
    assert refused.exit_code == 2
    assert said in refused.output
    assert not (tmp_path / "e").exists()


def test_the_list_names_every_scenario_with_its_outcome() -> None:
    text = run("platform", "scenarios").stdout
    assert all(f"  {name} " in text for name in CATALOGUE)
    assert "refused, cert.revoked (verification)" in text
    listed = json.loads(run("platform", "scenarios", "--json").stdout)
    assert listed["simulated"] is True
    assert [one["name"] for one in listed["scenarios"]] == list(CATALOGUE)


@pytest.mark.parametrize("command", ["evidence", "scenarios"])
def test_help_gives_an_example(command: str) -> None:
    assert f"affiant platform {command}" in run("platform", command, "--help").stdout
