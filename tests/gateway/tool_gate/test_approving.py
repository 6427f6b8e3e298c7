"""Calls that need approval: each is asked for in exactly its bytes, done once, and only after its records."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.attestation.signatures.approvers.signing_identity import SigningIdentity, root_of
from tests.gateway.approvals.approver import Approver, path_of
from tests.gateway.approvals.test_by_identity import ByIdentity
from tests.gateway.bundles.test_bundles import with_openings
from tests.gateway.in_process import InProcess, asgi
from tests.gateway.session_client import SessionClient
from tests.gateway.tool_gate.conftest import Agent
from tests.sigstore_authority.authority import Authority

from affiant.attestation.encoding.binary_text import from_b64u, sha256_name
from affiant.attestation.records.proof import PROOF_HEADER
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.tool_gate.catalogue import Catalogue, ServedTool
from affiant.gateway.tool_gate.gate import ToolGate
from affiant.gateway.tool_gate.path_copies import PathCopies
from affiant.policy.approvals.action import Action, parse_action
from affiant.policy.approvals.queue import MAX_WAITING
from affiant.policy.decision.decide import Decision
from affiant.sandbox.base.privileges import is_root

ROOT = Path(__file__).parents[3]
TOOLS = """
      - {name: add, server: web, approval: true, args: {a: {max: 100}, b: any}}
      - {name: slow, server: web, approval: true, args: {seconds: any, path: any}}
      - {name: fails, server: web, args: {}}
      - {name: large, server: web, approval: true}
      - {name: surroundings, server: web, approval: true, args: {path: {under: /workspace}}}
