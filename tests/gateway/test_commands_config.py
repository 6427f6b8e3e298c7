"""A real upstream and the verifier: the configuration's name is known before anything runs, and can be pinned."""

from __future__ import annotations

import json

from click.testing import CliRunner

from affiant.attestation.encoding import sha256_name
from affiant.attestation.gateway_config import parse_gateway_config
from affiant.attestation.simulated.commands import platform
from affiant.attestation.trust_file import parse_trust_file
from affiant.gateway.commands import gateway

URL = "http://127.0.0.1:8000/v1"
PROFILE = "sha384:" + "1" * 96


def invoke(group, *arguments):
    return CliRunner().invoke(group, arguments)


def test_the_configuration_is_named_without_starting_anything(tmp_path):
    result = invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", URL)
    assert result.exit_code == 0, result.output
    digest, raw = result.output.splitlines()
    assert sha256_name(raw.encode()) == digest
    assert [upstream.url for upstream in parse_gateway_config(raw.encode()).upstreams] == [URL]
    assert (
        invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", URL).output == result.output
    )
    as_json = invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", URL, "--json")
    assert json.loads(as_json.output)["digest"] == digest


def test_a_trust_file_pins_it_and_a_profile(tmp_path):
    home = str(tmp_path / "home")
    digest = invoke(gateway, "config", "--home", home, "--upstream", URL).output.splitlines()[0]
    made = invoke(platform, "trust", "--home", home, "--gateway-config", digest, "--profile-digest", PROFILE)
    trust = parse_trust_file(made.output.encode())
    assert digest in [entry.value for entry in trust.gateway_configs]
    assert [entry.value for entry in trust.profiles] == [PROFILE]


def test_a_name_that_is_none_is_refused(tmp_path):
    for option in ("--gateway-config", "--profile-digest"):
        result = invoke(platform, "trust", "--home", str(tmp_path / "home"), option, "sha256:short")
        assert result.exit_code == 1
        assert "trust.malformed" in result.output


def test_an_upstream_that_is_none_is_refused(tmp_path):
    result = invoke(gateway, "config", "--home", str(tmp_path / "home"), "--upstream", "ftp://x")
    assert result.exit_code == 1
