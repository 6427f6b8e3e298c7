"""Every scenario has the outcome that it says; every stable code is produced, or it is said why it cannot be."""

from __future__ import annotations

import inspect
from collections import defaultdict
from pathlib import Path

import pytest
from tests.attestation.fault_scenarios.conftest import evidence_of
from tests.source_codes import codes_raised_in

from affiant.attestation import tdx
from affiant.attestation.quote.judge.verdict import QuoteVerdict, Stage
from affiant.attestation.simulated.platform.quote_format import QuoteLayout
from affiant.attestation.tdx.quote import errors
from affiant.attestation.tdx.quote.checks import CHECKLIST
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.attestation.verdict.verdict import EXIT_SIMULATED
from affiant.errors import AffiantError
from fault_scenarios.cli.catalogue import CATALOGUE, FAMILIES, scenario_named
from fault_scenarios.errors import ScenarioUnknown
from fault_scenarios.judging import judge_evidence
from fault_scenarios.scenario import ALL_LAYOUTS, Accepted, Refused, Scenario

NOT_BY_EVIDENCE = {
    "appraisal.refused": "the base of its family, never raised itself",
    "appraisal.expectation": "what the reader expects has another length than its field: no verdict on evidence",
    "appraisal.no_policy": "the reader gave an empty set of policies",
    "appraisal_policy.empty": "the reader's own file",
    "appraisal_policy.key": "the reader's own file",
    "appraisal_policy.value": "the reader's own file",
    "reference.malformed": "the reader's own file",
    "roots.empty": "the reader trusts nobody",
    "tdx.naive_time": "the reader's instant has no zone",
}
"""Codes of the verifier that no evidence can bring about: each is about what its caller gave."""

SAID = {
    "quote-cut-in-header": "within its header",
    "quote-cut-in-body": "within its body",
    "quote-too-large": "quote too large",
    "other-vendor": "unknown vendor",
    "body-size-of-another-type": "type 2 with 585 bytes",
    "outer-type-5": "of another type",
    "outer-size-one-more": "outer certification data does not end",
    "inner-size-one-less": "inner certification data does not end",
    "qe-auth-data-beyond": "quoting enclave reaches beyond",
    "attestation-key-zero": "not a point of P-256",
    "chain-not-base64": "not base64",
    "chain-not-a-certificate": "not a certificate of Intel's profile",
    "chain-of-four": "too many certificates",
    "leaf-key-p384": "P-256 key",
    "leaf-signed-with-sha384": "ecdsa-with-SHA256",
    "leaf-of-another-name": "not a PCK certificate",
    "leaf-is-an-authority": "certificate authority",
    "leaf-signed-by-itself": "not signed by the authority",
    "intermediate-is-no-authority": "may not sign",
    "intermediate-signed-by-itself": "not signed by the root",
    "root-hint-is-no-authority": "no self-signed authority",
    "pck-ppid-too-short": "member 1 has 15 bytes",
    "pck-fmspc-twice": "member 4 stands twice",
    "pck-pce-svn-too-large": "member 17",
    "tcb-signer-issued-by-the-pck-authority": "not issued by the root",
    "quoted-authority-revoked": "serial 51",
    "root-crl-entry-removed": "removeFromCRL",
    "pck-crl-is-a-delta": "delta",
    "tcb-15-sgx-components": "tcbLevels[0].tcb.sgxtcbcomponents",
    "tcb-4-tdx-components": "tcbLevels[0].tcb.tdxtcbcomponents",
    "tcb-info-fmspc-with-a-space": "tcbInfo.fmspc",
    "tcb-status-of-a-verdict": "tcbStatus",
    "module-listed-twice": "TDX_0B once",
    "module-status-illegal": "tdxModuleIdentities[0]",
    "qe-in-debug-mode-masked-out": "debug mode",
    "qe-of-another-signer": "MRSIGNER",
    "quoted-pck-authority-expired": "Platform CA",
    "pck-expired": "PCK Certificate",
    "module-listed-in-decimal": "TDX_1B",
    "module-attributes-masked-out": "other attributes",
    "module-signer-not-zero-though-listed": "all zero",
    "log-without-the-kernel": "RTMR1",
    "policy-flag-not-said": "not said",
    "mix-of-two-images": "no accepted",
}
"""What tells a refusal from the others with the same code: the fault fails at its own check, not at an earlier one."""


