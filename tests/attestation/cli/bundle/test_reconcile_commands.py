"""``affiant reconcile`` as an auditor runs it, over published bundles: exit codes, states, hostile records."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attestation.audit.reconcile.conftest_reconcile import AT, VECTORS, bundle_path, states
from tests.attestation.period_builder import build
from tests.attestation.story import Story, trust_bytes
from tests.attestation.vector_bundles import vector_bundle

from affiant.__main__ import cli
from affiant.attestation.cli.bundle.reconcile_commands import reconcile
from affiant.attestation.encoding.binary_text import sha256_name

RECEIPT = "s9BTqm7ws_WQD7-IwHI9hg"
CALL = {
    "time": "2026-11-21T12:00:06Z",
    "duration_ms": 900,
    "host": "echo.invalid",
    "method": "POST",
    "path": "/v1/chat/completions",
    "status": 200,
    "request_bytes": 75,
    "response_bytes": 86,
}
EGRESS = {
    "time": "2026-11-21T12:00:10Z",
    "host": "api.invalid",
    "method": "POST",
    "path": "/v1/items",
    "status": 201,
}


def test_every_request_with_a_receipt_of_its_own_exits_with_0(reconciled) -> None:
    result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson")
    document = json.loads(result.output)
    assert (result.exit_code, document["exit_code"]) == (0, 0)
    assert document["matched_by"] == {"lengths": 1}
    assert document["receipts"] == {
        "compared": 1,
        "explained": 1,
        "contested": 0,
        "unexplained": 0,
        "undisclosed": {},
    }


def test_a_sessions_own_request_is_followed_to_its_egress_record(reconciled) -> None:
    result = reconciled("proxy-log", [EGRESS], "--proxy-format", "ndjson", bundles=["actions"])
    assert (result.exit_code, states(result)) == (0, {"matched": 1})


def test_a_request_that_no_receipt_knows_exits_with_20_and_is_named(reconciled) -> None:
    quiet = CALL | {"time": "2026-11-21T12:10:00Z", "path": "/v1/files"}
    result = reconciled("proxy-log", [CALL, quiet], "--proxy-format", "ndjson", json_out=False)
    assert result.exit_code == 20
    assert "item    2026-11-21T12:10:00Z POST echo.invalid/v1/files" in result.output
    assert result.output.splitlines()[-1] == "MISSING  at least 1 items have no receipt"


def test_the_same_line_twice_exits_with_20(reconciled) -> None:
    result = reconciled("proxy-log", [CALL, CALL], "--proxy-format", "ndjson")
    assert (result.exit_code, states(result)) == (20, {"ambiguous": 2})
    assert json.loads(result.output)["without_receipt_at_least"] == 1


def test_two_alike_requests_with_two_receipts_exit_with_10(reconciled) -> None:
    alike = {name: value for name, value in CALL.items() if "bytes" not in name}
    result = reconciled("proxy-log", [alike, alike], "--proxy-format", "ndjson", bundles=["two-sessions"])
    assert (result.exit_code, states(result)) == (10, {"ambiguous": 2})


def test_an_empty_record_proves_nothing(reconciled) -> None:
    result = reconciled("proxy-log", [], "--proxy-format", "ndjson", json_out=False)
    assert result.exit_code == 10
    assert "NOTHING" in result.output
    outside = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", "--to", "2026-11-21T11:00:00Z")
    assert (outside.exit_code, states(outside)) == (10, {"out of range": 1})


def test_range_and_hosts_are_the_auditors(reconciled) -> None:
    other = CALL | {"host": "updates.example"}
    arguments = ["--proxy-format", "ndjson", "--host", "echo.invalid", "--from", "2026-11-21T12:00:00Z"]
    result = reconciled("proxy-log", [CALL, other, CALL | {"time": "2026-11-20T12:00:00Z"}], *arguments)
    assert (result.exit_code, states(result)) == (0, {"matched": 1, "out of range": 2})


def test_receipts_that_no_item_explains_are_listed(reconciled) -> None:
    result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", bundles=["two-sessions"])
    document = json.loads(result.output)
    assert result.exit_code == 0
    assert [each["receipt"] for each in document["unexplained"]] == ["wKTortN-8K2TN_BZUwO15w"]


def test_one_record_in_two_bundles_is_one_receipt(reconciled) -> None:
    result = reconciled(
        "proxy-log", [CALL, CALL], "--proxy-format", "ndjson", bundles=["inference", "inference"]
    )
    assert result.exit_code == 20


# -- bundles ---------------------------------------------------------------------------------------------------


def test_the_verdict_stands_first(reconciled) -> None:
    lines = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", json_out=False).output.splitlines()
    assert lines[0] == "bundles" and lines[1].split()[0] == "bundle" and "sha256:" in lines[1]
    shown = {tuple(line.split()) for line in lines[:14]}
    assert {
        ("outcome", "holds", "in", "part"),
        ("tier", "none"),
        ("level", "L2"),
        ("simulated", "yes"),
    } <= shown


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A bundle of which one receipt is altered."""
    document = json.loads(bundle_path("two-sessions").read_bytes())
    at = next(n for n, each in enumerate(document["receipts"]) if "eyJhbGciOiJFUzI1NiIs" in each["sdjwt"])
    text = document["receipts"][at]["sdjwt"]
    position = text.index(".") + 40
    document["receipts"][at]["sdjwt"] = (
        text[:position] + ("A" if text[position] != "A" else "B") + text[position + 1 :]
    )
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_a_bundle_that_does_not_hold_is_refused(reconciled, broken: str) -> None:
    result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", bundles=[broken])
    assert result.exit_code == 1
    assert "[reconcile.unverified]" in result.output
    assert "sig.receipts" in result.output


