"""The checklist held to account: every point and every known mistake has something that shows it, and that exists.

References are resolved: a scenario by its name, its outcome and its points, a test by the function in its file. Where
nothing else asks for a value (36 and 45), it is asked here.
"""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest
from cryptography import x509
from tests.attestation.tdx.checklist import MISTAKES, POINTS, VALUES
from tests.attestation.tdx.conftest import NOW, random_bytes

from affiant.attestation import __path__ as attestation_folders
from affiant.attestation.quote.collateral.single_file import parse_collateral_file
from affiant.attestation.simulated.platform.pki import CertificateForm, CertificateRole, issue_certificates
from affiant.attestation.simulated.platform.platform import CollateralPart, SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.tdx.quote.checks import CHECKLIST
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral import ITEMS
from fault_scenarios.bench import Bench
from fault_scenarios.cli.catalogue import CATALOGUE
from fault_scenarios.evidence import Evidence
from fault_scenarios.judging import judge_evidence
from fault_scenarios.scenario import Accepted, Refused

ROOT = Path(__file__).resolve().parents[3]
PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("one platform"))


# -- references ---------------------------------------------------------------------------------------------------


@cache
def functions_of(file: str) -> frozenset[str]:
    """The test functions of a file that are collected, whatever they then need."""
    path = ROOT / file
    if not path.is_file() or not path.name.startswith("test_"):
        return frozenset()
    functions = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return frozenset(
        node.name
        for node in functions
        if node.name.startswith("test_")
        and not any(ast.unparse(mark).startswith("pytest.mark.skip(") for mark in node.decorator_list)
    )


def is_there(reference: str) -> bool:
    file, separator, function = reference.partition("::")
    return function in functions_of(file) if separator else reference in CATALOGUE


def scenarios(references: tuple[str, ...]) -> list[str]:
    return [reference for reference in references if "::" not in reference]


REFERENCES = {
    *(reference for point in POINTS.values() for reference in (*point.accepts, *point.refuses)),
    *(reference for shown in VALUES.values() for reference in shown),
    *(reference for mistake in MISTAKES.values() for reference in mistake.shown),
}


@pytest.mark.parametrize("reference", sorted(REFERENCES))
def test_every_reference_is_there(reference: str) -> None:
    assert is_there(reference)


@pytest.mark.parametrize(
    "reference", ["no-such", "tests/attestation/tdx/quote/test_quote.py::test_no_such", "x::test_y"]
)
def test_a_reference_to_nothing_is_noticed(reference: str) -> None:
    assert not is_there(reference)


def test_every_point_is_accounted_for() -> None:
    assert POINTS.keys() | VALUES.keys() == CHECKLIST.keys()
    assert not POINTS.keys() & VALUES.keys()
    assert all(point.accepts and point.refuses for point in POINTS.values())
    assert all(VALUES.values())


@pytest.mark.parametrize("number", POINTS)
def test_a_points_scenarios_are_about_it_and_end_as_it_says(number: int) -> None:
    point = POINTS[number]
    for name in scenarios(point.accepts):
        assert isinstance(CATALOGUE[name].expected, Accepted), name
        assert number in CATALOGUE[name].points, name
    for name in scenarios(point.refuses):
        assert isinstance(CATALOGUE[name].expected, Refused), name
        assert number in CATALOGUE[name].points, name


def test_every_known_mistake_is_accounted_for() -> None:
    assert list(MISTAKES) == list(range(1, 48))
    assert all(mistake.said and mistake.shown for mistake in MISTAKES.values())


# -- 13: no such option exists ------------------------------------------------------------------------------------


def test_nothing_turns_the_checks_of_tls_off() -> None:
    """Where collateral and evidence are fetched and judged; it is authenticated by itself all the same."""
    files = [file for folder in attestation_folders for file in Path(folder).rglob("*.py")]
    assert len(files) > 100
    # A log under a key that the reader names: the certificate's key is compared before a byte is sent (its own tests).
    (pinned,) = [file for file in files if file.name == "pinned_tls.py"]
    files.remove(pinned)
    for file in files:
        text = file.read_text()
        for off in (
            "CERT_NONE",
            "verify=False",
            "check_hostname = False",
            "_create_unverified_context",
            "--insecure",
        ):
            assert off not in text, f"{file.name}: {off}"


# -- 36: the earliest expiry over all parts -----------------------------------------------------------------------

