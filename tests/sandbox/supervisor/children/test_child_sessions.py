"""An agent's calls about sessions that it starts: judged, recorded before and after, and asked of the launcher once."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.sandbox.egress.conftest import Chain

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.errors import NotAllowedError, StateError, UnreachableError
from affiant.policy.canonical.tool_messages import CallParams
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import ProfileSet
from affiant.sandbox.egress.decision import SILENT
from affiant.sandbox.egress.record_budget import RecordBudget, RecordLimits
from affiant.sandbox.egress.records_of_egress import EgressRecords, PolicyFacts
from affiant.sandbox.egress.sessions_route import ToolAnswer
from affiant.sandbox.supervisor.children.child_sessions import ChildSessions
from affiant.sandbox.supervisor.children.session_tools import TOOLS
from affiant.sandbox.supervisor.launch.errors import AdmissionError

LEAD = (
    f"tools: [{', '.join(TOOLS)}], 'filesystem_access': 'read:/w', may_start: [helper, wide, {{deny: never}}]"
)
PROFILES = "lead: {%s}, helper: {filesystem_access: 'read:/w'}, wide: {filesystem_access: 'read-write:/w'}, never: {}"


def profiles(lead: str = LEAD) -> ProfileSet:
    return load_profiles(("agent_configs: {" + PROFILES % lead + "}").encode())


class FakeLauncher:
    """Answers as the test sets it, and keeps each request with what the chain had by then."""

    def __init__(self, chain: Chain, found: ProfileSet) -> None:
        self.chain, self.found = chain, found
        self.asked: list[Mapping[str, object]] = []
        self.kinds_then: list[list[str]] = []
        self.results: dict[str, object] = {
            "open": {"isolation": "gvisor"},
            "run": {"exit_code": 3, "stdout": b64u(b"out"), "stderr": b64u(b"\xff"), "truncated": False,
                    "timed_out": True},
            "close": {"in_order": True},
        }  # fmt: skip
        self.wait: asyncio.Event | None = None

    async def ask(self, request: Mapping[str, object], *, within_s: float) -> Mapping[str, object]:
        self.asked.append(request)
        self.kinds_then.append(list(self.chain.kinds))
        if request["act"] == "profile":
            return {"policy": b64u(self.found.profile(str(request["agent"])).normal_form)}
        if self.wait is not None:
            await self.wait.wait()
        result = self.results[str(request["act"])]
        if isinstance(result, Exception):
            raise result
        assert isinstance(result, dict)
        return result


class Scene:
    """One session's children, with what is around them."""

    def __init__(self, lead: str = LEAD) -> None:
        self.found = profiles(lead)
        self.policy = self.found.profile("lead").compiled
        self.chain = Chain()
        self.budget = RecordBudget(self.chain, RecordLimits(), nanoseconds=time.monotonic_ns)
        self.launcher = FakeLauncher(self.chain, self.found)
        self.announced: list[tuple[str, str, str]] = []
        self.announce_error: Exception | None = None
        self.admits = True
        self.asks_gateway: asyncio.Future[bool] | None = None
        self.now = 0
        facts = PolicyFacts("lead", self.policy.digest, "sha256:" + "0" * 64)
        self.children = ChildSessions(
            self.policy,
            records=EgressRecords(self.budget, facts),
            notes=SILENT,
            launcher=self.launcher,
            gateway=self,
            random_bytes=os.urandom,
            nanoseconds=lambda: self.now,
        )

    async def announce_child(self, session: str, agent: str, policy: str) -> None:
        if self.announce_error is not None:
            raise self.announce_error
        self.announced.append((session, agent, policy))

    async def has_child(self, session: str) -> bool:
        if self.asks_gateway is not None:
            return await self.asks_gateway
        return self.admits and session in [name for name, _, _ in self.announced]

    async def call(self, name: str, **arguments: object) -> ToolAnswer:
        return await self.children.call(
            CallParams(name, arguments, json.dumps(arguments, sort_keys=True)), None
        )

    async def created(self) -> str:
        answer = await self.call("session_create", agent="helper")
        assert answer.error is None
        return str(shown(answer)["session"])