def test_a_bundle_without_its_evidence_is_refused_as_well(reconciled, tmp_path: Path) -> None:
    bare = tmp_path / "bare.json"
    bare.write_text(json.dumps(json.loads(bundle_path("two-sessions").read_bytes()) | {"evidence": {}}))
    result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", bundles=[str(bare)])
    assert (result.exit_code, "[reconcile.unverified]" in result.output) == (1, True)


def test_unverified_goes_on_says_so_and_leaves_out_what_is_not_authentic(reconciled, broken: str) -> None:
    result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", "--unverified", bundles=[broken])
    (bundle,) = json.loads(result.output)["bundles"]
    assert (bundle["unverified"], bundle["left_out"]) == (True, 1)
    text = reconciled(
        "proxy-log", [CALL], "--proxy-format", "ndjson", "--unverified", bundles=[broken], json_out=False
    ).output
    assert {("unverified", "yes"), ("left", "out", "1")} <= {
        tuple(line.split()) for line in text.splitlines()
    }


def test_what_is_no_bundle_is_refused_whatever_was_asked(reconciled, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")
    result = reconciled(
        "proxy-log", [CALL], "--proxy-format", "ndjson", "--unverified", bundles=[str(tmp_path / "no.json")]
    )
    assert result.exit_code == 1


def test_a_period_is_followed_as_a_bundle_is(tmp_path: Path) -> None:
    path = build(tmp_path, Story().tell())
    (tmp_path / "trust.json").write_bytes(trust_bytes())
    (tmp_path / "access").write_text(
        json.dumps({"time": "2026-11-21T12:00:05Z", "host": "affiant-dev-echo.internal", "method": "POST"})
        + "\n"
    )
    result = CliRunner().invoke(
        reconcile,
        [
            *("--bundle", str(path), "--trust", str(tmp_path / "trust.json"), "--at", AT, "--json"),
            *("--proxy-log", str(tmp_path / "access"), "--proxy-format", "ndjson"),
        ],
    )
    assert (result.exit_code, states(result)) == (0, {"matched": 1})
    (bundle,) = json.loads(result.output)["bundles"]
    assert bundle["bundle"] == sha256_name(path.read_bytes())


# -- the other records -----------------------------------------------------------------------------------------


def span(**attributes: object) -> dict:
    kinds = {str: "stringValue", int: "intValue"}
    return {
        "traceId": "3" * 32,
        "spanId": "4" * 16,
        "startTimeUnixNano": "1795262405000000000",
        "endTimeUnixNano": "1795262406500000000",
        "attributes": [
            {"key": name.replace("__", "."), "value": {kinds[type(value)]: value}}
            for name, value in attributes.items()
        ],
    }


def spans(*each: dict) -> dict:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(each)}]}]}


