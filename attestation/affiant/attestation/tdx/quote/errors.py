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
    "CRLNotYetValid",
    "CertificateExpired",
    "CertificateMalformed",
    "CertificateNotYetValid",
    "CollateralExpired",
    "CollateralMalformed",
    "CollateralNotYetValid",
    "CollateralRollback",
    "DebugTD",
    "ImageNotAccepted",
    "MRCONFIGIDMismatch",
    "NoTrustedRoots",
    "PCKExtensionInvalid",
    "QEIdentityMalformed",
    "QEIdentityMismatch",
    "RTMR3EventsRefused",
    "ReferenceValuesMalformed",
    "ReportDataMismatch",
    "TCBInfoMalformed",
    "TCBRevoked",
    "TCBUnsupported",
    "TDAttributesRefused",
    "UntrustedRoot",
    "XFAMRefused",
]


class CertificateMalformed(MalformedError):
    """A certificate or a PEM chain is not what Intel's profile allows."""

    code = "cert.malformed"


class PCKExtensionInvalid(MalformedError):
    """The SGX extension of the PCK certificate is absent, doubled or of a wrong length."""

    code = "pck.extension"


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


class QEIdentityMismatch(NotAuthenticError):
    """The quoting enclave is not the one that QE Identity describes."""

    code = "qe.identity"


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


class DebugTD(AppraisalRefused):
    """The TD is debuggable: its host can read its memory."""

    code = "appraisal.debug"


class TDAttributesRefused(AppraisalRefused):
    """TD_ATTRIBUTES has a forbidden or reserved bit, lacks a required one, or differs from the reference."""

    code = "appraisal.td_attributes"


class XFAMRefused(AppraisalRefused):
    """XFAM leaves its fixed masks or differs from the reference."""

    code = "appraisal.xfam"


class ImageNotAccepted(AppraisalRefused):
    """MRTD with RTMR0-2 is not one of the accepted images."""

    code = "appraisal.image"


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
