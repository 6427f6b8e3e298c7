"""What a user gets for a mistake, or for a world that is broken: one line, a stable code, and nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from tests.gateway.upstream_server import STREAM_HEAD, Step, chunk, scripted_upstream, whole
from tests.sandbox.conftest import Machine, affiant
from tests.session.journal import boots_of, session_record_ids

ASK = r"""
import json, os, sys, urllib.error, urllib.request
for text in sys.argv[1:]:
    given = json.loads(text)
    body = ("x" * given["size"]).encode() if given.get("size") else json.dumps({
        "model": "m", "stream": given.get("stream", False),
        "messages": [{"role": "user", "content": "hello"}]}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body,
                                     {"Content-Type": given.get("type", "application/json")})
    try:
        answer = urllib.request.urlopen(request, timeout=30)
    except urllib.error.HTTPError as error:
        answer = error
    print(json.dumps({"status": answer.status, "receipt": answer.headers.get("Affiant-Receipt-Id"),
                      "body": answer.read().decode("utf-8", "replace")}), flush=True)
"""
"""Asks once for each argument, and tells what came back."""

LINES = "agent_configs:\n  writer:\n    network_egress: denied\n"

PROFILES = {
    "a key that stands twice": (LINES + "    network_egress: denied\n", "writer", "policy.", ":4:5"),
    "an unknown key": (LINES + "    netwrok_egress: denied\n", "writer", "policy.", ":4:"),
    "a relative path": (LINES + "    filesystem_access: 'read-only:var/log'\n", "writer", "policy.", ":4:"),
    "a path that climbs": (
        LINES + "    filesystem_access: 'read-only:/a/../b'\n",
        "writer",
        "policy.",
        ":4:",
    ),
    "an anchor": (LINES + "    tools: &t [a]\n", "writer", "policy.", ":4:"),
    "an agent that is not there": (LINES, "nobody", "policy.unknown_agent", "Known: writer"),
}
"""Mistake -> profile file, agent, how the code begins, what the text names."""


@pytest.mark.parametrize("mistake", PROFILES)
def test_a_mistake_in_a_profile_is_named_before_anything_runs(machine, mistake):
    text, agent, code, named = PROFILES[mistake]
    (machine.folder / "profiles.yaml").write_text(text)
    done = affiant(*machine.argv("true", agent=agent)[3:])
    told = done.stderr.decode()
    assert done.returncode == 125, told
    assert told.startswith("affiant: refused: ")
    assert f"[{code}" in told
    assert named in told
    assert "Traceback" not in told
    assert machine.processes() == {}
    assert list(machine.home.glob("sessions/*")) == []


def ask(machine: Machine, url: str | None, *, options: Sequence[str] = (), **given: object) -> dict:
    """What the agent was told for one request."""
    (told,) = ask_each(machine, url, [given], options=options)
    return told


def ask_each(
    machine: Machine, url: str | None, each: Sequence[Mapping[str, object]], *, options: Sequence[str] = ()
) -> list[dict]:
    """What the agent was told for each request of one session."""
    upstream = () if url is None else ("--upstream", url)
    done = machine.run("python3", "-c", ASK, *map(json.dumps, each), options=(*upstream, *options))
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def record_of(machine: Machine, receipt: str):
    (record,) = [r for boot in boots_of(machine.home) for r in boot.records if r.jti == receipt]
    return record


STREAMED = chunk(b'data: {"id":"x","object":"chat.completion.chunk","choices":[]}\n\n')

BROKEN: dict[str, tuple[list[Step], bool, str]] = {
    "garbage": ([b"\x00\xff not HTTP at all\r\n\r\n"], False, "upstream."),
    "closes at once": ([b""], False, "upstream."),
    "cut body": ([whole({"a": "b" * 500})[0][:-100]], False, "upstream."),
    "cut stream": ([STREAM_HEAD, STREAMED], True, "upstream."),
    "another media type": (whole(b"<html>", content_type="text/html"), False, "upstream.answer"),
    "a credential it refuses": (
        whole({"error": {}}, status="401 Unauthorized"),
        False,
        "upstream.unauthorized",
    ),
}
"""Upstream -> what it sends before it closes, whether the answer is streamed, how the code begins."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    BROKEN,
)
def test_a_broken_upstream_is_told_to_the_agent_and_recorded(machine, fault):
    steps, streamed, code = BROKEN[fault]
    with scripted_upstream(lambda _: steps) as upstream:
        upstream.keep = False
        told = ask(machine, upstream.url, stream=streamed)
    assert code in told["body"]
    assert "data: [DONE]" not in told["body"]
    record = record_of(machine, told["receipt"])
    assert record.kind == "inference"
    assert record.member("res", "end") == "upstream_abort"