def judge(scenario: Scenario, layout: QuoteLayout | None = None) -> QuoteVerdict:
    return judge_evidence(evidence_of(scenario, layout))


def layout_for(name: str) -> QuoteLayout:
    """Another layout from scenario to scenario; the folder of test vectors has them all in v5 with a TD 1.5 body."""
    layouts = CATALOGUE[name].layouts
    return layouts[sorted(CATALOGUE).index(name) % len(layouts)]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_scenario_has_exactly_its_outcome(name: str) -> None:
    scenario = CATALOGUE[name]
    verdict = judge(scenario, layout_for(name))
    expected = scenario.expected
    if isinstance(expected, Refused):
        assert verdict.refusal is not None
        assert (verdict.refusal.code, verdict.stage) == (expected.code, expected.stage), str(verdict.refusal)
        assert SAID.get(name, "") in str(verdict.refusal)
    else:
        assert verdict.refusal is None, str(verdict.refusal)
        assert verdict.exit_code == EXIT_SIMULATED
    authentic = expected if isinstance(expected, Accepted) else expected.authentic
    if authentic is not None and verdict.verified is not None:
        assert verdict.verified.statuses.merged.value == authentic.status
        assert verdict.verified.advisories == authentic.advisories


def test_what_is_said_is_said_of_scenarios_that_exist() -> None:
    assert {name for name in SAID if not isinstance(CATALOGUE[name].expected, Refused)} == set()


def codes_of(module: object) -> set[str]:
    classes = [value for _, value in inspect.getmembers(module, inspect.isclass)]
    return {
        one.code for one in classes if issubclass(one, AffiantError) and one.__module__ == module.__name__
    }  # type: ignore[attr-defined]


def test_every_code_of_the_verifier_is_produced_or_cannot_be() -> None:
    known = codes_of(errors) | codes_raised_in(Path(tdx.__path__[0]))
    produced = {one.expected.code for one in CATALOGUE.values() if isinstance(one.expected, Refused)}
    assert known - produced == NOT_BY_EVIDENCE.keys()
    assert produced - known == {"quote.not_a_quote"}  # the reader of files, before the verifier


def test_every_status_that_a_verdict_can_have_is_produced() -> None:
    reached = {one.expected.status for one in CATALOGUE.values() if isinstance(one.expected, Accepted)}
    assert reached == {status.value for status in TCBStatus} - {"Revoked"}


def test_every_point_of_the_checklist_has_a_scenario() -> None:
    by_point: dict[int, list[str]] = defaultdict(list)
    for scenario in CATALOGUE.values():
        for point in scenario.points:
            by_point[point].append(scenario.name)
    assert by_point.keys() == CHECKLIST.keys()


def test_what_only_a_question_refuses_is_refused_by_appraisal_or_memory() -> None:
    for scenario in CATALOGUE.values():
        if isinstance(scenario.expected, Refused) and scenario.expected.authentic is not None:
            assert (
                scenario.expected.stage is Stage.APPRAISAL or scenario.expected.code == "collateral.rollback"
            )


def test_no_two_scenarios_give_the_same_evidence() -> None:
    seen: dict[object, str] = {}
    for name, scenario in CATALOGUE.items():
        if name == "high-s":  # which the platform may have signed with anyway
            continue
        made = evidence_of(scenario, layout_for(name))
        key = (
            layout_for(name),
            made.quote,
            made.collateral,
            made.root,
            made.at,
            made.event_log,
            made.asked,
            made.seen,
        )
        assert seen.setdefault(key, name) == name


def test_every_scenario_stands_in_one_family_and_has_a_name_of_its_own() -> None:
    assert sum(len(members) for members in FAMILIES.values()) == len(CATALOGUE) > 300
    assert len({one.description for one in CATALOGUE.values()}) == len(CATALOGUE)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ScenarioUnknown, match="affiant platform scenarios"):
        scenario_named("no-such-scenario")


def test_most_scenarios_exist_in_every_layout() -> None:
    partial = [one.name for one in CATALOGUE.values() if one.layouts != ALL_LAYOUTS]
    assert len(partial) < len(CATALOGUE) / 10
