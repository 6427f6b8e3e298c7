"""The answers of ``affiant-dev-echo`` in the form of OpenAI's Responses API; nothing is kept under their ids.

What is answered is :func:`~.dev_echo.answer_to`'s. Events follow OpenAI's API reference, "Streaming events".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final

__all__ = ["Say", "respond", "respond_stream"]

Say = Callable[[str, str], tuple[str, tuple[str, str] | None]]
"""Role and text of what was said last -> what to say to it, or which tool to call with which arguments."""

_OUTPUTS: Final = ("custom_tool_call_output", "function_call_output")
_PIECE: Final = 16
"""Characters of what a call is made with, in one event."""
_REPEATED: Final = (
    "instructions",
    "max_output_tokens",
    "metadata",
    "previous_response_id",
    "temperature",
    "text",
)


def respond(request: Mapping[str, object], say: Say, model: str) -> bytes:
    """The whole response to ``request``: JSON bytes. ``model``: its name where the request has none."""
    return _json(_response(request, say, model))


def respond_stream(request: Mapping[str, object], say: Say, model: str) -> Iterator[bytes]:
    """The events of the streamed response, ``response.completed`` last."""
    whole = _response(request, say, model)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    (item,) = _items(whole)
    at = {"output_index": 0, "item_id": item["id"]}
    events: list[tuple[str, Mapping[str, object]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": _begun(item)}),
        *_pieces(item, at),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": whole}),
    ]
    for number, (kind, members) in enumerate(events):
        data = _json({"type": kind, "sequence_number": number, **members})
        yield b"event: " + kind.encode("ascii") + b"\ndata: " + data + b"\n\n"


def _pieces(
    item: Mapping[str, object], at: Mapping[str, object]
) -> Iterator[tuple[str, Mapping[str, object]]]:
    if item["type"] == "function_call":
        text = str(item["arguments"])
        for start in range(0, len(text), _PIECE):
            yield "response.function_call_arguments.delta", {**at, "delta": text[start : start + _PIECE]}
        yield "response.function_call_arguments.done", {**at, "name": item["name"], "arguments": text}
        return
    (part,) = _parts(item)
    inside = {**at, "content_index": 0}
    yield "response.content_part.added", {**inside, "part": {**part, "text": ""}}
    text = str(part["text"])
    for start in range(0, len(text), _PIECE):
        delta = text[start : start + _PIECE]
        yield "response.output_text.delta", {**inside, "delta": delta, "logprobs": []}
    yield "response.output_text.done", {**inside, "text": text, "logprobs": []}
    yield "response.content_part.done", {**inside, "part": part}


def _begun(item: Mapping[str, object]) -> Mapping[str, object]:
    empty: dict[str, object] = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    return {**item, **empty, "status": "in_progress"}


def _response(request: Mapping[str, object], say: Say, model: str) -> dict[str, object]:
    text, call = say(*_last(request))
    digest = hashlib.sha256(_json(request.get("input"))).hexdigest()[:24]
    asked, named = len(_json(request.get("input"))) // 4, request.get("model")
    said = len(text.split())
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + said,
    }
    return {
        "id": f"resp_{digest}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": named if isinstance(named, str) else model,
        "output": [_call(*call) if call else _message(text, digest)],
        "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
        "store": False,
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools") or [],
        "usage": usage,
        **{name: request[name] for name in _REPEATED if name in request},
    }


def _message(text: str, digest: str) -> dict[str, object]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{digest}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def _call(name: str, arguments: str) -> dict[str, object]:
    digest = hashlib.sha256(f"{name} {arguments}".encode()).hexdigest()[:24]
    return {
        "id": f"fc_{digest}",
        "type": "function_call",
        "call_id": f"call_{digest}",
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def _last(request: Mapping[str, object]) -> tuple[str, str]:
    """Role and text of the last item of the input."""
    found = request.get("input")
    if isinstance(found, str):
        return "user", found
    item = found[-1] if isinstance(found, list) and found else None
    if not isinstance(item, dict):
        return "user", ""
    is_output = item.get("type") in _OUTPUTS
    held = item.get("output") if is_output else item.get("content")
    if isinstance(held, list):
        parts = (part.get("text") for part in held if isinstance(part, dict))
        held = "".join(part for part in parts if isinstance(part, str))
    role = "tool" if is_output else str(item.get("role", "user"))
    return role, held if isinstance(held, str) else ""


def _items(whole: Mapping[str, object]) -> list[dict[str, object]]:
    output = whole["output"]
    assert isinstance(output, list)
    return output


def _parts(item: Mapping[str, object]) -> list[dict[str, object]]:
    content = item["content"]
    assert isinstance(content, list)
    return content


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
