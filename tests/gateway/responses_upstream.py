"""An upstream that speaks the Responses API and keeps what it answers, as OpenAI does; it answers as the echo does."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from tests.gateway.upstream_server import (
    Received,
    ScriptedUpstream,
    Step,
    scripted_upstream,
    streamed,
    whole,
)

from affiant.gateway.upstream.dev_echo import answer_to
from affiant.gateway.upstream.dev_echo_responses import respond, respond_stream

MODEL = "m"


@dataclass
class Kept:
    """A response, and what it was asked with."""

    request: dict
    response: dict
    polled: int = 0


@dataclass
class ResponsesServer:
    """The script of a :func:`scripted_upstream`. ``alter``: changes a response before it is kept and sent."""

    alter: Callable[[dict], dict] = staticmethod(lambda response: response)
    answer: Callable[[Received], Iterable[Step] | None] = staticmethod(lambda _: None)
    """What to answer instead, if anything."""
    kept: dict[str, Kept] = field(default_factory=dict)
    model: str = MODEL
    """What it lists."""
    _number: Iterator[int] = field(default_factory=itertools.count)

    def __call__(self, received: Received) -> Iterable[Step]:
        instead = self.answer(received)
        if instead is not None:
            return instead
        method, target = received.head.split(b" ")[:2]
        path, _, query = target.decode().partition("?")
        parts = path.removeprefix("/v1/").split("/")
        if parts == ["models"]:
            return whole({"object": "list", "data": [{"id": self.model, "object": "model"}]})
        if parts == ["responses", "compact"]:
            return self._compact(received.json)
        if parts == ["responses"]:
            return self._create(received.json)
        found = self.kept.get(parts[1])
        if found is None:
            return error(404, f"Response with id '{parts[1]}' not found.")
        if method == b"DELETE":
            del self.kept[parts[1]]
            return whole({"id": parts[1], "object": "response", "deleted": True})
        if parts[2:] == ["input_items"]:
            return whole(listed(found.request))
        if parts[2:] == ["cancel"]:
            found.response |= {"status": "cancelled", "output": []}
            return whole(found.response)
        if parse_qs(query).get("stream") == ["true"]:
            start = int(parse_qs(query).get("starting_after", ["-1"])[0])
            return streamed(*self._events(found)[start + 1 :])
        found.polled += 1
        if found.response["status"] == "queued" and found.polled > 1:
            found.response = self._made(found.request, found.response["id"])
        return whole(found.response)

    def _create(self, request: dict) -> Iterable[Step]:
        previous = request.get("previous_response_id")
        if previous is not None and previous not in self.kept:
            return error(400, f"Previous response with id '{previous}' not found.")
        name = f"resp_{self.model}{next(self._number):07d}"
        found = Kept(request, self._made(request, name))
        if request.get("store") is not False:
            self.kept[name] = found
        if request.get("stream"):
            return streamed(*self._events(found))
        if request.get("background"):
            found.response |= {"status": "queued", "output": [], "usage": None}
        return whole(found.response)

    def _made(self, request: dict, name: str) -> dict:
        made = json.loads(respond(request, answer_to, MODEL)) | {"id": name, "store": True}
        for item in made["output"]:
            item["id"] += name[-8:]
        schema = request.get("text", {}).get("format", {})
        if schema.get("type") == "json_schema":
            text = json.dumps(dict.fromkeys(schema["schema"]["properties"], "said"))
            made["output"][0]["content"][0]["text"] = text
        return self.alter(made)

    def _events(self, found: Kept) -> list[bytes]:
        """The events of a response, with its own id and items."""
        made, events = found.response, []
        for one in respond_stream(found.request, answer_to, MODEL):
            value = json.loads(one.partition(b"data: ")[2])
            if "item_id" in value:
                value["item_id"] = made["output"][0]["id"]
            if "item" in value:
                value["item"]["id"] = made["output"][0]["id"]
            if "response" in value:
                ends = value["type"] == "response.completed"
                value["response"] = made if ends else value["response"] | {"id": made["id"]}
            head, _, _ = one.partition(b"data: ")
            events.append(head + b"data: " + json.dumps(value).encode() + b"\n\n")
        return events

    def _compact(self, request: dict) -> Iterable[Step]:
        item = {"id": "cmp_1", "type": "compaction", "encrypted_content": "aGk="}
        usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
        usage |= {
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return whole(
            {
                "id": "cmp_2",
                "object": "response.compaction",
                "created_at": 0,
                "output": [item],
                "usage": usage,
            }
        )


def listed(request: dict) -> dict:
    """What a response was asked with, as a list of items."""
    given = request["input"]
    if isinstance(given, str):
        given = [{"role": "user", "content": [{"type": "input_text", "text": given}]}]
    data = [
        {"type": "message", "id": f"msg_in_{at}", "status": "completed", **item}
        for at, item in enumerate(given)
    ]
    return {
        "object": "list",
        "data": data,
        "first_id": "msg_in_0",
        "last_id": data[-1]["id"],
        "has_more": False,
    }


def error(status: int, message: str) -> list[Step]:
    """OpenAI's own form."""
    inner = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return whole({"error": inner}, status=f"{status} Error")


@contextmanager
def responses_upstream() -> Iterator[tuple[ScriptedUpstream, ResponsesServer]]:
    """A server of the Responses API on a port of its own."""
    server = ResponsesServer()
    with scripted_upstream(server) as started:
        yield started, server
