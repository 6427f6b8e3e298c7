"""A model server for measurements: ``python -m benchmarks.paced_upstream PORT``. It answers 1 KB, or 64 paced events.

The model's name says how: ``whole``, or ``paced-N`` for an event every N milliseconds, as for each stream its own clock
says: an event that is late makes none of the others late. It reads nothing else of a request.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Final

import uvloop

__all__ = ["EVENTS", "MODELS"]

EVENTS: Final = 64
"""Of a stream, without its ``[DONE]``."""
MODELS: Final = ("whole", "paced-10", "paced-20")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_PACED: Final = re.compile(rb'"model": *"paced-([0-9]+)"')
_COMMON: Final = {"id": "chatcmpl-benchmark", "created": 1_790_000_000, "system_fingerprint": "fp_benchmark"}


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _whole() -> bytes:
    message = {"role": "assistant", "content": "word " * 130}
    body = _json(
        {
            **_COMMON,
            "object": "chat.completion",
            "model": "whole",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 150, "completion_tokens": 130, "total_tokens": 280},
        }
    )
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    )


def _event(model: str, delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    value = {**_COMMON, "object": "chat.completion.chunk", "model": model, "choices": [choice]}
    return _chunk(b"data: " + _json(value) + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


def _events(model: str) -> tuple[bytes, ...]:
    """What is written at each step of a stream: its head goes with the first event, its end with the last."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    first = head + _event(model, {"role": "assistant", "content": ""}, None)
    words = [_event(model, {"content": f" word{number}"}, None) for number in range(EVENTS - 2)]
    last = _event(model, {}, "stop") + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return first, *words, last


_WHOLE: Final = _whole()
_PACES: Final = {name.rpartition("-")[2]: _events(name) for name in MODELS if name != "whole"}
_LISTED: Final = _json({"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]})
_LIST: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_LISTED)
    + _LISTED
)


class _Upstream(asyncio.Protocol):
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop has its own
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, ends, rest = self._data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = 0 if length is None else int(length[1])
        if not ends or len(rest) < size:
            return
        self._data = rest[size:]
        paced = _PACED.search(rest[:size])
        if head.startswith(b"GET "):
            self._transport.write(_LIST)
        elif paced is None:
            self._transport.write(_WHOLE)
        else:
            self._pace(paced[1].decode(), 0, self._loop.time())

    def _pace(self, pace: str, number: int, begun: float) -> None:
        if self._transport.is_closing():
            return
        events = _PACES[pace]
        self._transport.write(events[number])
        if (number := number + 1) < len(events):
            due = begun + number * int(pace) / 1e3
            self._loop.call_at(due, self._pace, pace, number, begun)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Upstream, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(int(sys.argv[1])))
