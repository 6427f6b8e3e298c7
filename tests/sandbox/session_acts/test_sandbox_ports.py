"""The Python interface to a session's ports, over a supervisor that a test plays."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.errors import StateError
from affiant.sandbox.session_acts.sandbox_ports import open_port


class Playing:
    """Answers an act with ``events``, and then with nothing."""

    def __init__(self, *events: Mapping[str, object] | StateError) -> None:
        self.events = list(events)
        self.told: list[object] = []
        self.waits = asyncio.Event()

    @contextmanager
    def begin(self) -> Iterator[Playing]:
        yield self

    async def tell(self, message: Mapping[str, object], _: Mapping[str, int] | None = None) -> None:
        self.told.append(message["op"])

    async def next(self) -> Mapping[str, object]:
        if not self.events:
            self.waits.set()
            await asyncio.get_running_loop().create_future()
        event = self.events.pop(0)
        if isinstance(event, StateError):
            raise event
        return event


@pytest.mark.parametrize("opened", [False, True])
def test_a_port_whose_opener_is_cancelled_is_closed(tmp_path: Path, opened) -> None:
    closed = {"event": "closed", "why": "asked"}
    events = [{"event": "opened"}, closed] if opened else []

    async def scenario() -> list[object]:
        async with asyncio.timeout(10):
            playing = Playing(*events)

            async def using() -> None:
                async with open_port(playing.begin, 8080, path=tmp_path / "s"):
                    playing.waits.set()
                    await asyncio.get_running_loop().create_future()

            using_it = asyncio.create_task(using())
            await playing.waits.wait()
            using_it.cancel()
            await asyncio.gather(using_it, return_exceptions=True)
            assert using_it.cancelled()
            assert playing.events == []
            return playing.told

    assert asyncio.run(scenario()) == ["port", "port-close"]
    assert not (tmp_path / "s").exists()


def test_a_port_that_is_rejected_says_why_and_waits_for_no_end() -> None:
    async def scenario() -> None:
        async with asyncio.timeout(10):
            playing = Playing(StateError("no", code="ports.open"))
            with raises_code("ports.open"):
                async with open_port(playing.begin, 8080):
                    pytest.fail("it was opened")

    asyncio.run(scenario())


def test_a_ports_socket_is_its_users_alone_and_other_files_keep_their_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mask of new files is the whole process's: threads make files meanwhile."""
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the process's mask was changed"))

    async def scenario() -> None:
        playing = Playing({"event": "opened"}, {"event": "closed", "why": "asked"})
        async with open_port(playing.begin, 80, path=tmp_path / "s"):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600

    asyncio.run(scenario())


def test_a_port_without_room_for_its_socket_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s").touch()

    async def scenario(path: Path) -> None:
        async with open_port(Playing().begin, 80, path=path):
            pytest.fail("it was opened")

    for path in (tmp_path / "s", tmp_path / "none" / "s", tmp_path / ("long" * 30)):
        with raises_code("ports.address"):
            asyncio.run(scenario(path))