def shown(answer: ToolAnswer) -> Mapping[str, Any]:
    result = json.loads(answer.result)
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return {**result["structuredContent"], "failed": result["isError"]}


def run(scenario: Callable[[Scene], Awaitable[None]], lead: str = LEAD) -> Scene:
    async def whole() -> Scene:
        scene = Scene(lead)
        await scenario(scene)
        return scene

    return asyncio.run(whole())


def test_a_start_is_announced_and_recorded_before_it_is_asked_for() -> None:
    async def scenario(scene: Scene) -> None:
        answer = await scene.call("session_create", agent="helper", task="look")
        ((session, agent, digest),) = scene.announced
        assert (agent, digest) == ("helper", scene.found.profile("helper").digest)
        assert shown(answer) == {
            "session": session, "agent": "helper", "isolation": "gvisor", "failed": False,
        }  # fmt: skip
        profile, opened = scene.launcher.asked
        assert profile == {"act": "profile", "agent": "helper"}
        assert opened == {
            "act": "open",
            "agent": "helper",
            "session": session,
            "digest": digest,
            "task": "look",
        }
        assert scene.launcher.kinds_then == [[], ["tool.intent"]]
        intent, outcome = scene.chain.records
        assert scene.chain.acknowledged == [intent.jti] and answer.record == intent.jti
        for record in (intent, outcome):
            told = [record.shown(f"act.{name}") for name in ("name", "tgt", "arg")]
            digest = sha256_name(b'{"agent": "helper", "task": "look"}')
            assert told == ["session_create", f"session {session}", digest]
        assert outcome.member("par") == [intent.jti] and outcome.member("act", "end") == "complete"
        assert outcome.shown("act.out") == sha256_name(answer.result)

    run(scenario)


def test_a_command_runs_in_a_child_and_its_end_is_the_answer() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.created()
        answer = shown(await scene.call("session_run", session=session, command=["true"]))
        assert answer == {
            "exit_code": 3, "stdout": "out", "stderr": "\N{REPLACEMENT CHARACTER}", "truncated": False,
            "timed_out": True, "failed": False,
        }  # fmt: skip
        assert scene.launcher.asked[-1]["session"] == session
        assert scene.chain.kinds == ["tool.intent", "tool.outcome"] * 2

    run(scenario)


