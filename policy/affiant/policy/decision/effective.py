"""Combines decisions where a request needs several: with its connection, or by another party that sends it.

An egress proxy asks for a request and its connection. Where a model's server or provider is told to fetch an address,
that is judged as if the agent sent the request itself.
"""

from __future__ import annotations

import re
from typing import Final

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect, denied, granted
from affiant.policy.decision.questions import EgressQuestion
from affiant.policy.model.profile import Scheme, TLSMode

__all__ = ["effective_egress", "effective_provider_tool", "effective_url"]

_URL: Final = re.compile(r"(https?)://([^/?#:]*)(?::([1-9][0-9]{0,4}))?([/?#].*)?\Z", re.DOTALL)


def effective_egress(policy: CompiledPolicy, question: EgressQuestion) -> Decision:
    """Whether a request goes out, as a proxy asks: first for the connection, then for the request inside.

    Where the connection is passed through, requests inside are not seen, and the decision about the connection is the
    only one.
    """
    host, port, scheme = question.host, question.port, question.scheme.value
    connection = policy.decide_egress(host=host, port=port, scheme=scheme)
    if question.method is None or (
        question.scheme is Scheme.HTTPS and policy.tls_mode(host, port) is TLSMode.PASSTHROUGH
    ):
        return connection
    request = policy.decide_egress(
        host=host, port=port, scheme=scheme, method=question.method, target=question.target
    )
    for effect in (Effect.DENY, Effect.ASK):
        for decision in (request, connection):
            if decision.effect is effect:
                return decision
    return request


def effective_url(policy: CompiledPolicy, url: str, *, method: str) -> Decision:
    """Whether another party may send this request for the agent. What is no canonical http(s) URL is denied.

    Args:
        url: as it is in the agent's request; nothing of it is rewritten.
        method: that the other party uses: ``GET`` for content, ``POST`` for a server of tools.
    """
    match = _URL.match(url)
    if match is None:
        return denied("host_not_canonical")
    scheme, rest = Scheme(match[1]), match[4] or "/"
    port = int(match[3]) if match[3] else 443 if scheme is Scheme.HTTPS else 80
    target = rest if rest.startswith("/") else f"/{rest}"
    return effective_egress(policy, EgressQuestion(match[2], port, scheme, method, target))


def effective_provider_tool(policy: CompiledPolicy, name: str, server_url: str) -> Decision:
    """Whether the model's provider may run a tool that calls this server (remote MCP): the server is egress."""
    tool = policy.decide_provider_tool(name)
    server = effective_url(policy, server_url, method="POST")
    for effect in (Effect.DENY, Effect.ASK):
        for decision in (tool, server):
            if decision.effect is effect:
                return decision
    return granted((*tool.rules, *server.rules), ask=False)
