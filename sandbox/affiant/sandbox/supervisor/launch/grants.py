"""From the profile's secret grants to placeholders: minted here, resolved in the broker, known by name elsewhere.

A placeholder is random for each session and bound to its hosts, ports and surface. Only grants whose value the
broker holds keep theirs (negative test S16).
"""

from __future__ import annotations

from collections.abc import Callable

from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.model.profile import Injection, SecretGrant
from affiant.policy.model.token_exchange import GrantType
from affiant.sandbox.egress.decision import reference_of
from affiant.secrets.broker.client.messages import BrokerPart, Grant, KeptGrant
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.placeholder import Binding, Endpoint, PlaceholderTable, mint_placeholder
from affiant.secrets.injection.signing_surface import SigningSurface, mint_signing_id
from affiant.secrets.injection.surface import AUTHORIZATION, QuerySurface, Surface

__all__ = ["broker_parts", "kept_grants", "session_grants"]


def session_grants(policy: CompiledPolicy, *, random_bytes: Callable[[int], bytes]) -> tuple[Grant, ...]:
    """The grants of a session, each with a fresh placeholder.

    Raises:
        ``secret.shape``, ``secret.surface``: the profile asks for what no placeholder or header can be.
    """
    return tuple(_grant(grant, random_bytes) for grant in policy.secret_grants())


def broker_parts(policy: CompiledPolicy) -> tuple[BrokerPart, ...]:
    """What the broker must load for the secrets of this profile."""
    grants = policy.secret_grants()
    vault = [reference_of(grant).startswith("vault:") for grant in grants]
    exchanges = [grant.inject.exchange for grant in grants]
    needed = {
        BrokerPart.VAULT: any(vault),
        BrokerPart.LOCAL_STORE: not all(vault),
        BrokerPart.ASSERTIONS: any(each and each.grant is GrantType.JWT_BEARER for each in exchanges),
    }
    return tuple(part for part in BrokerPart if needed[part])


def kept_grants(policy: CompiledPolicy, held: PlaceholderTable) -> tuple[KeptGrant, ...]:
    """What a narrower profile leaves of the secrets that the broker holds, at places where they were usable before.

    One without such a place may have been withdrawn by an earlier restriction: the broker gives nothing back.
    """
    bound = [(grant, held.binding(grant.name)) for grant in policy.secret_grants()]
    places = [
        (grant, _endpoints(grant) & binding.endpoints) for grant, binding in bound if binding is not None
    ]
    return tuple(KeptGrant(grant.name, left, grant.max_uses) for grant, left in places if left)


def _endpoints(grant: SecretGrant) -> frozenset[Endpoint]:
    return frozenset(Endpoint(host, port) for host, port in grant.hosts)


def _grant(grant: SecretGrant, random_bytes: Callable[[int], bytes]) -> Grant:
    binding = Binding(
        name=grant.name,
        placeholder=(
            mint_placeholder(random_bytes, shape=grant.shape)
            if grant.inject.sigv4 is None
            else mint_signing_id(random_bytes)
        ),
        endpoints=_endpoints(grant),
        surface=_surface(grant.inject),
    )
    return Grant(binding, reference_of(grant), grant.max_uses, grant.inject.exchange)


def _surface(inject: Injection) -> Surface | QuerySurface | BodySurface | SigningSurface:
    if inject.sigv4 is not None:
        return SigningSurface(inject.sigv4.region, inject.sigv4.service)
    if inject.json is not None or inject.form is not None:
        return BodySurface(inject.json, inject.form)
    if inject.query is not None:
        return QuerySurface(inject.query)
    if inject.user is not None:
        return Surface("authorization", None, inject.user)
    if inject.header is None or inject.format is None:
        return AUTHORIZATION
    return Surface.injected(inject.header, inject.format)
