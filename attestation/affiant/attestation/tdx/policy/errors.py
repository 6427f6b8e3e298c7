"""Defines the errors of appraisal policies, besides those of reference values (``errors``).

::

    MalformedError      appraisal_policy.key  appraisal_policy.value  appraisal_policy.empty
    NotAllowedError     appraisal.grace_over  appraisal.advisory  appraisal.machine  appraisal.pck_flags
                        appraisal.tdx_module  appraisal.exception_lapsed
    ConfigurationError  appraisal.no_policy

A policy file is refused whole: there is no such thing as the part of it that could be read.
"""

from __future__ import annotations

from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.errors import ConfigurationError, MalformedError

__all__ = [
    "AdvisoryOpen",
    "ExceptionLapsed",
    "GraceOver",
    "MachineNotAccepted",
    "NoPolicy",
    "PCKFlagRefused",
    "PolicyEmpty",
    "PolicyKeyRefused",
    "PolicyValueRefused",
    "TDXModuleNotAccepted",
]


class PolicyKeyRefused(MalformedError):
    """A key of a policy file is unknown or missing."""

    code = "appraisal_policy.key"


class PolicyValueRefused(MalformedError):
    """A value of a policy file has another type or form, or contradicts another one."""

    code = "appraisal_policy.value"


class PolicyEmpty(MalformedError):
    """A list of a policy file is empty: it would accept nothing, or everything."""

    code = "appraisal_policy.empty"


class GraceOver(AppraisalRefused):
    """The grace period of a TCB status is over."""

    code = "appraisal.grace_over"


class AdvisoryOpen(AppraisalRefused):
    """An advisory is open for which there is no exception."""

    code = "appraisal.advisory"


class MachineNotAccepted(AppraisalRefused):
    """The machine (PPID, FMSPC) is not on the list."""

    code = "appraisal.machine"


class PCKFlagRefused(AppraisalRefused):
    """A flag of the PCK certificate is not as demanded, or not said."""

    code = "appraisal.pck_flags"


class TDXModuleNotAccepted(AppraisalRefused):
    """MRSEAM is not on the list."""

    code = "appraisal.tdx_module"


class ExceptionLapsed(AppraisalRefused):
    """There is an exception for what was found, and it does not count at this time."""

    code = "appraisal.exception_lapsed"


class NoPolicy(ConfigurationError):
    """An empty set of policies, which would hold of everything."""

    code = "appraisal.no_policy"
