"""Processor time until each program is loaded, and until the help of a command is shown, against asyncio and TLS alone.

Every program is a new process with its bytecode compiled; the least of several rounds counts, because other work on the
machine only adds.
"""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.timing import Figure

ROUNDS = 7
PROGRAMS = {
    "gateway server": ("-c", "import affiant.gateway.process.server"),
    "supervisor": ("-c", "import affiant.sandbox.supervisor.__main__"),
    "secret broker": ("-c", "import affiant.secrets.broker.process"),
    "affiant run --help": ("-m", "affiant", "run", "--help"),
    "affiant verify --help": ("-m", "affiant", "verify", "--help"),
}
PEER = ("-c", "import asyncio, ssl")


def measure() -> list[Figure]:
    least = dict.fromkeys([*PROGRAMS.values(), PEER], float("inf"))
    for _ in range(ROUNDS):
        for program in least:
            least[program] = min(least[program], _processor_seconds(program))
    return [
        Figure(f"load: {name}", least[program] * 1000, "ms cpu", "asyncio and ssl", least[PEER] * 1000)
        for name, program in PROGRAMS.items()
    ]


def _processor_seconds(program: tuple[str, ...]) -> float:
    """Of one process from its start to its end, in user and system mode."""
    with subprocess.Popen([sys.executable, *program], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(program)} exited with {process.returncode}")
    return used.ru_utime + used.ru_stime