"""
PLACES = "filesystem_access: read:/workspace"


class Place:
    """A gateway with tools, two people, and sessions whose calls they approve."""

    def __init__(self, gateway: InProcess, platform: PlatformClient, pool: ThreadPoolExecutor) -> None:
        self.gateway, self.platform = gateway, platform
        self.ann, self.bob = Approver(gateway), Approver(gateway)
        self._pool = pool

    def agent(self, *approvers: Approver, tools: str = TOOLS, more: str = "", **changes: object) -> Agent:
        names = ", ".join(each.kid for each in approvers or (self.ann,))
        profile = (
            f"agent_configs:\n  tester:\n    tools:{tools}    {PLACES}\n"
            f"    requires_human_approval: {{approvers: [{names}]{more}}}\n"
        )
        return Agent(SessionClient.start(self.gateway, self.platform, profile=profile.encode(), **changes))

    def during(self, work: Any, *arguments: Any, **more: Any) -> Future[Any]:
        """``work``, while the test goes on."""
        return self._pool.submit(work, *arguments, **more)

    def waiting(self, agent: Agent, approver: Approver | None = None, *, count: int = 1) -> list[Action]:
        """What waits for a session, once so much does."""
        approver = approver or self.ann
        until = time.monotonic() + 10
        while time.monotonic() < until:
            names = [each["action"] for each in self.asked(agent, approver) if each["state"] == "pending"]
            if len(names) >= count:
                return [self.shown(approver, name) for name in names]
            time.sleep(0.05)
        raise AssertionError("nothing waits")

    def asked(self, agent: Agent, approver: Approver | None = None) -> list[dict[str, Any]]:
        """All that was asked for in a session."""
        answer = (approver or self.ann).ask("GET", "/v1/approvals")
        listed = answer.json()["approvals"] if answer.status == 200 else []
        return [each for each in listed if each["session"] == agent.session.id]

    def shown(self, approver: Approver, name: str) -> Action:
        entry = approver.ask("GET", f"/v1/approvals/{name.removeprefix('sha256:')}").json()
        return parse_action(from_b64u(entry["bytes"]))

    def state(self, action: Action) -> str:
        return self.ann.ask("GET", path_of(action)).json()["state"]

    @contextmanager
    def held(self, seconds: float) -> Iterator[None]:
        """Requests are held for so long."""
        route = self.gateway.service.tools._route
        before = route.hold_s
        object.__setattr__(route, "hold_s", seconds)
        try:
            yield
        finally:
            object.__setattr__(route, "hold_s", before)


@pytest.fixture(scope="module")
def place(gated: InProcess, platform: PlatformClient) -> Iterator[Place]:
    with ThreadPoolExecutor(8) as pool:
        yield Place(gated, platform, pool)


def code(answer: dict[str, Any]) -> str:
    return answer["error"]["data"]["code"]


def call(number: int, name: str, **arguments: object) -> dict[str, object]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def of_tools(agent: Agent) -> list[dict[str, Any]]:
    return [record for record in agent.records() if record["kind"] == "tool"]


def refusals(agent: Agent) -> list[str]:
    return [record["rsn"] for record in agent.records() if record["kind"] == "refusal"]


# -- once, in exactly these bytes --------------------------------------------------------------------------------------


def test_a_call_waits_for_a_person_and_is_made_once(place: Place) -> None:
    agent = place.agent()
    answer = place.during(agent.text, "add", b=2, a=1)
    (action,) = place.waiting(agent)
    (served,) = [tool for tool in place.gateway.run(_catalogue(place, agent)).tools if tool.name == "add"]
    assert action.members["call"] == {
        "tool": "add",
        "server": "web",
        "schema": served.digest,
        "arguments": '{"a":1,"b":2}',
    }
    assert (action.plane, action.session, action.rules) == ("tool", agent.session.id, ["tools/1"])
    assert action.policy == _policy(place, agent).digest
    assert of_tools(agent) == []
    decided = place.ann.decide(action)
    assert decided.status == 200, decided.body
    assert answer.result(10) == "3"
    approval, intent, outcome = agent.records()
    assert (approval["kind"], approval["jti"]) == ("approval", decided.json()["record"])
    assert intent["apr"] == approval["apr"]
    assert (intent["ph"], intent["par"]) == ("intent", [approval["jti"]])
    assert (outcome["act"]["end"], outcome["par"], "apr" in outcome) == ("complete", [intent["jti"]], False)
    assert place.state(action) == "done"
    with place.held(0.1):  # the same again needs an approval of its own
        assert code(agent.call("add", b=2, a=1)) == "approval.pending"
    assert place.waiting(agent)[0].name != action.name
    used = place.ann.decide(action)
    assert (used.status, used.code) == (409, "approval.used")


async def _catalogue(place: Place, agent: Agent) -> Any:
    return await place.gateway.service.tools._gate.catalogue(agent.session.id, _policy(place, agent))


def _policy(place: Place, agent: Agent) -> Any:
    return place.gateway.service.sessions.by_id(agent.session.id).admitted.policy


def test_a_call_that_nobody_approves_soon_is_told_its_action_and_attaches_to_it_when_made_again(
    place: Place,
) -> None:
    agent = place.agent()
    with place.held(0.1):
        error = agent.call("add", a=1, b=2)["error"]
        assert (error["code"], error["data"]["code"]) == (-32010, "approval.pending")
        again = agent.call("add", b=2, a=1)["error"]["data"]
    (action,) = place.waiting(agent)
    assert error["data"]["actions"] == again["actions"] == [action.name]
    assert error["data"]["not_after"] == action.not_after
    record = agent.records()[0]
    assert (record["kind"], record["rsn"], record["pol"]["dec"]) == ("refusal", "approval.pending", "deny")
    place.ann.decide(action)
    assert agent.text("add", a=1, b=2) == "3"


def test_what_an_approver_denies_is_refused_until_its_time_is_over(place: Place) -> None:
    agent = place.agent(place.ann, place.bob)
    answer = place.during(agent.call, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    place.ann.decide(action, approves=False)
    assert code(answer.result(10)) == "approval.denied"
    assert agent.refused("add", a=1, b=2) == "approval.denied"
    assert (refusals(agent), of_tools(agent)) == (["approval.denied"] * 2, [])


def test_what_nobody_approves_in_time_is_refused(place: Place) -> None:
    agent = place.agent(more=", ttl: 30s")
    answer = place.during(agent.call, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    place.gateway.clock.offset = timedelta(seconds=31)
    try:
        assert code(answer.result(10)) == "approval.expired"
    finally:
        place.gateway.clock.offset = timedelta()
    assert place.ann.decide(action).code == "approval.expired"
    assert (refusals(agent), of_tools(agent)) == (["approval.expired"], [])


@pytest.mark.parametrize("changed", [{"a": 2, "b": 2}, {"a": 1, "b": 2.0}, {"a": 1, "b": 3}])
def test_a_changed_argument_is_another_action(place: Place, changed: dict[str, object]) -> None:
    agent = place.agent()
    with place.held(0.1):
        assert agent.refused("add", a=1, b=2) == "approval.pending"
        place.ann.decide(place.waiting(agent)[0])
        assert agent.refused("add", **changed) == "approval.pending"
    assert of_tools(agent) == []


def test_another_session_cannot_use_it(place: Place) -> None:
    agent, other = place.agent(), place.agent()
    with place.held(0.1):
        assert agent.refused("add", a=1, b=2) == "approval.pending"
        place.ann.decide(place.waiting(agent)[0])
        assert other.refused("add", a=1, b=2) == "approval.pending"


def test_of_two_that_want_one_approval_one_gets_it(place: Place) -> None:
    agent = place.agent()
    answers = [place.during(agent.post, call(number, "add", a=1, b=2)) for number in (1, 2)]
    (action,) = place.waiting(agent)
    time.sleep(0.2)
    assert len(place.waiting(agent)) == 1
    place.ann.decide(action)
    told = [answer.result(10).json() for answer in answers]
    assert sorted("result" in each for each in told) == [False, True]
    assert [code(each) for each in told if "error" in each] == ["approval.used"]
    assert [record["ph"] for record in of_tools(agent)] == ["intent", "outcome"]


def test_a_quorum_is_of_different_people_and_all_their_records_are_named(place: Place) -> None:
    agent = place.agent(place.ann, place.bob, more=", quorum: 2")
    answer = place.during(agent.text, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    first = place.ann.decide(action).json()["record"]
    time.sleep(0.2)
    assert not answer.done()
    second = place.bob.decide(action).json()["record"]
    assert answer.result(10) == "3"
    intent = of_tools(agent)[0]
    assert (intent["par"], intent["apr"]["kid"]) == ([first, second], place.bob.kid)


def test_the_server_gets_the_arguments_in_the_order_that_was_shown(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, gate, sent = place.agent(), place.gateway.service.tools._gate, []
    whole = gate.call

    async def call(session: str, tool: Any, arguments: Any, **more: Any) -> Any:
        sent.append(json.dumps(arguments, separators=(",", ":")))
        return await whole(session, tool, arguments, **more)

    monkeypatch.setattr(gate, "call", call)
    answer = place.during(agent.text, "add", b=2, a=1)
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    assert answer.result(10) == "3"
    assert sent == [action.members["call"]["arguments"]]


def test_a_call_whose_time_is_over_while_its_server_is_busy_is_not_made(place: Place, tmp_path: Path) -> None:
    agent = place.agent(more=", ttl: 30s")
    left = tmp_path / "left"
    with place.held(0.1):
        assert agent.refused("slow", seconds=0, path=str(left)) == "approval.pending"
    (action,) = place.waiting(agent)
    places = place.gateway.service.tools._gate._links[agent.session.id, "web"].link._places

    async def busy() -> int:
        taken = 0
        while not places.locked():
            await places.acquire()
            taken += 1
        return taken

    async def free(taken: int) -> None:
        for _ in range(taken):
            places.release()

    taken = place.gateway.run(busy())
    place.ann.decide(action)
    answer = place.during(agent.call, "slow", seconds=0, path=str(left))
    until = time.monotonic() + 10
    while place.state(action) != "dispatched" and time.monotonic() < until:
        time.sleep(0.05)
    place.gateway.clock.offset = timedelta(seconds=31)
    try:
        place.gateway.run(free(taken))
        assert code(answer.result(10)) == "approval.expired"
    finally:
        place.gateway.clock.offset = timedelta()
    assert not left.exists()
    _, outcome = of_tools(agent)
    assert (outcome["ph"], outcome["act"]["end"]) == ("outcome", "refused")


# -- what cannot be approved -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("surroundings", {"path": "/workspace/x"}),
        ("large", {"size": 1}),
        ("slow", {"seconds": 0, "path": "x" * 40_000}),
        ("slow", {"seconds": 0, "path": "\x7f"}),
    ],
)
def test_what_cannot_be_shown_whole_is_never_asked_for(
    place: Place, name: str, arguments: dict[str, object]
) -> None:
    agent = place.agent()
    answer = agent.call(name, **arguments)
    assert code(answer) == "approval.unshowable"
    assert place.asked(agent) == []
    if name == "surroundings":
        assert "cannot be bound" in answer["error"]["message"]
    assert agent.records()[0]["pol"]["dec"] == "deny"


def test_tools_that_can_be_approved_are_shown_and_others_are_not(place: Place) -> None:
    names = [tool["name"] for tool in place.agent().ask("tools/list")["result"]["tools"]]
    assert names == ["add", "fails", "slow"]


def test_without_approvers_nothing_is_asked_for(place: Place) -> None:
    profile = f"agent_configs:\n  tester:\n    tools:{TOOLS}    {PLACES}\n".encode()
    agent = Agent(SessionClient.start(place.gateway, place.platform, profile=profile))
    data = agent.call("add", a=1, b=2)["error"]["data"]
    assert (data["code"], data["reason"]) == ("tool.not_allowed", "approval_no_approver")


def called_by_a_model(agent: Agent) -> None:
    """A model that was offered the tool as its server defines it calls it."""
    (listed,) = [tool for tool in agent.ask("tools/list")["result"]["tools"] if tool["name"] == "add"]
    parts = {"name": "add", "description": listed.get("description", ""), "parameters": listed["inputSchema"]}
    offered = {"type": "function", "function": parts}
    said = agent.session.say('call_tool:add {"a": 1, "b": 2}', tools=[offered])
    assert said.status == 200 and b"add" in said.body


def test_a_call_of_a_servers_tool_in_a_models_answer_is_asked_for_at_the_gate_alone(place: Place) -> None:
    agent = place.agent()
    called_by_a_model(agent)
    assert place.asked(agent) == []
    assert [record["pol"]["dec"] for record in of_tools(agent)] == ["redact", "ask"]
    answer = place.during(agent.text, "add", a=1, b=2)
    place.ann.decide(place.waiting(agent)[0])
    assert answer.result(10) == "3"


# -- what paths lead to ------------------------------------------------------------------------------------------------

needs_root = pytest.mark.skipif(not is_root(), reason="without root a tool server is no user of its own")


@pytest.fixture
def folder(place: Place) -> Iterator[Path]:
    """Where the paths of the server that is a command lead: two files in it."""
    (server,) = [each for each in place.gateway.service.config.mcp_servers if each.folders]
    found = Path(server.folders[0])
    (found / "deep").mkdir()
    for name, content in (("a.yaml", "a: 1\n"), ("deep/b.yaml", "b: 2\n")):
        (found / name).write_text(content)
        (found / name).chmod(0o644)
    yield found
    shutil.rmtree(found)
    found.mkdir()


def reader(place: Place, folder: Path, *, path: str = "", server: str = "local", more: str = "") -> Agent:
    """An agent whose calls of `read` need approval."""
    args = f"path: {path or f'{{under: {folder}}}'}, note: {{max_len: 99, optional: true}}{more}"
    tools = f"""
      - {{name: read, server: {server}, approval: true, args: {{{args}}}}}
