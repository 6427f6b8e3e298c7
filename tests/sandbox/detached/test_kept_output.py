"""Kept output is the end of what was written, within its bound, and is read from any position."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from affiant.errors import StateError
from affiant.sandbox.detached.kept_output import (
    CommandOutput,
    KeptStream,
    incomplete,
    output_folder,
    read_kept,
    remove_output,
)
from affiant.sandbox.processes.home import open_home


def test_the_end_is_kept_and_positions_stay_what_they_were(tmp_path: Path) -> None:
    stream = KeptStream(tmp_path / "s", most=100)
    written = bytes(range(256)) * 10
    for at in range(0, len(written), 30):
        stream.add(written[at : at + 30])
        assert (tmp_path / "s").stat().st_size <= 230
    assert stream.end == len(written)
    assert stream.dropped >= len(written) - 230
    position, data = stream.read(0, 10_000)
    assert (position, data) == (len(written), written[stream.dropped :])
    assert len(data) >= 100
    position, data = stream.read(len(written) - 7, 3)
    assert (position, data) == (len(written) - 4, written[-7:-4])
    assert stream.read(len(written), 10) == (len(written), b"")
    stream.close()


def test_a_file_that_is_there_is_never_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "s").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        KeptStream(tmp_path / "s")
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_both_streams_are_kept_apart_and_stay_when_the_command_has_ended(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    folder = output_folder(home, "S")

    async def scenario() -> None:
        output = CommandOutput(folder, 3)
        stdout, stderr = output.pipe("stdout"), output.pipe("stderr")
        os.write(stdout, b"out\n")
        os.write(stderr, b"err\n")
        await output.more({}, within_s=10)
        for descriptor in (stdout, stderr):
            os.close(descriptor)
        await output.end({"code": 7})
        assert output.read({}, 100) == {"stdout": (4, b"out\n"), "stderr": (4, b"err\n")}
        await asyncio.wait_for(output.more({"stdout": 4, "stderr": 4}, within_s=60), 10)  # it has ended
        output.close()

    asyncio.run(scenario())
    kept = read_kept(home, "S", 3)
    assert (kept.stdout, kept.stderr) == (b"out\n", b"err\n")
    assert kept.facts == {"code": 7, "dropped": {"stdout": 0, "stderr": 0}, "failed": None}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    assert remove_output(home, "S") > 8
    assert not folder.exists() and remove_output(home, "S") == 0


def test_a_process_in_the_background_that_may_write_on_keeps_no_command_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.sandbox.detached.kept_output._REST_S", 0.05)

    async def scenario() -> None:
        output = CommandOutput(tmp_path, 1)
        # not closed: a process in the background holds them
        stdout, stderr = output.pipe("stdout"), output.pipe("stderr")
        os.write(stdout, b"x")
        await output.end({"code": 0})
        assert output.ended
        output.remove()
        for descriptor in (stdout, stderr):
            os.close(descriptor)

    asyncio.run(scenario())
    assert not list(tmp_path.iterdir())


def test_on_a_full_disk_the_command_goes_on_and_the_log_says_so(full_disk: Path) -> None:
    async def scenario() -> None:
        output = CommandOutput(full_disk, 1)
        stdout, stderr = output.pipe("stdout"), output.pipe("stderr")
        for _ in range(40):
            os.write(stdout, b"x" * 1000)
            await asyncio.sleep(0.005)
        for descriptor in (stdout, stderr):
            os.close(descriptor)
        await output.end({"code": 0})
        assert output.failed is not None
        kept = output.read({}, 100_000)["stdout"][0]
        assert 0 < kept < 40_000, "what fitted was kept, to the last byte"
        assert incomplete(0, output.failed) == "the rest of the output is not kept: No space left on device"
        output.close()

    asyncio.run(scenario())


def test_a_log_that_is_not_whole_says_what_is_missing(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")

    async def scenario() -> None:
        output = CommandOutput(output_folder(home, "S"), 1)
        stdout = output.pipe("stdout")
        for _ in range(9):
            await asyncio.to_thread(os.write, stdout, b"x" * (1 << 20))
        os.close(stdout)
        output.say("the rest")
        await output.end({"code": 0})
        assert output.missing({}) == output.missing({"stderr": 5}) > 0
        assert output.missing({"stdout": 9 << 20}) == 0
        output.close()

    asyncio.run(scenario())
    kept = read_kept(home, "S", 1)
    assert kept.stderr == b"affiant: the rest\n"
    assert (
        kept.incomplete
        == f"{(9 << 20) - len(kept.stdout)} bytes of the output are not kept; the last 4 MiB are"
    )


def test_what_is_not_kept_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with pytest.raises(StateError) as refused:
        read_kept(home, "S", 1)
    assert refused.value.code == "session.no_output" and "--detach" in str(refused.value)
    output_folder(home, "S").mkdir(parents=True)
    for name in ("1.stdout", "1.stderr"):
        (output_folder(home, "S") / name).write_bytes(b"x")
    assert read_kept(home, "S", 1).facts is None, "its session host was killed"
    (output_folder(home, "S") / "1.json").write_text(json.dumps({"code": 1}))
    assert read_kept(home, "S", 1).facts == {"code": 1}