REFUSED = {
    "an agent that is not listed": ("session_create", {"agent": "other"}, "start_not_listed"),
    "an agent that is denied": ("session_create", {"agent": "never"}, "start_denied"),
    "an agent whose profile is wider": ("session_create", {"agent": "wide"}, "policy.not_narrower"),
    "a session of somebody else": (
        "session_run",
        {"session": "s" * 22, "command": ["true"]},
        "session.child_unknown",
    ),
    "a path as a session": ("session_info", {"session": "../../etc"}, "session.child_unknown"),
    "an argument that is unknown": ("session_list", {"agent": "x"}, "session.tool_arguments"),
    "an agent too long to be one": ("session_create", {"agent": "a" * 9999}, "session.tool_arguments"),
    "a tool that is not there": ("session_fork", {}, "tool_not_listed"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused_is_recorded_and_never_asked_for(which: str) -> None:
    tool, arguments, reason = REFUSED[which]

    async def scenario(scene: Scene) -> None:
        answer = await scene.call(tool, **arguments)
        assert answer.error is not None and answer.record is not None
        (record,) = scene.chain.records
        assert (record.kind, record.member("rsn"), record.member("act", "typ")) == ("refusal", reason, "tool")
        assert all(asked["act"] == "profile" for asked in scene.launcher.asked)
        assert scene.announced == []
        assert "/w" not in str(answer.error)  # nothing of the other agent's profile

    run(scenario)


@pytest.mark.parametrize(
    ("lead", "reason"),
    [
        ("tools: [session_run], may_start: [helper]", "tool_not_listed"),
        (f"{LEAD}, requires_human_approval: true", "approval_no_approver"),
        (
            f"{LEAD}, requires_human_approval: {{tools: [session_create], approvers: [{'A' * 43}]}}",
            "session_tool_unshowable",
        ),
        (LEAD.replace("session_create,", "{name: session_create, server: other},"), "tool_other_server"),
        (
            LEAD.replace("session_create,", f"{{name: session_create, schema: 'sha256:{'0' * 64}'}},"),
            "tool_schema_changed",
        ),
        (
            LEAD.replace("session_create,", "{name: session_create, args: {agent: {one_of: [x]}}},"),
            "tool_argument_refused",
        ),
        (LEAD.replace("session_create,", "{deny: session_create},"), "tool_denied"),
    ],
)
def test_the_profiles_rules_for_tools_hold(lead: str, reason: str) -> None:
    async def scenario(scene: Scene) -> None:
        answer = await scene.call("session_create", agent="helper")
        assert answer.error is not None
        assert scene.chain.records[0].member("rsn") == reason
        assert scene.launcher.asked == []
        listed = "session_create" in [tool["name"] for tool in scene.children.listed()]
        assert listed is (reason == "tool_argument_refused")

    run(scenario, lead)


def test_calls_count_against_the_profiles_limits() -> None:
    async def scenario(scene: Scene) -> None:
        assert (await scene.call("session_list")).error is None
        refused = (await scene.call("session_list")).error
        assert refused is not None and refused.code == "limit_tool_rate"
        scene.now = 61 * 10**9
        for _ in range(2):
            answer = await scene.call("session_close", session="s" * 22)
            assert answer.error is not None and answer.error.code == "session.child_unknown"  # not counted
        scene.launcher.results["list"] = {"sessions": {}}
        assert (await scene.call("session_list")).error is None
        scene.now *= 3
        spent = (await scene.call("session_list")).error
        assert spent is not None and spent.code == "limit_tool_calls"

    lead = LEAD.replace("session_list,", "{name: session_list, rate: 1/min},") + ", limits: {tool_calls: 2}"

    async def prepared(scene: Scene) -> None:
        scene.launcher.results["list"] = {"sessions": {}}
        await scenario(scene)

    run(prepared, lead)


def test_a_gateway_that_will_not_admit_the_child_is_a_refusal() -> None:
    async def scenario(scene: Scene) -> None:
        scene.announce_error = AdmissionError("the gateway refuses", gateway_code="limit_starts")
        answer = await scene.call("session_create", agent="helper")
        assert answer.error is not None
        assert [asked["act"] for asked in scene.launcher.asked] == ["profile"]
        assert scene.chain.kinds == ["refusal.limit_starts"]
        scene.announce_error = UnreachableError("no answer", code="gateway.unreachable")
        await scene.call("session_create", agent="helper")
        assert scene.chain.kinds[-1] == "refusal.gateway.unreachable"

    run(scenario)


def test_a_start_that_fails_has_its_outcome_and_leaves_no_child() -> None:
    async def scenario(scene: Scene) -> None:
        said = "no room in /home/alice"
        scene.launcher.results["open"] = StateError(said, code="session.too_many_children")
        answer = await scene.call("session_create", agent="helper")
        assert shown(answer) == {
            "error": {"code": "session.too_many_children", "message": "the session could not be started"},
            "failed": True,
        }  # fmt: skip
        assert [r.member("act", "end") for r in scene.chain.records] == [None, "failed"]
        ((session, _, _),) = scene.announced
        unknown = (await scene.call("session_info", session=session)).error
        assert isinstance(unknown, NotAllowedError) and unknown.code == "session.child_unknown"

    run(scenario)


def test_a_launcher_that_starts_something_else_is_found_out() -> None:
    async def scenario(scene: Scene) -> None:
        scene.admits = False
        answer = shown(await scene.call("session_create", agent="helper"))
        assert answer["failed"] and answer["error"]["code"] == "session.child_unknown"
        await asyncio.gather(*scene.children._closing)
        assert [asked["act"] for asked in scene.launcher.asked] == ["profile", "open", "close"]
        assert [r.member("act", "end") for r in scene.chain.records] == [None, "failed"]
        ((session, _, _),) = scene.announced
        assert (await scene.call("session_info", session=session)).error is not None

    run(scenario)


@pytest.mark.parametrize("how", ["the gateway does not say", "the agent is gone", "the answer is malformed"])
def test_a_start_that_is_not_completed_is_closed_where_it_is_held(how: str) -> None:
    async def scenario(scene: Scene) -> None:
        scene.asks_gateway = asyncio.get_running_loop().create_future()
        if how == "the answer is malformed":
            scene.launcher.results["open"] = {"isolation": 1}
        task = asyncio.create_task(scene.call("session_create", agent="helper"))
        while len(scene.launcher.asked) < 2:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        if how == "the agent is gone":
            task.cancel()
        elif how == "the gateway does not say":
            scene.asks_gateway.set_exception(UnreachableError("no answer", code="gateway.unreachable"))
        else:
            scene.asks_gateway.set_result(True)
        await asyncio.wait({task})
        await asyncio.gather(*scene.children._closing)
        ((session, _, _),) = scene.announced
        assert scene.launcher.asked[-1] == {"act": "close", "session": session}
        assert (await scene.call("session_info", session=session)).error is not None

    run(scenario)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"exit_code": "0", "stdout": "", "stderr": ""},
        {"exit_code": 0, "stdout": "not base64url!", "stderr": ""},
        {"exit_code": 0, "stdout": ["x"], "stderr": ""},
    ],
)
def test_an_answer_of_another_form_is_a_failed_call(result: dict[str, object]) -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.created()
        scene.launcher.results["run"] = result
        assert shown(await scene.call("session_run", session=session, command=["true"]))["failed"]
        assert scene.chain.records[-1].member("act", "end") == "failed"

    run(scenario)


