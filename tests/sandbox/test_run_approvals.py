"""A person approves what a real session wants to send: from another process, by the command line, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.sandbox.conftest import affiant
from tests.sigstore_authority.authority import Authority
from tests.sigstore_authority.serving import Deployment, serve

from affiant.attestation.encoding.canonical import canonical

HOST = "pay.example.test"

POSTS = """
import json, sys, urllib.request, urllib.error
for target, body in zip(sys.argv[2::2], sys.argv[3::2]):
    request = urllib.request.Request(sys.argv[1] + target, body.encode(), {"Content-Type": "text/plain"})
    try:
        print(urllib.request.urlopen(request, timeout=60).status, flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["error"]["code"], flush=True)
"""

IMPATIENT = """
import sys, time, urllib.request
def post():
    request = urllib.request.Request(sys.argv[1] + "/pay", b"5", {"Content-Type": "text/plain"})
    try:
        print(urllib.request.urlopen(request, timeout=1).status, flush=True)
    except OSError as error:
        print("no", flush=True)
post()
time.sleep(30)
post()
"""


class Bank:
    """What was asked of the host."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.port = 0


@contextmanager
def bank() -> Iterator[Bank]:
    """A plain HTTP host on the loopback."""
    made = Bank()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.taken.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on the test's standard error."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Person:
    """An approver at their own command line."""

    def __init__(self, machine, name: str) -> None:
        self._home = machine.home
        self.key = machine.folder / f"{name}.key"
        self.kid = self("keygen", "-o", str(self.key), bare=True).stdout.decode().strip()

    def __call__(self, *arguments: str, bare: bool = False) -> subprocess.CompletedProcess[bytes]:
        where = () if bare else ("--home", str(self._home), "--key", str(self.key))
        return affiant("approvals", *arguments, *where)

    def waiting(self, *, state: str = "pending", within: float = 30) -> str:
        """The name of the one action that stands so."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            done = self("list", "--all", "--json")
            found = json.loads(done.stdout)["approvals"] if done.returncode == 0 else []
            names = [each["action"] for each in found if each["state"] == state]
            if names:
                return names[0]
            time.sleep(0.2)
        raise AssertionError(f"nothing is {state}")


class PersonByIdentity(Person):
    """An approver without a key file: a token, and a deployment that takes it."""

    def __init__(self, machine, deployment: Deployment, subject: str) -> None:
        self._home = machine.home
        config, token = machine.folder / "deployment.json", machine.folder / f"{subject}.token"
        config.write_text(json.dumps(deployment.trust_config()))
        token.write_text(deployment.token(subject))
        self._who = ("--identity", "--trust-config", str(config), "--identity-token", str(token))

    def __call__(self, *arguments: str, bare: bool = False) -> subprocess.CompletedProcess[bytes]:
        return affiant("approvals", *arguments, "--home", str(self._home), *self._who)


def options(machine, port: int, kids: Sequence[str], bundle: Path, *, more: str = "") -> tuple[str, ...]:
    profile = machine.folder / "paying.yaml"
    profile.write_text(
        f"agent_configs:\n  payer:\n    network_egress: [{{host: {HOST}, port: {port}, scheme: http, "
        f"address: 127.0.0.1/32}}]\n"
        f"    requires_human_approval: {{egress: [POST], approvers: [{', '.join(kids)}]{more}}}\n"
    )
    return ("--profile", str(profile), "--host", f"{HOST}=127.0.0.1", "--bundle", str(bundle))


def lines(data: bytes) -> list[str]:
    return data.decode().splitlines()


@pytest.mark.slow
def test_a_request_waits_for_a_person_and_goes_out_once(warm, tmp_path):
    ann, eve = Person(warm, "ann"), Person(warm, "eve")
    bundle = tmp_path / "b.json"
    with bank() as host:
        agent = warm.start(
            *("python3", "-c", POSTS, f"http://{HOST}:{host.port}"),
            *("/pay", "100", "/pay", "100", "/pay", "999"),
            agent="payer",
            options=options(warm, host.port, [ann.kid], bundle),
        )
        first = ann.waiting()
        shown = ann("show", first)
        assert f"request  POST http://{HOST}:{host.port}/pay" in lines(shown.stdout)
        assert "  | 100" in lines(shown.stdout)
        assert b"approval.not_an_approver" in eve("approve", first, "--yes").stderr
        unread = ann("approve", first)  # nobody is at a terminal, and nobody said yes
        assert (unread.returncode, b"nothing was signed" in unread.stderr) == (1, True)
        assert ann("approve", first.removeprefix("sha256:")[:8], "--yes").returncode == 2
        assert host.taken == []
        approved = ann("approve", first, "--yes", "--json")
        assert approved.returncode == 0, approved.stderr
        second = ann.waiting()
        assert second != first, "the same request again needs an approval of its own"
        assert host.taken == [("/pay", b"100")]
        assert ann("deny", second, "--yes").returncode == 0
        third = ann.waiting()
        assert first == ann.waiting(state="done")
        assert b"[approval.used]" in ann("approve", first, "--yes").stderr
        assert ann("deny", third, "--yes").returncode == 0
        out, err = agent.communicate(timeout=60)
    assert (agent.returncode, lines(out)) == (0, ["200", "403 approval_denied", "403 approval_denied"]), err
    assert host.taken == [("/pay", b"100")]
    verdict = warm.verdict(bundle)
    assert "3 approval" in verdict
    (judged,) = (line for line in verdict.splitlines() if line.startswith("apr.bound "))
    assert judged.split()[1:7] == ["held", "affirming", "1", "actions", "done", "by"]


@pytest.mark.slow
def test_what_was_approved_is_not_sent_once_the_gateway_is_gone(machine, tmp_path):
    ann = Person(machine, "ann")
    with bank() as host:
        agent = machine.start(
            *("python3", "-c", IMPATIENT, f"http://{HOST}:{host.port}"),
            agent="payer",
            options=options(machine, host.port, [ann.kid], tmp_path / "b.json"),
        )
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"no\n"  # it gave up, and the action waits on
        name = ann.waiting()
        assert ann("approve", name, "--yes").returncode == 0
        gateway = json.loads((machine.home / "gateway" / "gateway.json").read_bytes())
        os.kill(gateway["pid"], signal.SIGKILL)
        agent.communicate(timeout=60)
        assert agent.returncode == 125
        assert host.taken == []


@pytest.mark.slow
def test_a_person_without_a_key_approves_as_who_they_are(machine, tmp_path):
    bundle = tmp_path / "b.json"
    with bank() as host, serve(Authority()) as deployment:
        ann = PersonByIdentity(machine, deployment, "ann@example.org")
        eve = PersonByIdentity(machine, deployment, "eve@example.org")
        root = json.dumps(canonical(deployment.authority.trusted_root()).decode())
        who = f"{{issuer: '{deployment.issuer}', subject: ann@example.org}}"
        agent = machine.start(
            *("python3", "-c", POSTS, f"http://{HOST}:{host.port}", "/pay", "100", "/pay", "999"),
            agent="payer",
            options=options(machine, host.port, [who], bundle, more=f", trusted_root: {root}"),
        )
        first = ann.waiting()
        assert b"approval.not_an_approver" in eve("approve", first, "--yes").stderr
        assert host.taken == []
        approved = ann("approve", first, "--yes", "--json")
        assert approved.returncode == 0, approved.stderr
        second = ann.waiting()
        assert host.taken == [("/pay", b"100")]
        assert ann("deny", second, "--yes").returncode == 0
        out, err = agent.communicate(timeout=60)
    assert (agent.returncode, lines(out)) == (0, ["200", "403 approval_denied"]), err
    verdict = machine.verdict(bundle)
    (judged,) = (line for line in verdict.splitlines() if line.startswith("apr.bound "))
    assert judged.split()[1:7] == ["held", "affirming", "1", "actions", "done", "by"]
