"""``docs/trust-file.md`` is true: its example works from nothing, and each member does what its table says."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.docs.console import ROOT, Command, commands, fresh_copy, play

from affiant.__main__ import cli
from affiant.attestation.verdict.trust_file import TrustFile, TrustFileMalformed, parse_trust_file

PAGE = (ROOT / "docs" / "trust-file.md").read_text()
VECTORS = ROOT / "attestation" / "vectors" / "receipts"
ROWS = dict(re.findall(r"^\| `([a-z_]+)` \| .* \| ([^|]*) \|$", PAGE, re.MULTILINE))
"""Member -> what the page says of a file without it."""


def trust() -> dict[str, Any]:
    return dict(json.loads((VECTORS / "trust-witnesses.json").read_text()))


def rows_under(document: dict[str, Any], folder: Path) -> tuple[str, dict[str, tuple[str, str | None]]]:
    """The level of a witnessed bundle, and each check's state and tier."""
    path = folder / "trust.json"
    path.write_text(json.dumps(document))
    bundle = VECTORS / "valid" / "witnessed.affiant.json"
    arguments = ["verify", str(bundle), "--trust", str(path), "--at", "2026-11-21T12:30:00Z", "--json"]
    verdict = json.loads(CliRunner().invoke(cli, arguments).stdout)
    return verdict["level"], {row["code"]: (row["state"], row["tier"]) for row in verdict["checks"]}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_example_works_from_nothing(tmp_path: Path) -> None:
    steps = commands(PAGE)
    codes = [step.code for step in steps if step.text.startswith("affiant verify") and "|" not in step.text]
    assert codes == [40, 20, 20]
    path = Command('export PATH="$PWD/.venv/bin:$PATH"', 0, ())
    play([path, *steps], fresh_copy(tmp_path / "clone"), home=tmp_path / "home")


def test_the_table_has_every_member_that_is_read() -> None:
    assert {field.name for field in fields(TrustFile)} - {"raw"} == set(ROWS)


@pytest.mark.parametrize("member", ["tee_roots", "reference_values"])
def test_a_file_without_what_is_required_is_rejected(member: str) -> None:
    assert ROWS[member] == "the file is rejected"
    document = {name: value for name, value in trust().items() if name != member}
    with pytest.raises(TrustFileMalformed):
        parse_trust_file(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("member", "check"),
    [
        ("gateway_configs", "conf.accepted"),
        ("profiles", "pol.accepted"),
        ("log", "log.inclusion"),
        ("rootfs", "rfs.accepted"),
    ],
)
def test_what_is_not_pinned_is_a_warning(member: str, check: str, tmp_path: Path) -> None:
    assert ROWS[member] == f"`{check}` is a warning"
    document = {name: value for name, value in trust().items() if name != member}
    assert rows_under(document, tmp_path)[1][check] == ("held", "warning")


def test_without_witnesses_the_level_is_l2_at_most(tmp_path: Path) -> None:
    assert ROWS["witnesses"] == "`wit.quorum` and `time.bracket` are not made; the level is L2 at most"
    assert rows_under(trust(), tmp_path)[0] == "L4"
    level, rows = rows_under(
        {name: value for name, value in trust().items() if name != "witnesses"}, tmp_path
    )
    assert level == "L2"
    assert {rows["wit.quorum"][0], rows["time.bracket"][0]} == {"not made"}


@pytest.mark.parametrize(("member", "check"), [("tsa_roots", "time.tsa"), ("sigstore_root", "time.sigstore")])
def test_an_anchor_of_nobody_is_not_asked(member: str, check: str, tmp_path: Path) -> None:
    assert ROWS[member] == f"`{check}` is not asked"
    assert rows_under(trust(), tmp_path)[1][check] == ("not asked", None)


@pytest.mark.parametrize(
    "change", [{"log": []}, {"require": []}, {"approvers": [{"value": "x"}]}, {"others": 1}]
)
def test_empty_reserved_and_unknown_members_are_rejected(change: dict[str, Any]) -> None:
    with pytest.raises(TrustFileMalformed):
        parse_trust_file(json.dumps(trust() | change).encode())


def test_a_list_accepts_what_any_entry_accepts_while_that_counts(tmp_path: Path) -> None:
    document = trust()
    (entry,) = document["profiles"]
    document["profiles"] = [{"value": "sha384:" + 96 * "0"}, entry]
    assert rows_under(document, tmp_path)[1]["pol.accepted"] == ("held", "affirming")
    for ended in ("until", "revoked_at"):
        document["profiles"] = [entry | {ended: "2026-11-21T12:30:00Z"}]
        assert rows_under(document, tmp_path)[1]["pol.accepted"] == ("refused", "contraindicated")


def test_require_switches_off_and_a_refused_check_stays_refused(tmp_path: Path) -> None:
    document = trust() | {"profiles": [{"value": "sha384:" + 96 * "0"}], "require": ["sig.receipts"]}
    assert rows_under(document, tmp_path)[1]["pol.accepted"] == ("refused", "contraindicated")
