"""Exchanges of a secret for a token: what a profile may say, and nothing that two readers could take for two things."""

from __future__ import annotations

import json

import pytest
from tests.policy.review_page.conftest import made_review

from affiant.errors import AffiantError
from affiant.policy.authority.authority import authority_of
from affiant.policy.authority.document import authority_document
from affiant.policy.authority.graph import authority_dot, authority_mermaid
from affiant.policy.authority.overview import authority_lines
from affiant.policy.editor.rule_text import rule_text
from affiant.policy.exports.cedar import export_cedar
from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import Injection
from affiant.policy.model.token_exchange import ClientAuth, GrantType, SubjectTokenType, TokenExchange
from affiant.policy.normal_form.reader import read_normal_form
from affiant.policy.review_page.page import render_review

URL = "https://login.example.com/oauth2/token"
EGRESS = "network_egress: [{host: api.example.com, methods: [GET]}]"
CLIENT = f"grant: client_credentials, url: '{URL}', client_id: acme-agent"


def sections(exchange: str, egress: str = EGRESS) -> str:
    return f"{egress}, secrets_access: [{{name: KEY, inject: {{exchange: {{{exchange}}}}}}}]"


def refused(text: str, floor: bytes | None = None) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        load_profiles(f"agent_configs: {{dev: {{{text}}}}}".encode(), floor=floor)
    return caught.value


@pytest.mark.parametrize(
    ("exchange", "read"),
    [
        (
            CLIENT + ", scope: read write, audience: 'https://api/', resource: 'urn:a:b'",
            TokenExchange(
                GrantType.CLIENT_CREDENTIALS,
                URL,
                client_id="acme-agent",
                client_auth=ClientAuth.BASIC,
                scope="read write",
                audience="https://api/",
                resource="urn:a:b",
            ),
        ),
        (
            CLIENT + ", client_auth: client_secret_post",
            TokenExchange(
                GrantType.CLIENT_CREDENTIALS, URL, client_id="acme-agent", client_auth=ClientAuth.POST
            ),
        ),
        (
            f"grant: jwt_bearer, url: '{URL}', issuer: agent@acme.iam.gserviceaccount.com, key_id: k1",
            TokenExchange(
                GrantType.JWT_BEARER,
                URL,
                issuer="agent@acme.iam.gserviceaccount.com",
                audience=URL,
                key_id="k1",
            ),
        ),
        (
            f"grant: token_exchange, url: '{URL}', subject_token_type: id_token",
            TokenExchange(GrantType.TOKEN_EXCHANGE, URL, subject_token_type=SubjectTokenType.ID_TOKEN),
        ),
    ],
)
def test_an_exchange_is_read_and_survives_its_normal_form_and_its_text(profile_of, exchange, read) -> None:
    profile = profile_of(sections(exchange))
    (grant,) = profile.policy.secrets
    assert grant.inject == Injection.of_token(read)
    assert grant.surface == "header:authorization"
    assert read_normal_form(profile.normal_form).secrets == (grant,)
    assert profile_of(f"{EGRESS}, secrets_access: [{rule_text(grant)}]").digest == profile.digest
    assert (read.host, read.port, read.path) == ("login.example.com", 443, "/oauth2/token")


