"""From the profile's secret grants to placeholders: minted here, resolved in the broker, known by name elsewhere.

A placeholder is random for each session and bound to its hosts, ports and surface. Only grants whose value the
broker holds keep theirs (negative test S16).
"""

from __future__ import annotations

from collections.abc import Callable

from affiant.policy.compiled import CompiledPolicy
from affiant.policy.profile import SecretGrant
from affiant.sandbox.egress.decision import reference_of
from affiant.secrets.broker.messages import Grant
from affiant.secrets.placeholder import Binding, Endpoint, mint_placeholder
from affiant.secrets.surface import AUTHORIZATION, Surface

__all__ = ["session_grants"]


def session_grants(policy: CompiledPolicy, *, random_bytes: Callable[[int], bytes]) -> tuple[Grant, ...]:
    """The grants of a session, each with a fresh placeholder.

    Raises:
        PlaceholderShapeInvalid, SurfaceInvalid: the profile asks for what no placeholder or header can be.
    """
    return tuple(_grant(grant, random_bytes) for grant in policy.secret_grants())


def _grant(grant: SecretGrant, random_bytes: Callable[[int], bytes]) -> Grant:
    inject = grant.inject
    surface = AUTHORIZATION if inject.format is None else Surface.injected(inject.header, inject.format)
    binding = Binding(
        name=grant.name,
        placeholder=mint_placeholder(random_bytes, shape=grant.shape),
        endpoints=frozenset(Endpoint(host, port) for host, port in grant.hosts),
        surface=surface,
    )
    return Grant(binding, reference_of(grant))
