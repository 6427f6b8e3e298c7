"""A whole session whose secret is exchanged for a token: real supervisor, broker, sandbox, token endpoint and host."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.gateway.test_narrowed_bundles import row, trust_for
from tests.sandbox.supervisor.launcher import Launcher
from tests.sandbox.supervisor.test_supervised_session import (
    FETCH,
    HOST,
    VALUE,
    descendants,
    holds,
    one,
    part_of,
    read_first_line,
    run,
)
from tests.secrets.certificates import Authority
from tests.secrets.token_server import PATH, TOKEN_HOST, TokenServer
from tests.secrets.upstream_server import UpstreamServer, answer

from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verdict.verdict import State, Tier
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.private_files import open_private_file


@dataclass
class Hosts:
    """A host, the token endpoint that it trusts, and what a session needs to reach both."""

    api: UpstreamServer
    issuer: TokenServer
    files: list[int]
    root: bytes

    @property
    def profile(self) -> str:
        exchange = f"{{grant: client_credentials, url: '{self.issuer.url}', client_id: acme-agent}}"
        return (
            f"network_egress: 'allowed:{HOST}:{self.api.port}'\n"
            f"secrets_access: [{{name: TOKEN, inject: {{exchange: {exchange}}}}}]"
        )

    @property
    def more(self) -> dict[str, object]:
        hosts = {HOST: ["127.0.0.1"], TOKEN_HOST: ["127.0.0.1"]}
        return {"hosts": hosts, "roots": [self.root], "secrets": self.files}


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    authority = Authority()
    store = LocalStoreFile(tmp_path / "secrets", random_bytes=os.urandom)
    store.set("TOKEN", SecretValue(VALUE))
    files = [open_private_file(path) for path in (store.path, store.key_path)]

    def echo(received):
        return answer(b"seen: " + (received.header("authorization") or b"nothing"))

    with (
        UpstreamServer(echo, certificate=authority.leaf(tmp_path, HOST)) as api,
        TokenServer(authority.leaf(tmp_path, TOKEN_HOST), client_secret=VALUE.decode()) as issuer,
    ):
        yield Hosts(api, issuer, files, ssl.PEM_cert_to_DER_cert(authority.pem))
    for descriptor in files:
        os.close(descriptor)


def test_the_host_gets_a_token_and_both_uses_are_in_the_chain(launcher: Launcher, hosts: Hosts) -> None:
    command = ["python3", "-c", FETCH, f"https://{HOST}:{hosts.api.port}/v1"]
    output, story, link = run(one(launcher, command, hosts.profile, **hosts.more))
    (token,) = hosts.issuer.tokens
    assert hosts.api.received[0].headers("authorization") == [b"Bearer " + token.encode()]
    assert output.stdout.startswith(b"200 seen: Bearer affiant-ph-")
    assert story.kinds == [
        *("boot", "exec.intent", "secret", "secret", "egress.outcome", "egress.outcome"),
        *("exec.outcome", "end"),
    ]
    targets = [record.disclosed.text("act.tgt") for record in story.own if record.kind == "secret"]
    assert targets == [
        f"GET https://{HOST}:{hosts.api.port}/v1",
        f"POST https://{TOKEN_HOST}:{hosts.issuer.port}{PATH}",
    ]
    raw, now = story.bundle.to_bytes(), datetime.now(UTC)
    trust = parse_trust_file(trust_for(raw, str(story.own[2].member("pol", "dig")), now))
    verdict = verify_bundle(raw, trust, verifiers=STANDARD_VERIFIERS, at=now, build="a test")
    assert [check.code for check in verdict.checks if check.state is State.REFUSED] == []
    assert row(verdict, "session.intents").tier is Tier.AFFIRMING
    everything = b"".join(path.read_bytes() for path in link.folder.rglob("*") if path.is_file())
    assert VALUE not in everything and token.encode() not in everything


@pytest.mark.root
def test_S1_no_process_but_the_brokers_ever_holds_the_token(launcher: Launcher, hosts: Hosts) -> None:
    if os.geteuid() != 0:
        pytest.skip("not root: other processes' memory cannot be read")
    code = FETCH + "\nsys.stdin.read()\nimport time; time.sleep(30)"

    async def scenario():
        async with launcher.session(hosts.profile, **hosts.more) as link:
            await link.expect("ready")
            stdout, stderr = await link.start(["python3", "-uc", code, f"https://{HOST}:{hosts.api.port}/"])
            first = await asyncio.to_thread(read_first_line, stdout)
            family = {link.service.pid} | descendants(link.service.pid)
            held = {
                (part_of(pid, link.service.pid), what)
                for pid in family
                for what, value in (("secret", VALUE), ("token", hosts.issuer.tokens[0].encode()))
                if holds(pid, value)
            }
            os.close(stdout)
            os.close(stderr)
            return first, held

    first, held = run(scenario())
    assert first.startswith(b"200 ")
    assert held == {("broker", "secret"), ("broker", "token")}
