"""Commands for sessions: agents that tell, byte by byte, what they were handed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass

ASKING = r"""
import base64, http.client, json, os, sys, threading, time, urllib.error, urllib.request

threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()

def tell(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()

def ask(number, kind, request):
    tell(id=number, kind=kind)
    try:
        try:
            answer = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            tell(id=number, status=answer.status, receipt=answer.headers.get("Affiant-Receipt-Id"))
            while data := answer.read1(1 << 16):
                tell(id=number, data=base64.b64encode(data).decode())
            if getattr(answer, "length", None):
                raise http.client.IncompleteRead(b"")
        tell(id=number, end=True)
    except (OSError, http.client.HTTPException) as error:
        tell(id=number, broken=type(error).__name__)
        time.sleep(0.05)

number = 0
while True:
    for kind in ("stream", "whole", "egress"):
        number += 1
        if kind == "egress":
            ask(number, kind, "http://not-in-the-profile.example/")
            continue
        content = f"request {number} " + "word " * 12
        body = {"model": "affiant-dev-echo", "messages": [{"role": "user", "content": content}]}
        if kind == "stream":
            body["stream"] = True
        ask(number, kind, urllib.request.Request(
            os.environ["OPENAI_BASE_URL"] + "/chat/completions",
            json.dumps(body).encode(), {"Content-Type": "application/json"},
        ))
"""
"""Asks without pause, streaming and whole, and tries a host outside of its profile, until its input ends.

Every piece of every answer goes to its output as it comes, flushed: what it was told survives whoever told it.
"""


@dataclass
class Answer:
    """What an agent was handed for one request."""

    kind: str
    status: int = 0
    receipt: str | None = None
    data: bytes = b""
    ended: bool = False

    @property
    def whole(self) -> bool:
        """Whether a client would take this for a complete answer of the model."""
        if self.kind == "stream":
            return self.status == 200 and self.data.endswith(b"data: [DONE]\n\n")
        return self.kind == "whole" and self.status == 200 and self.ended

    @property
    def record(self) -> str | None:
        """Id of the record that the proxy says its refusal of a foreign host has."""
        return json.loads(self.data)["record"] if self.kind == "egress" and self.ended else None


def answers_in(output: bytes) -> list[Answer]:
    """The answers that :data:`ASKING` told; a torn last line was not told."""
    answers: dict[int, Answer] = {}
    for event in _events(output.split(b"\n")[:-1]):
        number = event["id"]
        if "kind" in event:
            answers[number] = Answer(event["kind"])
            continue
        answer = answers[number]
        answer.status = event.get("status", answer.status)
        answer.receipt = event.get("receipt", answer.receipt)
        answer.data += base64.b64decode(event.get("data", ""))
        answer.ended = answer.ended or "end" in event
    return list(answers.values())


def _events(lines: Iterable[bytes]) -> Iterable[dict]:
    return (json.loads(line) for line in lines)
