"""Defines the errors of the TDX verifier, each with a stable code.

::

    MalformedError      quote.malformed  quote.unsupported  quote.not_tdx  quote.local_report
                        quote.no_pck_chain  cert.malformed  pck.extension  crl.malformed
                        collateral.malformed  tcb.malformed  qe.malformed  reference.malformed
    NotAuthenticError   root.untrusted  pck.chain  cert.revoked  crl.issuer  crl.signature
                        collateral.issuer  collateral.signature  qe.report_signature  qe.binding
                        qe.identity  quote.signature  tcb.mismatch  tdx_module.mismatch  eventlog.replay
    NotFreshError       cert.expired  cert.not_yet_valid  crl.expired  crl.not_yet_valid
                        collateral.expired  collateral.not_yet_valid  collateral.rollback
    NotAllowedError     tcb.unsupported  tcb.revoked  appraisal.*
    ConfigurationError  roots.empty  tdx.naive_time  appraisal.expectation
"""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    NotFreshError,
)

__all__ = [
    "AppraisalRefused",
    "CRLExpired",
    "CRLIssuerMismatch",
    "CRLMalformed",
    "CRLNotYetValid",
    "CRLSignatureInvalid",
    "CertificateExpired",
    "CertificateMalformed",
    "CertificateNotYetValid",
    "CertificateRevoked",
    "CollateralExpired",
    "CollateralIssuerInvalid",
    "CollateralMalformed",
    "CollateralNotYetValid",
    "CollateralRollback",
    "CollateralSignatureInvalid",
    "DebugTD",
    "EvaluationTooOld",
    "EventLogMismatch",
    "EvidenceClassMismatch",
    "ExpectationInvalid",
    "ImageNotAccepted",
    "LocalReport",
    "MRCONFIGIDMismatch",
    "MRCONFIGIDUnbound",
    "NaiveTime",
    "NoPCKChain",
    "NoTrustedRoots",
    "NotTDXQuote",
    "PCKChainInvalid",
    "PCKExtensionInvalid",
    "QEBindingInvalid",
    "QEIdentityMalformed",
    "QEIdentityMismatch",
    "QEReportSignatureInvalid",
    "QuoteMalformed",
    "QuoteSignatureInvalid",
    "QuoteUnsupported",
    "RTMR3EventsRefused",
    "ReferenceValuesMalformed",
    "ReportDataMismatch",
    "RootNotAccepted",
    "ServiceTDBound",
    "TCBInfoMalformed",
    "TCBMismatch",
    "TCBRevoked",
    "TCBStatusNotAccepted",
    "TCBUnsupported",
    "TDAttributesRefused",
    "TDXModuleMismatch",
    "UntrustedRoot",
    "XFAMRefused",
]


class QuoteMalformed(MalformedError):
    """The bytes are no TDX quote: a length, a reserved value or a structure is wrong."""

    code = "quote.malformed"


class QuoteUnsupported(MalformedError):
    """A quote of a version or an attestation key type that no verifier supports."""

    code = "quote.unsupported"


class NotTDXQuote(MalformedError):
    """A quote of another TEE (an SGX quote, for example)."""

    code = "quote.not_tdx"


class LocalReport(MalformedError):
    """A TDREPORT, which only the CPU that made it can check; never remote evidence."""

    code = "quote.local_report"


class NoPCKChain(MalformedError):
    """The quote carries no PCK certificate chain (certification data other than type 5)."""

    code = "quote.no_pck_chain"


class CertificateMalformed(MalformedError):
    """A certificate or a PEM chain is not what Intel's profile allows."""

    code = "cert.malformed"


class PCKExtensionInvalid(MalformedError):
    """The SGX extension of the PCK certificate is absent, doubled or of a wrong length."""

    code = "pck.extension"


class CRLMalformed(MalformedError):
    """A revocation list is not DER of a complete, direct v2 CRL."""

    code = "crl.malformed"


class CollateralMalformed(MalformedError):
    """The collateral document, or a signed JSON body in it, has another shape."""

    code = "collateral.malformed"


class TCBInfoMalformed(MalformedError):
    """TCB Info is not a TDX TCB Info v3."""

    code = "tcb.malformed"


class QEIdentityMalformed(MalformedError):
    """QE Identity is not a TD_QE identity v2."""

    code = "qe.malformed"


class ReferenceValuesMalformed(MalformedError):
    """The reference values are incomplete, contradict themselves, or hold an empty list."""

    code = "reference.malformed"


class UntrustedRoot(NotAuthenticError):
    """A chain ends in a root whose public key is not among the trusted ones."""

    code = "root.untrusted"


class PCKChainInvalid(NotAuthenticError):
    """The chain of the PCK certificate does not hold: signature, name, role or length."""

    code = "pck.chain"


class CertificateRevoked(NotAuthenticError):
    """A certificate of the chain stands on its issuer's revocation list."""

    code = "cert.revoked"


class CRLIssuerMismatch(NotAuthenticError):
    """A revocation list of another issuer than the one it is needed for."""

    code = "crl.issuer"


class CRLSignatureInvalid(NotAuthenticError):
    """The signature of a revocation list does not hold."""

    code = "crl.signature"


