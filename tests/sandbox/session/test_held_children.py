"""The sessions that an agent starts, where they are held: planned once more, bounded, and ended with their parent."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import AffiantError, StateError
from affiant.policy.loading.policy_file import read_policy_file
from affiant.policy.model.profile import Resources
from affiant.sandbox.session.held_children import MOST_OPEN, ChildSessions, Lineage, Tree, child_request
from affiant.sandbox.session.restriction_socket import InForce
from affiant.sandbox.session.session import CommandResult, Metrics
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_acts.sandbox_files import FileInfo, Listing

PROFILES = """agent_configs:
  lead: {filesystem_access: 'read:/w', may_start: [helper], resources: {pids: 20}}
  helper: {filesystem_access: 'read:/w', resources: {pids: 10}}
  wide: {filesystem_access: 'read-write:/w'}
"""


def ids() -> list[str]:
    return [f"{number:022d}" for number in range(100)]


@dataclass
class Held:
    """A session that was opened."""

    request: SessionRequest
    ended: asyncio.Future[AffiantError]
    isolation: str = "gvisor"
    ran: list[Mapping[str, object]] = field(default_factory=list)
    killed: bool = False
    wait: asyncio.Event | None = None
    limit: StateError | None = None
    entries: int = 2

    async def until_ended(self) -> AffiantError:
        return await self.ended

    async def kill(self) -> None:
        self.killed = True

    async def run(self, argv: list[str], **given: Any) -> CommandResult:
        with open(given.pop("stdin"), "rb", closefd=False) as stdin:
            self.ran.append({"argv": argv, "stdin": stdin.read(), **given})
        if self.wait is not None:
            await self.wait.wait()
        return CommandResult(exit_code=0, stdout_bytes=b"out", stderr_bytes=b"", limit=self.limit)

    async def metrics(self) -> Metrics:
        return Metrics(memory_bytes=1, files_bytes=2, commands_running=3, commands_ended=4, processor_s=0.5)

    @property
    def files(self) -> Any:
        async def listing(path: str) -> Listing:
            return Listing(tuple(FileInfo(f"{n}", "file", n, None, False) for n in range(self.entries)))

        async def read(path: str, *, at_most: int) -> bytes:
            raise StateError("no such file", code="files.missing")

        return SimpleNamespace(list=listing, read=read)


class Scene:
    """A parent, and what its children are opened by."""

    def __init__(self, folder: Path, tree: Tree | None = None) -> None:
        self.file = folder / "profiles.yaml"
        self.file.write_text(PROFILES)
        self.request = SessionRequest(profile=self.file, agent="lead", name="named", key="k", owner="alice")
        self.found = read_policy_file(self.file, owners=frozenset({0, os.geteuid()}), floor=None).profiles
        self.in_force = self.found.profile("lead").normal_form
        self.opened: list[Held] = []
        self.closed: list[str] = []
        self.open_error: AffiantError | None = None
        self.opening: asyncio.Event | None = None
        self.leaving: asyncio.Event | None = None
        self.told: list[tuple[str, Mapping[str, object]]] = []
        self.tree = tree or Tree()
        plan = SimpleNamespace(request=self.request, session="p" * 22, lease_s=900, profiles=self.found)
        self.children = ChildSessions(
            plan,  # type: ignore[arg-type]
            in_force=lambda: InForce("lead", self.in_force, 0),
            tree=self.tree,
            opener=self.open,  # type: ignore[arg-type]
            until=1e12,
            progress=lambda step, detail: self.told.append((step, detail)),
        )

    @asynccontextmanager
    async def open(self, request: SessionRequest, lineage: Lineage) -> AsyncIterator[Held]:
        assert lineage.require is not None and lineage.tree is self.tree
        assert lineage.parent is not None and lineage.parent.profiles is self.found
        lineage.require(SimpleNamespace(profile=self.found.profile(request.agent), request=request))  # type: ignore[arg-type]
        if self.open_error is not None:
            raise self.open_error
        if self.opening is not None:
            await self.opening.wait()
        held = Held(request, asyncio.get_running_loop().create_future())
        self.opened.append(held)
        try:
            yield held
            if self.leaving is not None:
                await self.leaving.wait()
        finally:
            self.closed.append(str(lineage.session))

    async def ask_open(self, session: str = "s" * 22, agent: str = "helper", digest: str | None = None):
        wanted = digest or self.found.profile(agent).digest
        return await self.children.answer(
            {"act": "open", "agent": agent, "session": session, "digest": wanted, "task": None}
        )


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def run(scene: Scene, scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20), scene.children.closing():
            await scenario()

    asyncio.run(whole())


RUN = {"act": "run", "session": "s" * 22, "command": ["a", "b"], "env": {"A": "1"}, "cwd": None, "stdin": b64u(b"in"),
       "timeout_s": 5}  # fmt: skip


def test_a_child_is_opened_used_and_closed(scene: Scene) -> None:
    async def scenario() -> None:
        form = await scene.children.answer({"act": "profile", "agent": "helper"})
        assert from_b64u(str(form["policy"])) == scene.found.profile("helper").normal_form
        assert await scene.ask_open() == {"isolation": "gvisor"}
        (held,) = scene.opened
        assert await scene.children.answer(RUN) == {
            "exit_code": 0, "stdout": b64u(b"out"), "stderr": "", "truncated": False, "timed_out": False,
        }  # fmt: skip
        assert held.ran[0]["argv"] == ["a", "b"] and held.ran[0]["stdin"] == b"in"
        assert held.ran[0]["env"] == {"A": "1"} and held.ran[0]["timeout_s"] == 5
        info = await scene.children.answer({"act": "info", "session": "s" * 22})
        assert info == {
            "agent": "helper", "isolation": "gvisor", "memory_bytes": 1, "files_bytes": 2, "commands_running": 3,
            "commands_ended": 4, "processor_us": 500_000,
        }  # fmt: skip
        assert await scene.children.answer({"act": "list"}) == {"sessions": {"s" * 22: "open"}}
        assert await scene.children.answer({"act": "close", "session": "s" * 22}) == {"in_order": True}
        assert scene.closed == ["s" * 22] and not held.killed
        with raises_code("session.not_open"):
            await scene.children.answer(RUN)
        assert [detail["state"] for _, detail in scene.told] == ["open", "closed"]

    run(scene, scenario)


def test_a_child_has_the_parents_services_and_none_of_its_files(scene: Scene) -> None:
    parent = SessionRequest(
        profile=scene.file, agent="lead", input=Path("/in"), input_at="/w", input_commit="main",
        output=Path("/out"), output_diff=Path("/d"), output_branch="b", runtime=Path("/r"),
        decisions=Path("/log/decisions.jsonl"), name="n", key="k",
        owner="alice", task={"workflow": "w", "task": "t", "attempt": 3},
        resources=Resources(pids=50, memory=1 << 30),
    )  # fmt: skip
    plan: Any = SimpleNamespace(request=parent, session="p" * 22, lease_s=900)
    made = child_request(plan, "helper", Resources(pids=10), session="c" * 22, task="look", left_s=60.5)
    assert (made.agent, made.lease_s, made.owner, made.runtime) == ("helper", 60, "alice", Path("/r"))
    assert made.task == {"workflow": "w", "task": "look", "parent": "p" * 22}
    assert made.resources == Resources(pids=10, memory=1 << 30)
    nothing = (
        made.input,
        made.input_at,
        made.input_commit,
        made.output,
        made.output_diff,
        made.output_branch,
    )
    assert nothing == (None,) * 6 and (made.name, made.key) == (None, None)
    assert made.decisions == Path(f"/log/decisions.{'c' * 22}.jsonl"), "a log has one writer"
    assert child_request(plan, "helper", Resources(), session="c" * 22, task=None, left_s=-1).lease_s == 1


def test_a_profile_that_was_not_judged_is_not_opened(scene: Scene) -> None:
    async def scenario() -> None:
        with raises_code("session.child_profile"):
            await scene.ask_open(digest=scene.found.profile("lead").digest)
        assert [(detail["state"], "judged" in str(detail["why"])) for _, detail in scene.told] == [
            ("failed", True)
        ]
        with raises_code("policy.unknown_agent"):
            await scene.children.answer({"act": "profile", "agent": "nobody"})
        assert scene.opened == [] and scene.tree.open == 0

    run(scene, scenario)


def test_a_child_has_the_profile_as_it_was_read_for_its_parent(scene: Scene) -> None:
    async def scenario() -> None:
        scene.file.unlink()
        form = await scene.children.answer({"act": "profile", "agent": "helper"})
        assert from_b64u(str(form["policy"])) == scene.found.profile("helper").normal_form
        assert await scene.ask_open() == {"isolation": "gvisor"}

    run(scene, scenario)


def test_a_wider_profile_is_not_opened_whatever_the_supervisor_says(scene: Scene) -> None:
    async def scenario() -> None:
        with raises_code("policy.not_narrower"):
            await scene.ask_open(agent="wide")
        scene.in_force = scene.found.profile("helper").normal_form.replace(b"/w", b"/w/deep")
        with raises_code("policy.not_narrower"):
            await scene.ask_open()
        scene.in_force = scene.found.profile("helper").normal_form
        with raises_code("policy.not_narrower"):
            await scene.ask_open(agent="wide")
        assert scene.opened == []

    run(scene, scenario)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"act": "open"},
        {"act": "open", "agent": "helper", "session": "../x", "digest": "d", "task": None},
        {"act": "open", "agent": "helper", "session": "s" * 23, "digest": "d", "task": None},
        {
            "act": "open",
            "agent": "helper",
            "session": "s" * 22,
            "digest": "d",
            "task": None,
            "output": "/etc",
        },
        {"act": "open", "agent": "helper", "session": "s" * 22, "digest": "d", "task": 1},
        {"act": "profile", "agent": 1},
        {"act": "list", "all": True},
        {"act": "signal", "session": "o" * 22, "number": 9},
        {**RUN, "session": "o" * 22, "command": [1]},
        {**RUN, "session": "o" * 22, "terminal": [1, 2]},
        {"act": "read", "session": "o" * 22, "path": "/w/a", "to": "/etc/passwd"},
        {"act": "write", "session": "o" * 22, "path": "/w/a", "content": "x"},
    ],
)
def test_a_request_of_another_form_is_refused(scene: Scene, asked: dict[str, object]) -> None:
    async def scenario() -> None:
        await scene.ask_open("o" * 22)
        with raises_code("session.control"):
            await scene.children.answer(asked)
        assert len(scene.opened) == 1 and scene.opened[0].ran == []

    run(scene, scenario)


def test_children_of_all_levels_are_bounded_together(tmp_path: Path) -> None:
    tree = Tree(open=MOST_OPEN - 1)
    scene = Scene(tmp_path, tree)

    async def scenario() -> None:
        await scene.ask_open("a" * 22)
        with raises_code("session.too_many_children"):
            await scene.ask_open("b" * 22)
        await scene.children.answer({"act": "close", "session": "a" * 22})
        await scene.ask_open("b" * 22)
        assert tree.open == MOST_OPEN

    run(scene, scenario)
    assert tree.open == MOST_OPEN - 1


def test_a_storm_of_starts_opens_as_many_as_may_be_open(scene: Scene) -> None:
    async def scenario() -> None:
        results = await asyncio.gather(*(scene.ask_open(name) for name in ids()), return_exceptions=True)
        errors = [result for result in results if isinstance(result, AffiantError)]
        assert len(scene.opened) == MOST_OPEN and len(errors) == len(results) - MOST_OPEN
        assert {error.code for error in errors} == {"session.too_many_children"}

    run(scene, scenario)
    assert len(scene.closed) == MOST_OPEN and scene.tree.open == 0


def test_leaving_closes_every_child_also_one_that_is_being_opened(scene: Scene) -> None:
    scene_opening: list[asyncio.Task[object]] = []

    async def scenario() -> None:
        await scene.ask_open("a" * 22)
        scene.opened[0].wait = asyncio.Event()
        running = asyncio.create_task(scene.children.answer({**RUN, "session": "a" * 22}))
        scene.opening = asyncio.Event()
        scene_opening.append(asyncio.create_task(scene.ask_open("b" * 22)))
        await asyncio.sleep(0.05)
        scene_opening.append(running)

    run(scene, scenario)
    assert scene.closed == ["a" * 22] and scene.opened[0].killed
    assert scene.tree.open == 0
    assert isinstance(scene_opening[0].exception(), AffiantError)


def test_nothing_is_opened_once_the_parent_is_closed(scene: Scene) -> None:
    async def nothing() -> None:
        return

    run(scene, nothing)

    async def late() -> None:
        with raises_code("session.not_open"):
            await scene.ask_open()

    asyncio.run(late())


def test_a_child_that_ends_by_itself_says_why(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.ask_open()
        scene.opened[0].ended.set_result(StateError("the gateway is gone", code="gateway.lost"))
        while scene.closed == []:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        with raises_code("gateway.lost"):
            await scene.children.answer(RUN)
        assert await scene.children.answer({"act": "list"}) == {"sessions": {"s" * 22: "ended"}}
        assert await scene.children.answer({"act": "close", "session": "s" * 22}) == {"in_order": False}
        assert scene.tree.open == 0

    run(scene, scenario)


def test_a_child_that_fails_by_a_mistake_of_ours_has_ended(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.ask_open()
        scene.opened[0].ended.set_exception(OSError("no room"))
        while scene.closed == []:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await scene.children.answer({"act": "list"}) == {"sessions": {"s" * 22: "ended"}}
        with raises_code("session.act"):
            await scene.children.answer(RUN)
        assert scene.tree.open == 0

    run(scene, scenario)


def test_a_child_whose_closing_was_cancelled_is_not_open(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.ask_open()
        scene.leaving = asyncio.Event()
        task = asyncio.create_task(scene.children.answer({"act": "close", "session": "s" * 22}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await scene.children.answer({"act": "list"}) == {"sessions": {"s" * 22: "ended"}}
        scene.leaving.set()
        assert await scene.children.answer({"act": "close", "session": "s" * 22}) == {"in_order": True}

    run(scene, scenario)


def test_a_request_that_is_cancelled_while_a_child_opens_leaves_none(scene: Scene) -> None:
    async def scenario() -> None:
        scene.opening = asyncio.Event()
        task = asyncio.create_task(scene.ask_open())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await scene.children.answer({"act": "list"}) == {"sessions": {}}
        assert scene.tree.open == 0

    run(scene, scenario)


def test_a_limit_that_ended_a_command_is_its_error(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.ask_open()
        scene.opened[0].limit = StateError("memory", code="isolation.limit")
        with raises_code("isolation.limit"):
            await scene.children.answer(RUN)
        with raises_code("files.missing"):
            await scene.children.answer({"act": "read", "session": "s" * 22, "path": "/w/a"})

    run(scene, scenario)


def test_a_long_listing_is_cut_and_says_so(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.ask_open()
        asked = {"act": "files", "session": "s" * 22, "path": "/w"}
        assert (await scene.children.answer(asked))["more"] is False
        scene.opened[0].entries = 5000
        found = await scene.children.answer(asked)
        assert found["more"] is True and len(found["entries"]) == 1000  # type: ignore[arg-type]

    run(scene, scenario)
