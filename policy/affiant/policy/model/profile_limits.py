"""Lists the limits that rules of a profile have of their own, by the ids of the rules."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.policy.model.limits import Bound, Bounds
from affiant.policy.model.profile import EgressRule, Policy, StartGrant, ToolRule

__all__ = ["rule_limits"]


def rule_limits(policy: Policy) -> Iterator[tuple[str, str, Bounds]]:
    """The id, the name of the limit, and its bounds, of every rule of an arranged policy that has one."""
    for at, tool in enumerate(policy.tools):
        if isinstance(tool, ToolRule) and tool.rate:
            yield f"tools/{at}", "rate", tool.rate
    for at, model in enumerate(policy.models or ()):
        if model.max_tokens is not None:
            yield f"models/{at}", "max_tokens", (Bound(model.max_tokens),)
    for at, rule in enumerate(policy.egress):
        if isinstance(rule, EgressRule):
            for name, bounds in (("requests", rule.limits.requests), ("bytes_out", rule.limits.bytes_out)):
                if bounds:
                    yield f"egress/{at}", name, bounds
    for at, grant in enumerate(policy.secrets):
        if grant.max_uses is not None:
            yield f"secrets/{at}", "max_uses", (Bound(grant.max_uses),)
    for at, start in enumerate(policy.may_start):
        if isinstance(start, StartGrant) and start.at_most is not None:
            yield f"may_start/{at}", "at_most", (Bound(start.at_most),)
