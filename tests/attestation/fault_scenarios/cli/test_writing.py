"""What is written: one scenario's folder, and the folder of all of them, held against two verifiers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import dcap_qvl
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.fault_scenarios.conftest import AT, SEED, evidence_of, run
from tests.properties import thorough

from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from fault_scenarios.cli.catalogue import CATALOGUE
from fault_scenarios.cli.conformance_folder import ConformanceFolder
from fault_scenarios.cli.writing import choose, one_scenario
from fault_scenarios.errors import ScenarioUnknown
from fault_scenarios.files import LABEL
from fault_scenarios.judging import judge_evidence
from fault_scenarios.scenario import Refused

OTHERS_REFUSE = {
    "last-second-of-the-collateral",
    "levels-in-another-order",
    "qe-auth-data-0",
    "qe-auth-data-1",
    "qe-auth-data-1000",
    "qe-auth-data-64",
    "td-launched-newer-than-now",
}
"""What `dcap-qvl` refuses, or reports with another status, though it is good."""

OTHERS_ACCEPT = {
    "another-root-in-the-chain",
    "chain-of-four",
    "chain-with-another-label",
    "chain-with-text",
    "inner-size-one-less",
    "intermediate-as-root",
    "leaf-may-sign-certificates",
    "leaf-of-another-name",
    "module-level-twice",
    "module-listed-twice",
    "module-signer-not-zero-though-listed",
    "outer-type-5",
    "pck-crl-chain-of-the-tcb-signer",
    "pck-crl-not-yet-valid",
    "pck-fmspc-twice",
    "pck-member-is-no-pair",
    "pck-pceid-too-long",
    "pck-ppid-too-short",
    "pck-sgx-type-unknown",
    "qe-binding-with-more-behind",
    "qe-identity-nested-deeply",
    "qe-status-illegal",
    "quote-too-large",
    "quoted-root-expired",
    "quoted-root-not-yet-valid",
    "quoted-root-revoked",
    "root-crl-not-yet-valid",
    "root-expired",
    "root-hint-is-no-authority",
    "root-hint-signed-by-another-key",
    "root-is-no-authority",
    "root-not-self-signed",
    "root-not-yet-valid",
    "root-of-another-name",
    "tcb-info-chain-too-large",
    "tcb-info-chain-without-root",
    "tcb-info-date-with-an-offset",
    "tcb-info-nested-deeply",
    "tcb-info-of-another-pceid",
    "tcb-info-too-large",
    "tcb-info-type-1",
    "tcb-info-with-a-float",
    "tcb-info-with-a-pck-chain",
    "tcb-level-twice",
    "tcb-signer-may-sign-certificates",
    "tcb-signer-of-another-name",
    "xfam-undefined-bit",
    "xfam-undefined-high-bit",
    "xfam-without-sse",
    "xfam-without-x87",
}
"""What `dcap-qvl` accepts though it is wrong, or of another form than Intel's profiles give it."""


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All scenarios that exist in the richest layout. `--all` alone writes the other two as well."""
    folder = tmp_path_factory.mktemp("vectors") / "all"
    made = run(
        "platform", "evidence", "--output", folder, "--all", "--layout", "v5-td15",
        "--at", f"{AT:%Y-%m-%dT%H:%M:%SZ}", "--seed", SEED.hex(),
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert f"affiant quote conformance {folder}" in made.stdout
    return folder


def test_this_verifier_agrees_with_every_case(vectors: Path) -> None:
    result = run("quote", "conformance", vectors, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["disagreements"]) == (0, [])
    assert {one["outcome"] for one in document["results"]} == {"agrees"}
    cases = {one["id"] for one in document["results"] if one["id"].endswith("/v5-td15")}
    td15 = {name for name, one in CATALOGUE.items() if QuoteLayout.V5_TD15 in one.layouts}
    assert cases == {f"{name}/v5-td15" for name in td15}
    logs = {one["id"] for one in document["results"]} - cases
    assert len(logs) == sum(evidence_of(CATALOGUE[name]).asked.event_log for name in td15)


def test_every_layout_has_its_own_case_and_shares_what_is_the_same() -> None:
    made = ConformanceFolder()
    scenario = CATALOGUE["pck-revoked"]
    for layout in scenario.layouts:
        made.add(scenario, "revocation", layout, evidence_of(scenario, layout))
    assert [case["id"] for case in made.cases] == [f"pck-revoked/{name}" for name in ("v4", "v5", "v5-td15")]
    assert {case["collateral"] for case in made.cases} == {"collateral/pck-revoked.json"}
    assert len({case["quote"] for case in made.cases}) == 3


def test_a_second_verifier_disagrees_where_it_is_known_to(vectors: Path) -> None:
    """Another root can be handed to dcap-qvl, so it is asked about every case; each disagreement is known by name."""
    refused, accepted = set(), set()
    for case in json.loads((vectors / "expected.json").read_text())["cases"]:
        theirs, expected = second_opinion(vectors, case), case["expected"]
        name = case["id"].split("/")[0]
        if not expected["accepted"] and theirs is not None:
            accepted.add(name)
        elif expected["accepted"] and theirs != (expected["status"], expected["advisory_ids"]):
            refused.add(name)
    assert (refused, accepted) == (OTHERS_REFUSE, OTHERS_ACCEPT)


def second_opinion(vectors: Path, case: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    root = x509.load_pem_x509_certificate((vectors / case["root"]).read_bytes())
    try:
        report = dcap_qvl.verify_with_root_ca(
            (vectors / case["quote"]).read_bytes(),
            dcap_qvl.QuoteCollateralV3.from_json((vectors / case["collateral"]).read_text()),
            root.public_bytes(Encoding.DER),
            case["now"],
        )
    except ValueError:
        return None
    return report.status, sorted(report.advisory_ids)


def test_the_folder_says_that_it_is_simulated(vectors: Path) -> None:
    document = json.loads((vectors / "expected.json").read_text())
    assert document["simulated"] is True
    assert document["about"] == LABEL
    assert "SIMULATED" in (vectors / "SIMULATED.txt").read_text()
    assert not any(case["root"] == "intel" for case in document["cases"])


@given(
    seed=st.binary(min_size=32, max_size=32),
    seconds=st.integers(946684800, 4102444799),
    name=st.sampled_from(sorted(CATALOGUE)),
    choice=st.integers(0, 2),
)
@thorough(60)
def test_every_scenario_has_its_outcome_under_any_seed_at_any_time(
    seed: bytes, seconds: int, name: str, choice: int
) -> None:
    layouts = CATALOGUE[name].layouts
    scenario, layout = choose(name, layouts[choice % len(layouts)])
    at = datetime.fromtimestamp(seconds, UTC)
    evidence, files = one_scenario(scenario, layout, seed=seed, at=at, folder=PurePath("x"))
    verdict = judge_evidence(evidence)
    if isinstance(scenario.expected, Refused):
        assert verdict.refusal is not None
        assert verdict.refusal.code == scenario.expected.code
    else:
        assert verdict.refusal is None
    assert one_scenario(scenario, layout, seed=seed, at=at, folder=PurePath("x"))[1] == files


def test_another_seed_gives_another_root() -> None:
    scenario, layout = choose("up-to-date", None)
    roots = {
        one_scenario(scenario, layout, seed=bytes([number]) * 32, at=AT, folder=PurePath("x"))[1]["root.pem"]
        for number in (1, 2)
    }
    assert len(roots) == 2


def test_a_scenario_is_refused_in_a_layout_that_it_does_not_exist_in() -> None:
    with pytest.raises(ScenarioUnknown, match="v5 or v5-td15"):
        choose("sgx-body", QuoteLayout.V4)
    with pytest.raises(ValueError, match="does not exist"):
        CATALOGUE["sgx-body"].make(object(), QuoteLayout.V4, AT)  # type: ignore[arg-type]
