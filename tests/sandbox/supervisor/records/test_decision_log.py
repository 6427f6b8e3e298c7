"""A session's decision log takes what the gateway decided about it: its own lines, in order, each once, or it fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from affiant.policy.decision_log.file import DecisionFile, DecisionsUnavailable, open_decision_file
from affiant.policy.decision_log.reader import read_decision_log
from affiant.policy.decision_log.record import DecidedBy
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.supervisor.launch.errors import AdmissionError
from affiant.sandbox.supervisor.records.decision_log import SessionDecisions

DIGEST = "sha384:" + "0" * 96
Ask = Callable[[int], Awaitable[Mapping[str, object]]]


def line(name: str, *, session: str = "s-1", **more: object) -> str:
    members = {"decision": "allow", "plane": "tool", "policy_digest": DIGEST, "reason": "allowed"}
    members |= {"request": f"tool:{name}", "session": session, "ts": 1, **more}
    return json.dumps(members, sort_keys=True, separators=(",", ":"))


def answers(*pages: list[str]) -> Ask:
    """A gateway that gives its lines in pages, and forgets what was fetched."""

    async def ask(after: int) -> Mapping[str, object]:
        before = 0
        for number, page in enumerate(pages):
            if after == before:
                waiting = sum(map(len, pages[number + 1 :]))
                return {"lines": page, "next": after + len(page), "waiting": waiting, "denied": []}
            before += len(page)
        assert after == before
        return {"lines": [], "next": after, "waiting": 0, "denied": []}

    return ask


def followed(log: Path, ask: Ask, *, times: int = 1) -> SessionDecisions:
    async def follow() -> SessionDecisions:
        decisions = SessionDecisions(
            DecisionFile(open_decision_file(log)),
            DecidedBy("s-1", DIGEST, "writer"),
            ask=ask,
            clock=lambda: datetime.now(UTC),
            nanoseconds=lambda: 0,
        )
        for _ in range(times):
            await asyncio.gather(*(decisions.follow_gateway() for _ in range(3)))
        return decisions

    return asyncio.run(follow())


def test_each_line_is_taken_once_in_order_with_the_agents_name(tmp_path: Path) -> None:
    log = tmp_path / "log"
    decisions = followed(log, answers([line("a"), line("b")], [line("c")]), times=2)
    lines = log.read_bytes().splitlines(keepends=True)
    assert [(each.request, each.agent) for each in read_decision_log(lines)] == [
        ("tool:a", "writer"),
        ("tool:b", "writer"),
        ("tool:c", "writer"),
    ]
    assert not decisions.failed.done()


@pytest.mark.parametrize(
    "page",
    [[line("a", session="s-2")], ["{}"], ["no JSON"], [line("a") + " "], [7]],
    ids=["another session", "no decision", "no JSON", "not canonical", "no text"],
)
def test_a_line_that_is_not_this_sessions_ends_it(tmp_path: Path, page: list[str]) -> None:
    with pytest.raises(DecisionsUnavailable):
        followed(tmp_path / "log", answers(page))
    assert (tmp_path / "log").read_bytes() == b""


def test_a_gateway_without_decisions_ends_the_session(tmp_path: Path) -> None:
    async def ask(_after: int) -> Mapping[str, object]:
        raise AdmissionError("the gateway refuses", gateway_code="not_found")

    with pytest.raises(DecisionsUnavailable, match="does not show its decisions"):
        followed(tmp_path / "log", ask)


@pytest.mark.parametrize(("following", "waiting"), [(0, 1), (-1, 1), (-1, 0)])
def test_a_gateway_whose_answers_lead_nowhere_ends_the_session(
    tmp_path: Path, following: int, waiting: int
) -> None:
    asked = []

    async def ask(_after: int) -> Mapping[str, object]:
        asked.append(_after)
        assert len(asked) < 10
        return {"lines": [], "next": following, "waiting": waiting, "denied": []}

    with pytest.raises(DecisionsUnavailable, match="not of their form"):
        followed(tmp_path / "log", ask)
    assert set(asked) == {0}


def test_a_gateway_that_does_not_answer_now_is_asked_again(tmp_path: Path) -> None:
    given, failing = answers([line("a")]), [GatewayUnreachable("no answer")]

    async def ask(after: int) -> Mapping[str, object]:
        if failing:
            raise failing.pop()
        return await given(after)

    async def twice() -> SessionDecisions:
        decisions = SessionDecisions(
            DecisionFile(open_decision_file(tmp_path / "log")),
            DecidedBy("s-1", DIGEST, "writer"),
            ask=ask,
            clock=lambda: datetime.now(UTC),
            nanoseconds=lambda: 0,
        )
        with pytest.raises(GatewayUnreachable):
            await decisions.follow_gateway()
        await decisions.follow_gateway()
        assert not decisions.failed.done()
        return decisions

    asyncio.run(twice())
    assert (tmp_path / "log").read_bytes().count(b"\n") == 1
