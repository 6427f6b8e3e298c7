"""Real sessions that start sessions: what they do, what they may not, and whose records say so."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.conftest import Machine
from tests.sandbox.supervisor.launcher import Story

from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.session.session import CommandResult, Session
from affiant.sandbox.session.session_plan import SessionRequest

TOOLS = "session_create, session_run, session_list, session_read_file, session_write_file, session_close"
PROFILES = f"""agent_configs:
  lead:
    tools: [{TOOLS}]
    filesystem_access: "read-write:/workspace"
    limits: {{requests: 3, wall: 1h}}
    may_start: [{{agent: helper, at_most: 3}}, wide, middle]
  middle:
    tools: [session_create, session_run]
    filesystem_access: "read-write:/workspace"
    limits: {{requests: 3, wall: 1h}}
    may_start: [{{agent: helper, at_most: 3}}]
  helper:
    filesystem_access: "read-write:/workspace"
    limits: {{requests: 3, wall: 1h}}
  wide:
    filesystem_access: ["read-write:/workspace", "read:/elsewhere"]
    limits: {{requests: 3, wall: 1h}}
"""
CALLS = textwrap.dedent("""
    import json, urllib.error, urllib.request

    def post(url, document):
        body = json.dumps(document).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            return {"status": error.code, **json.load(error)}

    def call(name, **arguments):
        params = {"name": name, "arguments": arguments}
        answer = post("http://sessions.affiant.internal/mcp",
                      {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        return answer.get("result", {}).get("structuredContent") or answer

    def chat():
        answer = post("http://gateway.affiant.internal/v1/chat/completions",
                      {"model": "m", "messages": [{"role": "user", "content": "hi"}]})
        return answer["error"]["code"] if "error" in answer else "answered"

    def show(value):
        print(json.dumps(value), flush=True)
""")


def write_profiles(machine: Machine) -> Path:
    path = machine.folder / "children.yaml"
    path.write_text(PROFILES)
    return path


def request(machine: Machine, agent: str = "lead") -> SessionRequest:
    return SessionRequest(
        profile=write_profiles(machine), agent=agent, min_isolation=IsolationClass(machine.isolation)
    )


def shown(result: CommandResult) -> list[Any]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def records(bundle: Path, session: str) -> list[VerifiedReceipt]:
    """The records about ``session`` in its bundle, each verified."""
    found = Story(parse_bundle(bundle.read_bytes()), session).records
    return [record for record in found if record.member("agt", "ses") == session]


def test_a_child_runs_a_command_and_both_bundles_verify(warm: Machine) -> None:
    async def whole() -> tuple[str, str, list[Any]]:
        async with Session.open(request(warm), home=warm.home) as session:
            code = CALLS + textwrap.dedent("""
                made = call("session_create", agent="helper", task="count")
                one = made["session"]
                call("session_write_file", session=one, path="/workspace/a.txt", content="x\\ny\\n")
                show([made, call("session_run", session=one, command=["wc", "-l", "a.txt"])])
                show(call("session_close", session=one))
                show(call("session_create", agent="wide")["error"]["data"]["reason"])
            """)
            found = shown(await session.run(["python3", "-c", code]))
        return session.id, found[0][0]["session"], found

    parent, child, found = asyncio.run(whole())
    assert found[0][1] == {
        "exit_code": 0, "stdout": "2 a.txt\n", "stderr": "", "truncated": False, "timed_out": False,
    }  # fmt: skip
    assert found[1:] == [{"closed": True, "in_order": True}, "policy.not_narrower"]
    bundles = {each: warm.home / "sessions" / each / "bundle.affiant.json" for each in (parent, child)}
    for bundle in bundles.values():
        assert "HOLDS" in warm.verdict(bundle)
    calls = [each for each in records(bundles[parent], parent) if each.kind == "tool"]
    assert [each.member("ph") for each in calls] == ["intent", "outcome"] * 4
    assert {each.shown("act.tgt") for each in calls} == {f"session {child}"}
    (start,) = (each for each in records(bundles[child], child) if each.kind == "session-start")
    assert (start.shown("tsk.parent"), start.shown("tsk.task")) == (parent, "count")
    ran = [each for each in records(bundles[child], child) if each.kind == "exec"]
    assert [each.member("ph") for each in ran] == ["intent", "outcome"]


@pytest.mark.slow
def test_an_agent_that_may_start_nothing_is_denied_with_a_record(warm: Machine) -> None:
    async def whole() -> tuple[str, list[Any]]:
        async with Session.open(request(warm, "helper"), home=warm.home) as session:
            found = shown(await session.run(["python3", "-c", CALLS + 'show(call("session_list"))']))
        return session.id, found

    session, (answer,) = asyncio.run(whole())
    assert (answer["status"], answer["error"]["code"]) == (403, "start_not_listed")
    bundle = warm.home / "sessions" / session / "bundle.affiant.json"
    assert "start_not_listed" in [each.member("rsn") for each in records(bundle, session)]


@pytest.mark.slow
def test_children_use_up_their_parents_requests_and_the_other_way_round(warm: Machine) -> None:
    code = CALLS + textwrap.dedent("""
        one = call("session_create", agent="helper")["session"]
        two = call("session_create", agent="helper")["session"]
        ask = INSIDE + "show(chat())"
        def of(session):
            return json.loads(call("session_run", session=session, command=["python3", "-c", ask])["stdout"])
        show([of(one), chat(), of(two)])
        show([of(one), of(two), chat()])
    """).replace("INSIDE", repr(CALLS))

    async def whole() -> list[Any]:
        async with Session.open(request(warm), home=warm.home) as session:
            return shown(await session.run(["python3", "-c", code]))

    assert asyncio.run(whole()) == [["answered"] * 3, ["limit_requests"] * 3]


@pytest.mark.slow
def test_a_childs_child_counts_for_the_first_and_ends_with_it(warm: Machine) -> None:
    inner = CALLS + textwrap.dedent("""
        one = call("session_create", agent="helper")["session"]
        ask = INSIDE + "show(chat())"
        show([one, json.loads(call("session_run", session=one, command=["python3", "-c", ask])["stdout"])])
        show(call("session_create", agent="middle")["error"]["data"]["reason"])
    """).replace("INSIDE", repr(CALLS))
    code = CALLS + textwrap.dedent("""
        chat(), chat()
        one = call("session_create", agent="middle")["session"]
        show(call("session_run", session=one, command=["python3", "-c", INNER])["stdout"])
        show([one, chat()])
    """).replace("INNER", repr(inner))

    async def whole() -> list[Any]:
        async with Session.open(request(warm), home=warm.home) as session:
            return shown(await session.run(["python3", "-c", code]))

    deep, (middle, last) = asyncio.run(whole())
    (leaf, answered), denied = (json.loads(line) for line in deep.splitlines())
    assert (answered, last, denied) == ("answered", "limit_requests", "start_not_listed")
    for session in (middle, leaf):
        assert "HOLDS" in warm.verdict(warm.home / "sessions" / session / "bundle.affiant.json")


@pytest.mark.slow
def test_a_session_is_started_as_often_as_the_profile_says(warm: Machine) -> None:
    code = CALLS + textwrap.dedent("""
        for _ in range(4):
            made = call("session_create", agent="helper")
            show(made["error"]["data"]["reason"] if "error" in made else call("session_close", session=made["session"]))
    """)

    async def whole() -> list[Any]:
        async with Session.open(request(warm), home=warm.home) as session:
            return shown(await session.run(["python3", "-c", code]))

    assert asyncio.run(whole()) == [{"closed": True, "in_order": True}] * 3 + ["limit_starts"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closed", "killed"])
def test_children_end_with_their_parent(machine: Machine, how: str) -> None:
    """The parent ends while a child runs a command: in order, and both bundles hold; killed, and no process is left."""
    code = CALLS + textwrap.dedent("""
        one = call("session_create", agent="helper")["session"]
        show(one)
        call("session_run", session=one, command=["sleep", "600"])
    """)
    options = ("--profile", str(write_profiles(machine)))
    process = machine.start("python3", "-c", code, agent="lead", options=options)
    assert process.stdout is not None
    child = json.loads(process.stdout.readline())
    if how == "killed":
        before = machine.family(process.pid)
        process.kill()
        assert machine.all_gone(before, 12)
    else:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert machine.quiet_within(12), machine.processes()
    listing = [sys.executable, "-m", "affiant", "session", "list", "--home", str(machine.home), "--json"]
    states = json.loads(subprocess.run(listing, capture_output=True, check=True, cwd="/").stdout)
    entries = states if isinstance(states, list) else states["sessions"]
    found = {entry["session"]: entry["state"] for entry in entries}
    assert len(found) == 2 and child in found
    if how == "closed":
        assert set(found.values()) == {"closed"}
        for session in found:
            assert "HOLDS" in machine.verdict(machine.home / "sessions" / session / "bundle.affiant.json")
