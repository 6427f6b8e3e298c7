"""`affiant log publish`, and the other commands over what it wrote, on a real S3 server and in a folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.log.publish import conftest as publish_fixtures
from tests.attestation.log_builder import LogBuilder, cosigner, log_signer, write
from tests.s3_server import S3Server

from affiant.__main__ import cli

built = publish_fixtures.built
VKEY = log_signer().verifier.vkey()
KILLED = """
import os, signal, sys
from affiant.attestation.log_reading import object_store
left = int(sys.argv.pop(1))
create = object_store.ObjectStore.create
def counted(self, path, content):
    global left
    done = create(self, path, content)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done
object_store.ObjectStore.create = counted
from affiant.__main__ import cli
cli(sys.argv[1:])
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture(params=["file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/store"
    server: S3Server = request.getfixturevalue("s3")
    return server.url(tmp_path.name)


@pytest.fixture
def readable(url: str) -> str:
    return url.removeprefix("file://")


def test_what_was_published_is_read_checked_and_proven_by_the_other_commands(
    built: LogBuilder, url: str, readable: str, tmp_path: Path
) -> None:
    write(tmp_path / "old", built.note(300).to_bytes())
    built.sign()
    done = run("log", "publish", built.folder, url, "--key", VKEY, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["written"] == 7
    again = run("log", "publish", built.folder, url, "--key", VKEY, "--json")
    assert (json.loads(again.stdout)["written"], json.loads(again.stdout)["checkpoint_written"]) == (0, False)
    assert run("log", "fsck", readable, "--key", VKEY).exit_code == 0
    assert json.loads(run("log", "show", readable, "--key", VKEY, "--json").stdout)["size"] == 700
    assert run("log", "consistency", readable, tmp_path / "old", "--key", VKEY).exit_code == 0
    assert run("log", "prove", readable, 4, "-o", tmp_path / "proof", "--key", VKEY).exit_code == 0
    assert (tmp_path / "proof").stat().st_size > 0


def test_a_monitor_watches_a_copy_in_s3(built: LogBuilder, s3: S3Server, tmp_path: Path) -> None:
    url = s3.url(tmp_path.name)
    write(tmp_path / "policy", f"log {VKEY}\nquorum none\n".encode())
    for size in (300, 700):
        write(built.folder / "checkpoint", built.sign(size=size).to_bytes())
        assert run("log", "publish", built.folder, url, "--key", VKEY).exit_code == 0
        options = ("--policy", tmp_path / "policy", "--state", tmp_path / "monitor", "--json")
        seen = run("log", "monitor", url, *options)
        assert seen.exit_code in (0, 10) and json.loads(seen.stdout)["size"] == size, seen.output


def test_a_changed_object_in_s3_is_found_by_fsck(built: LogBuilder, s3: S3Server, tmp_path: Path) -> None:
    built.sign()
    assert run("log", "publish", built.folder, s3.url(tmp_path.name), "--key", VKEY).exit_code == 0
    path = s3.folder / tmp_path.name / "tile/entries/001"
    path.write_bytes(bytes([*path.read_bytes()[:-1], 0]))
    done = run("log", "fsck", s3.url(tmp_path.name), "--key", VKEY)
    assert done.exit_code == 20 and "tile/entries/001" in done.output


@pytest.mark.parametrize("writes", [1, 3, 5])
def test_a_publisher_that_is_killed_leaves_a_whole_log_and_the_next_goes_on(
    built: LogBuilder, url: str, readable: str, writes: int
) -> None:
    assert run("log", "publish", built.folder, url, "--key", VKEY).exit_code == 0
    built.sign()
    command = [sys.executable, "-c", KILLED, str(writes), "log", "publish", str(built.folder), url]
    killed = subprocess.run(command, check=False, capture_output=True, timeout=60, env=dict(os.environ))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert whole(readable) == 300
    done = run("log", "publish", built.folder, url, "--key", VKEY, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["checkpoint_written"] is True
    assert whole(readable) == 700


def whole(readable: str) -> int:
    """Leaves; in a folder a killed writer may leave a draft, which is no file of the log and is named as that."""
    done = json.loads(run("log", "fsck", readable, "--key", VKEY, "--json").stdout)
    assert all(each["code"] == "log.foreign" and "#" in each["path"] for each in done["problems"]), done
    assert not (readable.startswith("s3:") and done["problems"])
    return done["size"]


def test_refusals_have_their_exit_codes(built: LogBuilder, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    other = log_signer(label="thief").verifier.vkey()
    assert run("log", "publish", built.folder, url, "--key", other).exit_code == 20
    assert not list((tmp_path / "store").rglob("checkpoint"))
    assert run("log", "publish", built.folder, "https://store.example").exit_code == 2
    assert run("log", "publish", tmp_path / "none", url).exit_code == 2
    (tmp_path / "empty").mkdir()
    done = run("log", "publish", tmp_path / "empty", url, "--json")
    assert done.exit_code == 30 and json.loads(done.stdout)["refused"]["code"] == "log.absent"
    write(tmp_path / "store/tile/0/000", bytes(8192))
    done = run("log", "publish", built.folder, url, "--key", VKEY, "--json")
    assert done.exit_code == 20 and json.loads(done.stdout)["refused"]["code"] == "publish.conflict"


def test_a_checkpoint_in_a_file_is_shown_instead_of_the_folders(built: LogBuilder, tmp_path: Path) -> None:
    built.sign()
    write(tmp_path / "note", built.note(700, cosigner(1)).to_bytes())
    url = f"file://{tmp_path}/store"
    assert (
        run("log", "publish", built.folder, url, "--checkpoint", tmp_path / "note", "--key", VKEY).exit_code
        == 0
    )
    assert (tmp_path / "store/checkpoint").read_bytes() == (tmp_path / "note").read_bytes()
    done = run("log", "publish", built.folder, url, "--key", VKEY)
    assert done.exit_code == 20 and "publish.uncosigned" in done.output


def test_no_authorities_are_taken_for_a_store_that_would_not_use_them(
    built: LogBuilder, tmp_path: Path
) -> None:
    write(tmp_path / "ca.pem", b"")
    done = run("log", "show", "s3://bucket", "--tls-ca", tmp_path / "ca.pem")
    assert done.exit_code == 2 and "--tls-ca" in done.output
