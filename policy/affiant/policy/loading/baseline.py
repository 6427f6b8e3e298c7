"""Reads a baseline policy: an organisation's denials and limits, merged into every profile of a file that names it.

A floor is a file of its own with the sections ``tools``, ``provider_tools``, ``filesystem_access``,
``network_egress``, ``ports``, ``may_start``, ``requires_human_approval`` and ``limits``, in which only denials,
carve-outs, demands for approval, their approvers, and limits stand. Of its limits and a profile's, the tighter counts.
Its digest is a member of each profile's normal form, so that a receipt names the baseline policy that held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from affiant.errors import ConfigurationError
from affiant.policy.canonical.strict_yaml import Mark, Node
from affiant.policy.loading.approval_reading import read_approval
from affiant.policy.loading.limit_reading import read_limits
from affiant.policy.loading.positioned import Sections
from affiant.policy.loading.sections import (
    read_egress,
    read_filesystem,
    read_ports,
    read_provider_tools,
    read_starts,
    read_tools,
)
from affiant.policy.model.limits import NO_LIMITS
from affiant.policy.model.profile import Approval, Policy, Rule
from affiant.policy.normal_form import schema
from affiant.policy.normal_form.digest import floor_digest

__all__ = ["BaselinePolicy", "read_baseline"]


@dataclass(frozen=True, slots=True)
class BaselinePolicy:
    """Denials and limits as a policy that allows nothing; ``digest`` is None if there is no floor."""

    policy: Policy
    digest: str | None
    places: Mapping[Rule, Mark]
    limits_at: Mark | None
    """Where its limits begin."""


def read_baseline(found: Mapping[str, Node], *, source: str) -> BaselinePolicy:
    """The floor of a document's sections.

    Raises:
        ``policy.floor``: it allows something, or denies nothing.
    """
    sections = Sections(found)
    policy = Policy(
        tools=sections.rules("tools", partial(read_tools, floor=True)),
        filesystem=sections.rules("filesystem_access", partial(read_filesystem, floor=True)),
        egress=sections.rules("network_egress", partial(read_egress, floor=True)),
        approval=schema.maybe(found.get("requires_human_approval"), _approval, Approval()),
        limits=schema.maybe(found.get("limits"), read_limits, NO_LIMITS),
        provider_tools=sections.rules("provider_tools", partial(read_provider_tools, floor=True)),
        ports=sections.rules("ports", partial(read_ports, floor=True)),
        may_start=sections.rules("may_start", partial(read_starts, floor=True)),
    )
    if policy == Policy():
        raise ConfigurationError(
            "the baseline policy has no denial, no limit and no approval",
            code="policy.floor",
            where=f"{source}:1:1",
        )
    limits = found.get("limits")
    return BaselinePolicy(
        policy, floor_digest(policy), sections.places, None if limits is None else limits.mark
    )


def _approval(node: Node) -> Approval:
    approval, tools = read_approval(node)
    if tools:
        raise ConfigurationError(
            "a baseline policy can require approval for everything or for methods, not for single tools",
            code="policy.floor",
            where=str(schema.key_mark(node, "tools")),
        )
    return approval