ASKED = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "echo"}


def test_spans_are_followed_by_receipt_id_by_tokens_and_by_trace(reconciled, tmp_path: Path) -> None:
    by_id = spans(span(**ASKED, **{"http__response__header__affiant-receipt-id": RECEIPT}))
    by_tokens = spans(span(**ASKED, gen_ai__usage__input_tokens=7, gen_ai__usage__output_tokens=3))
    other = spans(span(**ASKED, gen_ai__usage__input_tokens=8))
    found = reconciled("spans", [by_id, spans(span(gen_ai__operation__name="execute_tool"))])
    assert (found.exit_code, json.loads(found.output)["matched_by"]) == (0, {"receipt id": 1})
    assert json.loads(found.output)["other_work"] == 1
    assert json.loads(reconciled("spans", [by_tokens]).output)["matched_by"] == {"lengths": 1}
    assert reconciled("spans", [other]).exit_code == 20
    mine = spans(span(**ASKED) | {"traceId": "1" * 32, "spanId": "0123456789abcdef"})
    (tmp_path / "traced.json").write_bytes(vector_bundle("valid/optional-members"))
    traced = reconciled("spans", [mine], bundles=[str(tmp_path / "traced.json")])
    assert json.loads(traced.output)["matched_by"] == {"trace": 1}


def test_a_span_of_a_refused_request_is_explained_by_the_refusal_that_it_names(reconciled) -> None:
    refused = span(**ASKED, affiant__receipt__id="ipzQ-TD2RqQ9ELFZexmzRA", http__response__status_code=403)
    result = reconciled("spans", [spans(refused)], bundles=["actions"])
    assert (result.exit_code, json.loads(result.output)["matched_by"]) == (0, {"receipt id": 1})
    answered = span(**ASKED, affiant__receipt__id="ipzQ-TD2RqQ9ELFZexmzRA", http__response__status_code=200)
    assert reconciled("spans", [spans(answered)], bundles=["actions"]).exit_code == 20


COLUMNS = ["--column", "time=When", "--column", "model=Model"]
TOKENS = ["--column", "input=In", "--column", "output=Out"]


def test_a_bill_by_request_is_followed(reconciled) -> None:
    lines = ["When,Model,In,Out", "2026-11-21T12:00:05Z,echo-2026,7,3", "2026-11-21T12:20:00Z,echo-2026,9,9"]
    result = reconciled("bill", lines, *COLUMNS, *TOKENS, "--model-name", "echo-2026=echo")
    assert (result.exit_code, states(result)) == (20, {"matched": 1, "missing": 1})


def test_a_bill_by_day_is_held_against_counts_and_sums(reconciled) -> None:
    day = ["--bucket", "day", "--bill-time", "date", "--column", "requests=N", *COLUMNS, *TOKENS]
    header = "When,Model,N,In,Out"
    right = reconciled("bill", [header, "2026-11-21,echo,2,14,6"], *day, bundles=["two-sessions"])
    assert (right.exit_code, json.loads(right.output)["matched_by"]) == (0, {"bucket": 1})
    more = reconciled(
        "bill", [header, "2026-11-21,echo,3,21,9"], *day, bundles=["two-sessions"], json_out=False
    )
    assert more.exit_code == 20
    assert "requests: billed 3, receipts 2" in more.output


# -- hostile records -------------------------------------------------------------------------------------------

HOSTILE = [
    json.dumps(CALL),
    "x" * 200_000,
    "\0" + json.dumps(CALL),
    json.dumps(CALL | {"path": "/\u202egnp.exe"}, ensure_ascii=False),
    json.dumps(CALL | {"path": "/\x1b[2J", "request_id": "=HYPERLINK(1)"}),
    json.dumps(CALL | {"time": "yesterday"}),
    "\u2028",
]


