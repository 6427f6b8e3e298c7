"""``affiant-dev-echo``: the embedded upstream, so that trying and testing needs no model and no network.

It speaks OpenAI's chat completions and Responses, and Anthropic's messages, whole and streaming, and answers from the
prompt alone: the same request gives the same bytes, and nothing is stored. It is no model and says so in its name,
which is in every receipt.

- ``call_tool:NAME {json}`` in the last user message makes it call that tool, whatever was offered to it: that is
  what a profile's tool gate is for;
- after a ``tool`` message, a ``tool_result``, or the output of a call, it answers with what the tool said;
- everything else is echoed, word by word.

In the gateway it is reached over socket pairs (:class:`EchoConnector`): no port, no file, no other client.
``python -m affiant.gateway.upstream.dev_echo --port N`` serves it alone, on 127.0.0.1, to measure against.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, cast

import httptools

from affiant.gateway.upstream.dev_echo_responses import respond, respond_stream
from affiant.gateway.upstream.http1_connection import Connection

__all__ = [
    "MODEL",
    "EchoConnector",
    "EchoProtocol",
    "answer_to",
    "complete",
    "message",
    "message_stream",
    "stream",
]

MODEL: Final = "affiant-dev-echo"

_CALL: Final = re.compile(r"call_tool:([A-Za-z0-9_.-]{1,64})[ \t]*(\{.*\})?", re.DOTALL)
_MAX_BODY: Final = 16 << 20


def complete(request: Mapping[str, object]) -> bytes:
    """The whole answer to ``request``: JSON bytes."""
    content, call = _answer(request)
    message: dict[str, object] = {"role": "assistant", "content": None if call else content, "refusal": None}
    if call:
        message["tool_calls"] = [_tool_call(*call)]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if call else "stop",
    }
    return _json(
        {**_common(request, "chat.completion"), "choices": [choice], "usage": _usage(request, content)}
    )


def stream(request: Mapping[str, object]) -> Iterator[bytes]:
    """The events of the streamed answer, ``data: [DONE]`` last."""
    content, call = _answer(request)
    common = _common(request, "chat.completion.chunk")
    deltas: list[dict[str, object]] = [{"role": "assistant", "content": None if call else ""}]
    if call:
        opening, rest = _tool_call(*call), call[1]
        opening["function"] = {"name": call[0], "arguments": ""}
        deltas.append({"tool_calls": [{"index": 0, **opening}]})
        pieces = (rest[at : at + 16] for at in range(0, len(rest), 16))
        deltas.extend({"tool_calls": [{"index": 0, "function": {"arguments": p}}]} for p in pieces)
    else:
        deltas.extend({"content": word} for word in _words(content))
    for delta in deltas:
        yield _event({**common, "choices": [_choice(delta, None)]})
    yield _event({**common, "choices": [_choice({}, "tool_calls" if call else "stop")]})
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        yield _event({**common, "choices": [], "usage": _usage(request, content)})
    yield b"data: [DONE]\n\n"


def message(request: Mapping[str, object]) -> bytes:
    """As :func:`complete`, of Anthropic's messages."""
    content, call = _answer(request)
    block: dict[str, object] = {"type": "text", "text": content}
    if call:
        block = {**_tool_use(*call), "input": _object(call[1])}
    ends = {"stop_reason": "tool_use" if call else "end_turn", "usage": _message_usage(request, content)}
    return _json({**_message(request), "content": [block], **ends})


