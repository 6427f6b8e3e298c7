"""``affiant approvals --identity``: what is signed, for whom, and that the token goes to the deployment alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.signatures.approvers.signing_identity import root_of
from tests.policy.approvals.making import draft, nonce
from tests.secrets.certificates import Authority as TLSAuthority
from tests.secrets.upstream_server import Received, UpstreamServer, answer
from tests.sigstore_authority.authority import Authority
from tests.sigstore_authority.serving import Deployment, serve

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.signatures.approvers.identities import ApproverIdentity, NamedIdentities
from affiant.attestation.signatures.approvers.signed_by_identity import (
    verify_signed_action,
    verify_signed_reader,
)
from affiant.gateway.cli.approvals_commands import approvals
from affiant.policy.approvals.action import Action
from affiant.policy.loading.load import load_profiles

SUBJECT = "ann@example.org"


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    with serve(Authority()) as made:
        yield made


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TLSAuthority().leaf(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture
def action() -> Action:
    now = int(time.time())
    return draft().issue(nonce=nonce(), made=now, not_after=now + 600)


@pytest.fixture
def asked(deployment: Deployment, certificate: Path, tmp_path: Path, action: Action):
    """Runs a command as an identity, against a server that shows the action and takes whatever comes."""

    def ask(*command: str, token: str | None = None) -> tuple[Result, list[Received]]:
        config, tokens = tmp_path / "deployment.json", tmp_path / "token"
        config.write_text(json.dumps(deployment.trust_config()))
        tokens.write_text(deployment.token(SUBJECT) if token is None else token)
        members = {"bytes": b64u(action.raw), "state": "pending", "quorum": 1, "until": 0, "approvals": []}

        def script(_: Received) -> list[bytes | float]:
            return answer(json.dumps(members).encode())

        with UpstreamServer(script, certificate=certificate) as server:
            where = ("--gateway", f"https://127.0.0.1:{server.port}")
            who = ("--identity", "--trust-config", str(config), "--identity-token", str(tokens))
            done = CliRunner().invoke(approvals, [*command, *where, *who])
            return done, list(server.received)

    return ask


def named(deployment: Deployment) -> NamedIdentities:
    who = ApproverIdentity(deployment.issuer, SUBJECT)
    return NamedIdentities(frozenset({who}), root_of(deployment.authority))


def proof_of(received: Received) -> str:
    (value,) = received.headers("affiant-approver")
    return value.decode()


def test_an_identity_is_introduced_and_then_signs_the_action_that_was_shown(
    asked, deployment: Deployment, action: Action
) -> None:
    done, received = asked("approve", action.name, "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert [each.line.split(b" ")[1] for each in received] == [
        b"/v1/approvers",
        *[f"/v1/approvals/{action.name.removeprefix('sha256:')}".encode()] * 2,
    ]
    introduced, _, decided = received
    who = named(deployment)
    (name,) = who.names
    signed = verify_signed_action(decided.body.decode(), who)
    assert (signed.name, signed.action, signed.approves) == (name, action.name, True)
    assert signed.expires == action.not_after
    assert json.loads(done.stdout)["kid"] == name
    parts = jws.split(proof_of(introduced), typ="affiant-approver+jwt")
    spki = json.loads(parts.payload)["spki"]
    reader = verify_signed_reader(
        introduced.body.decode(), who, kid=parts.kid, spki=spki, now=time.time(), tolerance_s=60
    )
    assert reader.name == name
    assert jws.split(proof_of(decided), typ="affiant-approver+jwt").kid == parts.kid


def test_a_token_goes_to_the_deployment_and_nowhere_else(
    asked, deployment: Deployment, action: Action
) -> None:
    token = deployment.token(SUBJECT)
    done, received = asked("deny", action.name, "--yes", token=token)
    assert done.exit_code == 0, done.output
    sent = b"".join(each.head + each.body for each in received)
    for part in token.split("."):
        assert part.encode() not in sent
        assert part not in done.output


def test_without_a_good_token_nothing_is_signed(asked, deployment: Deployment, action: Action) -> None:
    for token in (deployment.token(SUBJECT, expires_in=timedelta(seconds=-5)), "no token", ""):
        before = list(deployment.asked)
        done, received = asked("approve", action.name, "--yes", token=token)
        assert done.exit_code == 1, done.output
        assert received == []
        assert deployment.asked == before


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--key", "x.key", "--identity"),
        ("--key", "x.key", "--trust-config", __file__),
        ("--key", "x.key", "--identity-token", __file__),
    ],
)
def test_one_way_to_sign_is_named(options: tuple[str, ...]) -> None:
    done = CliRunner().invoke(approvals, ["list", "--gateway", "https://127.0.0.1:1", *options])
    assert done.exit_code == 2, done.output


def test_a_trusted_root_is_printed_as_a_profile_reads_it(deployment: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "trusted_root.json"
    file.write_text(json.dumps(deployment.authority.trusted_root(), indent=2))
    done = CliRunner().invoke(approvals, ["trusted-root", str(file)])
    assert done.exit_code == 0, done.output
    profile = (
        "agent_configs:\n  dev:\n    requires_human_approval:\n      everything: true\n"
        f"      approvers: [{{issuer: '{deployment.issuer}', subject: '{SUBJECT}'}}]\n      {done.output}"
    )
    found = load_profiles(profile.encode()).profile("dev").policy.approval
    assert found.identities == named(deployment)
    told = CliRunner().invoke(approvals, ["trusted-root", str(file), "--json"])
    assert json.loads(told.output)["digest"] == sha256_name(root_of(deployment.authority))


@pytest.mark.parametrize(
    "content", ["", "{}", '{"mediaType": "application/vnd.dev.sigstore.trustedroot+json"}', "[" * 9000]
)
def test_what_verifies_nothing_is_not_printed(content: str, tmp_path: Path) -> None:
    file = tmp_path / "trusted_root.json"
    file.write_text(content)
    done = CliRunner().invoke(approvals, ["trusted-root", str(file)])
    assert done.exit_code == 1
    assert "trusted_root: '" not in done.output