"""
    profile = (
        f"agent_configs:\n  tester:\n    tools:{tools}    filesystem_access: [read-write:{folder}, read:/etc]\n"
        f"    requires_human_approval: {{approvers: [{place.ann.kid}]}}\n"
    )
    return Agent(SessionClient.start(place.gateway, place.platform, profile=profile.encode()))


@needs_root
def test_the_server_reads_what_was_shown_though_the_file_is_another_by_now(
    place: Place, folder: Path
) -> None:
    agent = reader(place, folder, more=f", more: {{each: {{under: {folder}}}}}")
    arguments = {"path": f"{folder}/a.yaml", "more": [f"{folder}/deep/b.yaml", f"{folder}/a.yaml"]}
    answer = place.during(agent.text, "read", **arguments, note=f"{folder}/a.yaml")
    (action,) = place.waiting(agent)
    assert [
        (each["argument"], each["path"], each["text"], each["size"]) for each in action.members["paths"]
    ] == [
        ("more[0]", f"{folder}/deep/b.yaml", "b: 2\n", 5),
        ("more[1]", f"{folder}/a.yaml", "a: 1\n", 5),
        ("path", f"{folder}/a.yaml", "a: 1\n", 5),
    ]
    (folder / "a.yaml").write_text("a: of somebody else\n")
    (folder / "deep" / "b.yaml").unlink()
    (folder / "deep" / "b.yaml").symlink_to("/etc/passwd")
    place.ann.decide(action)
    told = json.loads(answer.result(10))
    assert [(Path(each["path"]).name, each["content"], each["could"]) for each in told["read"]] == [
        ("a.yaml", "a: 1\n", []),
        ("b.yaml", "b: 2\n", []),
        ("a.yaml", "a: 1\n", []),
    ]
    assert all(each["path"].startswith("/run/affiant-tool-paths/") for each in told["read"])
    assert told["note"] == f"{folder}/a.yaml", "text that is no path by the rule stays text"
    assert not any(os.path.exists(each["path"]) for each in told["read"])
    intent, outcome = of_tools(agent)
    assert (intent["apr"]["dig"], outcome["act"]["end"]) == (action.name, "complete")


@needs_root
def test_a_file_that_was_rewritten_is_another_action(place: Place, folder: Path) -> None:
    agent, path = reader(place, folder), f"{folder}/a.yaml"
    with place.held(0.1):
        assert agent.refused("read", path=path) == "approval.pending"
        (action,) = place.waiting(agent)
        place.ann.decide(action)
        (folder / "a.yaml").write_text("a: 2\n")
        assert agent.refused("read", path=path) == "approval.pending"
        assert len(place.asked(agent)) == 2
        assert of_tools(agent) == []
        (folder / "a.yaml").write_text("a: 1\n")
    assert json.loads(agent.text("read", path=path))["read"][0]["content"] == "a: 1\n"
    assert place.state(action) == "done"


@needs_root
def test_a_copy_that_was_changed_is_not_handed_over(
    place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, whole = reader(place, folder), PathCopies.made

    @contextmanager
    def meddled(copies: PathCopies, paths: Any) -> Iterator[Any]:
        with whole(copies, paths) as made:
            for each in made.values():
                Path(each).chmod(0o644)
                Path(each).write_text("a: of the operator's\n")
            yield made

    monkeypatch.setattr(PathCopies, "made", meddled)
    answer = place.during(agent.call, "read", path=f"{folder}/a.yaml")
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    assert code(answer.result(10)) == "approval.path_changed"
    assert [record["act"].get("end") for record in of_tools(agent)] == [None, "refused"]


@needs_root
def test_what_is_no_text_of_a_file_is_never_asked_for(place: Place, folder: Path) -> None:
    agent = reader(place, folder)
    (folder / "link").symlink_to("a.yaml")
    (folder / "second").hardlink_to(folder / "deep" / "b.yaml")
    os.mkfifo(folder / "pipe")
    (folder / "binary").write_bytes(b"\xff\x00")
    (folder / "large").write_bytes(b"x" * 40_000)
    for name in ("link", "second", "pipe", "binary", "large", "deep", "missing"):
        assert agent.refused("read", path=f"{folder}/{name}") == "approval.unshowable", name
    assert place.asked(agent) == []


@needs_root
@pytest.mark.slow
def test_paths_elsewhere_to_be_written_or_of_another_server_are_denied(place: Place, folder: Path) -> None:
    for agent, path in (
        (reader(place, folder, path="{under: /etc}"), "/etc/hostname"),
        (reader(place, folder, path=f"{{under: {folder}, write: true}}"), f"{folder}/a.yaml"),
        (reader(place, folder, server="web"), f"{folder}/a.yaml"),
    ):
        assert agent.refused("read", path=path) == "approval.unshowable"
        assert agent.ask("tools/list")["result"]["tools"] == []
        assert place.asked(agent) == []
    agent = reader(place, folder)
    assert [tool["name"] for tool in agent.ask("tools/list")["result"]["tools"]] == ["read"]
    for path in (f"{folder}", f"{folder}/../a.yaml", f"{folder}2/a.yaml"):
        assert agent.refused("read", path=path) in ("approval.unshowable", "tool.not_allowed")


def test_where_no_copy_can_be_made_no_path_is_approved(
    place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = place.gateway.service.tools._gate
    monkeypatch.setattr(gate, "folders", ToolGate((), redactor=gate.redactor, seconds=time.monotonic).folders)
    assert reader(place, folder).refused("read", path=f"{folder}/a.yaml") == "approval.unshowable"


# -- a body with several -----------------------------------------------------------------------------------------------


def test_a_body_waits_whole_and_is_done_whole(place: Place, tmp_path: Path) -> None:
    agent = place.agent()
    left = tmp_path / "left"
    body = [call(1, "slow", seconds=0, path=str(left)), call(2, "fails"), call(3, "add", a=1, b=2)]
    with place.held(0.3):
        waits = agent.post(body).json()
        actions = place.waiting(agent, count=2)
        assert [code(each) for each in waits] == ["approval.pending"] * 3
        assert waits[0]["error"]["data"]["actions"] == [action.name for action in actions]
        place.ann.decide(actions[0])
        assert [code(each) for each in agent.post(body).json()] == ["approval.pending"] * 3
        assert not left.exists()
        assert of_tools(agent) == []
        place.ann.decide(actions[1])
        done = agent.post(body).json()
    assert ["result" in each for each in done] == [True] * 3
    assert left.exists()
    assert [record["ph"] for record in of_tools(agent)] == ["intent"] * 3 + ["outcome"] * 3
    assert [record["apr"]["dig"] for record in of_tools(agent) if "apr" in record] == [
        action.name for action in actions
    ]


def test_one_denied_call_denies_the_body_and_asks_for_nothing(place: Place, tmp_path: Path) -> None:
    agent = place.agent()
    left = tmp_path / "left"
    leaves = call(1, "slow", seconds=0, path=str(left))
    refused = agent.post([leaves, call(2, "add", a=101, b=2)]).json()
    assert [code(each) for each in refused] == ["tool.not_allowed"] * 2
    unshowable = agent.post([leaves, call(2, "large", size=1)]).json()
    assert [code(each) for each in unshowable] == ["approval.unshowable"] * 2
    twice = agent.post([leaves, {**leaves, "id": 2}])
    assert (twice.status, code(twice.json()[0])) == (400, "request.malformed")
    assert place.asked(agent) == []
    with place.held(0.1):
        assert agent.refused("add", a=1, b=2) == "approval.pending"
    place.ann.decide(place.waiting(agent)[0], approves=False)
    denied = agent.post([leaves, call(2, "add", a=1, b=2)]).json()
    assert [code(each) for each in denied] == ["approval.denied"] * 2
    assert not left.exists()
    assert of_tools(agent) == []


def test_no_more_requests_of_a_session_are_held_than_its_approvers_are_shown(place: Place) -> None:
    agent, mailbox = place.agent(), place.gateway.service.approvals
    session = place.gateway.service.sessions.by_id(agent.session.id)
    assert session is not None
    with ExitStack() as held:
        for _ in range(MAX_WAITING):
            held.enter_context(mailbox.holding(session))
        assert agent.refused("add", a=1, b=2) == "approval.too_many"
    with place.held(0.1):
        assert agent.refused("add", a=1, b=2) == "approval.pending"


# -- who leaves, and what changes --------------------------------------------------------------------------------------


def test_an_agent_that_leaves_gets_nothing_done_and_finds_its_action_again(
    place: Place, tmp_path: Path
) -> None:
    agent = place.agent()
    left = tmp_path / "left"
    arguments = {"seconds": 0, "path": str(left)}
    body, target, kind = json.dumps(call(1, "slow", **arguments)).encode(), "/mcp", "application/json"
    proof = agent.session.proof("POST", target, body, content_type=kind, counted=True)

    async def work() -> None:
        gone = asyncio.Event()
        asyncio.get_running_loop().call_later(0.3, gone.set)
        headers = {PROOF_HEADER: proof, "Content-Type": kind}
        answer = await asgi(place.gateway.app, "POST", target, body, headers, gone=gone)
        assert answer.status == 0

    place.gateway.run(work())
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    time.sleep(0.3)
    assert not left.exists()
    (refusal, approval) = agent.records()
    assert (refusal["kind"], refusal["agt"]["cseq"], approval["kind"]) == ("refusal", 0, "approval")
    assert agent.text("slow", **arguments) == "late"
    assert left.exists()
    assert place.state(action) == "done"


def test_what_became_of_a_call_whose_agent_left_amid_it_is_unknown_and_it_is_not_made_again(
    place: Place, tmp_path: Path
) -> None:
    agent = place.agent()
    arguments = {"seconds": 0.9, "path": str(tmp_path / "left")}
    with place.held(0.1):
        assert agent.refused("slow", **arguments) == "approval.pending"
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    body, target, kind = json.dumps(call(1, "slow", **arguments)).encode(), "/mcp", "application/json"
    proof = agent.session.proof("POST", target, body, content_type=kind, counted=True)

    async def work() -> None:
        gone = asyncio.Event()
        asyncio.get_running_loop().call_later(0.4, gone.set)
        headers = {PROOF_HEADER: proof, "Content-Type": kind}
        answer = await asgi(place.gateway.app, "POST", target, body, headers, gone=gone)
        assert answer.status == 0

    place.gateway.run(work())
    assert place.state(action) == "unknown"
    with place.held(0.1):
        assert agent.refused("slow", **arguments) == "approval.pending"
    assert [each.name for each in place.waiting(agent)] != [action.name]
    intent, outcome = of_tools(agent)
    assert (outcome["par"], outcome["act"]["end"]) == ([intent["jti"]], "aborted")


def test_a_call_can_be_taken_back_while_it_waits(place: Place) -> None:
    agent = place.agent()
    answer = place.during(agent.post, call(77, "add", a=1, b=2))
    (action,) = place.waiting(agent)
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}
    assert agent.post(notice).status == 202
    assert code(answer.result(10).json()) == "tool.cancelled"
    place.ann.decide(action)
    time.sleep(0.1)
    assert [record for record in of_tools(agent) if "ph" in record] == []


def test_a_call_whose_session_ends_is_not_made(place: Place) -> None:
    agent = place.agent()
    answer = place.during(agent.post, call(1, "add", a=1, b=2))
    (action,) = place.waiting(agent)
    closing = place.during(agent.session.close)
    assert code(answer.result(10).json()) == "session.closed"
    assert closing.result(10).status == 200
    assert place.state(action) == "expired"


def test_nothing_goes_to_a_server_before_the_intent_that_names_the_approval_is_durable(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = place.agent()
    left = tmp_path / "left"
    recorder = place.gateway.service.recorder
    signed, release, whole = threading.Event(), threading.Event(), recorder.session_record

    def slowly(session: Any, kind: str, members: Any, hidden: Any, **more: Any) -> Any:
        recorded = whole(session, kind, members, hidden, **more)
        if members.get("ph") != "intent":
            return recorded
        late = asyncio.get_running_loop().create_future()

        async def wait() -> None:
            while not release.is_set():
                await asyncio.sleep(0.01)
            late.set_result(await recorded.durable)

        tasks.append(asyncio.get_running_loop().create_task(wait()))
        signed.set()
        return type(recorded)(recorded.issued, recorded.head, late)

    tasks: list[asyncio.Task[None]] = []
    monkeypatch.setattr(recorder, "session_record", slowly)
    answer = place.during(agent.text, "slow", seconds=0, path=str(left))
    (action,) = place.waiting(agent)
    place.ann.decide(action)
    assert signed.wait(10)
    time.sleep(0.3)
    assert not left.exists()
    assert place.state(action) == "consumed"
    release.set()
    assert answer.result(10) == "late"
    assert left.exists()


@pytest.mark.slow
def test_a_tool_that_changed_before_it_was_approved_is_not_called(place: Place) -> None:
    tools = """
      - {name: add, server: local, approval: true, args: {a: any, b: any}}
      - {name: change, server: local}
