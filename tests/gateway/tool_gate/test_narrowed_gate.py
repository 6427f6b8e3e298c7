"""Tools that a narrowing takes away: gone from the listing and from calls, with the limits of those that stay.

And calls that wait for a person while it happens.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.approvals.approver import Approver, path_of
from tests.gateway.in_process import InProcess, asgi
from tests.gateway.narrowing_client import NarrowingClient
from tests.gateway.tool_gate.conftest import PROFILE, Agent

from affiant.attestation.encoding.binary_text import b64u_sha256, from_b64u
from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.policy.approvals.action import Action, parse_action

NARROWER = PROFILE.replace(b"      - {name: slow, server: web}\n", b"").replace(
    b"args: {a: {max: 100}, b: any}", b"args: {a: {max: 10}, b: any}, rate: 3/min"
)


def listed(agent: Agent) -> set[str]:
    return {tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]}


def test_a_tool_that_is_taken_away_is_listed_and_called_no_more(
    gated: InProcess, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(gated, platform, profile=PROFILE) as client:
        agent = Agent(client)
        assert "slow" in listed(agent)
        assert agent.text("add", a=50, b=1) == "51"
        client.narrowed(NARROWER)
        assert "slow" not in listed(agent)
        assert "add" in listed(agent)
        assert agent.refused("slow") == "tool.not_allowed"
        assert agent.refused("add", a=50, b=1) == "tool.not_allowed"
        assert agent.text("add", a=5, b=1) == "6"
        epochs = [record["pol"]["epoch"] for record in agent.records() if "pol" in record]
        assert epochs == sorted(epochs)
        assert {*epochs} == {0, 1}


def test_what_was_called_before_counts_for_a_limit_that_comes(
    gated: InProcess, platform: PlatformClient
) -> None:
    with NarrowingClient.admitted_by(gated, platform, profile=PROFILE) as client:
        agent = Agent(client)
        for _ in range(2):
            agent.text("add", a=1, b=1)
        client.narrowed(NARROWER + b"    limits: {tool_calls: 3}\n")
        agent.text("add", a=1, b=1)
        assert agent.refused("add", a=1, b=1) == "limit_tool_calls"


# -- calls that wait for a person --------------------------------------------------------------------------------------


@dataclass
class Waiting:
    """A call that waits for a person, in a session that can be narrowed."""

    client: NarrowingClient
    agent: Agent
    ann: Approver
    profile: bytes
    path: Path
    answer: Future[Any]
    action: Action
    leave: asyncio.Event

    @property
    def narrower(self) -> bytes:
        return self.profile.replace(b"      - {name: add, server: web}\n", b"")

    @property
    def made(self) -> bool:
        """Whether the server was called: it writes when it is done."""
        return self.path.exists()

    def of_tools(self) -> list[tuple[str, str | None, int]]:
        return [
            (record["ph"], record["act"].get("end"), record["pol"]["epoch"])
            for record in self.agent.records()
            if record["kind"] == "tool" and "ph" in record
        ]

    def refusals(self) -> list[tuple[str, bool]]:
        """Why, and whether with the counter of the request."""
        found = [record for record in self.agent.records() if record["kind"] == "refusal"]
        return [(record["rsn"], "cseq" in record["agt"]) for record in found]

    def shown(self, state: str) -> Action:
        """The one action of the session that stands so, once it does."""
        until = time.monotonic() + 10
        while time.monotonic() < until:
            listed = self.ann.ask("GET", "/v1/approvals")
            for each in listed.json()["approvals"] if listed.status == 200 else []:
                if each["session"] == self.client.id and each["state"] == state:
                    entry = self.ann.ask("GET", f"/v1/approvals/{each['action'].removeprefix('sha256:')}")
                    return parse_action(from_b64u(entry.json()["bytes"]))
            time.sleep(0.02)
        raise AssertionError(f"nothing is {state}")

    def state(self) -> str:
        return self.ann.ask("GET", path_of(self.action)).json()["state"]


@contextmanager
def waiting(gated: InProcess, platform: PlatformClient, path: Path) -> Iterator[Waiting]:
    """A session whose call waits, and whose narrowings leave what is under way a moment."""
    ann = Approver(gated)
    profile = f"""
agent_configs:
  tester:
    tools:
      - {{name: add, server: web}}
      - {{name: slow, server: web, approval: true, args: {{seconds: any, path: any}}}}
    requires_human_approval: {{approvers: [{ann.kid}]}}
