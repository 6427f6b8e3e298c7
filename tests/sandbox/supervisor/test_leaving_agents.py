"""An agent that leaves ends its request at the gateway at once, through the real supervisor; one side records it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.leaving import NEXT, PHASES, Phase, Place, body_of, place_of
from tests.sandbox.supervisor.launcher import Launcher, Story
from tests.sandbox.supervisor.test_supervised_session import run

AGENT = """
import os, socket, sys
from urllib.parse import urlsplit
body, part = sys.argv[1].encode(), sys.argv[2]
url, proxy = os.environ["OPENAI_BASE_URL"] + "/chat/completions", urlsplit(os.environ["HTTP_PROXY"])
head = f"POST {url} HTTP/1.1\\r\\nHost: {urlsplit(url).netloc}\\r\\nContent-Type: application/json\\r\\n"
agent = socket.create_connection((proxy.hostname, proxy.port))
agent.sendall(f"{head}Content-Length: {len(body)}\\r\\n\\r\\n".encode() + body[: int(part) if part else None])
print("sent", flush=True)
while data := agent.recv(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
"""
"""Sends its request, or a part of it, and reads on for as long as it runs."""


ONCE = "before the upstream's head"
"""The phase that is not slow to test: of each other one the gateway's own tests have the quick form."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, platform, platform_home: Path) -> Iterator[Place]:
    with place_of(tmp_path_factory.mktemp("leaving"), platform, platform_home) as made:
        yield made


async def left(launcher: Launcher, place: Place, phase: Phase) -> tuple[Story, int]:
    """A session whose agent leaves in ``phase``, and then asks once more; the status of that."""
    async with launcher.session(place.profile) as link:
        await link.expect("ready")
        part = "" if phase.part is None else str(phase.part)
        with place.during(phase):
            outputs = await link.start(["python3", "-c", AGENT, body_of(phase).decode(), part])
            read = b""
            while not (read.startswith(b"sent\n") and await asyncio.to_thread(phase.is_reached, place, read)):
                if phase.members.get("stream") or not read:
                    read += await asyncio.to_thread(os.read, outputs[0], 65536)
            await link.signal(signal.SIGKILL)
            await link.expect("exited")
        for descriptor in outputs:
            os.close(descriptor)
        close = AGENT.replace("Content-Type", "Connection: close\\r\\nContent-Type")
        asked = await link.run(["python3", "-c", close, body_of(Phase(), NEXT).decode(), ""])
        status = int(asked.stdout.removeprefix(b"sent\n").split()[1])
        return await link.finish(), status


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == ONCE else pytest.mark.slow) for name in PHASES],
)
def test_an_agent_that_leaves_ends_its_request_at_the_gateway_at_once(
    launcher: Launcher, place: Place, name: str
) -> None:
    launcher.gateway, phase = place.running.gateway, PHASES[name]
    story, status = run(left(launcher, place, phase))
    assert status == 200
    asked = [each for each in story.records if each.role == "gateway" and each.member("res") is not None]
    gateway = [each for each in asked if each.member("agt", "ses") == story.session]
    *gone, last = sorted(gateway, key=lambda each: each.seq)
    ours = [each for each in story.own if each.kind == "refusal"]
    if phase.part:  # the supervisor takes a counter, and asks the gateway, once it has the whole body
        assert (gone, [each.member("rsn") for each in ours]) == ([], ["egress.request"])
    else:
        assert [(each.kind, each.member("res", "end")) for each in gone] == [(phase.kind, "client_abort")]
        assert ours == []
    counters = [each.member("agt", "cseq") for each in (*gone, last)]
    assert counters == list(range(len(counters))) and last.member("res", "end") == "complete"