def message_stream(request: Mapping[str, object]) -> Iterator[bytes]:
    """As :func:`stream`, of Anthropic's messages; ``message_stop`` last."""
    content, call = _answer(request)
    yield _named("message_start", message={**_message(request), "usage": _message_usage(request, "")})
    block: dict[str, object] = {"type": "text", "text": ""}
    if call:
        block = {**_tool_use(*call), "input": {}}
        pieces = [call[1][at : at + 16] for at in range(0, len(call[1]), 16)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    else:
        deltas = [{"type": "text_delta", "text": word} for word in _words(content)]
    yield _named("content_block_start", index=0, content_block=block)
    for delta in deltas:
        yield _named("content_block_delta", index=0, delta=delta)
    yield _named("content_block_stop", index=0)
    reason = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
    yield _named("message_delta", delta=reason, usage=_message_usage(request, content))
    yield _named("message_stop")


def _answer(request: Mapping[str, object]) -> tuple[str, tuple[str, str] | None]:
    """What to say, or which tool to call with which arguments."""
    return answer_to(*_last_message(request))


def answer_to(role: str, text: str) -> tuple[str, tuple[str, str] | None]:
    """What to say to what was said last, or which tool to call with which arguments."""
    if role == "tool":
        return f"the tool said: {text}", None
    found = _CALL.search(text)
    if found is None:
        return f"echo: {text}", None
    return "", (found[1], found[2] or "{}")


def _last_message(request: Mapping[str, object]) -> tuple[str, str]:
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
        return "user", ""
    content = messages[-1].get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_result":
            return "tool", _text(part.get("content"))
    return str(messages[-1].get("role", "user")), _text(content)


def _text(content: object) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        content = "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _words(content: str) -> list[str]:
    return re.findall(r"\s*\S+\s*?|\s+", content)


def _tool_call(name: str, arguments: str) -> dict[str, object]:
    identifier = hashlib.sha256(f"{name} {arguments}".encode()).hexdigest()[:24]
    return {
        "id": f"call_{identifier}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _tool_use(name: str, arguments: str) -> dict[str, object]:
    identifier = hashlib.sha256(f"{name} {arguments}".encode()).hexdigest()[:24]
    return {"type": "tool_use", "id": f"toolu_{identifier}", "name": name}


def _object(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _message(request: Mapping[str, object]) -> dict[str, object]:
    common = _common(request, "message")
    return {
        "id": str(common["id"]).replace("chatcmpl-", "msg_"),
        "type": "message",
        "role": "assistant",
        "model": common["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _message_usage(request: Mapping[str, object], content: str) -> Mapping[str, int]:
    usage = _usage(request, content)
    return {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}


def _common(request: Mapping[str, object], kind: str) -> dict[str, object]:
    digest = hashlib.sha256(_json(request.get("messages"))).hexdigest()
    model = request.get("model")
    return {
        "id": f"chatcmpl-{digest[:24]}",
        "object": kind,
        "created": 0,
        "model": model if isinstance(model, str) else MODEL,
    }


def _choice(delta: Mapping[str, object], reason: str | None) -> Mapping[str, object]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _usage(request: Mapping[str, object], content: str) -> Mapping[str, int]:
    prompt, answer = len(_json(request.get("messages"))) // 4, len(content.split())
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _event(value: object) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _named(kind: str, **members: object) -> bytes:
    return f"event: {kind}\n".encode("ascii") + _event({"type": kind, **members})


def _counted(request: Mapping[str, object]) -> bytes:
    return _json({"input_tokens": _usage(request, "")["prompt_tokens"]})


_Streamed = Callable[[Mapping[str, object]], Iterator[bytes]]


class EchoProtocol(asyncio.Protocol):
    """Serves one connection: ``POST`` to ``…/chat/completions``, ``…/responses``, ``…/messages`` and its count, and
    ``GET …/models``."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by inheritance

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._transport = None

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._close()

    def on_url(self, url: bytes) -> None:
        self._target, self._body, self._size = url, [], 0

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > _MAX_BODY:
            self._close()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        path = self._target.partition(b"?")[0]
        if self._parser.get_method() == b"GET" and path.endswith(b"/models"):
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "affiant"}
            self._write_whole(200, _json({"object": "list", "data": [model]}))
        elif self._parser.get_method() == b"POST" and path.endswith(b"/chat/completions"):
            self._respond(b"".join(self._body), complete, stream)
        elif self._parser.get_method() == b"POST" and path.endswith(b"/responses"):
            self._respond(
                b"".join(self._body),
                lambda request: respond(request, answer_to, MODEL),
                lambda request: respond_stream(request, answer_to, MODEL),
            )
        elif self._parser.get_method() == b"POST" and path.endswith(b"/messages"):
            self._respond(b"".join(self._body), message, message_stream)
        elif self._parser.get_method() == b"POST" and path.endswith(b"/messages/count_tokens"):
            self._respond(b"".join(self._body), _counted, None)
        else:
            self._write_error(404, "no such path")

    def _respond(
        self, body: bytes, whole: Callable[[Mapping[str, object]], bytes], streamed: _Streamed | None
    ) -> None:
        try:
            request = json.loads(body)
        except ValueError:
            self._write_error(400, "the body is not JSON")
            return
        if not isinstance(request, dict):
            self._write_error(400, "the body is no object")
        elif streamed is not None and request.get("stream") is True:
            self._write_stream(streamed(request))
        else:
            self._write_whole(200, whole(request))

    def _write_error(self, status: int, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "code": None, "param": None}
        self._write_whole(status, _json({"error": error}))

    def _write_whole(self, status: int, body: bytes) -> None:
        head = (
            f"HTTP/1.1 {status} Echo\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._write(head.encode("ascii") + body)

    def _write_stream(self, events: Iterator[bytes]) -> None:
        self._write(
            b"HTTP/1.1 200 Echo\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for event in events:
            self._write(f"{len(event):x}\r\n".encode("ascii") + event + b"\r\n")
        self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class EchoConnector:
    """Connections to an echo in this very process, over socket pairs."""

    async def connect(self, factory: Callable[[], Connection]) -> Connection:
        """A connection with an :class:`EchoProtocol` at its other end."""
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        near.setblocking(False)  # noqa: FBT003 - the standard library's signature
        far.setblocking(False)  # noqa: FBT003 - the standard library's signature
        served: asyncio.BaseTransport | None = None
        try:
            served, _ = await loop.connect_accepted_socket(EchoProtocol, far)
            _, connection = await loop.connect_accepted_socket(factory, near)
        except BaseException:  # abandoned half-way: nothing of the pair stays; raised again
            near.close()
            far.close() if served is None else served.close()
            raise
        return connection


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(EchoProtocol, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve on 127.0.0.1 until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m affiant.gateway.upstream.dev_echo", description="The embedded upstream, alone."
    )
    parser.add_argument("--port", type=int, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(parser.parse_args(arguments).port))


if __name__ == "__main__":
    main()