""".encode()
    narrowings = gated.service.restrictions
    gated.service.restrictions = replace(narrowings, grace_s=0.3, recorded_s=2)
    try:
        with (
            ThreadPoolExecutor(1) as pool,
            NarrowingClient.admitted_by(gated, platform, profile=profile) as client,
        ):
            leave = asyncio.Event()
            answer = pool.submit(_called, gated, client, path, leave)
            made = Waiting(client, Agent(client), ann, profile, path, answer, None, leave)  # type: ignore[arg-type]
            made.action = made.shown("pending")
            yield made
            gated.loop.call_soon_threadsafe(leave.set)
    finally:
        gated.service.restrictions = narrowings


def _called(gated: InProcess, client: NarrowingClient, path: Path, leave: asyncio.Event) -> Any:
    """The body of the answer; None: there was none."""
    params = {"name": "slow", "arguments": {"seconds": 0, "path": str(path)}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"Content-Type": "application/json"}
    headers[PROOF_HEADER] = client.proof("POST", "/mcp", body, content_type="application/json", counted=True)
    asking = asgi(gated.app, "POST", "/mcp", body, headers, gone=leave)
    try:
        answer = asyncio.run_coroutine_threadsafe(asking, gated.loop).result(30)
    except concurrent.futures.CancelledError:
        return None
    return answer.json() if answer.status else None


def test_a_call_that_waits_is_given_up_by_a_narrowing_and_an_approval_comes_too_late(
    gated: InProcess, platform: PlatformClient, tmp_path: Path
) -> None:
    with waiting(gated, platform, tmp_path / "called") as held:
        before = b64u_sha256(held.client.evidence)
        held.client.narrowed(held.narrower)
        assert held.answer.result(10) is None, "the agent gets no answer"
        assert held.refusals() == [("request.abandoned", True)]
        assert held.state() == "expired"
        late = held.ann.decide(held.action)
        assert (late.status, late.code) == (403, "approval.expired")
        time.sleep(0.2)
        assert not held.made
        assert held.of_tools() == []
        again = Agent(held.client)
        again._next = 7
        with ThreadPoolExecutor(
            1
        ) as pool:  # the same again is another action, of the profile that is in force now
            asking = pool.submit(again.text, "slow", seconds=0, path=str(held.path))
            action = held.shown("pending")
            assert (action.policy, action.name != held.action.name) == (held.client.policy.digest, True)
            assert held.ann.decide(action).status == 200
            asking.result(10)
        assert held.made
        assert held.of_tools() == [("intent", None, 1), ("outcome", "complete", 1)]
        (refusal,) = [record for record in held.agent.records() if record["kind"] == "refusal"]
        assert refusal["agt"]["evd"] == before


def test_a_call_whose_supervisor_cuts_it_before_a_narrowing_is_not_made_by_a_later_approval(
    gated: InProcess, platform: PlatformClient, tmp_path: Path
) -> None:
    with waiting(gated, platform, tmp_path / "called") as held:
        gated.loop.call_soon_threadsafe(held.leave.set)
        assert held.answer.result(10) is None
        assert held.ann.decide(held.action).status == 200  # it is taken, and nobody claims it
        held.client.narrowed(held.narrower)
        assert held.ann.decide(held.action).code == "approval.expired"
        time.sleep(0.2)
        assert not held.made
        assert (held.of_tools(), held.refusals()) == ([], [("request.abandoned", True)])


def test_a_call_that_is_approved_while_a_narrowing_lets_requests_end_is_made_and_recorded_before_it(
    gated: InProcess, platform: PlatformClient, tmp_path: Path
) -> None:
    with waiting(gated, platform, tmp_path / "called") as held:
        gated.service.restrictions = replace(gated.service.restrictions, grace_s=5)
        with ThreadPoolExecutor(1) as pool:
            narrowing = pool.submit(held.client.narrow, held.narrower)
            session = gated.service.sessions.by_id(held.client.id)
            assert session is not None
            until = time.monotonic() + 10
            while not session.held and time.monotonic() < until:
                time.sleep(0.01)
            assert held.ann.decide(held.action).status == 200
            assert "result" in held.answer.result(10)
            assert narrowing.result(10).status == 200
        assert held.made
        assert held.of_tools() == [("intent", None, 0), ("outcome", "complete", 0)]
        assert held.agent.refused("add", a=1, b=1) == "tool.not_allowed"


@pytest.mark.parametrize("after", [0.1, 0.3, 0.32])
def test_whenever_it_is_approved_a_call_is_made_under_the_profile_that_it_is_recorded_by(
    gated: InProcess, platform: PlatformClient, tmp_path: Path, after: float
) -> None:
    """The approval races with the end of what is under way: made and recorded before the change, or never."""
    with waiting(gated, platform, tmp_path / "called") as held:

        def approve() -> None:
            time.sleep(after)
            held.ann.decide(held.action)

        approving = threading.Thread(target=approve)
        approving.start()
        held.client.narrowed(held.narrower)
        approving.join()
        held.answer.result(10)
        time.sleep(0.1)
        records = held.of_tools()
        assert {epoch for _, _, epoch in records} <= {0}
        assert [phase for phase, _, _ in records] in ([], ["intent", "outcome"])
        assert records or not held.made
        assert held.state() in {"expired", "done", "unknown"}
        epochs = [record["pol"]["epoch"] for record in held.agent.records() if "pol" in record]
        assert epochs == sorted(epochs)
