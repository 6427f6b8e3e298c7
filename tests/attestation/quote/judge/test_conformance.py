"""``affiant quote conformance``: a third party's folder is judged whole, and no disagreement is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.attestation.tdx.conftest import ABSENT, NOW, VECTORS, log_of, quote_of

from affiant.__main__ import cli
from affiant.attestation.quote.judge import conformance as conformance_module
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.event_log.eventlog import EventLog
from affiant.attestation.tdx.event_log.measured_log import measured

ACCEPTED = {"accepted": True, "status": "UpToDate", "advisory_ids": []}
REFUSED = {"accepted": False, "reason": "a hint"}


def run(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(cli, ["quote", "conformance", str(folder), *more])


def case(identifier: str, expected: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "id": identifier,
        "group": "simulated",
        "description": "",
        "quote": "quote.bin",
        "collateral": "collateral.json",
        "root": "root.der",
        "now": int(NOW.timestamp()),
        "expected": expected,
        "origin": "ignored",
        **changes,
    }


@pytest.fixture
def write(platform: SimulatedPlatform, tmp_path: Path) -> Callable[..., Path]:
    """A folder of one platform's files, with these cases."""
    own = platform.tcb_info.levels[0]
    old = replace(
        platform,
        tcb_info=replace(
            platform.tcb_info, levels=(replace(own, status="OutOfDate", advisories=("INTEL-SA-00001",)),)
        ),
    )
    revoked = replace(platform, revoked=frozenset({CertificateRole.PCK}))
    flipped = bytearray(quote_of(platform))
    flipped[600] ^= 1
    folder = tmp_path / "vectors"
    folder.mkdir()
    files = {
        "quote.bin": quote_of(platform),
        "flipped.hex": bytes(flipped).hex().encode(),
        "debug.bin": quote_of(platform, td={"td_attributes": (1 | 1 << 28).to_bytes(8, "little")}),
        "collateral.json": platform.collateral(NOW).to_bytes(),
        "old.json": old.collateral(NOW).to_bytes(),
        "revoked.json": revoked.collateral(NOW).to_bytes(),
        "root.der": platform.root_spki(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)

    def write_cases(*cases: dict[str, Any], **members: Any) -> Path:
        document = {"schema": 1, "cases": list(cases), "made": "here"} | members
        (folder / "expected.json").write_text(json.dumps(document))
        return folder

    return write_cases


def good() -> tuple[dict[str, Any], ...]:
    old = {"accepted": True, "status": "OutOfDate", "advisory_ids": ["INTEL-SA-00001"]}
    return (
        case("good", ACCEPTED),
        case("old", old, collateral="old.json"),
        case("revoked", REFUSED, collateral="revoked.json"),
        case("flipped", REFUSED, quote="flipped.hex"),
        case("debug", REFUSED, quote="debug.bin"),
        case("other root", REFUSED, root="intel"),
        case("either", {"accepted": None}, quote="debug.bin"),
    )


def test_a_folder_without_disagreement_exits_with_0(write: Callable[..., Path]) -> None:
    result = run(write(*good()))
    assert result.exit_code == 0, result.output
    assert "6 of 7 cases agree, 1 undecided, 0 disagree" in result.output


PLANTED = (
    case("wrong status", ACCEPTED | {"status": "OutOfDate"}),
    case(
        "missing advisory",
        {"accepted": True, "status": "OutOfDate", "advisory_ids": []},
        collateral="old.json",
    ),
    case("advisory too many", ACCEPTED | {"advisory_ids": ["INTEL-SA-9"]}),
    case("should be refused", REFUSED),
    case("should be accepted", ACCEPTED, quote="debug.bin"),
    case("no such file", REFUSED, quote="absent.bin"),
    case("escapes", REFUSED, quote="../../../../etc/passwd"),
    case("absolute", REFUSED, collateral="/etc/passwd"),
)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted["id"])
def test_each_planted_disagreement_is_found_alone(write: Callable[..., Path], planted: Any) -> None:
    result = run(write(*good(), planted))
    assert result.exit_code == 1
    document = json.loads(run(write(*good(), planted), "--json").output)
    assert [found["id"] for found in document["disagreements"]] == [planted["id"]]
    assert document["agrees"] is False
    assert planted["id"] in result.output


def test_all_planted_disagreements_are_found_together(write: Callable[..., Path]) -> None:
    document = json.loads(run(write(*PLANTED, *good()), "--json").output)
    assert [found["id"] for found in document["disagreements"]] == [planted["id"] for planted in PLANTED]
    assert document["counts"]["simulated"]["agrees"] == 6
    assert document["cases"] == len(PLANTED) + 7


def test_a_link_out_of_the_folder_is_not_read(write: Callable[..., Path], tmp_path: Path) -> None:
    folder = write(case("link", REFUSED, quote="link.bin"))
    (tmp_path / "outside").write_bytes(b"secret")
    os.symlink(tmp_path / "outside", folder / "link.bin")
    document = json.loads(run(folder, "--json").output)
    assert document["results"][0]["outcome"] == "not run"


