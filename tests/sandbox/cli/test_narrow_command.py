"""``affiant session narrow`` at a session that runs: shown first, never wider, and told to whoever started it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.gateway.test_profile_signers import REVIEWER
from tests.sandbox.conftest import affiant

from affiant.attestation.encoding.binary_text import b64u, sha256_name
from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.errors import AffiantError
from affiant.policy.loading.load import load_profiles
from affiant.policy.signing.signatures import signed_profiles
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.session.restriction_socket import InForce, RestrictionServer
from affiant.sandbox.session_state.session_folder import RESTRICTION_SOCKET

PROFILES = """agent_configs:
  writer:
    tools: [read_file, write_file]
    filesystem_access: "read-write:/workspace"
    network_egress: [{host: api.example.com, methods: [GET, POST]}]
    limits: {requests: 50}
"""
NARROWER = PROFILES.replace(", write_file", "").replace("[GET, POST]", "[GET]")
WIDER = PROFILES.replace("write_file]", "write_file, deploy]")


@pytest.fixture
def session(warm, tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A session whose agent waits for the end of its input, and its launcher."""
    (warm.folder / "profiles.yaml").write_text(PROFILES)
    options = ("--bundle", str(tmp_path / "b.json"))
    process = warm.start("sh", "-c", "echo begun; cat", options=options, stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    (running,) = [each["session"] for each in sessions(warm)["sessions"] if each["state"] == "running"]
    yield running, process
    if process.poll() is None:
        process.communicate(timeout=30)


def narrow(warm, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return affiant("session", "narrow", "--home", str(warm.home), *arguments)


def sessions(warm) -> dict:
    return json.loads(affiant("session", "list", "--home", str(warm.home), "--json").stdout)


def written(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


@pytest.mark.slow
def test_a_running_session_is_narrowed_by_its_owner(warm, session, tmp_path: Path) -> None:
    running, launcher = session
    place = warm.home / "sessions" / running / "narrow.sock"
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o600
    narrower, wider = written(tmp_path, "n.yaml", NARROWER), written(tmp_path, "w.yaml", WIDER)

    refused = narrow(warm, running, wider)
    assert refused.returncode == 1
    assert b"+ now allowed: tool:deploy" in refused.stdout
    assert b"[policy.not_narrower]" in refused.stderr

    tried = narrow(warm, running, narrower, "--dry-run")
    assert tried.returncode == 0
    assert b"- no longer allowed: tool:write_file" in tried.stdout
    assert b"nothing was changed (--dry-run)" in tried.stdout

    done = narrow(warm, running, narrower)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"- no longer allowed: POST https://api.example.com" in done.stdout
    assert b"restricted: change 1 of this session, profile sha384:" in done.stdout

    again = json.loads(narrow(warm, running, narrower, "--json").stdout)
    assert (again["changed"], again["epoch"], again["difference"]["differences"]) == (False, 1, [])
    back = narrow(warm, running, written(tmp_path, "p.yaml", PROFILES))
    assert (back.returncode, b"[policy.not_narrower]" in back.stderr) == (1, True)

    files = narrow(warm, running, written(tmp_path, "f.yaml", NARROWER.replace("read-write", "read")))
    assert (files.returncode, b"[policy.narrow_unenforced]" in files.stderr) == (1, True)
    unknown = narrow(warm, running, narrower, "--agent", "nobody")
    assert unknown.returncode == 1

    less = NARROWER.replace("requests: 50", "requests: 5")
    as_json = json.loads(narrow(warm, running, written(tmp_path, "l.yaml", less), "--json").stdout)
    assert (as_json["changed"], as_json["epoch"], as_json["session"]) == (True, 2, running)
    assert as_json["dif"].startswith("sha256:")

    _, told = launcher.communicate(timeout=30)
    assert launcher.returncode == 0
    assert [line[:48] for line in told.splitlines() if b"restricted" in line] == [
        b"affiant: the profile was restricted (change 1): "[:48],
        b"affiant: the profile was restricted (change 2): "[:48],
    ]
    assert not place.exists()
    assert "restricted 2" in warm.verdict(tmp_path / "b.json")  # it holds, and says so
    ended = narrow(warm, running, narrower)
    assert (ended.returncode, b"[session.not_open]" in ended.stderr) == (1, True)
    assert narrow(warm, "A" * 22, narrower).returncode == 1


@pytest.mark.slow
def test_before_the_end_of_a_session_whoever_asks_is_answered(warm, session, tmp_path: Path) -> None:
    """A narrowing at the agent's very end: either it was made, or it is said that the session has ended."""
    running, launcher = session
    command = [sys.executable, "-m", "affiant", "session", "narrow", "--home", str(warm.home), running]
    asking = subprocess.Popen(
        [*command, written(tmp_path, "n.yaml", NARROWER)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
    )
    time.sleep(0.6)
    launcher.communicate(timeout=30)
    _, error = asking.communicate(timeout=30)
    assert launcher.returncode == 0
    assert asking.returncode == 0 or b"[session.not_open]" in error


# -- the command alone -------------------------------------------------------------------------------------------------


class Link:
    """A supervisor that narrows whatever it is asked to, or says what it is told to say."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, object]] = []
        self.answer: Mapping[str, object] | None = None

    async def ask(self, message: Mapping[str, object]) -> Mapping[str, object]:
        assert message["op"] == "narrow"
        self.asked.append({name: value for name, value in message.items() if name != "op"})
        done = {"event": "narrowed", "epoch": len(self.asked), "digest": "sha384:x", "changed": True}
        return done if self.answer is None else self.answer

    def abandon(self, reason: AffiantError) -> None:
        del reason


@dataclass
class Alone:
    """A state folder in which a session seems to run, in this process."""

    home: Path
    link: Link
    folder: Path

    def narrow(self, text: str, *options: str, name: str = "n.yaml") -> subprocess.CompletedProcess[bytes]:
        file = written(self.folder, name, text)
        return affiant("session", "narrow", "--home", str(self.home), SESSION, file, *options)


SESSION = "A" * 22


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Alone]:
    home = open_home(tmp_path / "home")
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    Launch(SESSION, launcher).write(home)
    home.session(SESSION).mkdir(mode=0o700)
    link, ready, over = Link(), threading.Event(), asyncio.Event()
    form = load_profiles(PROFILES.encode()).profile("writer").normal_form
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        server = RestrictionServer(link, InForce("writer", form, 0), lambda _step, _detail: None)  # type: ignore[arg-type]
        async with server.listening(home.session(SESSION) / RESTRICTION_SOCKET):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield Alone(home.path, link, tmp_path)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()


def test_what_changes_is_shown_before_anything_is_sent(alone: Alone) -> None:
    tried = alone.narrow(NARROWER, "--dry-run")
    assert (tried.returncode, alone.link.asked) == (0, [])
    assert b"- no longer allowed: POST https://api.example.com" in tried.stdout
    done = alone.narrow(NARROWER)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"restricted: change 1 of this session, profile sha384:x\n")
    (asked,) = alone.link.asked
    form = load_profiles(NARROWER.encode()).profile("writer").normal_form
    assert asked == {"policy": b64u(form), "file": sha256_name(NARROWER.encode()), "signature": None}
    again = alone.narrow(NARROWER)  # the launcher knows what is in force now
    assert (again.returncode, len(alone.link.asked)) == (0, 1)
    assert b"nothing was changed" in again.stdout


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        (WIDER, b"policy.not_narrower", b"+ now allowed: tool:deploy"),
        (NARROWER.replace("requests: 50", "requests: 51"), b"policy.not_narrower", b"+ limits"),
        (NARROWER.replace("read-write", "read"), b"policy.narrow_unenforced", b"- no longer allowed: write"),
        (NARROWER.replace("writer:", "other:"), b"policy.unknown_agent", b""),
    ],
)
@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--json",)])
def test_what_is_wider_or_cannot_be_enforced_is_said_and_never_sent(
    alone: Alone, text: str, code: bytes, shown: bytes, options: tuple[str, ...]
) -> None:
    done = alone.narrow(text, *options)
    assert (done.returncode, alone.link.asked) == (1, [])
    assert b"[" + code in done.stderr
    if "--json" not in options:
        assert shown in done.stdout
    elif shown:
        assert json.loads(done.stdout)["changed"] is False


def test_a_baseline_policy_that_is_named_restricts_the_running_session(alone: Alone) -> None:
    floor = alone.folder / "org.yaml"
    floor.write_text("network_egress: [{deny: api.example.com, methods: [GET]}]\n")
    done = alone.narrow(PROFILES, "--floor", str(floor))
    assert done.returncode == 0, done.stderr
    assert b"- no longer allowed: GET https://api.example.com" in done.stdout
    form = load_profiles(PROFILES.encode(), floor=floor.read_bytes()).profile("writer").normal_form
    assert alone.link.asked[0]["policy"] == b64u(form)


def test_a_refusal_of_the_sessions_comes_under_its_own_code(alone: Alone) -> None:
    alone.link.answer = {
        "event": "narrow-refused",
        "code": "session.narrowing_failed",
        "message": "it failed",
    }
    done = alone.narrow(NARROWER)
    assert done.returncode == 1
    assert b"it failed [session.narrowing_failed]" in done.stderr


def test_a_signature_that_is_about_another_file_is_refused_here(alone: Alone) -> None:
    signed = sign_envelope(signed_profiles(load_profiles(PROFILES.encode())).to_bytes(), REVIEWER)
    (alone.folder / "n.yaml.sig.json").write_bytes(signed)
    done = alone.narrow(NARROWER)
    assert (done.returncode, alone.link.asked) == (1, [])
    assert b"[policy.signature_other]" in done.stderr
    mine = sign_envelope(signed_profiles(load_profiles(NARROWER.encode())).to_bytes(), REVIEWER)
    (alone.folder / "mine.json").write_bytes(mine)
    assert alone.narrow(NARROWER, "--signature", str(alone.folder / "mine.json")).returncode == 0
    assert alone.link.asked[0]["signature"] == b64u(mine)


def test_a_session_that_is_not_there_is_not_narrowed(alone: Alone) -> None:
    unknown = affiant("session", "narrow", "--home", str(alone.home), "B" * 22, str(alone.folder / "n.yaml"))
    assert (unknown.returncode, b"[session.not_here]" in unknown.stderr) == (1, True)


def test_a_launcher_that_does_not_answer_is_not_waited_for_without_end(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(members: Mapping[str, object]) -> Mapping[str, object]:
        await asyncio.sleep(3)
        return members

    monkeypatch.setattr("affiant.sandbox.cli.narrow_command._ANSWERS_WITHIN_S", 0.3)
    monkeypatch.setattr(alone.link, "ask", silent)
    done = alone.narrow(NARROWER)
    assert (done.returncode, b"[service.silent]" in done.stderr) == (1, True)
