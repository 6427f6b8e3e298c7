"""A repeated request to create a session: it waits for the first one, and takes its place where that fails."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.errors import StateError
from affiant.sandbox.detached import host
from affiant.sandbox.isolation.plan.isolation_class import IsolationClass
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.session_note import Asked
from affiant.sandbox.session import attested_launch
from affiant.sandbox.session.session import Session
from affiant.sandbox.session.session_plan import SessionRequest
from affiant.sandbox.session_state.session_folder import HOST_SOCKET

SESSION = "S" * 22
REQUEST = SessionRequest(profile=Path("p"), agent="a", name="build", key="k")


@pytest.fixture
def first(tmp_path: Path) -> tuple[Home, Launch]:
    """A session of the same name and key that is being started."""
    home = open_home(tmp_path / "home")
    home.session(SESSION).mkdir()
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    launch = Launch(SESSION, launcher, asked=Asked(agent="a", profile="p", started=1, name="build", key="k"))
    launch.write(home)
    return home, launch


class Second(threading.Thread):
    """The second request: what it was told, and whether it is to create the session."""

    def __init__(self, home: Home) -> None:
        super().__init__(daemon=True)
        reading, writing = os.pipe()
        self.told = open(reading, encoding="utf-8")  # noqa: SIM115 - read by the test
        self._home, self._report = home, host._Report(writing)
        self.creates: bool | None = None
        self.start()

    def run(self) -> None:
        with host._named(self._home, REQUEST, self._report) as written:
            self.creates = written is not None
        self._report.close()

    def ended(self) -> list[dict[str, Any]]:
        self.join(20)
        assert not self.is_alive()
        with self.told:
            return [json.loads(line) for line in self.told]


def test_it_is_ready_when_the_first_one_is(first: tuple[Home, Launch]) -> None:
    home, _ = first
    second = Second(home)
    time.sleep(0.3)
    assert second.creates is None, "the first one is not ready"
    (home.session(SESSION) / HOST_SOCKET).touch()
    assert second.ended() == [{"event": "ready", "session": SESSION, "created": False, "expires": None}]
    assert second.creates is False


def test_it_creates_the_session_where_the_first_one_failed(first: tuple[Home, Launch]) -> None:
    home, launch = first
    second = Second(home)
    time.sleep(0.3)
    launch.remove(home)
    assert second.ended() == []
    assert second.creates is True


def test_it_waits_no_longer_than_its_bound(
    first: tuple[Home, Launch], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, _ = first
    monkeypatch.setattr(host, "_READY_WITHIN_S", 0.1)
    report = host._Report(os.open(os.devnull, os.O_WRONLY))
    with raises_code("session.name_taken"), host._named(home, REQUEST, report):
        pytest.fail("neither is ready")
    report.close()


def test_an_error_that_is_no_refusal_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a value that must not be shown")

    monkeypatch.setattr(host, "_named", broken)
    assert host._host(open_home(tmp_path / "home"), REQUEST, 9, writing) == 1
    with open(reading, encoding="utf-8") as told:
        (event,) = [json.loads(line) for line in told]
    assert (event["event"], event["code"]) == ("refused", "session.host_failed")
    assert "ZeroDivisionError" in event["message"] and "shown" not in event["message"]


PROFILE = "agent_configs:\n  a:\n    tools: [think]\n  b:\n    tools: [think]\n"


@pytest.mark.parametrize(
    ("agent", "profile", "code"),
    [
        ("a", PROFILE, None),
        ("b", PROFILE, "session.key_taken"),
        ("a", PROFILE + "# more\n", "session.key_taken"),
    ],
)
def test_a_key_names_a_session_of_the_same_agent_and_profile_alone(
    first: tuple[Home, Launch], tmp_path: Path, agent: str, profile: str, code: str | None
) -> None:
    """The file may have another path: a profile that is given as text has a new one each time."""
    home, launch = first
    (tmp_path / "p.yaml").write_text(profile)
    (tmp_path / "p.yaml").chmod(0o600)
    (home.session(SESSION) / HOST_SOCKET).touch()
    assert launch.asked is not None
    launch.asked = replace(launch.asked, file=sha256_name(PROFILE.encode()))
    launch.write(home)
    request = replace(REQUEST, agent=agent, profile=tmp_path / "p.yaml")
    report = host._Report(os.open(os.devnull, os.O_WRONLY))
    with nullcontext() if code is None else raises_code(code), host._named(home, request, report) as written:
        assert code is None and written is None
    report.close()


def test_a_session_that_a_host_opens_is_hosted_with_and_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So ``affiant session create`` starts a template process in either case, and ``affiant run`` none."""
    asked: list[bool] = []

    async def services(*_: object, template: bool, **__: object) -> None:
        asked.append(template)
        raise StateError("enough", code="service.failed")

    monkeypatch.setattr(attested_launch, "ensure_services", services)
    (tmp_path / "p.yaml").write_text(PROFILE)
    (tmp_path / "p.yaml").chmod(0o600)
    home = open_home(tmp_path / "home")
    request = replace(REQUEST, profile=tmp_path / "p.yaml", min_isolation=IsolationClass.NAMESPACE)
    for name in ("build", None):
        report = host._Report(os.open(os.devnull, os.O_WRONLY))
        with raises_code("service.failed"):
            asyncio.run(host._hold(home, replace(request, name=name), 9, report, lambda: None))
        report.close()

    async def run() -> None:
        async with Session.open(replace(request, name="build"), home=home.path):
            pytest.fail("it was opened")

    with raises_code("service.failed"):
        asyncio.run(run())
    assert asked == [True, True, False]
