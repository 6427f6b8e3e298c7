"""The phases of a request in which its client may leave, and what each one's only record says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.gateway.approvals.approver import Approver
from tests.gateway.conftest import Running, serving_gateway
from tests.gateway.session_client import SessionClient
from tests.gateway.test_stalled_clients import until
from tests.gateway.upstream_server import (
    STREAM_HEAD,
    Received,
    ScriptedUpstream,
    Step,
    chunk,
    completion,
    scripted_upstream,
    whole,
)

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.unix_http import OPERATOR_SOCKET, request

CHAT: Final = "/v1/chat/completions"
EVENT: Final = b'data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}\n\n'
NEXT: Final = "next"
"""The text of a request that is answered at once."""
TOOL: Final = {"type": "function", "function": {"name": "deploy", "parameters": {}}}
_CALL: Final = {"id": "c1", "type": "function", "function": {"name": "deploy", "arguments": "{}"}}
_HELD: Final = completion() | {
    "choices": [
        {"index": 0, "message": {"role": "assistant", "tool_calls": [_CALL]}, "finish_reason": "tool_calls"}
    ]
}
_WHOLE: Final = whole(completion())[0]
assert isinstance(_WHOLE, bytes)


@dataclass(frozen=True, slots=True)
class Phase:
    """One of them.

    Args:
        answer: what the upstream sends until the gateway ends the connection.
        members: of the request. blocked: another request has the only slot. part: only this much of the body is sent.
        is_reached: by the place, and by what the client has read.
        kind, end: of the only record of the gateway's. upstream: whether the upstream's connection ends with it.
    """

    answer: Sequence[Step] = ()
    members: Mapping[str, object] = field(default_factory=dict)
    blocked: bool = False
    part: int | None = None
    is_reached: Callable[[Place, bytes], bool] = lambda place, _: place.asked == 1
    kind: str = "inference"
    upstream: bool = True


PHASES: Final[Mapping[str, Phase]] = {
    "while the body is sent": Phase(
        part=10, kind="refusal", upstream=False, is_reached=lambda _place, _read: True
    ),
    "in the queue": Phase(
        blocked=True, kind="refusal", upstream=False, is_reached=lambda place, _: place.slots["waiting"] == 1
    ),
    "before the upstream's head": Phase(),
    "amid the upstream's head": Phase((_WHOLE[:20],)),
    "amid a whole response": Phase((_WHOLE[:-10],)),
    "amid a stream": Phase(
        (STREAM_HEAD, chunk(EVENT)), {"stream": True}, is_reached=lambda _, read: EVENT in read
    ),
    "while a held call waits for approval": Phase(
        whole(_HELD),
        {"tools": [TOOL]},
        is_reached=lambda place, _: place.pending == 1,
        upstream=False,
    ),
}


def body_of(phase: Phase, text: str = "hello") -> bytes:
    message = {"role": "user", "content": text}
    return json.dumps({"model": "m", "messages": [message], **phase.members}).encode()


@dataclass
class Place:
    """A real gateway whose upstream takes one request at a time, and answers with the bytes of a phase."""

    running: Running
    upstream: ScriptedUpstream
    platform: PlatformClient
    phase: Phase = field(default_factory=Phase)
    ann: Approver = field(init=False)

    def __post_init__(self) -> None:
        self.ann = Approver(self.running.gateway, spki=self.running.gateway.spki)

    @property
    def profile(self) -> str:
        return f"tools: [deploy]\nrequires_human_approval: {{tools: [deploy], approvers: [{self.ann.kid}]}}"

    @property
    def asked(self) -> int:
        return len(self.upstream.received)

    @property
    def slots(self) -> Mapping[str, int]:
        socket = next(self.running.home.rglob(OPERATOR_SOCKET))
        answer = request(socket, "GET", "/v1/sessions", limit=1 << 20, timeout_s=20)
        (slots,) = json.loads(answer.body)["upstreams"].values()
        return slots

    @property
    def pending(self) -> int:
        answer = self.ann.ask("GET", "/v1/approvals")  # 403 while nothing waits for Ann
        listed = answer.json()["approvals"] if answer.status == 200 else []
        return sum(each["state"] == "pending" for each in listed)

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """The next request is answered as ``phase`` says; when the block ends all slots must be free again."""
        self.upstream.received.clear()
        while self.upstream.ended.acquire(blocking=False):
            pass
        self.phase, blocker = Phase(), None
        if phase.blocked:
            profile = b"agent_configs: {tester: {}}"
            other = SessionClient.start(self.running.gateway, self.platform, profile=profile)
            blocker = begin(other, body_of(Phase()))
            until(lambda: self.asked == 1)
        self.phase = phase
        try:
            yield
            if phase.upstream:
                assert self.upstream.ended.acquire(timeout=20), "the upstream's connection goes on"
            until(lambda: self.slots["waiting"] == 0 and self.slots["under_way"] == phase.blocked)
        finally:
            if blocker is not None:
                blocker.close()
        until(lambda: self.slots["under_way"] == 0)
        assert self.asked == (0 if phase.part else 1)

    def __call__(self, received: Received) -> Sequence[Step]:
        if received.json["messages"][0]["content"] == NEXT:
            return whole(completion())
        return self.phase.answer


@contextmanager
def place_of(home: Path, platform: PlatformClient, platform_home: Path) -> Iterator[Place]:
    made: list[Place] = []
    with scripted_upstream(lambda received: made[0](received)) as upstream:  # noqa: PLW0108 - made below
        options = ("--upstream", upstream.url, "--upstream-concurrency", "1")
        with serving_gateway(home, platform_home, *options) as running:
            made.append(Place(running, upstream, platform))
            yield made[0]


def begin(session: SessionClient, body: bytes, *, part: int | None = None) -> Any:
    """Send a request, or only ``part`` bytes of its body, and read nothing."""
    proof = session.proof("POST", CHAT, body, content_type="application/json", counted=True)
    connection = session.gateway.connect()
    connection.putrequest("POST", CHAT)
    fields = {"Content-Type": "application/json", "Affiant-Proof": proof, "Content-Length": str(len(body))}
    for name, value in fields.items():
        connection.putheader(name, value)
    connection.endheaders(body[:part])
    return connection
