"""The queue at a real gateway: who goes upstream next, and how those end who do not."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import serving_gateway
from tests.gateway.in_process import InProcess, asgi, in_process
from tests.gateway.journal_reader import entries_of, records_of
from tests.gateway.narrowing_client import NarrowingClient, payload_of
from tests.gateway.session_client import Answer, SessionClient
from tests.gateway.upstream_server import Received, Step, completion, scripted_upstream, whole

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.cli.commands import gateway
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.upstream.priority_band import BandBounds, QueueBounds

CHAT = "/v1/chat/completions"
LIMIT = 2
WAIT_S = 20.0


@dataclass
class Slow:
    """An upstream that answers when the test says so, each request by itself, in the order in which they came."""

    came: list[str] = field(default_factory=list)
    done: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, received: Received) -> Sequence[Step]:
        with self.changed:
            self.came.append(received.json["messages"][0]["content"])
            mine = len(self.came)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.done >= mine, WAIT_S)
        return whole(completion())

    def answer(self, count: int = 1) -> None:
        with self.changed:
            self.done += count
            self.changed.notify_all()

    def answer_all(self) -> None:
        self.answer(10_000)

    def wait_for(self, count: int) -> list[str]:
        """What came upstream, once so many requests did."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.came) >= count, WAIT_S), self.came
            return list(self.came)


@dataclass
class Asked:
    """One request under way, whose client can go away."""

    future: concurrent.futures.Future[Answer]
    leave: Callable[[], object]

    def answer(self) -> Answer:
        return self.future.result(WAIT_S)


