"""Every verdict of the collection: 194 cases, genuine, tampered and synthetic; and a second opinion."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dcap_qvl
import pytest

from affiant.attestation.tdx.quote.attributes import appraise_td_configuration
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
from affiant.errors import AffiantError

_EXPECTED = Path(__file__).resolve().parents[4] / "shared" / "vectors" / "tdx" / "expected.json"
CASES: list[Any] = json.loads(_EXPECTED.read_text())["cases"] if _EXPECTED.is_file() else []

CODES = {
    "any": {"tcb.malformed"},
    "collateral_expired": {"collateral.expired"},
    "collateral_issuer": {"collateral.issuer"},
    "collateral_not_yet_valid": {"collateral.not_yet_valid", "crl.not_yet_valid"},
    "collateral_signature": {"collateral.signature", "tcb.malformed"},
    "crl_expired": {"crl.expired"},
    "crl_issuer": {"crl.issuer"},
    "crl_malformed": {"crl.malformed"},
    "crl_signature": {"crl.signature"},
    "malformed": {"quote.malformed"},
    "no_pck_chain": {"quote.no_pck_chain"},
    "pck_chain": {"pck.chain", "cert.malformed", "cert.not_yet_valid", "quote.malformed"},
    "pck_extension": {"pck.extension", "tcb.malformed"},
    "qe_binding": {"qe.binding"},
    "qe_identity_mismatch": {"qe.identity"},
    "qe_report_signature": {"qe.report_signature"},
    "quote_signature": {"quote.signature"},
    "revoked": {"cert.revoked"},
    "tcb_malformed": {"tcb.malformed"},
    "tcb_mismatch": {"tcb.mismatch"},
    "tcb_revoked": {"tcb.revoked"},
    "tcb_unsupported": {"tcb.unsupported"},
    "td_attributes": {"appraisal.td_attributes"},
    "td_debug": {"appraisal.debug"},
    "tdx_module_mismatch": {"tdx_module.mismatch"},
    "unsupported_key_type": {"quote.unsupported"},
    "unsupported_version": {"quote.unsupported"},
    "untrusted_root": {"root.untrusted"},
    "wrong_tee_type": {"quote.not_tdx"},
}
"""The collection's reason -> our codes. Which of several faults is met first is ours to choose."""


def judge(vectors: Any, case: Any) -> VerifiedQuote:
    now = datetime.fromtimestamp(case["now"], UTC)
    quote = parse_quote(vectors.read(case["quote"]))
    collateral = verify_collateral(
        vectors.collateral(case["collateral"]), now=now, trust=vectors.trust(case["root"])
    )
    verified = verify_quote(quote, collateral, now=now)
    appraise_td_configuration(verified.quote.body)
    return verified


@pytest.mark.skipif(not CASES, reason="the TDX vectors (../shared/vectors/tdx) are not there")
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_verdict_is_the_expected_one(vectors: Any, case: Any) -> None:
    expected = case["expected"]
    try:
        verified = judge(vectors, case)
    except AffiantError as refusal:
        assert not expected["accepted"], refusal
        assert refusal.code in CODES[expected["reason"]]
    else:
        assert expected["accepted"] is not False
        if expected["accepted"]:
            assert verified.statuses.merged.value == expected["status"]
            assert verified.advisories == set(expected["advisory_ids"])


def test_the_collection_is_complete() -> None:
    if not CASES:
        pytest.skip("the TDX vectors (../shared/vectors/tdx) are not there")
    assert len(CASES) == 194
    assert {case["expected"].get("reason") for case in CASES} - {None} <= CODES.keys()


def test_a_second_implementation_agrees(vectors: Any) -> None:
    """dcap-qvl on the same inputs, except where the collection says that it is wrong."""
    compared = 0
    for case in CASES:
        if not case["agree"] or case["expected"]["accepted"] is None:
            continue
        theirs = second_opinion(vectors, case)
        ours: tuple[str, frozenset[str]] | None
        try:
            verified = judge(vectors, case)
            ours = verified.statuses.merged.value, verified.advisories
        except AffiantError:
            ours = None
        assert ours == theirs, case["id"]
        compared += 1
    assert compared > 150


def second_opinion(vectors: Any, case: Any) -> tuple[str, frozenset[str]] | None:
    collateral = vectors.read(case["collateral"]).decode()
    root = "root/intel_sgx_root_ca.der" if case["root"] == "intel" else case["root"]
    try:
        report = dcap_qvl.verify_with_root_ca(
            vectors.read(case["quote"]),
            dcap_qvl.QuoteCollateralV3.from_json(collateral),
            vectors.read(root),
            case["now"],
        )
    except ValueError:
        return None
    return report.status, frozenset(report.advisory_ids)
