"""Profiles without a file, for tests that make policies and need to know where their rules stand."""

from __future__ import annotations

from affiant.policy.canonical.strict_yaml import Mark
from affiant.policy.decision.compiled import compile_policy
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import Policy

__all__ = ["profile"]


def profile(policy: Policy, name: str = "dev") -> Profile:
    """A profile without a file: every rule stands at a line of its own section."""
    made = compile_policy(policy)
    sections = {
        "tools": made.policy.tools,
        "filesystem": made.policy.filesystem,
        "egress": made.policy.egress,
        "secrets": made.policy.secrets,
        "models": made.policy.models or (),
        "provider_tools": made.policy.provider_tools,
        "ports": made.policy.ports,
        "may_start": made.policy.may_start,
    }
    places = {
        f"{section}/{at}": Mark("p.yaml", line, at + 1)
        for line, (section, rules) in enumerate(sections.items(), 2)
        for at in range(len(rules))
    }
    return Profile(name, made, Mark("p.yaml", 1, 1), places)
