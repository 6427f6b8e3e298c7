"""What one admission, one request and one close cost a gateway while 100, 1,000 and 5,000 sessions are open.

The gateway runs in this process on the simulated platform; its journal, its log and its appraisals are the real ones.
Timed is this process's own time while it answers: the evidence of the next sessions is made before.
``python -m benchmarks.gateway_admissions 20 200 1000`` takes other numbers.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.gateway.conftest import serving_platform
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import (
    SessionClient,
    admission_headers,
    draft,
    evidence_of,
)

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.evidence import Admission, wrap_admission
from benchmarks.timing import Figure

OPEN = (100, 1000, 5000)
BATCH = 40
RESIDENT = Path("/proc/self/status")


def measure(numbers: Sequence[int] = OPEN) -> list[Figure]:
    """The rows of the table: three and the memory for each number of open sessions."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving_platform(Path(folder) / "platform") as platform,
        in_process(platform, Path(folder) / "store", sessions_max=numbers[-1]) as gateway,
    ):
        asking = _Asking(gateway, platform)
        rows = []
        for number in numbers:
            while asking.open < number - BATCH:
                asking.admit(min(BATCH, number - BATCH - asking.open))
            rows.append((number, asking.cost(), _resident()))
    return [figure for row in rows for figure in _figures(row, rows[0])]


_Row = tuple[int, tuple[float, float, float], int]


def _figures(row: _Row, first: _Row) -> list[Figure]:
    number, costs, resident = row
    names = ("an admission", "a request", "a close")
    figures = [
        Figure(
            f"{name} while {number} sessions are open", cost * 1000, "ms", f"with {first[0]}", before * 1000
        )
        for name, cost, before in zip(names, costs, first[1], strict=True)
    ]
    memory = Figure(
        f"resident with {number} sessions, clients too",
        resident / 1e6,
        "MB",
        f"with {first[0]}",
        first[2] / 1e6,
    )
    return [*figures, memory]


class _Asking:
    """Clients of one gateway."""

    def __init__(self, gateway: InProcess, platform: PlatformClient) -> None:
        self._gateway = gateway
        self._platform = platform
        self.open = 0

    def admit(self, count: int) -> tuple[float, list[SessionClient]]:
        """Seconds for each of ``count`` admissions, and the sessions."""
        made = [draft(self._gateway) for _ in range(count)]
        evidence = [evidence_of(each, self._platform) for each in made]
        bodies = [
            wrap_admission(Admission(record, each.policy))
            for each, record in zip(made, evidence, strict=True)
        ]
        began = time.process_time()
        answers = [
            self._gateway.ask("POST", "/v1/sessions", body, admission_headers(each.nonce))
            for each, body in zip(made, bodies, strict=True)
        ]
        took = (time.process_time() - began) / count
        if any(answer.status != 201 for answer in answers):
            raise RuntimeError(
                f"not admitted: {[answer.body for answer in answers if answer.status != 201][:1]}"
            )
        self.open += count
        return took, [
            SessionClient(self._gateway, each, record, answer.json())
            for each, record, answer in zip(made, evidence, answers, strict=True)
        ]

    def cost(self) -> tuple[float, float, float]:
        """Seconds for an admission, a request and a close; the sessions of these stay, but for those that close."""
        admitting, sessions = self.admit(BATCH)
        asking = _each(sessions, lambda session: session.say("hi").status)
        leaving = sessions[: BATCH // 2]
        closing = _each(leaving, lambda session: session.close().status)
        self.open -= len(leaving)
        self.admit(len(leaving))
        return admitting, asking, closing


def _each(sessions: Sequence[SessionClient], work: Callable[[SessionClient], int]) -> float:
    began = time.process_time()
    for session in sessions:
        if work(session) != 200:
            raise RuntimeError("refused")
    return (time.process_time() - began) / len(sessions)


def _resident() -> int:
    return int(RESIDENT.read_text().split("VmRSS:", 1)[1].split(None, 1)[0]) * 1024


if __name__ == "__main__":
    for figure in measure([int(text) for text in sys.argv[1:]] or OPEN):
        print(figure)