"""
    agent = place.agent(tools=tools)
    answer = place.during(agent.call, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    assert agent.text("change") == "changed"
    time.sleep(2.1)  # a listing is believed for two seconds
    place.ann.decide(action)
    assert code(answer.result(10)) == "tool.schema_changed"
    assert agent.refused("add", a=1, b=2) == "tool.schema_changed"
    assert [record["ph"] for record in of_tools(agent)] == ["intent", "outcome"]  # of `change`
    assert place.state(action) == "approved"  # for what is not served any more


@pytest.mark.slow
def test_a_tool_that_became_another_which_is_pinned_too_is_not_called(place: Place) -> None:
    """What was approved is one definition: that the profile allows the other as well does not make it that one."""
    tools = "\n      - {name: add, server: local}\n      - {name: change, server: local}\n"
    changing = place.agent(tools=tools)
    before = _digest_of(place, changing)
    assert changing.text("change") == "changed"
    time.sleep(2.1)
    after = _digest_of(place, changing)
    assert after != before
    pinned = "".join(
        f"\n      - {{name: add, server: local, schema: '{each}', approval: true, args: {{a: any, b: any}}}}"
        for each in (before, after)
    )
    agent = place.agent(tools=f"{pinned}\n      - {{name: change, server: local}}\n")
    answer = place.during(agent.call, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    assert agent.text("change") == "changed"
    time.sleep(2.1)
    place.ann.decide(action)
    assert code(answer.result(10)) == "tool.schema_changed"


def _digest_of(place: Place, agent: Agent) -> str:
    (found,) = [tool for tool in place.gateway.run(_catalogue(place, agent)).tools if tool.name == "add"]
    return found.digest


# -- by identity -------------------------------------------------------------------------------------------------------


def test_a_call_that_an_identity_approved_is_made_once_and_verifies(place: Place) -> None:
    identity, key = SigningIdentity(Authority()), X25519PrivateKey.generate()
    root = json.dumps(root_of(identity.authority).decode())
    who = f"{place.ann.kid}, {{issuer: '{identity.issuer}', subject: '{identity.subject}'}}"
    profile = (
        f"agent_configs:\n  tester:\n    tools:{TOOLS}    {PLACES}\n"
        f"    requires_human_approval: {{approvers: [{who}], quorum: 2, trusted_root: {root}}}\n"
    )
    agent = Agent(SessionClient.start(place.gateway, place.platform, profile=profile.encode(), openings=key))
    answer = place.during(agent.text, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    bob = ByIdentity(place.gateway, identity=identity)
    assert bob.introduce().status == 200
    statement = bob.says(action)
    assert place.ann.decide(action).json()["state"] == "pending"
    assert bob.hand_over(action, statement).json()["state"] == "approved"
    assert answer.result(10) == "3"
    *_, approval, intent, _ = agent.records()
    assert (approval["kind"], intent["apr"]) == ("approval", approval["apr"])
    assert (intent["apr"]["kid"], intent["apr"]["sig"]) == (identity.name, sha256_name(statement.encode()))
    agent.session.submit(agent.session.exec_record())
    agent.session.submit(agent.session.end_record())
    agent.session.close()
    document, now, service = (
        with_openings(agent.session.bundle(), key),
        datetime.now(UTC),
        place.gateway.service,
    )
    reference = service.admissions.appraiser.reference.raw
    trust = simulated_trust_file(reference, now, gateway_configs=[service.config.digest])
    verdict = verify_bundle(
        json.dumps(document).encode(),
        parse_trust_file(trust),
        verifiers=STANDARD_VERIFIERS,
        at=now,
        build="a test",
    )
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    (bound,) = [check for check in verdict.checks if check.code == "apr.bound"]
    assert bound.state is State.HELD
    assert bound.detail.endswith("signed by ann@example.org (issuer https://accounts.tests)")


# -- both verifiers ----------------------------------------------------------------------------------------------------


def test_both_verifiers_accept_a_session_with_an_approved_call(place: Place, tmp_path: Path) -> None:
    key = X25519PrivateKey.generate()
    agent = place.agent(place.ann, place.bob, more=", quorum: 2", openings=key)
    called_by_a_model(agent)
    answer = place.during(agent.text, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    for each in (place.ann, place.bob):
        each.decide(action)
    assert answer.result(10) == "3"
    agent.session.submit(agent.session.exec_record())
    agent.session.submit(agent.session.end_record())
    agent.session.close()
    document = with_openings(agent.session.bundle(), key)
    bundle, trust_file, now = tmp_path / "b.json", tmp_path / "trust.json", datetime.now(UTC)
    bundle.write_text(json.dumps(document))
    service = place.gateway.service
    trust = simulated_trust_file(
        service.admissions.appraiser.reference.raw, now, gateway_configs=[service.config.digest]
    )
    trust_file.write_bytes(trust)
    verdict = verify_bundle(
        bundle.read_bytes(), parse_trust_file(trust), verifiers=STANDARD_VERIFIERS, at=now, build="a test"
    )
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []
    assert (verdict.population.kinds["approval"], verdict.population.kinds["tool"]) == (2, 4)
    (bound,) = [check for check in verdict.checks if check.code == "apr.bound"]
    assert bound.detail.startswith("1 actions done by approval")
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: the other verifier is not asked")
    command = [node, str(ROOT / "attestation/verifier-js/verify.mjs"), str(bundle)]
    done = subprocess.run(
        [*command, "--trust", str(trust_file), "--json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 40, done.stdout[-3000:]
    told = json.loads(done.stdout)
    assert [check for check in told["checks"] if check.get("tier") == "contraindicated"] == []


@pytest.mark.parametrize("moved", ["server", "rules"])
def test_a_tool_of_another_server_or_by_another_rule_is_not_what_was_approved(
    place: Place, monkeypatch: pytest.MonkeyPatch, moved: str
) -> None:
    """One server may stop to serve a name while another begins to; nothing that either says has changed by that."""
    agent = place.agent()
    answer = place.during(agent.call, "add", a=1, b=2)
    (action,) = place.waiting(agent)
    judge = Catalogue.judge

    def judged(*given: Any, **named: Any) -> tuple[ServedTool, Decision]:
        tool, decision = judge(*given, **named)
        if moved == "server":
            return replace(tool, server="another"), decision
        return tool, replace(decision, rules=("tools/9",))

    monkeypatch.setattr(Catalogue, "judge", judged)
    place.ann.decide(action)
    assert code(answer.result(10)) == "tool.schema_changed"
    assert of_tools(agent) == []
    assert place.state(action) == "approved"
