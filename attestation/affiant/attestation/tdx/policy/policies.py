"""Lists all named policies of an appraisal. None can be left out."""

from __future__ import annotations

from typing import Final

from affiant.attestation.tdx.policy import platform, td
from affiant.attestation.tdx.policy.node_outcomes import NamedPolicy

__all__ = ["POLICIES", "REFERENCE_POLICIES"]

POLICIES: Final = (
    NamedPolicy("root", "appraisal.root", None, platform.root),
    NamedPolicy("td-attributes", "appraisal.td_attributes", 38, td.td_attributes),
    NamedPolicy("service-td", "appraisal.service_td", 38, td.service_td),
    NamedPolicy("xfam", "appraisal.xfam", 39, td.xfam),
    NamedPolicy("image", "appraisal.image", 40, td.image),
    NamedPolicy("tcb-status", "appraisal.tcb_status", 37, platform.tcb_status),
    NamedPolicy("advisories", "appraisal.advisory", 37, platform.advisories),
    NamedPolicy("evaluation-number", "appraisal.evaluation_number", 37, platform.evaluation_number),
    NamedPolicy("machine", "appraisal.machine", None, platform.machine),
    NamedPolicy("pck-flags", "appraisal.pck_flags", 42, platform.pck_flags),
    NamedPolicy("tdx-module", "appraisal.tdx_module", 40, td.tdx_module),
)
"""Root and TD first, then the platform; the first that refuses gives the error its code."""

_FIRST_BY_REFERENCE: Final = {"root", "tcb-status", "evaluation-number"}
REFERENCE_POLICIES: Final = tuple(sorted(POLICIES, key=lambda policy: policy.name not in _FIRST_BY_REFERENCE))
"""The same for reference values, in the order in which a measured program judges them: the platform first."""
