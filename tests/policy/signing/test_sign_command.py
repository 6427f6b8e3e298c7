"""``affiant policy sign`` as reviewers call it; sigstore is a deployment made here, over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.policy.signing_desk import IDENTITY, Desk
from tests.sigstore_authority.authority import Authority
from tests.sigstore_authority.serving import Deployment, serve

from affiant.attestation.signatures.sigstore.bundle import parse_bundle


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return Desk(tmp_path)


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    with serve(Authority()) as running:
        yield running


def test_a_key_signs_beside_the_file_and_says_what(desk: Desk) -> None:
    done = desk.sign()
    assert done.exit_code == 0, done.output
    assert "SIGNED" in done.output and "profiles.yaml.sig.json" in done.output
    assert "signed at   unknown" in done.output
    assert desk.verify().exit_code == 0
    told = json.loads(desk.sign("-o", desk.path("again"), "--json").output)
    assert told["verified"]["floor"].startswith("sha384:") and told["file"] == desk.path("again")
    assert desk.read("again") == desk.read("profiles.yaml.sig.json")


def test_nothing_is_written_over(desk: Desk) -> None:
    desk.write("profiles.yaml.sig.json", "mine")
    assert desk.sign().exit_code == 2
    assert desk.read("profiles.yaml.sig.json") == b"mine"


def test_what_would_be_refused_is_not_signed(desk: Desk) -> None:
    desk.write("profiles.yaml", "agent_configs: {dev: {tools: [a], tests: [{deny: {tool: a}}]}}\n")
    done = desk.sign()
    assert (done.exit_code, "[policy.test_failed]" in done.output) == (1, True)
    desk.write("profiles.yaml", "agent_configs: {}\n")
    assert desk.sign().exit_code == 1
    assert not Path(desk.path("profiles.yaml.sig.json")).exists()


def test_a_key_that_others_can_read_is_usage_and_not_shown(desk: Desk) -> None:
    Path(desk.path("key.pem")).chmod(0o644)
    done = desk.sign()
    assert (done.exit_code, "[policy.signing_key]" in done.output) == (2, True)
    assert not any(line in done.output for line in desk.read("key.pem").decode().splitlines()[1:-1])


@pytest.mark.parametrize(
    "options", [(), ("--sigstore", "--key", "KEY"), ("--key", "KEY", "--trust-config", "KEY")]
)
def test_exactly_one_way_to_sign_is_named(desk: Desk, options: tuple[str, ...]) -> None:
    given = [desk.path("key.pem") if option == "KEY" else option for option in options]
    assert desk.call("sign", *given).exit_code == 2


def test_an_identity_signs_through_sigstore(desk: Desk, deployment: Deployment) -> None:
    done = desk.sign_at(deployment)
    assert done.exit_code == 0, done.output
    assert f"signed by   {IDENTITY}" in done.output and "says the log" in done.output
    assert parse_bundle(desk.read("profiles.yaml.sig.json")).statement
    who = ("--identity", IDENTITY, "--issuer", deployment.issuer, "--trusted-root", desk.path("root.json"))
    assert desk.call("verify", *who).exit_code == 0


def test_a_token_is_read_from_the_environment_too(desk: Desk, deployment: Deployment) -> None:
    desk.sign_at(deployment, token="")
    env = {"SIGSTORE_IDENTITY_TOKEN": deployment.token(IDENTITY)}
    done = desk.call("sign", "--sigstore", "--trust-config", desk.path("config.json"), env=env)
    assert done.exit_code == 0, done.output


def test_a_token_that_cannot_be_used_is_usage_and_never_shown(desk: Desk, deployment: Deployment) -> None:
    for token in ("", "no token", "\u00ff"):
        done = desk.sign_at(deployment, token=token)
        assert done.exit_code == 2
        assert not token or token not in done.output
    assert deployment.asked == []
    assert not Path(desk.path("profiles.yaml.sig.json")).exists()


def test_a_service_that_refuses_leaves_no_file_and_no_token_in_the_output(
    desk: Desk, deployment: Deployment
) -> None:
    deployment.failing.add("/api/v1/log/entries")
    token = deployment.token(IDENTITY)
    done = desk.sign_at(deployment, token=token)
    assert (done.exit_code, "[published.signing]" in done.output) == (1, True)
    assert token.split(".")[1] not in done.output
    assert not Path(desk.path("profiles.yaml.sig.json")).exists()


def test_services_that_sign_under_other_roots_than_they_say_are_refused(
    desk: Desk, deployment: Deployment
) -> None:
    config = deployment.trust_config()
    config["trustedRoot"]["tlogs"] = Authority().trusted_root()["tlogs"]
    deployment.trust_config = lambda **_: config  # type: ignore[method-assign]
    done = desk.sign_at(deployment)
    assert (done.exit_code, "[published.not_logged]" in done.output) == (1, True)
    assert not Path(desk.path("profiles.yaml.sig.json")).exists()
