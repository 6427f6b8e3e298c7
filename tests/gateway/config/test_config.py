"""Settings: read once, closed, and with keys that appear nowhere else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.attestation.statements.test_gateway_config import NOT_AN_UPSTREAM
from tests.gateway.in_process import settings_for
from tests.raising import raises_code

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import DEV_ECHO, UpstreamConfig, make_gateway_config
from affiant.gateway.config.config import encode_settings, parse_settings
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.upstream.http1 import Timeouts
from affiant.gateway.upstream.openai_upstream import Credentials, make_upstream
from affiant.secrets.names.value import SecretValue

KEY = b"sk-t3st-0f9a7b3c1d5e8f20461"


def test_settings_come_back_as_they_were_sent(platform: PlatformClient, tmp_path: Path) -> None:
    credentials = {"affiant-dev-echo": Credentials(SecretValue(KEY), ())}
    sent = replace(
        settings_for(platform, tmp_path),
        credentials=credentials,
        timeouts=Timeouts(),
        bodies_max=9 << 20,
        sessions_max=300,
    )
    found = parse_settings(encode_settings(sent))
    assert found.config == sent.config and found.reference.raw == sent.reference.raw
    assert found.collateral == sent.collateral and found.store == sent.store
    assert (found.bodies_max, found.sessions_max) == (sent.bodies_max, 300)
    assert found.connections_max == 2400, "eight for each session"
    key = found.credentials["affiant-dev-echo"].key
    assert key is not None and key.reveal() == KEY
    assert KEY.decode() not in repr(found) and KEY.decode() not in repr(sent)


@pytest.mark.parametrize("change", ["typ", "member", "missing", "garbage"])
def test_a_document_of_another_form_is_refused_without_repeating_it(
    platform: PlatformClient, tmp_path: Path, change: str
) -> None:
    document = json.loads(encode_settings(settings_for(platform, tmp_path)))
    match change:
        case "typ":
            document["typ"] = "affiant-gateway-settings/2"
        case "member":
            document["secret"] = KEY.decode()
        case "missing":
            del document["store"]
    data = b"\x00" if change == "garbage" else json.dumps(document).encode()
    with raises_code("gateway.settings") as refused:
        parse_settings(data)
    assert KEY.decode() not in str(refused.value)


def test_reference_values_that_the_configuration_does_not_name_are_refused(
    platform: PlatformClient, tmp_path: Path
) -> None:
    good = settings_for(platform, tmp_path)
    other = make_gateway_config(
        iss="urn:x",
        cls="simulated",
        origin="log.example",
        reference="sha256:" + "0" * 64,
        upstreams=[DEV_ECHO],
    )
    with raises_code("gateway.settings"):
        replace(good, config=other)


def test_upstreams_are_named_after_their_hosts_and_each_once() -> None:
    urls = [
        "https://api.example.com/v1",
        "http://api.example.com:80/v1",
        "http://127.0.0.1:8000/v1",
        "https://api.example.com/v2",
    ]
    configs = upstream_configs([UpstreamChoice(url, plain_http=True) for url in urls])
    assert [c.id for c in configs] == [
        "api-example-com",
        "api-example-com-80",
        "127-0-0-1-8000",
        "api-example-com-2",
    ]
    assert [c.bind for c in configs] == ["tls", "none", "none", "tls"]
    assert upstream_configs([]) == (DEV_ECHO,) == upstream_configs([UpstreamChoice(DEV_ECHO.url)])


def test_prompts_leave_this_machine_over_tls_unless_the_operator_allows_plain_http() -> None:
    with raises_code("gateway.settings"):
        upstream_configs([UpstreamChoice("http://api.example.com/v1")])


@pytest.mark.parametrize("url", NOT_AN_UPSTREAM)
def test_an_address_that_may_hold_a_key_does_not_enter_the_measured_configuration(url: str) -> None:
    with raises_code("gateway.settings") as refused:
        upstream_configs([UpstreamChoice(url)])
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"bind": "attested"},
        {"bind": "none"},
        {"url": "https://user@h/v1"},
        {"url": "https://h/v1?x=1"},
        {"url": "https://h/v1#x"},
        {"url": "https://" + "h" * 300 + "/v1"},
        {"roots": ("sha256:" + "0" * 64,)},
    ],
)
def test_an_upstream_that_cannot_be_as_configured_is_refused(changes: dict) -> None:
    good = {"id": "u", "url": "https://h/v1", "bind": "tls", "key": None, "roots": ()}
    make_upstream(UpstreamConfig(**good), Credentials(), timeouts=Timeouts())
    with raises_code("gateway.settings"):
        make_upstream(UpstreamConfig(**{**good, **changes}), Credentials(), timeouts=Timeouts())
