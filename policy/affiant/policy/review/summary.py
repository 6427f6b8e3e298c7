"""Collects what each agent may do for a sentence or two: what it may call, use and reach, and with which secrets."""

from __future__ import annotations

from collections.abc import Mapping

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.words import NOBODY_APPROVES
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.reachable import Reach
from affiant.policy.model.profile import PathMode
from affiant.policy.review.review import Review

__all__ = ["host_name", "in_short", "summary"]


def summary(review: Review) -> Mapping[str, object]:
    """One row for each agent, with the digest of its profile."""
    return {
        "agents": [
            {
                "agent": each.agent,
                "place": review.new.place(str(each.profile.mark)),
                "says": in_short(each),
                "digest": each.profile.digest,
            }
            for each in review.new.agents
        ],
        "note": f"{NOBODY_APPROVES}.".capitalize() if any(each.asks for each in review.new.agents) else "",
    }


def in_short(authority: Authority) -> Mapping[str, object]:
    """The names of which the sentences about one agent are made."""
    modes = {mode: [each.path for each in authority.files if each.mode is mode] for mode in PathMode}
    free = [reach for reach in authority.hosts if reach.unrestricted]
    used = [secret for secret in authority.secrets if secret.sinks]
    return {
        "tools": list(dict.fromkeys(tool.name for tool in authority.tools)),
        "provider_tools": [tool.name for tool in authority.provider_tools if tool.effect is not Effect.DENY],
        "may_start": [each.agent for each in authority.may_start if each.effect is not Effect.DENY],
        "ports": [each.ports.text for each in authority.ports if each.effect is not Effect.DENY],
        "reads": modes[PathMode.READ],
        "writes": modes[PathMode.READ_WRITE],
        "any_model": authority.models is None,
        "models": [model.name for model in authority.models or ()],
        "free": list(map(host_name, free)),
        "but": all(reach.denials for reach in free),
        "restricted": [host_name(reach) for reach in authority.hosts if not reach.unrestricted],
        "secrets": [secret.grant.name for secret in used],
        "secrets_at": list(dict.fromkeys(sink.host for secret in used for sink in secret.sinks)),
        "unused": [secret.grant.name for secret in authority.secrets if not secret.sinks],
        "asks": "all" if authority.profile.policy.approval.everything else "some" if authority.asks else "",
    }


def host_name(reach: Reach) -> str:
    """An endpoint without what goes without saying: https, and port 443."""
    if reach.scheme.value == "https":
        return reach.names.pattern + ("" if reach.port == 443 else f":{reach.port}")
    return reach.text
