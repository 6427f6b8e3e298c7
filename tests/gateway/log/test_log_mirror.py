"""The log's copy: whole, cosigned, never in the way of the gateway, and honest about how it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.attestation.log_builder import LogBuilder, chain, cosigner, log_signer
from tests.gateway.conftest import serving_gateway
from tests.gateway.session_client import SessionClient
from tests.s3_server import found_server, s3_server

from affiant.__main__ import cli
from affiant.attestation.log.fsck.fsck import check_log
from affiant.attestation.log_reading.errors import LogUnreachable
from affiant.attestation.log_reading.object_store import Found, Objects, open_objects
from affiant.attestation.log_reading.objects import ObjectLog
from affiant.attestation.log_reading.reader import read_checkpoint
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.note import Note
from affiant.gateway.log.log_mirror import MirrorBounds, forget_state, mirrored, read_state

QUICK = MirrorBounds(look_s=0.01, spacing_s=0.01, retry_s=0.01, longest_retry_s=0.05)
WAIT_S = 20.0


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def whole(objects: Objects) -> Checkpoint:
    """The checkpoint in the store; everything that it implies is there."""
    log = ObjectLog(objects)
    checkpoint = parse_checkpoint(read_checkpoint(log).text)
    assert check_log(log, checkpoint, progress=lambda _done: None).severity is None
    return checkpoint


class Unsteady:
    """A store that fails, or waits, when it is told to."""

    def __init__(self, inner: Objects) -> None:
        self.inner, self.name = inner, inner.name
        self.fails, self.slow_s, self.asked = False, 0.0, 0

    def _ask(self) -> None:
        self.asked += 1
        time.sleep(self.slow_s)
        if self.fails:
            raise LogUnreachable("the store does not answer as it should")

    def get(self, path: str, *, limit: int) -> Found | None:
        self._ask()
        return self.inner.get(path, limit=limit)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        self._ask()
        return self.inner.sizes(prefix)

    def create(self, path: str, content: bytes) -> bool:
        self._ask()
        return self.inner.create(path, content)

    def replace(self, path: str, content: bytes, old: Found) -> bool:
        self._ask()
        return self.inner.replace(path, content, old)


class Scene:
    """A log that grows, the gateway that shows it, and a store."""

    def __init__(self, folder: Path) -> None:
        self.home = folder
        self.built = LogBuilder(folder / "log", chain("one", 300))
        self.shown: Note | None = None
        self.objects = Unsteady(open_objects(f"file://{folder}/store"))

    def grow(self, count: int) -> None:
        if count:
            self.built.add(chain(f"more {len(self.built.leaves)}", count))
        self.built.sign()
        self.shown = self.built.note(None, cosigner(1))

    def mirrored(self, bounds: MirrorBounds = QUICK) -> AbstractContextManager[None]:
        log = self.home / "log"
        return mirrored(self.home, log, self.objects, newest=lambda: self.shown, bounds=bounds)

    def state(self) -> Mapping[str, Any]:
        return read_state(self.home) or {"state": None, "code": None, "size": None}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_copy_grows_with_the_checkpoint_that_is_shown(scene: Scene) -> None:
    with scene.mirrored():
        until(lambda: scene.state()["state"] == "starting")
        scene.grow(0)
        until(lambda: scene.state()["size"] == 300)
        scene.grow(400)
        until(lambda: scene.state()["size"] == 700)
        assert scene.state() == {"url": scene.objects.name, "state": "current", "size": 700, "code": None}
    assert scene.shown is not None and whole(scene.objects.inner).size == 700
    assert (scene.home / "store/checkpoint").read_bytes() == scene.shown.to_bytes()
    forget_state(scene.home)
    assert read_state(scene.home) is None


def test_a_store_that_fails_is_tried_again_and_said_once(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.objects.fails = True
    scene.grow(0)
    with scene.mirrored():
        until(lambda: scene.objects.asked > 4)
        assert scene.state()["state"] == "failing" and scene.state()["code"] == "log.unreachable"
        scene.objects.fails = False
        until(lambda: scene.state()["state"] == "current")
    said = capsys.readouterr().err
    assert said.count("log.unreachable") == 1 and said.count("goes on") == 1
    assert whole(scene.objects.inner).size == 300


def test_another_writers_checkpoint_stops_the_mirror_and_stays(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    other = LogBuilder(scene.home / "other", chain("x", 2), signer=log_signer("other.example")).note()
    scene.objects.inner.create("checkpoint", other.to_bytes())
    scene.grow(0)
    with scene.mirrored():
        until(lambda: scene.state()["state"] == "stopped")
        asked = scene.objects.asked
        scene.grow(100)
        time.sleep(0.1)
        assert scene.objects.asked == asked and scene.state()["code"] == "publish.foreign"
    assert "publish.foreign" in capsys.readouterr().err
    assert (scene.home / "store/checkpoint").read_bytes() == other.to_bytes()


def test_another_content_in_the_store_stops_the_mirror_and_stays(scene: Scene) -> None:
    scene.objects.inner.create("tile/0/000", bytes(8192))
    scene.grow(0)
    with scene.mirrored():
        until(lambda: scene.state()["state"] == "stopped")
    assert scene.state()["code"] == "publish.conflict"
    assert (scene.home / "store/tile/0/000").read_bytes() == bytes(8192)
    assert not (scene.home / "store/checkpoint").exists()


def test_a_store_that_is_slow_keeps_nobody_from_ending(scene: Scene) -> None:
    scene.objects.slow_s = 0.5
    scene.grow(0)
    with scene.mirrored():
        until(lambda: scene.objects.asked)
        began = time.monotonic()
    assert time.monotonic() - began < 6


def test_what_was_lost_comes_back_when_the_store_is_listed_again(scene: Scene) -> None:
    scene.grow(0)
    lost = scene.home / "store/tile/entries/000"
    with scene.mirrored():
        until(lambda: scene.state()["size"] == 300)
    lost.unlink()
    with scene.mirrored():  # a mirror that begins lists
        until(lost.exists)
    with scene.mirrored(replace(QUICK, listing_s=0)):
        until(lambda: scene.state()["state"] == "current")
        lost.unlink()
        scene.grow(10)
        until(lost.exists)
        until(lambda: scene.state()["size"] == 310)
    assert whole(scene.objects.inner).size == 310


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"url": 1, "more": 2}', b"\xff", b"{" * 9000])
def test_a_state_that_cannot_be_read_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log-objects.json").write_bytes(content)
    assert read_state(tmp_path) is None


# -- a real gateway ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_gateways_log_is_in_the_store_cosigned_and_goes_on_after_a_kill(
    tmp_path: Path,
    platform: PlatformClient,
    platform_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In S3, where a server for it is installed; else in a folder."""
    home = tmp_path / "home"
    with ExitStack() as running:
        url = f"file://{tmp_path}/store"
        if found_server() is not None:
            (tmp_path / "s3").mkdir()
            server = running.enter_context(s3_server(tmp_path / "s3"))
            url = server.url("a/log")
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
        objects = open_objects(url)

        def shown() -> int:
            done = CliRunner().invoke(cli, ["gateway", "status", "--home", str(home), "--json"])
            found = json.loads(done.stdout)["log_objects"]
            return (found["size"] or 0) if found["state"] == "current" else 0

        before = 0
        for _ in range(2):
            with serving_gateway(home, platform_home, "--log-objects", url) as gateway:
                session = SessionClient.start(gateway.gateway, platform)
                session.say("hi")
                until(lambda: shown() > before)  # noqa: B023 - called within this round
                environment = Path(f"/proc/{gateway.ready['pid']}/environ").read_bytes()
                assert b"AWS" not in environment and url.encode() not in environment
                status = CliRunner().invoke(cli, ["gateway", "status", "--home", str(home)]).stdout
                assert f"leaves in {url}, current" in status
                gateway.child.kill()
                gateway.kill()
            found = whole(objects)
            assert found.size > before
            names = {each.key.name for each in read_checkpoint(ObjectLog(objects)).signatures}
            assert names - {found.origin}, "no witness has cosigned what the store shows"
            before = found.size


def test_an_address_that_is_none_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli, ["gateway", "serve", "--home", str(tmp_path / "home"), "--log-objects", "s3://key:secret@bucket"]
    )
    assert done.exit_code == 1 and "log.settings" in done.stderr and "secret" not in done.stderr
    assert not (tmp_path / "home").exists()
