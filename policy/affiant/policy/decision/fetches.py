"""Decides whether a model server may fetch a URL that a request of the agent names.

The server has a network where the agent may have none. So the URL is judged as if the agent fetched it: by the egress
rules, for the connection and for the request, in the same canonical form. Two things differ. The server resolves the
name and follows redirects itself. And no session counts what a server fetches. So a rule with limits allows no fetch;
as in egress, another rule without limits may. Where the profile limits the bytes that go out, no rule does.
"""

from __future__ import annotations

from typing import Final

from affiant.policy.canonical.urls import URL, canonical_url
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, denied
from affiant.policy.decision.effective import effective_egress
from affiant.policy.decision.questions import EgressQuestion
from affiant.policy.model.profile import Scheme

__all__ = ["NOT_COUNTED", "decide_fetch", "is_uncounted"]

NOT_COUNTED: Final = "fetch_not_counted"


def decide_fetch(policy: CompiledPolicy, text: str, method: str = "GET") -> tuple[URL, Decision]:
    """The address in ``text``, and whether it may be fetched.

    Args:
        text: as the server reads it. method: ``GET``, or ``POST`` where more is done than read.

    Raises:
        HostRefused, TargetRefused: it has no canonical form: an address, a path, or what programs read differently.
    """
    url = canonical_url(text)
    question = EgressQuestion(url.host, url.port, Scheme(url.scheme), method, url.target)
    decision = effective_egress(policy, question)
    if decision.allowed and not any(is_uncounted(policy, rule) for rule in decision.rules):
        return url, denied(NOT_COUNTED, decision.rules)
    return url, decision


def is_uncounted(policy: CompiledPolicy, rule: str) -> bool:
    """Whether nothing counts what the egress rule with this id allows."""
    return not policy.limits.bytes_out and rule not in policy.egress_limits()
