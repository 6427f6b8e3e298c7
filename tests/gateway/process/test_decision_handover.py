"""The decision log of a gateway that serves on: no line lost, none twice, whatever the launcher does with the file."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from affiant.gateway.process.decision_follower import take_over
from affiant.gateway.process.decision_handover import DecisionHandover
from affiant.policy.decision_log.file import DecisionFile, DecisionsUnavailable, open_decision_file
from affiant.policy.decision_log.rotation import Rotation, rotated_logs

LOOK_S = 0.01


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


@asynccontextmanager
async def serving(path: Path, rotation: Rotation, *, most: int = 1 << 20) -> AsyncIterator[DecisionFile]:
    """Both halves in one process: the launcher's is a thread, the server's this loop."""
    keeper = DecisionHandover(path, rotation, look_s=LOOK_S)
    descriptor, link = (os.dup(each) for each in keeper.descriptors)
    keeper.served()
    file = DecisionFile(descriptor, most=most)
    with socket.socket(fileno=link) as near:
        take_over(file, near)
        try:
            yield file
        finally:
            await asyncio.to_thread(keeper.close)
            await asyncio.sleep(LOOK_S)  # the server hears that the launcher has gone
            file.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(LOOK_S)


def test_lines_are_all_there_once_and_in_order_across_many_files(path: Path) -> None:
    lines: list[bytes] = []

    async def run() -> None:
        async with serving(path, Rotation(size=200)) as file, asyncio.timeout(20):
            while len(rotated_logs(path)) < 5:
                lines.append(b"%06d\n" % len(lines))
                file.append(lines[-1])
                await asyncio.sleep(0.0002)

    asyncio.run(run())
    assert b"".join(each.read_bytes() for each in [*rotated_logs(path), path]) == b"".join(lines)


def test_a_log_that_logrotate_moved_is_begun_anew(path: Path) -> None:
    moved, lines = path.with_name("moved"), [b"000000\n"]

    async def run() -> None:
        async with serving(path, Rotation()) as file, asyncio.timeout(20):
            file.append(lines[0])
            path.rename(moved)
            while not path.exists() or path.stat().st_size == 0:
                lines.append(b"%06d\n" % len(lines))
                file.append(lines[-1])
                await asyncio.sleep(LOOK_S)

    asyncio.run(run())
    assert moved.read_bytes() + path.read_bytes() == b"".join(lines)
    assert (len(moved.read_bytes()) > 0, path.read_bytes()) == (True, lines[-1])


def test_a_log_that_has_failed_is_not_begun_anew(path: Path) -> None:
    async def run() -> None:
        async with serving(path, Rotation(size=4), most=4) as file:
            file.append(b"abc\n")
            with pytest.raises(DecisionsUnavailable):
                file.append(b"d\n")
            await until(lambda: len(rotated_logs(path)) == 1)
            await asyncio.sleep(5 * LOOK_S)
            with pytest.raises(DecisionsUnavailable):
                file.append(b"e\n")

    asyncio.run(run())
    assert (path.read_bytes(), rotated_logs(path)[0].read_bytes()) == (b"", b"abc\n")


def test_a_file_that_cannot_be_begun_is_told_once_and_lines_go_on(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved, bad = path.with_name("moved"), path.with_name("bad")
    bad.touch(mode=0o644)

    async def run() -> None:
        async with serving(path, Rotation()) as file:
            moved.hardlink_to(path)
            bad.replace(path)  # at no moment is there no file of this name
            await asyncio.sleep(20 * LOOK_S)
            file.append(b"one\n")

    asyncio.run(run())
    assert moved.read_bytes() == b"one\n"
    assert capsys.readouterr().err.count("others can reach the decision log") == 1


def test_a_server_without_a_descriptor_to_spare_goes_on_and_takes_a_later_file(path: Path) -> None:
    """The kernel drops a descriptor that a process at its limit cannot take, and passes the message alone."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    async def run() -> None:
        with near, far:
            file = DecisionFile(open_decision_file(path))
            take_over(file, far)
            near.send(b"next")
            assert await asyncio.to_thread(near.recv, 16) == b"again"
            file.append(b"one\n")
            for name, answer in (("fresh", b"taken"), ("later", b"refused")):
                fresh = open_decision_file(path.with_name(name))
                socket.send_fds(near, [b"next"], [fresh])
                os.close(fresh)
                assert await asyncio.to_thread(near.recv, 16) == answer
                if answer == b"taken":
                    file.append(b"two\n")
                    file.close()  # as one that has failed
            os.close(open_decision_file(path.with_name("later")))  # nobody holds it
            asyncio.get_running_loop().remove_reader(far)

    asyncio.run(run())
    assert (path.read_bytes(), path.with_name("fresh").read_bytes()) == (b"one\n", b"two\n")


def test_the_launcher_tries_again_and_says_so_once(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keeper = DecisionHandover(path, Rotation(size=1), look_s=LOOK_S)
    os.write(keeper.descriptors[0], b"a line\n")
    with socket.socket(fileno=os.dup(keeper.descriptors[1])) as server:
        keeper.served()
        for answer in (b"again", b"again", b"taken"):
            _, descriptors, _, _ = socket.recv_fds(server, 16, 1)
            os.close(descriptors[0])
            server.send(answer)
    keeper.close()
    assert capsys.readouterr().err.count("no descriptor to spare") == 1
    assert [each.read_bytes() for each in rotated_logs(path)] == [b"a line\n"]


def test_a_server_that_has_ended_leaves_the_launcher_at_rest(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keeper = DecisionHandover(path, Rotation(size=1), look_s=LOOK_S)
    os.write(keeper.descriptors[0], b"a line\n")
    keeper.served()  # nobody has the other end
    keeper.close()
    keeper = DecisionHandover(path, Rotation(size=1))
    keeper.close()  # before there was a server
    assert capsys.readouterr().err == ""
