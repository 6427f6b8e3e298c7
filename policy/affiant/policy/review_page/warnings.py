"""Makes the list of warnings: each kind once, with its advice and the places where it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from affiant.policy.lint.codes import ADVICE, WARNINGS
from affiant.policy.lint.lint import Finding
from affiant.policy.review.review import Review

__all__ = ["TITLES", "warned"]

TITLES: Final[Mapping[str, str]] = {
    "outsiders_can_steer": "Private data, strangers' words and a way out, together",
    "host_unrestricted": "A host without limits",
    "provider_tool": "A tool with which the provider may fetch anything",
    "start_wider": "An agent to start that may do more than the one that starts it",
    "start_unlimited": "An agent to start without a bound",
    "port_range_wide": "A wide range of the agent's own ports",
    "port_system": "System ports (below 1024)",
    "host_shared": "A host at which everybody has an account",
    "host_wildcard": "Hosts by wildcard",
    "upstream_resolves": "A private host that a model's server may fetch from",
    "tls_passthrough": "Connections that nobody looks into",
    "scheme_http": "Plain HTTP",
    "secret_storable_sink": "A secret where a host may store it",
    "secret_token_endpoint": "A secret that is exchanged for tokens",
    "secret_signs": "A key that signs requests",
    "secret_mints": "A key with which others can be had",
    "secret_shared": "One secret's name, different hosts",
    "rw_hooks": "Files that other people's tools run",
    "rw_system_path": "Programs of the image may be changed",
    "limit_without_effect": "A limit that another rule takes away",
    "approval_unshowable": "Approval that nobody can be shown",
    "approvers_alike": "Approvers who may be one person",
    "approvers_unused": "Approvers of nothing",
    "argument_pattern": "Text that only a pattern holds back",
    "tool_unpinned": "A tool that its server may change",
    "approval_missing": "Changes that nobody approves",
    "approval_no_approver": "Approval that nobody can give",
    "secret_unreachable_host": "A secret bound to a host that is not reached",
    "secret_no_sink": "A secret that can be used nowhere",
    "denial_without_allow": "A denial of what nothing allows",
    "profile_twin": "Two agents that receipts do not tell apart",
}
"""Every warning code as a heading, in the order in which a reviewer should read them."""

_SERIOUS: Final = frozenset(
    {"outsiders_can_steer", "host_unrestricted", "provider_tool", "host_shared", "tls_passthrough"}
)


def warned(review: Review) -> Sequence[Mapping[str, object]]:
    """All of them by kind, the most serious first."""
    kinds: dict[str, dict[str, list[Finding]]] = {}
    for found in review.findings:
        kinds.setdefault(found.code, {}).setdefault(found.agent, []).append(found)
    return [
        {
            "title": TITLES.get(code, code),
            "is_serious": code in _SERIOUS,
            "count": sum(map(len, kinds[code].values())),
            "says": f"{WARNINGS[code][0].upper()}{WARNINGS[code][1:]}.",
            "advice": ADVICE[code],
            "agents": [
                (agent, [(each.subject, review.new.place(each.where)) for each in found])
                for agent, found in kinds[code].items()
            ],
        }
        for code in sorted(kinds, key=_rank)
    ]


def _rank(code: str) -> tuple[bool, int]:
    """A code without a title comes last."""
    return code not in _SERIOUS, list(TITLES).index(code) if code in TITLES else len(TITLES)
