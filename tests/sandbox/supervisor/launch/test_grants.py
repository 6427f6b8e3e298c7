"""From a profile's grants to placeholders that are fresh for each session."""

from __future__ import annotations

import os

import pytest

from affiant.policy.loading.load import load_profiles
from affiant.sandbox.supervisor.launch.grants import broker_parts, kept_grants, session_grants
from affiant.secrets.broker.client.messages import BrokerPart, Grant, KeptGrant
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.placeholder import Endpoint, PlaceholderTable
from affiant.secrets.injection.signing_surface import SIGNING_ID, SigningSurface
from affiant.secrets.injection.surface import QuerySurface, Surface

PROFILE = b"""
agent_configs:
  dev:
    network_egress:
      - {host: api.example.com, port: 443}
    secrets_access:
      - TOKEN
      - name: GH
        ref: "local:OTHER"
        hosts: [api.example.com]
        shape: "ghp_{36}"
        inject: {header: X-Key, format: "Key {}"}
      - {name: GIT, inject: {basic: git}}
      - {name: Q, inject: {query: key}}
      - {name: J, inject: {body: {json: /auth/token}}}
      - {name: F, inject: {body: {form: client_secret}}}
      - {name: AWS, inject: {sigv4: {service: s3, region: eu-central-1}}}
"""


def grants():
    return {
        grant.binding.name: grant
        for grant in session_grants(load_profiles(PROFILE).profile("dev").compiled, random_bytes=os.urandom)
    }


def test_a_short_form_grant_is_bound_to_the_profiles_hosts() -> None:
    grant = grants()["TOKEN"]
    assert grant.reference == "local:TOKEN"
    assert [(place.host, place.port) for place in grant.binding.endpoints] == [("api.example.com", 443)]
    assert grant.binding.surface.label == "header:authorization"
    assert grant.binding.placeholder.startswith("affiant-ph-")


def test_a_long_form_grant_keeps_its_reference_shape_and_place() -> None:
    grant = grants()["GH"]
    assert grant.reference == "local:OTHER"
    assert grant.binding.placeholder.startswith("ghp_")
    assert grant.binding.surface.label == "header:x-key"


def test_basic_and_query_have_places_of_their_own() -> None:
    assert grants()["GIT"].binding.surface == Surface("authorization", None, "git")
    assert grants()["Q"].binding.surface == QuerySurface("key")


def test_places_of_a_body_are_the_profiles() -> None:
    assert grants()["J"].binding.surface == BodySurface(json="/auth/token")
    assert grants()["F"].binding.surface == BodySurface(form="client_secret")
    compiled = load_profiles(PROFILE).profile("dev").compiled
    for grant in compiled.secret_grants():
        assert grants()[grant.name].binding.surface.label == grant.surface


def test_a_key_that_signs_has_an_id_and_the_variables_that_its_clients_look_for() -> None:
    binding = grants()["AWS"].binding
    assert binding.surface == SigningSurface("eu-central-1", "s3")
    assert SIGNING_ID.fullmatch(binding.placeholder.encode()) is not None
    compiled = load_profiles(PROFILE).profile("dev").compiled
    for grant in compiled.secret_grants():
        variables = grants()[grant.name].binding.variables
        assert variables.keys() - {"AWS_REQUEST_CHECKSUM_CALCULATION"} == set(grant.variables)


def test_every_grant_is_read_back_as_the_broker_gets_it() -> None:
    for grant in grants().values():
        assert Grant.from_json(grant.to_json()) == grant


def test_placeholders_are_never_the_same_twice() -> None:
    assert grants()["TOKEN"].binding.placeholder != grants()["TOKEN"].binding.placeholder


NARROWER = b"""
agent_configs:
  dev:
    network_egress:
      - {host: api.example.com, port: 443}
    secrets_access:
      - {name: GH, ref: "local:OTHER", hosts: ['api.example.com', 'b.example.com'], shape: "ghp_{36}", max_uses: 3,
         inject: {header: X-Key, format: "Key {}"}}
      - {name: GIT, inject: {basic: git}}
"""


def test_what_is_kept_of_secrets_is_of_those_that_are_held_and_never_at_another_place() -> None:
    held = PlaceholderTable(grant.binding for name, grant in grants().items() if name != "GIT")
    kept = kept_grants(load_profiles(NARROWER).profile("dev").compiled, held)
    assert kept == (KeptGrant("GH", frozenset({Endpoint("api.example.com", 443)}), 3),)
    held.narrowed_to({each.name: each.endpoints for each in kept})  # which is not refused


def test_a_secret_that_was_withdrawn_is_not_asked_back_by_a_later_profile_that_names_it() -> None:
    """It is at no place by then, so a profile that names it is not wider; the broker has let go of it."""
    held = PlaceholderTable(grant.binding for grant in grants().values()).narrowed_to({})
    assert kept_grants(load_profiles(NARROWER).profile("dev").compiled, held) == ()


ASSERTION = """{name: A, ref: "vault:kv/a#key", hosts: [api.example.com], inject: {exchange: {
  url: "https://login.example.com/token", grant: jwt_bearer, issuer: me, audience: https://login.example.com}}}"""


@pytest.mark.parametrize(
    ("secrets", "parts"),
    [
        ("[]", ()),
        ("[TOKEN]", (BrokerPart.LOCAL_STORE,)),
        ('[{name: V, ref: "vault:kv/v#key"}]', (BrokerPart.VAULT,)),
        ('[TOKEN, {name: V, ref: "vault:kv/v#key"}]', (BrokerPart.VAULT, BrokerPart.LOCAL_STORE)),
        (f"[{ASSERTION}]", (BrokerPart.VAULT, BrokerPart.ASSERTIONS)),
    ],
)
def test_the_broker_loads_what_the_profile_needs(secrets: str, parts: tuple[BrokerPart, ...]) -> None:
    profile = f"""agent_configs:
  dev:
    network_egress: [{{host: api.example.com, port: 443}}, {{host: login.example.com, port: 443}}]
    secrets_access: {secrets}
"""
    assert broker_parts(load_profiles(profile.encode()).profile("dev").compiled) == parts
