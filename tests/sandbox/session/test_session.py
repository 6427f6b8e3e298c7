"""The Python interface: ``async with Session.open(...)``."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.attestation.records.receipt import parse_receipt
from affiant.errors import AffiantError
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.processes.service_process import ServiceSpec, start_service
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a command as somebody else")


def request(warm, agent: str = "writer", **members) -> SessionRequest:
    return SessionRequest(
        **{
            "profile": warm.folder / "profiles.yaml",
            "agent": agent,
            "min_isolation": IsolationClass(warm.isolation),
            **members,
        }
    )


def test_a_captured_command_in_a_session_with_its_bundle(warm):
    steps: list[str] = []
    told: dict[str, object] = {}

    def progress(step: str, detail: Mapping[str, object]) -> None:
        steps.append(step)
        told[step] = detail

    async def run() -> None:
        opening = Session.open(request(warm, input=warm.folder / "in"), home=warm.home, progress=progress)
        async with opening as session:
            result = await session.run(
                ["sh", "-c", "cat file.txt; echo $GREETING >&2; head -c 3000000 /dev/zero"],
                env={"GREETING": "hello"},
                capture_limit=1000,
            )
            assert result.exit_code == 0
            assert result.stdout_bytes == b"content\n" + bytes(992)
            assert result.stderr == "hello\n"
            assert result.truncated
            with raises_code("session.not_open"):
                session.bundle()
            again = await session.run(["sh", "-c", "echo again"])
            assert (again.exit_code, again.stdout) == (0, "again\n")
        with raises_code("session.not_open"):
            await session.run(["true"])
        assert session.bundle_path.exists()
        assert len(session.bundle().receipts) >= 7
        assert any(parse_receipt(text).disclosures for text in session.bundle().receipts)

    asyncio.run(run())
    assert [step for step in steps if step in {"planned", "services-ready", "admitted", "ready", "bundled"}] == [
        "planned", "services-ready", "admitted", "ready", "bundled",
    ]  # fmt: skip
    assert told["witnesses"] == {
        "text": "self (warning: only this machine witnessed the log; "
        "that catches accidents, not tampering by its owner)"
    }
    verdict = warm.verdict(told["bundled"]["path"])
    assert "wit.quorum          held      warning         witness: self. " in verdict
    assert "L3  held" in verdict


@pytest.mark.slow
def test_leaving_by_an_exception_closes_the_session_and_keeps_the_exception(warm):
    async def run() -> Session:
        kept: list[Session] = []
        with pytest.raises(ZeroDivisionError):
            async with Session.open(request(warm), home=warm.home) as session:
                kept.append(session)
                raise ZeroDivisionError
        return kept[0]

    assert asyncio.run(run()).bundle_path.exists()


@pytest.mark.slow
def test_a_cancelled_run_ends_the_command_and_closes_the_session(warm):
    async def run() -> Session:
        kept: list[Session] = []

        async def session_() -> None:
            async with Session.open(request(warm), home=warm.home) as session:
                kept.append(session)
                await session.run(["sleep", "60"])

        task = asyncio.create_task(session_())
        while not kept:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return kept[0]

    assert asyncio.run(run()).bundle_path.exists()


@pytest.mark.slow
def test_a_signal_reaches_the_command(warm):
    async def run() -> int:
        async with Session.open(request(warm), home=warm.home) as session:
            reading, writing = os.pipe()
            running = asyncio.create_task(session.run(["sh", "-c", "echo up; sleep 60"], stdout=writing))
            assert await asyncio.to_thread(os.read, reading, 10) == b"up\n"
            await session.signal(signal.SIGTERM)
            code = (await running).exit_code
            os.close(reading)
            os.close(writing)
            return code

    assert asyncio.run(run()) == 128 + signal.SIGTERM


def test_an_unknown_agent_is_refused_before_anything_starts(warm):
    async def run() -> None:
        async with Session.open(request(warm, agent="nobody"), home=warm.home):
            raise AssertionError("opened")

    with pytest.raises(AffiantError) as refused:
        asyncio.run(run())
    assert refused.value.code == "policy.unknown_agent"


OVERLAPPING = """
import asyncio, sys
from pathlib import Path
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest

