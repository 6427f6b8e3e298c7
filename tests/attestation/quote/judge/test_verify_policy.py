"""``affiant quote verify --policy`` as a user runs it: each policy and what it decided, and what became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.attestation.tdx.conftest import MRCONFIGID, NOW, RELEASE, REPORT_DATA, Genuine, _genuine, quote_of
from tests.attestation.tdx.policy.test_policy_file import SIMULATED, deployed

from affiant.__main__ import cli
from affiant.attestation.release.manifest import reference_values
from affiant.attestation.simulated.platform.platform import SimulatedPlatform

AT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def files(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    (tmp_path / "quote.bin").write_bytes(quote_of(platform))
    (tmp_path / "collateral.json").write_bytes(platform.collateral(NOW).to_bytes())
    (tmp_path / "reference.json").write_bytes(reference_values(RELEASE, platform.root_spki()))
    (tmp_path / "policy.yaml").write_text(SIMULATED)
    return tmp_path


def run(files: Path, *more: str) -> Result:
    arguments = [str(files / "quote.bin"), "--collateral", str(files / "collateral.json"), "--at", AT]
    return CliRunner().invoke(
        cli, ["quote", "verify", *arguments, "--policy", str(files / "policy.yaml"), *more]
    )


def test_every_policy_stands_in_the_table_and_in_the_document(files: Path) -> None:
    result = run(files)
    assert result.exit_code == 40, result.output
    assert "POLICIES (11)" in result.output
    assert "image (shapes)      session (2cpu-4gb)" in result.output
    assert "verified" not in result.output.lower()
    document = json.loads(run(files, "--json").output)
    assert [row["name"] for row in document["policies"]][:4] == [
        "root",
        "td-attributes",
        "service-td",
        "xfam",
    ]
    assert document["appraisal"]["images"] == ["session"]
    assert document["appraisal"]["shapes"] == ["2cpu-4gb"]
    assert document["appraisal"]["policy"] == document["inputs"]["policy_file"]
    assert "reference_values" not in document["inputs"]
    points = {row["point"] for row in (*document["checks_made"], *document["checks_not_made"])}
    assert points == set(range(1, 46))


def test_a_refusal_shows_every_policy_that_refused(files: Path) -> None:
    text = SIMULATED.replace("minimum_evaluation: 1", "minimum_evaluation: 9").replace("e702060", "e718060")
    (files / "policy.yaml").write_text(text)
    result = run(files)
    assert result.exit_code == 20
    assert "[appraisal.xfam]" in result.output
    assert "[appraisal.evaluation_number]" in result.output
    document = json.loads(run(files, "--json").output)
    assert document["refused"]["code"] == "appraisal.xfam"
    assert document["appraisal"] is None
    refused = [row["code"] for row in document["policies"] if row["decision"] == "refused"]
    assert refused == ["appraisal.xfam", "appraisal.evaluation_number"]


def test_the_expectations_are_asked_as_with_reference_values(files: Path) -> None:
    asked = ("--image", "session", "--mrconfigid", MRCONFIGID.hex(), "--report-data", REPORT_DATA.hex())
    assert run(files, *asked).exit_code == 40
    assert run(files, "--image", "gateway").exit_code == 20
    assert "[appraisal.report_data]" in run(files, "--report-data", "11" * 64).output


def test_intel_alone_refuses_what_the_policy_would_accept(files: Path) -> None:
    result = run(files, "--root", "intel")
    assert result.exit_code == 20
    assert "[root.untrusted]" in result.output


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--reference", "reference.json"), "give one of them"),
        (("--cache", "."), "give one of them"),
        (("--image", "other"), "no such image"),
    ],
)
def test_what_does_not_fit_together_is_usage(files: Path, more: tuple[str, ...], says: str) -> None:
    result = run(files, *(str(files / item) if item.endswith(".json") else item for item in more))
    assert result.exit_code == 2
    assert says in result.output


def test_a_policy_that_is_refused_judges_nothing_and_names_its_place(files: Path) -> None:
    (files / "policy.yaml").write_text(SIMULATED.replace("machines:", "machine:"))
    result = run(files)
    assert result.exit_code == 2
    assert "policy.yaml:22:1" in result.output
    assert "Did you mean 'machines'?" in result.output
    assert "[appraisal_policy.key]" in result.output


def test_a_policy_whose_roots_have_all_ended_is_usage(files: Path) -> None:
    root = SIMULATED[SIMULATED.index("sha256:") :].splitlines()[0]
    entry = f"{{value: {root}, until: 2026-01-01T00:00:00Z}}"
    (files / "policy.yaml").write_text(SIMULATED.replace(root, entry))
    result = run(files)
    assert result.exit_code == 2
    assert "roots.empty" in result.output


# -- genuine quotes ------------------------------------------------------------------------------------------------


def genuine(folder: Path, found: Genuine, policy: str, *more: str) -> Result:
    (folder / "quote.bin").write_bytes(found.raw)
    (folder / "c.json").write_bytes(found.collateral.to_bytes())
    (folder / "p.yaml").write_text(policy)
    arguments = ["--collateral", str(folder / "c.json"), "--policy", str(folder / "p.yaml")]
    at = ["--at", str(int(found.now.timestamp()))]
    return CliRunner().invoke(cli, ["quote", "verify", str(folder / "quote.bin"), *arguments, *at, *more])


def test_azures_paravisor_by_the_documented_example(vectors: Any, tmp_path: Path) -> None:
    azure = _genuine(vectors, "azure_spr_v4", "collateral/00806f_2025-02.json", 1740714290)
    result = genuine(tmp_path, azure, deployed(vectors))
    assert result.exit_code == 10, result.output
    assert "exceptions used     azure-paravisor, grace of OutOfDate" in result.output
    assert "p.yaml:" in result.output
    without = deployed(vectors).replace("images: [azure-dcesv5]", "images: [alibaba]")
    result = genuine(tmp_path, azure, without)
    assert result.exit_code == 20
    assert "[appraisal.td_attributes]" in result.output


def test_bare_metal_with_everything_asked_is_affirming(vectors: Any, tmp_path: Path) -> None:
    found = _genuine(vectors, "phala_v5_td15ex", "collateral/b0c06f_2026-10.json", 1792714008)
    body = found.quote.body
    asked = (
        *("--mrconfigid", body.mrconfigid.hex(), "--report-data", body.report_data.hex()),
        *("--rtmr3", body.rtmrs[3].hex()),
    )
    assert genuine(tmp_path, found, deployed(vectors)).exit_code == 10
    result = genuine(tmp_path, found, deployed(vectors), *asked)
    assert result.exit_code == 0, result.output
