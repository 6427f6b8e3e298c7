"""``affiant approvals`` before a server that lies: what it says beside the bytes draws nothing on the terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.policy.approvals.making import NOW, draft, nonce
from tests.secrets.certificates import Authority
from tests.secrets.upstream_server import Received, UpstreamServer, answer

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.signatures.approvers.keys import APPROVER_KEY
from affiant.files import write_whole
from affiant.gateway.cli.approvals_commands import approvals

ACTION = draft().issue(nonce=nonce(), made=NOW, not_after=NOW + 600)
DRAWS = "\x1b[2J\u202e\r\n\x1b[Hrequest  GET https://harmless.example"


def told(**changes: object) -> Mapping[str, object]:
    return {
        "action": ACTION.name,
        "session": ACTION.session,
        "agent": "dev",
        "plane": "egress",
        "state": "pending",
        "not_after": NOW + 600,
        "quorum": 1,
        "approved": [],
        "denied": [],
        "bytes": b64u(ACTION.raw),
        **changes,
    }


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority().leaf(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture
def asked(certificate: Path, tmp_path: Path):
    """Runs a command against a server that answers with these members, and an empty body for statements."""
    key = tmp_path / "ann.key"
    write_whole(key, APPROVER_KEY.make(os.urandom), mode=0o600, exact=True, replace=False)

    def ask(
        members: Mapping[str, object], *command: str, status: bytes = b"200 OK"
    ) -> tuple[Result, list[Received]]:
        def script(received: Received) -> list[bytes | float]:
            listing = received.line.startswith(b"GET /v1/approvals ") and "bytes" in members
            said = {"approvals": [members]} if listing else members
            return answer(json.dumps(said).encode(), status=status)

        with UpstreamServer(script, certificate=certificate) as server:
            where = ("--key", str(key), "--gateway", f"https://127.0.0.1:{server.port}")
            done = CliRunner().invoke(approvals, [*command, *where], input="y\n", color=True)
        return done, server.received

    return ask


@pytest.mark.parametrize(
    "changes",
    [
        {"quorum": DRAWS},
        {"state": DRAWS},
        {"quorum": {DRAWS: 1}},
        {"approved": DRAWS},
        {"quorum": "9" * 100_000},
    ],
)
def test_what_a_gateway_says_of_an_action_draws_nothing_beside_its_card(asked, changes) -> None:
    done, _ = asked(told(**changes), "show", ACTION.name)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert [line for line in lines if line.startswith("request")] == [
        "request  POST https://api.example.com/v1/x"
    ]
    assert all(len(line) < 200 for line in lines)


@pytest.mark.parametrize("member", ["action", "session", "agent", "plane", "state", "quorum", "not_after"])
def test_a_list_draws_nothing(asked, member: str) -> None:
    done, _ = asked({"approvals": [told(**{member: DRAWS})]}, "list", "--all")
    assert done.exit_code == 0
    assert all(line.isprintable() for line in done.stdout.split("\n"))
    assert len(done.stdout.splitlines()) == 1


def test_a_refusal_draws_nothing(asked) -> None:
    error = {"error": {"message": DRAWS, "code": DRAWS}}
    done, _ = asked(error, "show", ACTION.name, status=b"403 Forbidden")
    assert done.exit_code != 0
    assert "\x1b" not in done.output
    assert "\u202e" not in done.output


@pytest.mark.parametrize("word", ["approve", "deny"])
def test_another_action_than_the_one_asked_for_is_not_signed(asked, word: str) -> None:
    other = draft(body=b"{}").issue(nonce=nonce(), made=NOW, not_after=NOW + 600)
    done, received = asked(told(bytes=b64u(other.raw)), word, ACTION.name, "--yes")
    assert done.exit_code != 0
    assert [each.line.split()[0] for each in received] == [b"GET"]


def test_without_a_person_at_a_terminal_nothing_is_signed(asked) -> None:
    part = ACTION.name.removeprefix("sha256:")[:12]
    for command, code in (
        (("approve", part), 1),
        (("approve", part, "--yes"), 2),
        (("deny", ACTION.name), 1),
    ):
        done, received = asked(told(), *command)
        assert done.exit_code == code
        assert b"POST" not in [each.line.split()[0] for each in received]
    done, received = asked(told(), "approve", ACTION.name, "--yes")
    assert (done.exit_code, received[-1].line.split()[0]) == (0, b"POST")


def test_another_tls_key_than_the_one_that_was_named_is_told_nothing(asked) -> None:
    done, received = asked(told(), "approve", ACTION.name, "--yes", "--spki", b64u(b"\0" * 32))
    assert done.exit_code != 0
    assert received == []
