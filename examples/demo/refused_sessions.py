"""Two sessions that must not go well: on a revoked platform, and with a journal that cannot be written."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.demo.facts import Telling
from examples.demo.place import Place, affiant, command_line
from examples.demo.processes import descendants

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.statement import parse_statement
from affiant.gateway.store.entries import BootEntry, RecordEntry, decode_entry
from affiant.gateway.store.journal_format import scan

_ASKING = """
import json, sys, urllib.request
for line in sys.stdin:
    body = json.dumps({"model": "affiant-dev-echo", "stream": True,
                       "messages": [{"role": "user", "content": "word " * 40}]}).encode()
    request = urllib.request.Request("http://gateway.affiant.internal/v1/chat/completions", data=body,
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            for piece in answer:
                sys.stdout.write(piece.decode())
    except Exception as error:
        print("broken off:", type(error).__name__)
    print("asked", line.strip(), flush=True)
"""
"""An agent that asks once for every line it is told, and prints the raw bytes of the answer."""
_ATTEMPTS = 3


def tell_of_both(tell: Telling, place: Place, isolation: list[str]) -> None:
    tell.heading("Sessions that are refused")
    tell.attempt(
        "a session on a platform whose PCK is revoked was refused admission, and receipted",
        "gateway's journal",
        lambda: _revoked(place, isolation),
    )
    tell.attempt(
        "a gateway whose journal cannot be written let no end of an answer out",
        "bytes received, journal",
        lambda: _unwritable(place, isolation),
    )


@contextmanager
def _serving(place: Place, *platform: str) -> Iterator[subprocess.Popen[bytes]]:
    """A platform and a gateway of their own, both in the background; the gateway's process."""
    with (
        _ready("platform", place, "platform", "serve", *platform),
        _ready("gateway", place, "gateway", "serve") as gateway,
    ):
        yield gateway


@contextmanager
def _ready(name: str, place: Place, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    reading, writing = os.pipe()
    with open(place.folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen(
            command_line(*arguments, "--ready-fd", str(writing)),
            env=place.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
        )
    os.close(writing)
    try:
        with open(reading, "rb") as ready:
            if not ready.readline():
                raise RuntimeError(
                    f"{name} did not start: {(place.folder / f'{name}.log').read_text()[-400:]}"
                )
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _below(place: Place, name: str) -> Place:
    folder = place.folder / name
    below = Place(folder)
    below.home.mkdir(parents=True, mode=0o700)
    below.work.mkdir()
    (below.work / "notes.txt").write_text("nothing of note\n")
    shutil.copyfile(place.profiles, below.profiles)
    return below


def _run_arguments(place: Place, isolation: list[str], *command: str) -> list[str]:
    # The demo's profile names a host that these sessions have no use for; its address stands in the profile.
    return command_line(
        *("run", "--profile", str(place.profiles), "--agent", "demo_agent", "--quiet", *isolation),
        *("--input", str(place.work), "--", *command),
    )


def _revoked(place: Place, isolation: list[str]) -> bool:
    own = _below(place, "revoked")
    with _serving(own, "--dangerous-revoke-session-pck"):
        done = subprocess.run(
            _run_arguments(own, isolation, "python3", "-c", "print('ran')"),
            env=own.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=90,
        )
    refused = [r for r in journal_records(own.home / "gateway") if r.kind == "refusal"]
    reasons = {str(record.member("rsn")) for record in refused}
    return done.returncode == 125 and b"ran" not in done.stdout and reasons == {"cert.revoked"}


def _unwritable(place: Place, isolation: list[str]) -> bool:
    """Tried again where something else took the last of the room before the answer began: that shows nothing."""
    for attempt in range(1, _ATTEMPTS + 1):
        before, after, answered = _asked_twice(_below(place, f"unwritable-{attempt}"), isolation)
        if b"[DONE]" not in before or b"asked second" not in after or answered != 1:
            return False
        if b"data:" in after:
            return b"[DONE]" not in after
    return False


def _asked_twice(own: Place, isolation: list[str]) -> tuple[bytes, bytes, int]:
    """What an agent read before and after its gateway's disk was full, and how many answers the journal has."""
    with _serving(own) as gateway:
        session = subprocess.Popen(
            _run_arguments(own, isolation, "python3", "-c", _ASKING),
            env=own.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        with session:
            before = _ask(session, "first")
            _forbid_growth(gateway.pid, own.home / "gateway")
            after = _ask(session, "second")
            session.kill()
            session.communicate()
    affiant(own, "session", "list")  # the next command tidies up after a killed one
    answered = [r for r in journal_records(own.home / "gateway") if r.kind == "inference"]
    return before, after, len(answered)


def _ask(session: subprocess.Popen[bytes], word: str) -> bytes:
    assert session.stdin is not None
    assert session.stdout is not None
    session.stdin.write(word.encode() + b"\n")
    session.stdin.flush()
    output, end = b"", time.monotonic() + 60
    while f"asked {word}".encode() not in output and time.monotonic() < end:
        if select.select([session.stdout], [], [], 1.0)[0]:
            chunk = os.read(session.stdout.fileno(), 1 << 16)
            if not chunk:
                break
            output += chunk
    return output


def _forbid_growth(launcher: int, store: Path) -> None:
    """From now on no file of the gateway's processes grows beyond what an `open` entry needs: a full disk.

    Its witness is another user's, and writes elsewhere.
    """
    largest = max(path.stat().st_size for path in _segments(store))
    for process in descendants(launcher):
        if "witness serve" not in process.command:
            user, group = _ids(process.pid)
            limit = ["prlimit", f"--pid={process.pid}", f"--fsize={largest + 600}"]
            if os.getuid() == user:
                subprocess.run(limit, check=True)
            else:
                subprocess.run(limit, user=user, group=group, extra_groups=(), check=True)


def _ids(pid: int) -> tuple[int, int]:
    """User and group of a process; only these may change its limits where root is without CAP_SYS_RESOURCE."""
    status = Path(f"/proc/{pid}/status").read_text()
    user, group = (re.findall(rf"^{name}:\s+(\d+)", status, re.MULTILINE)[0] for name in ("Uid", "Gid"))
    return int(user), int(group)


def _segments(store: Path) -> list[Path]:
    return sorted(store.rglob("*.seg"))


def journal_records(store: Path) -> list[VerifiedReceipt]:
    """The gateway's own records in a journal, each verified under the keyset of its boot."""
    records, statement = [], None
    for path in _segments(store):
        for payload in scan(path.read_bytes()).payloads:
            entry = decode_entry(payload)
            if isinstance(entry, BootEntry):
                statement = parse_statement(from_b64u(entry.statement))
            elif isinstance(entry, RecordEntry) and statement is not None:
                records.append(verify_receipt(parse_receipt(entry.jws + "~"), statement))
    return records