def test_a_fault_of_the_verifier_is_a_disagreement_even_where_refusal_is_expected(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(_: bytes) -> object:
        raise IndexError

    monkeypatch.setattr(conformance_module, "parse_quote", faulty)
    result = run(write(case("fault", REFUSED)))
    assert result.exit_code == 1
    assert "FAULT: IndexError" in result.output


def test_hostile_texts_of_a_collection_are_shown_escaped(write: Callable[..., Path]) -> None:
    result = run(write(case("evil\x1b[2J\n7 of 7 cases agree", REFUSED, group="g\x1b\u202e")))
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert "\u202e" not in result.output
    assert "\n7 of 7 cases agree" not in result.output


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"schema": True},
        {"schema": None},
        {"cases": []},
        {"cases": {}},
        {"cases": [7]},
        {"cases": [case("a", ACCEPTED), case("a", ACCEPTED)]},
        {"cases": [case("a", {"accepted": "yes"})]},
        {"cases": [case("a", {})]},
        {"cases": [case("a", {"accepted": True, "advisory_ids": []})]},
        {"cases": [case("a", {"accepted": True, "status": "UpToDate"})]},
        {"cases": [case("a", ACCEPTED, now="1")]},
        {"cases": [case("a", ACCEPTED, now=-1)]},
        {"cases": [case("a", ACCEPTED, quote=7)]},
    ],
    ids=lambda change: str(change)[:60],
)
def test_another_schema_or_an_empty_one_is_no_agreement(write: Callable[..., Path], change: Any) -> None:
    assert run(write(**change)).exit_code == 2


def test_an_empty_absent_or_unreadable_folder_is_no_agreement(tmp_path: Path) -> None:
    assert run(tmp_path).exit_code == 2
    assert run(tmp_path / "absent").exit_code == 2
    (tmp_path / "expected.json").write_text("{")
    assert run(tmp_path).exit_code == 2
    (tmp_path / "expected.json").write_text('{"schema":1,"schema":1,"cases":[]}')
    assert run(tmp_path).exit_code == 2


def test_event_logs_are_replayed_and_planted_disagreements_found(write: Callable[..., Path]) -> None:
    folder = write(case("good", ACCEPTED))
    (folder / "log.json").write_bytes(log_of().to_bytes())
    (folder / "cut.json").write_bytes(EventLog(log_of().entries[:-1]).to_bytes())
    registers = {f"rtmr{n}": value.hex() for n, value in enumerate(measured(log_of()).replay())}
    good_logs = [
        {"file": "log.json", "quote": "quote.bin", "replay": registers},
        {"file": "log.json", "quote": None},
        {"file": "cut.json", "quote": "quote.bin", "expected_accept": False},
        {"file": "quote.bin", "expected_accept": False},
    ]
    assert run(write(case("good", ACCEPTED), eventlogs=good_logs)).exit_code == 0
    planted = [
        {"file": "log.json", "quote": "quote.bin", "expected_accept": False},
        {"file": "cut.json", "quote": "quote.bin"},
        {"file": "log.json", "replay": registers | {"rtmr3": "11" * 48}},
        {"file": "absent.json"},
    ]
    document = json.loads(run(write(case("good", ACCEPTED), eventlogs=good_logs + planted), "--json").output)
    assert len(document["disagreements"]) == 4
    for wrong in (
        {},
        [7],
        [{"file": 7}],
        [{"file": "a", "replay": {"rtmr4": ""}}],
        [{"file": "a", "replay": 7}],
    ):
        assert run(write(case("good", ACCEPTED), eventlogs=wrong)).exit_code == 2


def test_registers_that_match_the_quote_are_compared_one_by_one(write: Callable[..., Path]) -> None:
    folder = write(case("good", ACCEPTED))
    cut = EventLog(log_of().entries[:-1])
    (folder / "log.json").write_bytes(log_of().to_bytes())
    (folder / "cut.json").write_bytes(cut.to_bytes())
    same = [
        one == other for one, other in zip(measured(cut).replay(), measured(log_of()).replay(), strict=True)
    ]
    assert same == [True, True, True, False]
    as_it_is = [
        {"file": "log.json", "quote": "quote.bin", "matches_quote": [True] * 4},
        {"file": "cut.json", "quote": "quote.bin", "matches_quote": same},
    ]
    assert run(write(case("good", ACCEPTED), eventlogs=as_it_is)).exit_code == 0
    planted = [
        {"file": "log.json", "quote": "quote.bin", "matches_quote": same},
        {"file": "cut.json", "quote": "quote.bin", "matches_quote": [True] * 4},
        {"file": "cut.json", "quote": "quote.bin", "matches_quote": [False] * 4},
    ]
    document = json.loads(run(write(case("good", ACCEPTED), eventlogs=as_it_is + planted), "--json").output)
    assert [each["id"] for each in document["disagreements"]] == ["log.json", "cut.json", "cut.json"]
    for wrong in (
        {"quote": "quote.bin", "matches_quote": [True] * 3},
        {"quote": "quote.bin", "matches_quote": [1, 1, 1, 1]},
        {"quote": "quote.bin", "matches_quote": "all"},
        {"matches_quote": [True] * 4},
        {"quote": "quote.bin", "expected_accept": False, "matches_quote": [True] * 4},
    ):
        assert run(write(case("good", ACCEPTED), eventlogs=[{"file": "log.json", **wrong}])).exit_code == 2


def test_the_shared_collection_agrees_in_every_case() -> None:
    if not VECTORS.is_dir():
        pytest.skip(ABSENT)
    document = json.loads(run(VECTORS, "--json").output)
    assert document["disagreements"] == []
    assert document["cases"] >= 194 + 11