class CollateralIssuerInvalid(NotAuthenticError):
    """Collateral is signed by a certificate that has no business signing it."""

    code = "collateral.issuer"


class CollateralSignatureInvalid(NotAuthenticError):
    """The signature over the exact bytes of TCB Info or QE Identity does not hold."""

    code = "collateral.signature"


class QEReportSignatureInvalid(NotAuthenticError):
    """The PCK key did not sign the report of the quoting enclave."""

    code = "qe.report_signature"


class QEBindingInvalid(NotAuthenticError):
    """The quoting enclave's report does not name the attestation key."""

    code = "qe.binding"


class QEIdentityMismatch(NotAuthenticError):
    """The quoting enclave is not the one that QE Identity describes."""

    code = "qe.identity"


class QuoteSignatureInvalid(NotAuthenticError):
    """The attestation key did not sign this header and body."""

    code = "quote.signature"


class TCBMismatch(NotAuthenticError):
    """TCB Info speaks of another kind of platform (FMSPC or PCEID)."""

    code = "tcb.mismatch"


class TDXModuleMismatch(NotAuthenticError):
    """The TDX module is none that TCB Info knows, or not Intel's."""

    code = "tdx_module.mismatch"


class EventLogMismatch(NotAuthenticError):
    """Replaying the event log does not give the quote's registers."""

    code = "eventlog.replay"


class CertificateExpired(NotFreshError):
    """A certificate is past its validity."""

    code = "cert.expired"


class CertificateNotYetValid(NotFreshError):
    """A certificate is not valid yet."""

    code = "cert.not_yet_valid"


class CRLExpired(NotFreshError):
    """A revocation list is past its nextUpdate."""

    code = "crl.expired"


class CRLNotYetValid(NotFreshError):
    """A revocation list has a thisUpdate in the future."""

    code = "crl.not_yet_valid"


class CollateralExpired(NotFreshError):
    """TCB Info or QE Identity is past its nextUpdate."""

    code = "collateral.expired"


class CollateralNotYetValid(NotFreshError):
    """TCB Info or QE Identity was issued in the future."""

    code = "collateral.not_yet_valid"


class CollateralRollback(NotFreshError):
    """Older collateral than has been seen before for the same platform."""

    code = "collateral.rollback"


class TCBUnsupported(NotAllowedError):
    """No TCB level is low enough to match this platform, module or quoting enclave."""

    code = "tcb.unsupported"


class TCBRevoked(NotAllowedError):
    """The TCB level of the platform, the module or the quoting enclave is revoked. No policy can allow it."""

    code = "tcb.revoked"


class AppraisalRefused(NotAllowedError):
    """An authentic quote that the reference values do not accept; never raised itself."""

    code = "appraisal.refused"


class EvidenceClassMismatch(AppraisalRefused):
    """Hardware evidence where simulated was pinned, or the other way round."""

    code = "appraisal.evidence_class"


class RootNotAccepted(AppraisalRefused):
    """The root is trusted by the verifier, but not among the reference values."""

    code = "appraisal.root"


class TCBStatusNotAccepted(AppraisalRefused):
    """The merged TCB status is not among the accepted ones."""

    code = "appraisal.tcb_status"


class EvaluationTooOld(AppraisalRefused):
    """The collateral's tcbEvaluationDataNumber is below the required one."""

    code = "appraisal.evaluation_number"


class DebugTD(AppraisalRefused):
    """The TD is debuggable: its host can read its memory."""

    code = "appraisal.debug"


class TDAttributesRefused(AppraisalRefused):
    """TD_ATTRIBUTES has a forbidden or reserved bit, lacks a required one, or differs from the reference."""

    code = "appraisal.td_attributes"


class XFAMRefused(AppraisalRefused):
    """XFAM leaves its fixed masks or differs from the reference."""

    code = "appraisal.xfam"


class ServiceTDBound(AppraisalRefused):
    """A service TD is bound to this TD, which nothing here expects."""

    code = "appraisal.service_td"


class ImageNotAccepted(AppraisalRefused):
    """MRTD with RTMR0-2 is not one of the accepted images."""

    code = "appraisal.image"


class MRCONFIGIDUnbound(AppraisalRefused):
    """MRCONFIGID is all zero: the launcher bound nothing."""

    code = "appraisal.mrconfigid_unbound"


class MRCONFIGIDMismatch(AppraisalRefused):
    """MRCONFIGID is not the expected digest."""

    code = "appraisal.mrconfigid"


class ReportDataMismatch(AppraisalRefused):
    """REPORTDATA is not the binding that the verifier computed."""

    code = "appraisal.report_data"


class RTMR3EventsRefused(AppraisalRefused):
    """RTMR3 holds another event, order or count than is permitted."""

    code = "appraisal.rtmr3"


class NoTrustedRoots(ConfigurationError):
    """An empty set of trusted roots, which would trust nothing or everything."""

    code = "roots.empty"


class NaiveTime(ConfigurationError):
    """A time without its zone."""

    code = "tdx.naive_time"


class ExpectationInvalid(ConfigurationError):
    """The caller expects a value of another length than the field has."""

    code = "appraisal.expectation"
