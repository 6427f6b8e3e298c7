"""``affiant quote policy check``: what a reviewer should see, at its place, and nothing where there is nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.tdx.policy.test_policy_file import HARDWARE, SIMULATED

from affiant.__main__ import cli

AT = "2026-05-04T12:00:00Z"
TIGHT = SIMULATED.replace("machines: any", "machines: [{fmspc: 00806f050000}]").replace(
    "pck_flags: any", "pck_flags: {smt: any, cached_keys: any, dynamic_platform: true}"
)


def run(tmp_path: Path, text: str, *more: str) -> Result:
    (tmp_path / "a.yaml").write_text(text)
    return CliRunner().invoke(cli, ["quote", "policy", "check", str(tmp_path / "a.yaml"), "--at", AT, *more])


def found(tmp_path: Path, text: str, *more: str) -> dict[str, list[str]]:
    document = json.loads(run(tmp_path, text, "--json", *more).output)
    codes: dict[str, list[str]] = {}
    for finding in document["findings"]:
        codes.setdefault(finding["code"], []).append(finding["where"])
    return codes


def test_a_tight_policy_has_no_findings(tmp_path: Path) -> None:
    result = run(tmp_path, TIGHT)
    assert (result.exit_code, result.output) == (0, f"0 findings at {AT}\n")


def test_what_is_any_is_said_by_its_name(tmp_path: Path) -> None:
    result = run(tmp_path, SIMULATED)
    assert result.exit_code == 1
    assert "`machines` is `any` [not_limited]" in result.output
    assert found(tmp_path, TIGHT.replace("minimum_evaluation: 1", "minimum_evaluation: 0")) == {
        "not_limited": ["a.yaml"]
    }


@pytest.mark.parametrize(
    ("until", "codes"),
    [
        ("2026-05-01T00:00:00Z", {"ended"}),
        ("2026-05-04T12:00:00Z", {"ended"}),
        ("2026-05-20T00:00:00Z", {"ends_soon"}),
        ("2026-08-01T00:00:00Z", set()),
    ],
)
def test_exceptions_that_ended_or_end_soon_are_named_at_their_place(
    tmp_path: Path, until: str, codes: set[str]
) -> None:
    entry = f"  advisories:\n    - {{id: INTEL-SA-00837, until: {until}, reason: r}}\n"
    findings = found(tmp_path, TIGHT.replace("xfam:", entry + "xfam:"))
    assert set(findings) == codes
    assert all(place.startswith("a.yaml:") for places in findings.values() for place in places)


def test_wide_entries_are_named(tmp_path: Path) -> None:
    findings = found(tmp_path, HARDWARE.replace("[UpToDate]", "[UpToDate, SWHardeningNeeded]"))
    assert set(findings) == {"ended", "lax_status", "long_grace", "open_exception", "unmeasured_image"}
    assert len(findings["open_exception"]) == 1


def test_a_list_of_which_nothing_counts_accepts_nothing(tmp_path: Path) -> None:
    text = TIGHT.replace("name: session\n", "name: session\n    until: 2026-01-01T00:00:00Z\n").replace(
        "name: gateway\n", "name: gateway\n    until: 2026-01-01T00:00:00Z\n"
    )
    findings = found(tmp_path, text)
    assert findings["accepts_nothing"] == ["a.yaml"]
    assert len(findings["ended"]) == 2


def test_a_file_that_is_refused_is_usage_with_its_place(tmp_path: Path) -> None:
    result = run(tmp_path, SIMULATED.replace("machines", "machine"))
    assert result.exit_code == 2
    assert "a.yaml:22:1" in result.output
