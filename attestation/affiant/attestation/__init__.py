"""Proves what an agent session did: it verifies TDX quotes, receipts, logs and bundles. The core does no I/O.

Begin with :func:`verify_bundle` (a bundle and your trust file in, a verdict out) or with :func:`parse_quote` and
:func:`verify_quote` (one quote). Time and trusted roots are arguments.
"""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.attestation.bundle.bundle import Bundle, parse_bundle
    from affiant.attestation.records.receipt import (
        ReceiptText,
        VerifiedReceipt,
        parse_receipt,
        verify_receipt,
    )
    from affiant.attestation.statements.statement import KeysetStatement, parse_statement
    from affiant.attestation.tdx.appraise.appraisal import Appraisal, appraise
    from affiant.attestation.tdx.appraise.reference import ReferenceValues, parse_reference_values
    from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
    from affiant.attestation.tdx.quote.quote import TDQuote, parse_quote
    from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
    from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
    from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote
    from affiant.attestation.verdict.trust_file import TrustFile, parse_trust_file
    from affiant.attestation.verdict.verdict import Check, Verdict
    from affiant.attestation.verifier.period.verify_period import verify_period
    from affiant.attestation.verifier.verify_bundle import verify_bundle

__all__ = [
    "Appraisal",
    "Bundle",
    "Check",
    "Collateral",
    "EvidenceClass",
    "KeysetStatement",
    "ReceiptText",
    "ReferenceValues",
    "TDQuote",
    "TrustFile",
    "TrustRoots",
    "Verdict",
    "VerifiedCollateral",
    "VerifiedQuote",
    "VerifiedReceipt",
    "appraise",
    "parse_bundle",
    "parse_collateral",
    "parse_quote",
    "parse_receipt",
    "parse_reference_values",
    "parse_statement",
    "parse_trust_file",
    "verify_bundle",
    "verify_collateral",
    "verify_period",
    "verify_quote",
    "verify_receipt",
]

_PUBLIC: Final = {
    "Appraisal": "affiant.attestation.tdx.appraise.appraisal",
    "Bundle": "affiant.attestation.bundle.bundle",
    "Check": "affiant.attestation.verdict.verdict",
    "Collateral": "affiant.attestation.tdx.tcb.collateral",
    "EvidenceClass": "affiant.attestation.tdx.pki.roots",
    "KeysetStatement": "affiant.attestation.statements.statement",
    "ReceiptText": "affiant.attestation.records.receipt",
    "ReferenceValues": "affiant.attestation.tdx.appraise.reference",
    "TDQuote": "affiant.attestation.tdx.quote.quote",
    "TrustFile": "affiant.attestation.verdict.trust_file",
    "TrustRoots": "affiant.attestation.tdx.pki.roots",
    "Verdict": "affiant.attestation.verdict.verdict",
    "VerifiedCollateral": "affiant.attestation.tdx.tcb.collateral_verification",
    "VerifiedQuote": "affiant.attestation.tdx.verify.verify",
    "VerifiedReceipt": "affiant.attestation.records.receipt",
    "appraise": "affiant.attestation.tdx.appraise.appraisal",
    "parse_bundle": "affiant.attestation.bundle.bundle",
    "parse_collateral": "affiant.attestation.tdx.tcb.collateral",
    "parse_quote": "affiant.attestation.tdx.quote.quote",
    "parse_receipt": "affiant.attestation.records.receipt",
    "parse_reference_values": "affiant.attestation.tdx.appraise.reference",
    "parse_statement": "affiant.attestation.statements.statement",
    "parse_trust_file": "affiant.attestation.verdict.trust_file",
    "verify_bundle": "affiant.attestation.verifier.verify_bundle",
    "verify_collateral": "affiant.attestation.tdx.tcb.collateral_verification",
    "verify_period": "affiant.attestation.verifier.period.verify_period",
    "verify_quote": "affiant.attestation.tdx.verify.verify",
    "verify_receipt": "affiant.attestation.records.receipt",
}
__getattr__ = lazy_names(__name__, _PUBLIC)
