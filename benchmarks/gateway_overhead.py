"""What a model request costs on its way through our gateway, beside nginx, LiteLLM and no proxy, all in one run.

Ours has everything on: TLS, a proof for each request, policy with tool rules, the queue, sealed disclosures, a signed
record that is durable before the last byte, the log and its witness. The generator (:mod:`.load`) and the model server
(:mod:`.paced_upstream`) are processes of their own; processor time is that of all processes of the proxy, by the
kernel's accounting. ``python -m benchmarks.gateway_overhead`` prints the rows alone. Needs root.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.load import Response
from benchmarks.paced_upstream import EVENTS
from benchmarks.proxies import PROFILE_TOOLS, Proxy, proxies
from benchmarks.timing import Figure

_PEERS: Final = ("LiteLLM", "nginx", "direct")
_ROUNDS: Final = 3
_LONG_S: Final = 15.0
"""A proxy that takes longer for a round is asked for no further one."""


def _request(model: str, **more: object) -> bytes:
    message = {"role": "user", "content": "word " * 180}
    return json.dumps({"model": model, "messages": [message], **more}).encode()


def _tool(name: str) -> dict[str, object]:
    said = "One of the tool's arguments, in a sentence of usual length."
    properties = {
        each: {"type": "string", "description": said}
        for each in ("path", "pattern", "replacement", "encoding")
    }
    parameters = {"type": "object", "properties": properties, "required": ["path"]}
    function = {"name": name, "description": "Edits files.", "parameters": parameters}
    return {"type": "function", "function": function}


WHOLE: Final = _request("whole")
TOOLS: Final = _request("whole", tools=[_tool(name) for name in PROFILE_TOOLS])


@dataclass(frozen=True, slots=True)
class Measured:
    """What the rounds of one scenario came to for one proxy."""

    answers: Sequence[Response]
    processor_s: float
    """Of one request, the median round's."""

    def part(self, share: float, of: Callable[[Response], float]) -> float:
        """The percentile of what came, in milliseconds."""
        came = sorted(of(each) for each in self.answers if each.whole_s)
        return came[min(int(len(came) * share), len(came) - 1)] * 1e3


def measure() -> list[Figure]:
    """The rows of the table."""
    with tempfile.TemporaryDirectory() as folder, proxies(Path(folder)) as found:
        for each in found:
            _measured([each], WHOLE, connections=8, requests=20, rounds=1)
        ours, rows = found[0], []
        written = ours.written
        alone = _measured(found, WHOLE, connections=1, requests=80)
        written = ours.written - written
        direct = alone["direct"].part(0.5, _whole)
        proxied = {name: each for name, each in alone.items() if name != "direct"}
        rows.append(
            _row("added p50, 1 connection", proxied, lambda each: each.part(0.5, _whole) - direct, "ms")
        )
        rows.append(_row("processor time, 1 connection", alone, _microseconds, "us"))
        asked = len(alone["ours"].answers)
        rows.append(
            Figure("gateway: bytes written, 1 connection", written / asked, "bytes", "a request", len(WHOLE))
        )
        at_32 = _measured(found, WHOLE, connections=32, requests=10)
        rows.append(_row("processor time, 32 connections", at_32, _microseconds, "us"))
        rows.append(
            _row("requests for a second of processor", at_32, lambda each: 1 / each.processor_s, "requests")
        )
        rows.append(_row("p99, 32 connections", at_32, lambda each: each.part(0.99, _whole), "ms"))
        at_64 = _measured(found, WHOLE, connections=64, requests=5)
        rows.append(_row("processor time, 64 connections", at_64, _microseconds, "us"))
        tools = _measured(found, TOOLS, connections=32, requests=5)
        rows.append(_row("processor time, 20 tools, 32 connections", tools, _microseconds, "us"))
        rows += _streams(found, 32, 10, each=2)
        rows += _streams([each for each in found if each.name != "LiteLLM"], 512, 20, each=1)  # minutes of it
        rows.append(
            _row(
                "memory at the end",
                {each.name: each for each in found if each.name != "direct"},
                lambda each: each.memory / 1e6,
                "MB",
            )
        )
    return rows


def _streams(found: Sequence[Proxy], connections: int, pace: int, *, each: int) -> list[Figure]:
    body, name = _request(f"paced-{pace}", stream=True), f"{connections} streams, {pace} ms"
    measured = _measured(found, body, connections=connections, requests=each)
    lost = {
        name: EVENTS * len(one.answers) - sum(map(_events, one.answers)) for name, one in measured.items()
    }
    sent = EVENTS * len(measured["ours"].answers)
    return [
        _row(f"processor time of an event, {name}", measured, lambda one: _microseconds(one) / EVENTS, "us"),
        _row(f"first event p50, {name}", measured, lambda one: one.part(0.5, _first), "ms"),
        _row(f"first event p99, {name}", measured, lambda one: one.part(0.99, _first), "ms"),
        _row(f"whole stream p99, {name}", measured, lambda one: one.part(0.99, _whole), "ms"),
        Figure(f"gateway: events lost, {name}", lost.pop("ours"), "events", "sent", sent, lost),
    ]


def _measured(
    found: Sequence[Proxy], body: bytes, *, connections: int, requests: int, rounds: int = _ROUNDS
) -> Mapping[str, Measured]:
    """Every proxy once in each round, so that noise hits all of them."""
    answers: dict[str, list[Response]] = {proxy.name: [] for proxy in found}
    times: dict[str, list[float]] = {proxy.name: [] for proxy in found}
    slow: set[str] = set()
    for _ in range(rounds):
        for proxy in (each for each in found if each.name not in slow):
            came, took, processor_s = proxy.ask(body, connections=connections, each=requests)
            if took > _LONG_S:
                slow.add(proxy.name)
            wrong = {one.status for one in came if one.whole_s} - {200}
            if wrong:
                raise RuntimeError(f"{proxy.name} answered {wrong}")
            answers[proxy.name] += came
            times[proxy.name].append(processor_s / len(came))
    return {name: Measured(answers[name], statistics.median(times[name])) for name in answers}


def _row(name: str, measured: Mapping[str, Any], of: Callable[[Any], float], unit: str) -> Figure:
    values = {proxy: of(each) for proxy, each in measured.items()}
    ours = values.pop("ours")
    peer = next(each for each in _PEERS if each in values)
    return Figure(f"gateway: {name}", ours, unit, peer, values.pop(peer), values)


def _microseconds(measured: Measured) -> float:
    return measured.processor_s * 1e6


def _first(answer: Response) -> float:
    return answer.first_s


def _whole(answer: Response) -> float:
    return answer.whole_s


def _events(answer: Response) -> int:
    return answer.body.count(b"data: {")


if __name__ == "__main__":
    for figure in measure():
        print(figure)
