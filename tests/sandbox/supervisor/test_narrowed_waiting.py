"""A whole session that is narrowed while a request and a tool call wait for a person: neither is done by a later word.

With the real supervisor, proxy, gateway and tool server; the person signs at the gateway's own door.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.gateway.approvals.approver import Approver
from tests.gateway.conftest import serving_gateway
from tests.gateway.test_narrowed_bundles import row, trust_for
from tests.gateway.tool_gate.conftest import served_over_http
from tests.sandbox.supervisor.test_narrowed_session import Place, place, run

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verdict.verdict import State, Tier
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.policy.approvals.action import Action, parse_action

__all__ = ["place"]

PROFILE = """
tools: [{{name: add, server: web, approval: true, args: {{a: any, b: any}}}}, {{name: echo, server: web}}]
network_egress: [{{host: {host}, port: {port}, methods: [GET, POST]}}]
requires_human_approval: {{egress: [POST], approvers: [KID]}}
"""
AGENT = """
import concurrent.futures, http.client, json, os, ssl, sys, urllib.request
from urllib.parse import urlsplit
port = int(sys.argv[1])
proxy = urlsplit(os.environ["HTTPS_PROXY"])

def post():
    connection = http.client.HTTPSConnection(proxy.hostname, proxy.port, context=ssl.create_default_context())
    connection.set_tunnel("api.example.test", port)
    connection.request("POST", "/v1", body=b"x", headers={"Content-Type": "text/plain"})
    return connection.getresponse().status

def call():
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 1, "b": 2}}}).encode()
    asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"].removesuffix("/v1") + "/mcp", data=body,
        headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as reply:
        return json.load(reply)["result"]["content"][0]["text"]

def told(work):
    try:
        return work()
    except (OSError, http.client.HTTPException):
        return "cut"

with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for _ in sys.stdin:
        print(json.dumps([each.result() for each in [pool.submit(told, work) for work in (post, call)]]), flush=True)
"""


class Person:
    """Ann, at the gateway."""

    def __init__(self, approver: Approver) -> None:
        self.approver = approver

    def pending(self) -> list[Action]:
        answer = self.approver.ask("GET", "/v1/approvals")
        listed = answer.json()["approvals"] if answer.status == 200 else []
        names = [each["action"] for each in listed if each["state"] == "pending"]
        shown = [self.approver.ask("GET", f"/v1/approvals/{name.removeprefix('sha256:')}") for name in names]
        return [parse_action(from_b64u(each.json()["bytes"])) for each in shown]

    async def asked(self) -> list[Action]:
        """The request and the call, once both wait."""
        async with asyncio.timeout(15):
            while len(found := await asyncio.to_thread(self.pending)) < 2:
                await asyncio.sleep(0.1)
        return found

    async def says(self, actions: list[Action]) -> list[int | str]:
        answers = [await asyncio.to_thread(self.approver.decide, action) for action in actions]
        return [answer.status if answer.status == 200 else answer.code for answer in answers]


@pytest.mark.slow
def test_what_waits_for_a_person_is_cut_by_a_narrowing_and_done_only_by_another_word(
    place: Place, platform_home: Path, tmp_path: Path
) -> None:
    async def scenario(ann: Person, profile: str):
        async with place.agent(profile, script=AGENT) as agent:
            working = asyncio.create_task(agent.works())
            before = await ann.asked()
            narrowed = await agent.narrow(profile.replace(", {{name: echo, server: web}}", ""))
            first = await working
            late = await ann.says(before)
            working = asyncio.create_task(agent.works())
            after = await ann.asked()
            agreed = await ann.says(after)
            second = await working
            return before, narrowed, first, late, after, agreed, second, await agent.finish()

    with served_over_http() as url:
        servers = tmp_path / "tools.json"
        servers.write_text(json.dumps({"mcp_servers": {"web": {"url": url}}}))
        with serving_gateway(
            tmp_path / "gateway-home", platform_home, "--mcp-servers", str(servers)
        ) as running:
            place.launcher.gateway = running.gateway
            ann = Approver(running.gateway, spki=running.gateway.spki)
            found = run(scenario(Person(ann), PROFILE.replace("KID", ann.kid)))
    before, narrowed, first, late, after, agreed, second, story = found
    assert (narrowed["event"], narrowed["changed"]) == ("narrowed", True)
    assert first == ["cut", "cut"]
    assert late == ["approval.expired"] * 2
    assert (agreed, second) == ([200, 200], [200, "3"])
    assert len({action.name for action in (*before, *after)}) == 4
    assert {action.policy for action in before} != {action.policy for action in after}
    assert len(place.upstream.received) == 1

    own = [(record.kind, record.member("rsn"), record.member("pol", "epoch")) for record in story.own]
    assert [each for each in own if each[0] == "refusal"] == [
        ("refusal", "egress.cut", 0),
        ("refusal", "gateway.unreachable", 0),
    ]
    at = own.index(("policy", None, 1))
    assert all(epoch == (number >= at) for number, (_, _, epoch) in enumerate(own) if epoch is not None)
    gateway = sorted((r for r in story.records if r.role == "gateway"), key=lambda record: record.seq)
    kinds = [(r.kind, r.member("rsn") or r.member("ph")) for r in gateway if r.kind in ("refusal", "tool")]
    assert kinds == [("refusal", "request.abandoned"), ("tool", "intent"), ("tool", "outcome")]
    assert sum(record.kind == "approval" for record in gateway) == 2, (
        "a word that came too late is not recorded"
    )

    raw, now = story.bundle.to_bytes(), datetime.now(UTC)
    start = next(record for record in story.own if record.member("pol", "epoch") == 0)
    verdict = verify_bundle(
        raw,
        parse_trust_file(trust_for(raw, str(start.member("pol", "dig")), now)),
        verifiers=STANDARD_VERIFIERS,
        at=now,
        build="a test",
    )
    assert [check.code for check in verdict.checks if check.state is State.REFUSED] == []
    assert row(verdict, "session.counter").tier is Tier.WARNING, (
        "the call that was cut has a record of both sides"
    )
    assert "both sides recorded" in row(verdict, "session.counter").detail
    assert row(verdict, "session.intents").tier is Tier.AFFIRMING
    assert row(verdict, "pol.bound").detail.count("restricted once") == 1