folder = Path(sys.argv[1])
request = SessionRequest(
    profile=folder / "profiles.yaml", agent="writer", min_isolation=IsolationClass(sys.argv[2])
)
async def first(opened, leave):
    async with Session.open(request, home=folder / "home"):
        opened.set()
        await leave.wait()
async def both():
    opened, leave = asyncio.Event(), asyncio.Event()
    starter = asyncio.create_task(first(opened, leave))
    await opened.wait()
    async with Session.open(request, home=folder / "home"):
        leave.set()
        await starter
asyncio.run(both())
"""


@pytest.mark.slow
def test_overlapping_sessions_of_one_program_leave_no_process_and_no_warning(machine):
    """The first starts the services and leaves them to the second."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OVERLAPPING, str(machine.folder), machine.isolation],
        capture_output=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert machine.processes() == {}


@pytest.mark.slow
@pytest.mark.root
@needs_root
def test_without_root_a_session_runs_under_bubblewrap(machine):
    """A whole ``affiant run`` as an ordinary user, who sees the code through a view of his own."""
    if not probe()[BackendName.BUBBLEWRAP].usable:
        pytest.skip("bubblewrap is not usable here")
    nobody = 12345
    os.chown(machine.folder, nobody, nobody)
    out = machine.folder / "summary.json"
    arguments = ["--home", str(machine.home), "--profile", str(machine.folder / "profiles.yaml")]
    arguments += ["--agent", "writer", "--min-isolation", "namespace", "--json", str(out)]
    arguments += ["--output", str(machine.folder / "out"), "--", "sh", "-c", "id -u >who; exit 9"]

    async def run() -> int:
        service = start_service(
            ServiceSpec(
                name="an ordinary user",
                argv=("affiant", "run", *arguments),
                home=machine.folder,
                user=nobody,
                needs=(Need(str(machine.folder), writable=True),),
            )
        )
        code = await service.wait()
        assert out.exists(), service.last_words
        return code

    assert asyncio.run(run()) == 9
    assert '"bwrap-landlock"' in out.read_text()
    assert (machine.folder / "out" / "who").read_text() != "0\n"
    assert all(path.stat().st_uid == nobody for path in machine.home.iterdir())
    assert Path(machine.bundle()).stat().st_uid == nobody


def test_without_a_home_the_state_folder_is_that_of_the_environment(tmp_path, monkeypatch):
    async def run() -> None:
        async with Session.open(SessionRequest(profile=tmp_path / "p.yaml", agent="dev")):
            pass

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    for value, place in ((str(tmp_path / "named"), tmp_path / "named"), ("", tmp_path / "xdg" / "affiant")):
        monkeypatch.setenv("AFFIANT_HOME", value)
        place.mkdir(parents=True, mode=0o755)
        with raises_code("home.refused", match=str(place)):
            asyncio.run(run())


@pytest.mark.slow
def test_the_task_that_a_session_is_for_is_in_its_verdict(warm):
    async def run() -> Path:
        task = {"workflow": "nightly", "task": "summarise", "attempt": 2}
        async with Session.open(request(warm, task=task), home=warm.home) as session:
            pass
        return session.bundle_path

    verdict = " ".join(warm.verdict(asyncio.run(run())).split())
    assert "Task label: workflow 'nightly', task 'summarise', attempt '2'." in verdict


def test_a_task_label_of_another_form_starts_nothing(warm):
    async def run() -> None:
        async with Session.open(request(warm, task={"colour": "red"}), home=warm.home):
            raise AssertionError("started")

    with raises_code("session.task", match="workflow, task, attempt, parent"):
        asyncio.run(run())