@dataclass
class Queued:
    gateway: InProcess
    slow: Slow
    platform: PlatformClient

    def session(self, sections: str = "") -> SessionClient:
        return SessionClient.start(
            self.gateway, self.platform, profile=f"agent_configs: {{tester: {{{sections}}}}}".encode()
        )

    def ask(self, session: SessionClient, text: str, **members: object) -> Asked:
        """Ask without waiting for the answer; it is in the queue, or upstream, when this returns."""
        body = json.dumps(
            {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": 1000, **members}
        ).encode()
        proof = session.proof("POST", CHAT, body, content_type="application/json", counted=True)
        headers = {"Affiant-Proof": proof, "Content-Type": "application/json"}
        gone = asyncio.Event()
        before = self.present
        future = asyncio.run_coroutine_threadsafe(
            asgi(self.gateway.app, "POST", CHAT, body, headers, gone=gone), self.gateway.loop
        )
        until(lambda: self.present > before or future.done())
        return Asked(future, lambda: self.gateway.loop.call_soon_threadsafe(gone.set))

    @property
    def present(self) -> int:
        return self.under_way + self.waiting

    @property
    def waiting(self) -> int:
        return self._report()["waiting"]

    @property
    def under_way(self) -> int:
        return self._report()["under_way"]

    def _report(self) -> dict[str, int]:
        (report,) = self.gateway.service.upstreams.report().values()
        return dict(report)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@contextmanager
def queued(
    platform: PlatformClient, store: Path, *, limit: int = LIMIT, **settings: object
) -> Iterator[Queued]:
    slow = Slow()
    with scripted_upstream(slow) as upstream:
        configs = upstream_configs([UpstreamChoice(upstream.url, concurrent=limit)])
        with in_process(platform, store, upstreams=configs, drain_s=1, **settings) as gateway:
            try:
                yield Queued(gateway, slow, platform)
            finally:
                slow.answer_all()


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient) -> Iterator[Queued]:
    with queued(platform, tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture
def idle(gate: Queued) -> Iterator[Queued]:
    """The gateway, of which nobody asks anything, with an upstream that has been asked nothing."""
    gate.slow.came, gate.slow.done = [], 0
    yield gate
    gate.slow.answer_all()
    until(lambda: gate.present == 0)


def records(session: SessionClient) -> list[dict]:
    found = [payload_of(entry["sdjwt"]) for entry in session.bundle()["bundle"]["receipts"]]
    mine = [each for each in found if each["role"] == "gateway"]
    return [each for each in mine if each.get("agt", {}).get("ses") == session.id]


def refusals(session: SessionClient) -> list[str]:
    return [each["rsn"] for each in records(session) if each["kind"] == "refusal"]


# -- order -------------------------------------------------------------------------------------------------------------


def test_nobody_waits_while_there_is_room(idle: Queued) -> None:
    session = idle.session()
    asked = [idle.ask(session, str(number)) for number in range(LIMIT)]
    assert (idle.under_way, idle.waiting) == (LIMIT, 0)
    idle.slow.answer_all()
    assert [each.answer().status for each in asked] == [200] * LIMIT
    assert idle.present == 0


def test_light_sessions_do_not_wait_for_a_heavy_one(idle: Queued) -> None:
    heavy, light, other = (idle.session() for _ in range(3))
    flood = [idle.ask(heavy, f"heavy {number}", max_tokens=8000) for number in range(64)]
    assert (idle.under_way, idle.waiting) == (LIMIT, 64 - LIMIT)
    few = [idle.ask(light, "light"), idle.ask(other, "other")]
    idle.slow.wait_for(LIMIT)
    idle.slow.answer(LIMIT)
    came = idle.slow.wait_for(2 * LIMIT)
    assert sorted(came[LIMIT:]) == ["light", "other"], "the next two, not the 65th and the 66th"
    idle.slow.answer_all()
    assert {each.answer().status for each in (*flood, *few)} == {200}


def test_priorities_and_weights_of_profiles_decide(idle: Queued) -> None:
    night, work, chat = idle.session("priority: batch"), idle.session("weight: 3"), idle.session()
    first = idle.session("priority: interactive")
    blocking = [idle.ask(chat, "block") for _ in range(LIMIT)]
    waiting = [idle.ask(night, "night")]
    waiting += [
        idle.ask(session, text) for _ in range(4) for session, text in ((chat, "chat"), (work, "work"))
    ]
    waiting.append(idle.ask(first, "first"))
    idle.slow.wait_for(LIMIT)
    for number in range(len(waiting)):
        idle.slow.answer()
        came = idle.slow.wait_for(LIMIT + number + 1)
    assert came[LIMIT] == "first", "the highest priority goes first, though it came last"
    assert came.index("night") in (LIMIT + 1, LIMIT + 2), "what batch is promised"
    normal = [text for text in came[LIMIT:] if text in ("work", "chat")]
    assert normal.count("work") == normal.count("chat") == 4
    assert normal[:5].count("work") >= 3, "three for one"
    idle.slow.answer_all()
    assert {each.answer().status for each in (*blocking, *waiting)} == {200}


def test_nothing_that_a_client_says_of_itself_changes_its_place(idle: Queued) -> None:
    session, other = idle.session(), idle.session()
    blocking = [idle.ask(session, "block") for _ in range(LIMIT)]
    waiting = [idle.ask(session, "loud", priority=-100, user=f"user {number}") for number in range(8)]
    waiting.append(idle.ask(other, "quiet"))
    idle.slow.wait_for(LIMIT)
    idle.slow.answer()
    assert idle.slow.wait_for(LIMIT + 1)[LIMIT] == "quiet"
    idle.slow.answer_all()
    assert {each.answer().status for each in (*blocking, *waiting)} == {200}


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_whoever_goes_away_leaves_the_queue_at_once_and_has_a_record(idle: Queued) -> None:
    session = idle.session()
    blocking = [idle.ask(session, "block") for _ in range(LIMIT)]
    gone = idle.ask(session, "gone")
    assert idle.waiting == 1
    gone.leave()
    until(lambda: idle.waiting == 0)
    with pytest.raises(Exception, match=r"."):
        assert gone.future.result(WAIT_S).status == 0
        raise RuntimeError("it was told nothing")
    idle.slow.answer_all()
    assert [each.answer().status for each in blocking] == [200] * LIMIT
    assert idle.slow.came == ["block"] * LIMIT, "nothing of it went upstream"
    assert refusals(session) == ["request.abandoned"]


def test_a_session_that_is_closed_waits_no_more(idle: Queued) -> None:
    session, other = idle.session(), idle.session()
    blocking = [idle.ask(other, "block") for _ in range(LIMIT)]
    waiting = [idle.ask(session, "late") for _ in range(3)]
    assert session.close().status == 200
    answers = [each.answer() for each in waiting]
    assert {(each.status, each.code) for each in answers} == {(409, "session.closed")}
    assert idle.waiting == 0
    idle.slow.answer_all()
    assert [each.answer().status for each in blocking] == [200] * LIMIT
    assert idle.slow.came == ["block"] * LIMIT
    assert refusals(session) == ["session.closed"] * 3


WIDE = b"agent_configs: {tester: {tools: [a, b], weight: 2, priority: interactive}}"
NARROW = b"agent_configs: {tester: {tools: [a], priority: batch}}"


def test_what_waits_while_a_profile_is_narrowed_is_not_sent_under_the_old_one(idle: Queued) -> None:
    other = idle.session()
    with NarrowingClient.admitted_by(idle.gateway, idle.platform, profile=WIDE) as client:
        blocking = [idle.ask(other, "block") for _ in range(LIMIT)]
        waiting = idle.ask(client, "waits")
        client.narrowed(NARROW)
        answer = waiting.answer()
        assert (answer.status, answer.code) == (503, "session.narrowing")
        assert answer.headers["x-should-retry"] == "true"
        again, normal = idle.ask(client, "again"), idle.ask(other, "normal")
        idle.slow.wait_for(LIMIT)
        idle.slow.answer()
        assert idle.slow.wait_for(LIMIT + 1)[LIMIT] == "normal", "it has the new priority"
        idle.slow.answer_all()
        assert {each.answer().status for each in (*blocking, again, normal)} == {200}
        assert "waits" not in idle.slow.came
        (refusal,) = [each for each in client.own_records if each["kind"] == "refusal"]
        (sent,) = [each for each in client.own_records if each["kind"] == "inference"]
        assert (refusal["rsn"], refusal["pol"]["epoch"]) == ("session.narrowing", 0)
        assert sent["pol"]["epoch"] == 1


def test_more_weight_or_an_earlier_priority_is_no_narrowing(idle: Queued) -> None:
    for profile in (NARROW.replace(b"batch", b"normal"), NARROW.replace(b"}}", b", weight: 2}}")):
        with NarrowingClient.admitted_by(idle.gateway, idle.platform, profile=NARROW) as client:
            assert client.narrow(profile).code == "policy.not_narrower"


# -- bounds ------------------------------------------------------------------------------------------------------------

TIGHT = QueueBounds(interactive=BandBounds(1, 60.0), normal=BandBounds(4, 60.0), batch=BandBounds(512, 0.05))


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient) -> Iterator[Queued]:
    with queued(platform, tmp_path_factory.mktemp("store"), limit=1, queue=TIGHT) as made:
        yield made