YEARS = {
    CertificateRole.ROOT: 31,
    CertificateRole.PCK_ISSUER: 15,
    CertificateRole.PCK: 7,
    CertificateRole.TCB_SIGNING: 7,
}
SOON = timedelta(days=3)


def expiry(platform: SimulatedPlatform) -> datetime:
    verified = judge_evidence(Bench(platform=platform, layout=QuoteLayout.V4, now=NOW).evidence()).verified
    assert verified is not None
    return verified.earliest_expiry


@pytest.mark.parametrize("part", list(CollateralPart))
def test_a_part_of_the_collateral_that_ends_first_is_the_expiry(part: CollateralPart) -> None:
    shifts = MappingProxyType({part: timedelta(days=-20)})
    assert expiry(replace(PLATFORM, shifts=shifts)) == NOW - timedelta(minutes=5) + timedelta(days=10)


@pytest.mark.parametrize("role", list(CertificateRole))
@pytest.mark.parametrize("where", ["certificates", "quoted"])
def test_the_first_part_that_ends_is_the_expiry(role: CertificateRole, where: str) -> None:
    """A certificate that ends before the collateral does, everywhere or in the quote alone."""
    form = CertificateForm(shift=SOON - timedelta(days=365 * YEARS[role]))
    ending = issue_certificates(PLATFORM.seed, created=NOW, machine=PLATFORM.machine, forms={role: form})
    end = ending.of(role).not_valid_after_utc
    assert NOW < end < NOW + SOON
    judged = expiry(replace(PLATFORM, **{where: ending}))  # type: ignore[arg-type]
    if where == "quoted" and role is CertificateRole.TCB_SIGNING:  # which no quote carries
        assert judged == expiry(PLATFORM) > end
    else:
        assert judged == end


# -- 45: the result carries what it rests on ----------------------------------------------------------------------


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def made(name: str, layout: QuoteLayout = QuoteLayout.V5_TD15) -> Evidence:
    return CATALOGUE[name].make(PLATFORM, layout, NOW)


def test_the_result_names_what_it_rests_on() -> None:
    evidence = made("advisories-of-all-parts")
    document = json.loads(json.dumps(judge_evidence(evidence, build="sha256:build").to_json()))
    items = parse_collateral_file(evidence.collateral)
    inputs = document["inputs"]
    assert inputs["quote"] == sha256(evidence.quote)
    assert inputs["pck_chain"] == sha256(parse_quote(evidence.quote).authentication.pck_chain)
    assert inputs["root_key"] == sha256(PLATFORM.root_spki())
    assert {name: inputs[name] for name in ITEMS} == {name: sha256(getattr(items, name)) for name in ITEMS}
    assert inputs["collateral"] == sha256(items.to_bytes())
    assert (document["at"], document["tool"]["build"]) == ("2026-05-04T12:00:00Z", "sha256:build")
    assert document["verification"]["statuses"] == {
        "platform": "SWHardeningNeeded",
        "module": "OutOfDate",
        "qe": "OutOfDate",
        "merged": "OutOfDate",
        "current_platform": "SWHardeningNeeded",
        "current_module": "OutOfDate",
    }
    assert document["verification"]["advisories"] == ["INTEL-SA-99901", "INTEL-SA-99902", "INTEL-SA-99903"]
    assert document["verification"]["tcb_date"] == "2026-01-01T00:00:00Z"
    assert document["verification"]["evaluation_number"] == 1
    points = [row["point"] for row in (*document["checks_made"], *document["checks_not_made"])]
    assert set(points) == CHECKLIST.keys()
    assert all(row["detail"] for row in document["checks_not_made"])


def test_a_policy_and_a_log_are_named_by_their_bytes() -> None:
    by_policy = judge_evidence(made("policy-holds"))
    assert by_policy.question.policy is not None
    asked = made("policy-holds").asked.policy
    assert asked is not None
    assert by_policy.inputs["policy_file"] == by_policy.question.policy.digest == sha256(asked)
    logged = made("log-replays")
    assert judge_evidence(logged).inputs["event_log"] == sha256(logged.event_log)


def test_every_raw_field_of_the_quote_is_in_the_result() -> None:
    evidence = made("up-to-date")
    verified = judge_evidence(evidence).verified
    assert verified is not None
    assert verified.quote == parse_quote(evidence.quote)
    leaf = x509.load_pem_x509_certificates(verified.quote.authentication.pck_chain.rstrip(b"\0"))[0]
    assert leaf == PLATFORM.certificates.pck
    assert verified.pck.components == PLATFORM.machine.sgx_components