def test_what_is_the_default_makes_no_other_digest(profile_of) -> None:
    for default, other in (
        (CLIENT, CLIENT + ", client_auth: client_secret_basic"),
        (
            f"grant: jwt_bearer, url: '{URL}', issuer: a",
            f"grant: jwt_bearer, url: '{URL}', issuer: a, audience: '{URL}'",
        ),
        (
            f"grant: token_exchange, url: '{URL}'",
            f"grant: token_exchange, url: '{URL}', subject_token_type: access_token",
        ),
    ):
        assert profile_of(sections(default)).digest == profile_of(sections(other)).digest


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.com/token",
        "https://login.example.com",
        "https://login.example.com:443/token",
        "https://login.example.com:0/token",
        "https://login.example.com:65536/token",
        "https://LOGIN.example.com/token",
        "https://login.example.com./token",
        "https://10.0.0.1/token",
        "https://[::1]/token",
        "https://*.example.com/token",
        "https://user@login.example.com/token",
        "https://user:pw@login.example.com/token",
        "https://login.example.com/token?x=1",
        "https://login.example.com/token#x",
        "https://login.example.com/a/../token",
        "https://login.example.com//token",
        "https://login.example.com/tok%65n",
        "https://login.example.com/to ken",
        "https://login.example.com\\\\@evil.com/token",
        "https://gateway.affiant.internal/token",
        "https://login.example.com/" + "a" * 1024,
        "HTTPS://login.example.com/token",
        " https://login.example.com/token",
        "login.example.com/token",
    ],
)
def test_a_token_endpoint_has_one_spelling(url: str) -> None:
    error = refused(sections(f'grant: token_exchange, url: "{url}"'))
    assert error.code == "policy.value"
    assert "example" not in f"{error.message}{error.found}"


@pytest.mark.parametrize(
    ("exchange", "code"),
    [
        (f"url: '{URL}', client_id: a", "policy.missing_key"),
        ("grant: client_credentials, client_id: a", "policy.missing_key"),
        (f"grant: client_credentials, url: '{URL}'", "policy.missing_key"),
        (f"grant: jwt_bearer, url: '{URL}'", "policy.missing_key"),
        (f"grant: password, url: '{URL}'", "policy.value"),
        (f"grant: refresh_token, url: '{URL}', client_id: a", "policy.value"),
        (CLIENT + ", client_auth: none", "policy.value"),
        (CLIENT + ", client_auth: private_key_jwt", "policy.value"),
        (CLIENT + ", issuer: a", "policy.conflict"),
        (CLIENT + ", key_id: a", "policy.conflict"),
        (CLIENT + ", subject_token_type: jwt", "policy.conflict"),
        (f"grant: jwt_bearer, url: '{URL}', issuer: a, client_id: a", "policy.conflict"),
        (f"grant: jwt_bearer, url: '{URL}', issuer: a, resource: 'urn:a'", "policy.conflict"),
        (f"grant: token_exchange, url: '{URL}', client_auth: client_secret_post", "policy.conflict"),
        (f"grant: token_exchange, url: '{URL}', subject_token_type: refresh_token", "policy.value"),
        (CLIENT + ", scope: 'a  b'", "policy.value"),
        (CLIENT + ", scope: ' a'", "policy.value"),
        (CLIENT + ", scope: 'a\"b'", "policy.value"),
        (CLIENT + ", scope: ''", "policy.wrong_type"),
        (CLIENT + ", scope: [a, b]", "policy.wrong_type"),
        (CLIENT + ", audience: 'a b'", "policy.value"),
        (CLIENT + ", audience: ä", "policy.value"),
        (CLIENT + ", resource: a", "policy.value"),
        (CLIENT + ", resource: 'https://a/#b'", "policy.value"),
        (f"grant: client_credentials, url: '{URL}', client_id: 'a b'", "policy.value"),
        (CLIENT + ", client_secret: hunter2hunter2hunter2", "policy.unknown_key"),
        (CLIENT + ", scopes: a", "policy.unknown_key"),
    ],
)
def test_anything_else_is_refused_with_its_place(exchange: str, code: str) -> None:
    error = refused(sections(exchange))
    assert error.code == code
    assert error.where is not None
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    "other", ["header: X-Key", "query: a", "basic: git", "body: {form: a}", "format: 'Bearer {}'"]
)
def test_a_token_stands_in_no_other_place(other: str) -> None:
    assert (
        refused(sections(CLIENT).replace("{exchange:", f"{{{other}, exchange:")).code == "policy.wrong_type"
    )
    with pytest.raises(AffiantError):
        Injection(
            "x-key",
            "{}",
            exchange=TokenExchange(GrantType.TOKEN_EXCHANGE, URL, subject_token_type=SubjectTokenType.JWT),
        )