def test_who_waits_too_long_is_told_when_to_come_back(tight: Queued) -> None:
    session = tight.session("priority: batch")
    blocking = tight.ask(session, "block")
    answer = tight.ask(session, "late").answer()
    assert (answer.status, answer.code) == (429, "queue.deadline")
    assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("1", "true")
    assert answer.json()["error"]["type"] == "rate_limit_error"
    assert tight.waiting == 0
    tight.slow.answer_all()
    assert blocking.answer().status == 200
    assert refusals(session) == ["queue.deadline"]
    (refusal,) = [each for each in records(session) if each["kind"] == "refusal"]
    assert (refusal["res"]["st"], refusal["pol"]["dec"], refusal["agt"]["cseq"]) == (429, "allow", 1)


def test_a_full_queue_refuses_who_fills_it_and_nobody_else(tight: Queued) -> None:
    tight.slow.came, tight.slow.done = [], 0
    session, other = tight.session(), tight.session()
    blocking = tight.ask(session, "block")
    waiting = [tight.ask(session, "waits") for _ in range(2)]
    full = tight.ask(session, "full").answer()
    assert (full.status, full.code) == (429, "queue.full")
    assert int(full.headers["retry-after"]) >= 1
    waiting.append(tight.ask(other, "waits"))
    assert tight.waiting == 3
    tight.slow.answer_all()
    assert {each.answer().status for each in (blocking, *waiting)} == {200}
    assert refusals(session) == ["queue.full"] and refusals(other) == []


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_gateway_that_is_stopped_lets_nobody_wait(platform: PlatformClient, tmp_path: Path) -> None:
    with queued(platform, tmp_path / "store", limit=1) as gate:
        session, other = gate.session(), gate.session()
        blocking = gate.ask(other, "block")
        waiting = gate.ask(session, "waits")
        gate.gateway.service.draining = True
        gate.slow.answer_all()
        gate.gateway.run(gate.gateway.service.closing.end())
        assert waiting.answer().code == "session.closed"
        assert blocking.answer().status == 200 and gate.slow.came == ["block"]


@pytest.mark.slow
def test_of_what_waited_when_a_gateway_was_killed_nothing_is_resumed(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    slow = Slow()
    with scripted_upstream(slow) as upstream:
        options = (tmp_path, platform_home, "--upstream", upstream.url, "--upstream-concurrency", "1")
        with serving_gateway(*options) as running, ThreadPoolExecutor(2) as pool:
            session = SessionClient.start(running.gateway, platform)
            message = {"role": "user", "content": "a"}
            asked = [
                pool.submit(session.chat, {"model": "m", "messages": [message]}, cseq=number)
                for number in range(2)
            ]
            until(lambda: upstream_state(tmp_path) == {"limit": 1, "under_way": 1, "waiting": 1})
            running.kill()
            slow.answer_all()
            assert all(each.exception(WAIT_S) is not None for each in asked)
        with serving_gateway(*options):
            assert upstream_state(tmp_path) == {"limit": 1, "under_way": 0, "waiting": 0}
            store = tmp_path / "gateway"
            (gap,) = [each for each in records_of(entries_of(store)[-1]) if each["kind"] == "gap"]
            assert gap["ext"]["tag:affiant.dev,2026:gap/opens"] == "2"
            assert slow.came == ["a"]


def upstream_state(home: Path) -> dict[str, int]:
    """What `affiant gateway status` says of the one upstream."""
    result = CliRunner().invoke(gateway, ["status", "--home", str(home), "--json"])
    assert result.exit_code == 0, result.output
    (state,) = json.loads(result.output)["upstreams"].values()
    return dict(state)
