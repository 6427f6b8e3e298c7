"""Defines the errors of the TDX verifier that a program catches, or that a part of it is given to raise."""

from __future__ import annotations

from affiant.errors import (
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
    "QEIdentityMalformed",
    "TCBInfoMalformed",
    "TCBRevoked",
    "TCBUnsupported",
    "UntrustedRoot",
]


class CertificateMalformed(MalformedError):
    """A certificate or a PEM chain is not what Intel's profile allows."""

    code = "cert.malformed"


class CollateralMalformed(MalformedError):
    """The collateral document, or a signed JSON body in it, has another shape."""

    code = "collateral.malformed"


class TCBInfoMalformed(MalformedError):
    """TCB Info is not a TDX TCB Info v3."""

    code = "tcb.malformed"


class QEIdentityMalformed(MalformedError):
    """QE Identity is not a TD_QE identity v2."""

    code = "qe.malformed"


class UntrustedRoot(NotAuthenticError):
    """A chain ends in a root whose public key is not among the trusted ones."""

    code = "root.untrusted"


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
