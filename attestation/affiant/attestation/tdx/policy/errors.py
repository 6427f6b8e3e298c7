"""Defines the errors of appraisal policies, besides those of reference values (``errors``).

::

    MalformedError      appraisal_policy.key  appraisal_policy.value  appraisal_policy.empty
    NotAllowedError     appraisal.grace_over  appraisal.advisory  appraisal.machine  appraisal.pck_flags
                        appraisal.tdx_module  appraisal.exception_lapsed
    ConfigurationError  appraisal.no_policy

A policy file is refused whole: there is no such thing as the part of it that could be read.
"""

from __future__ import annotations

from affiant.errors import MalformedError

__all__ = [
    "PolicyEmpty",
    "PolicyKeyRefused",
    "PolicyValueRefused",
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