def test_nothing_of_a_hostile_record_is_lost_or_reaches_the_terminal(reconciled) -> None:
    result = reconciled("proxy-log", HOSTILE, "--proxy-format", "ndjson", json_out=False)
    assert result.exit_code == 20
    assert not set(result.output) & {"\x1b", "\u202e", "\0", "\u2028"}
    document = json.loads(reconciled("proxy-log", HOSTILE, "--proxy-format", "ndjson").output)
    assert sum(document["items"].values()) == len(HOSTILE)
    assert document["items"]["unreadable"] == 4
    assert [each["line"] for each in document["shown"]["unreadable"]] == [2, 3, 6, 7]


def test_bytes_that_are_no_text_are_unreadable(reconciled, tmp_path: Path) -> None:
    record = tmp_path / "raw"
    record.write_bytes(b"\xff\xfe\r\n" + json.dumps(CALL).encode() + b"\r\n\n" + b"y" * 70_000)
    arguments = [
        "--bundle",
        str(bundle_path("inference")),
        "--trust",
        str(VECTORS / "trust.json"),
        "--at",
        AT,
    ]
    result = CliRunner().invoke(
        reconcile, [*arguments, "--proxy-log", str(record), "--proxy-format", "ndjson", "--json"]
    )
    assert states(result) == {"matched": 1, "unreadable": 2}


def test_the_csv_has_every_line_and_runs_no_formula(reconciled, tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("old")
    result = reconciled(
        "proxy-log", HOSTILE, "--proxy-format", "ndjson", "--csv", str(path), bundles=["two-sessions"]
    )
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert result.exit_code == 20
    assert [row["line"] for row in rows] == ["1", "2", "3", "4", "5", "6", "7", ""]
    assert rows[-1]["state"] == "receipt without item"
    assert rows[4]["reference"] == "'=HYPERLINK(1)"
    for row in rows:
        assert not [value for value in row.values() if value[:1] in ("=", "+", "-", "@", "\t", "\r")]
    assert not list(tmp_path.glob(".items*"))


def test_a_device_is_not_replaced_by_a_csv(reconciled, tmp_path: Path) -> None:
    (tmp_path / "pipe").symlink_to("/dev/null")
    result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", "--csv", str(tmp_path / "pipe"))
    assert result.exit_code == 2 and "no regular file" in result.output
    assert (tmp_path / "pipe").is_symlink()


def test_no_input_is_written_over(reconciled, tmp_path: Path) -> None:
    for name in ("record", "link"):
        if name == "link":
            (tmp_path / name).symlink_to(tmp_path / "record")
        result = reconciled("proxy-log", [CALL], "--proxy-format", "ndjson", "--csv", str(tmp_path / name))
        assert result.exit_code == 2
        assert json.loads((tmp_path / "record").read_text()) == CALL


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--proxy-format", "guess"],
        ["--proxy-format", "ndjson", "--bucket", "day"],
        ["--proxy-format", "ndjson", "--from", "yesterday"],
        ["--proxy-format", "ndjson", "--from", "2026-11-21T12:00:00Z", "--to", "2026-11-21T12:00:00Z"],
        ["--proxy-format", "ndjson", "--host", "not a host"],
        ["--proxy-format", "ndjson", "--csv", "/nowhere/items.csv"],
        ["--proxy-format", "ndjson", "--spans", __file__],
    ],
)
def test_what_cannot_be_meant_exits_with_2(reconciled, more: list[str]) -> None:
    assert reconciled("proxy-log", [CALL], *more).exit_code == 2


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--column", "time=When"],
        [*COLUMNS, "--column", "time=Again"],
        [*COLUMNS, "--column", "price=Price"],
        [*COLUMNS, "--column", "requests=N"],
        [*COLUMNS, "--bill-time", "date"],
        ["--column", "time=When", "--column", "model=Nowhere"],
        [*COLUMNS, "--log-host", "a.example"],
    ],
)
def test_a_bill_without_its_columns_exits_with_2(reconciled, more: list[str]) -> None:
    assert reconciled("bill", ["When,Model,N"], *more).exit_code == 2


def test_it_is_a_command_of_affiant_and_its_help_names_the_exit_codes() -> None:
    result = CliRunner().invoke(cli, ["reconcile", "--help"])
    assert "20 some have no receipt" in " ".join(result.output.split())