DENIED = [
    "{deny: login.example.com}",
    "{deny: '*.example.com', port: 443}",
    "{deny: '**.example.com', methods: [POST, PUT]}",
    "{deny: login.example.com, paths: ['/oauth2/**']}",
    "{deny: login.example.com, paths: [/oauth2/token/]}",
]
NOT_DENIED = [
    "{deny: api.example.com}",
    "{deny: login.example.com, port: 8443}",
    "{deny: login.example.com, methods: [GET]}",
    "{deny: login.example.com, paths: [/oauth2]}",
]


@pytest.mark.parametrize("denial", DENIED)
def test_what_is_denied_is_denied_to_the_broker_too(denial: str) -> None:
    assert refused(sections(CLIENT, f"network_egress: [{denial}]")).code == "policy.conflict"
    named = b"version: 1\nfloor: floor.yaml\nagent_configs: {dev: {%s}}" % sections(CLIENT).encode()
    with pytest.raises(AffiantError) as caught:
        load_profiles(named, floor=f"network_egress: [{denial}]".encode())
    assert caught.value.code == "policy.conflict"


@pytest.mark.parametrize("denial", NOT_DENIED)
def test_no_other_denial_is_in_the_way(profile_of, denial: str) -> None:
    assert profile_of(sections(CLIENT, f"network_egress: [{denial}]")).policy.secrets


def test_a_token_endpoint_is_no_place_for_the_agent(profile_of) -> None:
    compiled = profile_of(sections(CLIENT)).compiled
    assert (
        compiled.decide_egress(host="login.example.com", port=443, scheme="https").reason == "host_not_listed"
    )
    use = compiled.decide_secret(
        "KEY", host="login.example.com", port=443, scheme="https", surface="header:authorization"
    )
    assert use.reason == "secret_not_bound"


def test_a_reviewer_is_told_where_the_secret_goes_and_where_the_token() -> None:
    text = f"agent_configs: {{dev: {{{sections(CLIENT + ', scope: read write')}}}}}"
    profiles = load_profiles(text.encode())
    authority = authority_of(profiles.profile("dev"))
    text = " ".join(" ".join(authority_lines([authority])).split())
    assert "in header authorization, as Bearer, where a token stands for it" in text
    assert (
        f"for the token the secret itself, as the client's goes to {URL} "
        "(client_credentials; client_id 'acme-agent', scope 'read write')"
    ) in text
    assert "to api.example.com:443" in text
    document = json.loads(json.dumps(authority_document([authority], profiles=profiles)))
    (secret,) = document["agents"][0]["secrets"]
    assert secret["exchange"] == {
        "grant": "client_credentials",
        "url": URL,
        "client_id": "acme-agent",
        "client_auth": "client_secret_basic",
        "scope": "read write",
    }


def test_a_graph_and_a_report_lead_the_secret_to_its_token_endpoint() -> None:
    profiles = load_profiles(f"agent_configs: {{dev: {{{sections(CLIENT)}}}}}".encode())
    authority = authority_of(profiles.profile("dev"))
    for graph in (authority_dot([authority]), authority_mermaid([authority])):
        assert "token endpoint login.example.com:443" in graph
        assert "api.example.com" in graph
    page = render_review(made_review(f"agent_configs: {{dev: {{{sections(CLIENT)}}}}}"))
    assert "the broker, not" in page and "login.example.com:443" in page and "for a token" in page


def test_a_refresh_token_is_refused_with_its_reason() -> None:
    error = refused(sections(f"grant: refresh_token, url: '{URL}', client_id: a"))
    assert "its issuer may replace it at any use" in error.message
    assert error.hint == "Use client_credentials, jwt_bearer or token_exchange"


def test_an_export_says_that_it_does_not_judge_the_exchange(profile_of) -> None:
    exported = export_cedar(profile_of(sections(CLIENT)))
    assert "at which token endpoint the secret is exchanged for a token" in str(exported)