def test_a_cancelled_call_has_its_outcome() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.created()
        scene.launcher.wait = asyncio.Event()
        task = asyncio.create_task(scene.call("session_run", session=session, command=["sleep", "9"]))
        while len(scene.launcher.asked) < 3:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert scene.chain.records[-1].member("act", "end") == "aborted"

    run(scenario)


def test_nothing_is_asked_for_without_its_record() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.created()
        scene.chain.down = True
        answer = await scene.call("session_run", session=session, command=["true"])
        assert answer.error is not None and answer.error.code == "egress.no_record"
        assert [asked["act"] for asked in scene.launcher.asked] == ["profile", "open"]

    run(scenario)


def restricted(lead: str) -> CompiledPolicy:
    return profiles(lead).profile("lead").compiled


@pytest.mark.parametrize(
    ("lead", "closed"),
    [
        (LEAD.replace(", session_info", ""), False),
        (LEAD.replace("'read:/w'", "'read:/w/deep'"), True),
        (LEAD.replace("[helper, ", "["), True),
        (LEAD.replace("{deny: never}", "{deny: helper}").replace("[helper, ", "["), True),
    ],
)
def test_a_restriction_closes_the_children_that_are_wider(lead: str, closed: bool) -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.created()
        scene.children.restrict(restricted(lead))
        for _ in range(200):
            if scene.launcher.asked[-1]["act"] == "close":
                break
            await asyncio.sleep(0.01)
            if not scene.children._closing:
                break
        asked = scene.launcher.asked[-1]
        assert (asked == {"act": "close", "session": session}) is closed
        answer = await scene.call("session_run", session=session, command=["true"])
        assert (answer.error is not None) is closed

    run(scenario)


def test_after_a_restriction_a_start_is_judged_by_what_is_in_force() -> None:
    async def scenario(scene: Scene) -> None:
        scene.children.restrict(restricted(LEAD.replace("'read:/w'", "'read:/w/deep'")))
        answer = await scene.call("session_create", agent="helper")
        assert answer.error is not None and scene.chain.kinds == ["refusal.policy.not_narrower"]

    run(scenario)


def test_a_session_that_was_closed_is_no_child_any_more() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.created()
        scene.launcher.results["list"] = {"sessions": {session: "open", "x" * 22: "open"}}
        listed = shown(await scene.call("session_list"))["sessions"]
        assert listed == [{"session": session, "agent": "helper", "state": "open"}]
        assert shown(await scene.call("session_close", session=session))["closed"]
        assert (await scene.call("session_close", session=session)).error is not None
        assert shown(await scene.call("session_list"))["sessions"] == []

    run(scenario)
