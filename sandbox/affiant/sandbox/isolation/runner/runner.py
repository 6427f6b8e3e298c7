"""The privileged runner: ``python -m affiant.sandbox.isolation.runner.runner --control-fd N --session-dir DIR ...``

The root half of a session's supervisor. It parses nothing that the agent sends, holds no secret, and obeys
one control socket (see :mod:`protocol`) with a handful of commands. What it may show to an agent is fixed by
its command line, which this file reads, and by the session's folder; the rest is in :mod:`serving`.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until all is loaded: it makes no garbage, and looking for some took a quarter of the start

import argparse
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.plan import DirectoryRoot, HostUsr, RootFS
from affiant.sandbox.isolation.runner.lifecycle import Sandbox
from affiant.sandbox.isolation.runner.runner_settings import Settings
from affiant.sandbox.isolation.runner.serving import Runner

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve the control socket named on the command line."""
    gc.enable()
    parser = argparse.ArgumentParser(prog="affiant-runner", allow_abbrev=False)
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--session-dir", type=Path, required=True)
    parser.add_argument("--backend", type=BackendName, metavar="NAME", required=True)
    parser.add_argument("--rootfs", default=None)
    parser.add_argument("--runtime", default=None)
    given = parser.parse_args(arguments)
    rootfs: RootFS = HostUsr() if given.rootfs is None else DirectoryRoot(given.rootfs)
    settings = Settings(given.session_dir.resolve(), given.backend, rootfs, given.runtime)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # the supervisor decides, by its socket
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=given.control_fd) as control:
        control.set_inheritable(False)
        Runner(control, Sandbox(settings)).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