@pytest.mark.slow
def test_an_upstream_that_is_down_is_told_and_recorded(machine):
    told = ask(machine, "http://127.0.0.1:9/v1")
    assert (told["status"], json.loads(told["body"])["error"]["code"]) == (502, "upstream.unreachable")
    assert record_of(machine, told["receipt"]).member("res", "end") == "upstream_abort"


@pytest.mark.slow
def test_an_upstream_that_is_slow_ends_with_the_sessions_own_limit(machine):
    with scripted_upstream(lambda _: [8.0]) as upstream:
        upstream.keep = False
        done = machine.run(
            *("python3", "-c", ASK, "{}"), options=("--upstream", upstream.url, "--timeout", "2")
        )
    assert done.returncode == 143, done.stderr
    (record,) = [r for boot in boots_of(machine.home) for r in boot.records if r.kind == "inference"]
    assert record.member("res", "end") == "client_abort"


REFUSED: dict[str, tuple[dict[str, object], set[str]]] = {
    "too large": (
        {"size": (8 << 20) + 1000},
        {"request.too_large", "egress.too_large", "egress.body_too_large"},
    ),
    "another type": ({"type": "text/plain"}, {"request.content_type"}),
    "no JSON": ({"size": 10}, {"request.malformed"}),
}
"""Request -> what is asked, and the codes that it may be refused with."""


@pytest.fixture(scope="module")
def refused(warm: Machine) -> dict[str, dict]:
    """What one session was told for each of :data:`REFUSED`."""
    told = ask_each(warm, None, [given for given, _ in REFUSED.values()])
    return dict(zip(REFUSED, told, strict=True))


@pytest.mark.parametrize("which", REFUSED)
def test_a_request_that_is_refused_is_told_why_and_recorded(warm, refused, which):
    told, codes = refused[which], REFUSED[which][1]
    code = json.loads(told["body"])["error"]["code"]
    assert code in codes, told
    assert 400 <= told["status"] < 500
    if told["receipt"] is None:
        assert json.loads(told["body"])["record"] in session_record_ids(warm.home)
    else:
        record = record_of(warm, told["receipt"])
        assert (record.kind, record.member("rsn")) == ("refusal", code)


@pytest.mark.slow
def test_a_second_gateway_on_one_store_is_refused(warm):
    done = subprocess.run(
        [sys.executable, "-m", "affiant", "gateway", "serve", "--home", str(warm.home)],
        capture_output=True,
        check=False,
        timeout=40,
        cwd="/",
    )
    assert done.returncode != 0
    assert b"[store.locked]" in done.stderr, done.stderr
    assert b"Traceback" not in done.stderr
    assert warm.run("true").returncode == 0, "the first one is not harmed"


@contextmanager
def small_disk(place: str, size: int) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", place], check=True)
    try:
        yield
    finally:
        until = time.monotonic() + 15
        while subprocess.run(["umount", place], capture_output=True, check=False).returncode != 0:
            assert time.monotonic() < until, "somebody still uses the disk"
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk: needs root")
def test_a_full_disk_under_the_store_refuses_and_a_larger_one_heals(machine):
    assert machine.run("true").returncode == 0
    store = machine.home / "gateway"
    with small_disk(str(store), 16 << 10):
        done = machine.run("true")
        assert done.returncode == 125, done.stderr
        assert done.stderr.startswith(b"affiant: refused: ")
        assert b"Traceback" not in done.stderr
        assert machine.quiet_within(10), machine.processes()
    assert machine.run("true").returncode == 0
