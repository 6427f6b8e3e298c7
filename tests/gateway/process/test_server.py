"""The processes: one store, one gateway; an orderly stop; a crash that the next start discloses."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.attestation.simulated.served_platform import closed_installation, needs_root, users_of
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.journal_reader import entries_of, records_of
from tests.gateway.session_client import SessionClient

from affiant.__main__ import cli
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.gateway.store.journal import hold_store
from affiant.gateway.wire.errors import StoreLocked
from affiant.sandbox.base.privileges import GATEWAY_USER
from affiant.secrets.names.value import SecretValue
from affiant.secrets.store.local_store import KeyKind
from affiant.secrets.store.local_store_file import LocalStoreFile

NOT_AT_START = {
    "email_validator",
    "fastapi",
    "httpx",
    "mcp",
    "opentelemetry",
    "pydantic",
    "rfc3161_client",
    "sigstore",
    "yaml",
}
"""What a gateway without tool servers or identities never needs, or needs later."""


def test_the_server_loads_what_serving_needs_and_nothing_else() -> None:
    code = "import json, sys, affiant.gateway.process.server; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
    assert not NOT_AT_START & {name.partition(".")[0] for name in json.loads(done.stdout)}


def serve(home: Path, platform_home: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """A gateway that is expected to refuse to start."""
    command = [sys.executable, "-m", "affiant", "gateway", "serve", "--home", str(home)]
    command += ["--platform", str(platform_socket(platform_home)), *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, check=False)


def wait_until_free(store: Path) -> None:
    """Until the server that held ``store`` has ended."""
    deadline = time.monotonic() + 20
    while True:
        try:
            with hold_store(store):
                return
        except StoreLocked:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_second_gateway_on_one_store_is_refused(running: Running, platform_home: Path) -> None:
    second = serve(running.home, platform_home)
    assert second.returncode == 1 and b"[store.locked]" in second.stderr
    assert f"pid {running.ready['pid']}, {running.gateway.url}".encode() in second.stderr, (
        "which one, and where"
    )
    assert str(running.home / "gateway").encode() in second.stderr
    assert b"Traceback" not in second.stderr


def test_it_says_where_it_is_and_what_it_left_is_private(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    with serving_gateway(tmp_path, platform_home) as running:
        store = tmp_path / "gateway"
        assert json.loads((store / "gateway.json").read_bytes()) == running.ready
        assert set(running.ready) == {"url", "config", "keyset", "spki", "pid"}
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.iterdir()}
        assert modes.pop("gateway.json") == 0o644
        assert all(mode & 0o077 == 0 for name, mode in modes.items() if not name.startswith("index.sqlite-"))
        assert stat.S_IMODE(store.stat().st_mode) == 0o700
        assert running.stop() == 0
        assert not (store / "gateway.json").exists() and not (store / "control.sock").exists()
        assert running.child.stderr is not None and running.child.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stop_closes_sessions_as_lost_and_ends_the_chain(
    platform: PlatformClient, platform_home: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with serving_gateway(tmp_path, platform_home) as running:
        SessionClient.start(running.gateway, platform).say("hi")
        running.child.send_signal(number)
        assert running.child.wait(30) == 0
    kinds = [(r["kind"], r.get("why")) for r in records_of(entries_of(tmp_path / "gateway")[-1])]
    assert kinds[-2:] == [("session-close", "lost"), ("end", "shutdown")]


def test_a_stop_closes_sessions_while_the_gateway_can_still_be_reached(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    from tests.gateway.upstream_server import completion, scripted_upstream, whole

    with (
        scripted_upstream(lambda _: [2.0, *whole(completion())]) as upstream,
        serving_gateway(tmp_path, platform_home, "--upstream", upstream.url) as running,
    ):
        busy, idle = (SessionClient.start(running.gateway, platform) for _ in range(2))
        answers: list = []
        asking = threading.Thread(target=lambda: answers.append(busy.say("hi")))
        asking.start()
        while not upstream.received:
            time.sleep(0.01)
        running.child.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        closed, refused = idle.close("done"), idle.say("late")
        assert (closed.status, refused.code) == (200, "session.closed")
        assert idle.bundle()["bundle"]["receipts"]
        asking.join(20)
        assert running.child.wait(30) == 0
    assert answers[0].status == 200


@pytest.mark.slow
def test_a_stop_lets_what_is_under_way_end(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    from tests.gateway.upstream_server import completion, scripted_upstream, whole

    with (
        scripted_upstream(lambda _: [1.0, *whole(completion())]) as upstream,
        serving_gateway(tmp_path, platform_home, "--upstream", upstream.url) as running,
    ):
        session = SessionClient.start(running.gateway, platform)
        answers: list = []
        asking = threading.Thread(target=lambda: answers.append(session.say("hi")))
        asking.start()
        while not upstream.received:
            time.sleep(0.01)
        assert running.stop() == 0
        asking.join(10)
        assert answers[0].status == 200
    records = records_of(entries_of(tmp_path / "gateway")[-1])
    assert [r["kind"] for r in records][-3:] == ["inference", "session-close", "end"]


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("closed", [False, True], ids=["open installation", "closed installation"])
def test_started_as_root_the_server_is_a_user_of_its_own(
    platform: PlatformClient, platform_home: Path, tmp_path: Path, closed: bool
) -> None:
    """State folder and installation may both lie where only root can enter."""
    python = closed_installation(tmp_path / "closed") if closed else Path(sys.executable)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with serving_gateway(home, platform_home, python=python) as running:
        assert users_of(running.ready["pid"]) == {GATEWAY_USER}
        session = SessionClient.start(running.gateway, platform)
        assert session.say("hi").status == 200
        assert session.close().status == 200
        assert running.stop() == 0


def test_a_killed_launcher_takes_its_server_along(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    with serving_gateway(tmp_path, platform_home) as running:
        running.child.kill()
        running.child.wait(10)
        wait_until_free(tmp_path / "gateway")
    records = records_of(entries_of(tmp_path / "gateway")[-1])
    assert records[-1]["kind"] == "end"


@pytest.mark.slow
def test_a_killed_server_is_told_and_the_next_discloses_it(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    with serving_gateway(tmp_path, platform_home) as running:
        SessionClient.start(running.gateway, platform)
        running.kill()
        assert running.child.returncode == 128 + signal.SIGKILL
        assert b"was ended by signal 9" in running.child.stderr.read()
    with serving_gateway(tmp_path, platform_home) as running:
        assert running.stop() == 0
    kinds = [record["kind"] for record in records_of(entries_of(tmp_path / "gateway")[-1])]
    assert kinds == ["boot", "gap", "end"]


def test_no_other_process_can_look_into_the_server(running: Running) -> None:
    process = Path(f"/proc/{running.ready['pid']}")
    assert (process / "environ").stat().st_uid == 0  # not dumpable: root's, whoever runs it
    limits = (process / "limits").read_text()
    assert next(line for line in limits.splitlines() if "core file" in line).split()[4] == "0"


def refused(home: Path, platform_home: Path, *arguments: str) -> Result:
    """The same, where the launcher refuses before there is a server."""
    command = ["gateway", "serve", "--home", str(home), "--platform", str(platform_socket(platform_home))]
    return CliRunner().invoke(cli, [*command, *arguments])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--upstream", "ftp://x/v1"], "[gateway.settings]"),
        (["--upstream", "http://u:p@127.0.0.1/v1"], "[gateway.settings]"),
        (["--upstream", "https://127.0.0.1/v1", "--upstream-ca", __file__], "[gateway.settings]"),
        (["--upstream", "http://127.0.0.1/v1", "--upstream-key-ref", "local:NOT_THERE"], "[secret."),
        (["--upstream", "http://127.0.0.1/v1", "--upstream-key-ref", "plainkey"], "[secret"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_served(
    platform: PlatformClient, platform_home: Path, tmp_path: Path, arguments: list[str], text: str
) -> None:
    result = refused(tmp_path, platform_home, *arguments)
    assert result.exit_code == 1 and text in result.stderr


def test_a_store_with_a_passphrase_opens_by_the_file_that_holds_it_and_not_without(
    platform: PlatformClient, platform_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.secrets.store.local_store._SCRYPT", (14, 8, 1))
    store = LocalStoreFile(
        tmp_path / "secrets", random_bytes=os.urandom, ask_passphrase=lambda _new: b"correct horse battery"
    )
    store.set("KEY", SecretValue(b"ghp_9sX2kQ7vLm4TzR1bYwE6"), kind=KeyKind.PASSPHRASE)
    file = tmp_path / "passphrase"
    file.write_bytes(b"correct horse battery\n")
    key = ("--upstream", "http://127.0.0.1/v1", "--upstream-key-ref", "local:OTHER")
    assert "[store.key]" in refused(tmp_path, platform_home, *key).stderr
    for mode, text in ((0o644, "[store.permissions]"), (0o600, "[secret.not_found]")):
        file.chmod(mode)
        result = refused(tmp_path, platform_home, *key, "--secret-passphrase-file", str(file))
        assert text in result.stderr


@pytest.mark.slow
def test_an_address_that_is_not_here_is_refused(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    result = serve(tmp_path, platform_home, "--listen", "192.0.2.1:1")
    assert result.returncode == 1 and b"[gateway.settings]" in result.stderr
    assert b"Traceback" not in result.stderr


def test_without_a_platform_it_says_what_to_start(tmp_path: Path, release: None) -> None:
    result = refused(tmp_path, tmp_path)
    assert result.exit_code == 1 and "affiant platform serve" in result.stderr


@pytest.mark.parametrize("listen", ["8080", ":", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999"])
def test_a_wrong_address_is_a_usage_error(tmp_path: Path, listen: str, release: None) -> None:
    assert refused(tmp_path, tmp_path, "--listen", listen).exit_code == 2


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a small file system")
@pytest.mark.filterwarnings("ignore")
def test_a_full_disk_stops_admission_and_no_answer_leaves_unrecorded(
    platform: PlatformClient, platform_home: Path, tmp_path: Path
) -> None:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=768k,mode=0700", "affiant-test", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mount.returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        with serving_gateway(tmp_path, platform_home) as running:
            session = SessionClient.start(running.gateway, platform)
            answered: list[str] = []
            for _ in range(400):
                answer = session.say("x" * 200)
                if answer.status != 200:
                    break
                answered.append(answer.headers["affiant-receipt-id"])
            assert (answer.status, answer.code) == (503, "journal.unavailable")
            assert "affiant-receipt-id" not in answer.headers
            for _ in range(3):
                assert session.say("hi").code == "journal.unavailable"
            assert running.gateway.ask("POST", "/v1/sessions", b"{}").code == "journal.unavailable"
            assert running.gateway.ask("GET", "/readyz").status == 503
            assert running.stop() == 1  # its chain could not be ended, and it says so
        recorded = {record["jti"] for record in records_of(entries_of(tmp_path / "gateway")[-1])}
        assert answered and set(answered) <= recorded
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
