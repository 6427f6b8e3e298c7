"""The supervisor's process.

``affiant.sandbox.supervisor --control-fd N (--td-fd M | --own-td) [--template-fd T]``. An interpreter starts it
(``start.py``), or a template process forks it. The I/O boundary: command line, clock, randomness, the release manifest
of this installation, and the descriptors that the launcher passed on: its control socket, the TD, and the template's
socket, by which it has runner and broker forked. As root it is root only until runner and broker are started
(``starting``).
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until all is loaded: it makes no garbage, and looking for some took a seventh of the start

import argparse
import asyncio
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime

from affiant.attestation.release.boot import Image
from affiant.attestation.release.running_image import image_digest
from affiant.attestation.simulated.served.client import SimulatedTD
from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.sandbox.egress.record_budget import RecordLimits
from affiant.sandbox.supervisor.launch.control import ControlChannel
from affiant.sandbox.supervisor.starting import Surroundings
from affiant.sandbox.supervisor.supervise import supervise
from affiant.steady_clock import SteadyClock

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Supervise one session; the exit status."""
    gc.enable()
    parser = argparse.ArgumentParser(prog="affiant-supervisor", allow_abbrev=False)
    parser.add_argument("--control-fd", type=int, required=True)
    td = parser.add_mutually_exclusive_group(required=True)
    td.add_argument("--td-fd", type=int, help="descriptor of a TD of the simulated platform")
    td.add_argument("--own-td", action="store_true", help="the TDX guest that this process runs in")
    parser.add_argument(
        "--template-fd", type=int, help="names the socket of the template process that forked this"
    )
    parser.add_argument("--refusals", type=int, help="stop the agent after so many, if that is earlier")
    given = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGHUP):  # the launcher decides, by its socket
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (given.control_fd, *(() if given.own_td else (given.td_fd,))):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the os module's own signature
    limits = RecordLimits().lowered(given.refusals)
    return asyncio.run(_run(given.control_fd, given.td_fd, limits, given.template_fd))


async def _run(control_fd: int, td_fd: int | None, limits: RecordLimits, template: int | None) -> int:
    channel = ControlChannel(socket.socket(fileno=control_fd))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, channel.stop_listening)
    try:
        with _td(td_fd) as td:
            return await supervise(channel, lambda: _surroundings(td, limits, template))
    finally:
        channel.close()


def _td(descriptor: int | None) -> AbstractContextManager[QuoteSource]:
    """The TD of the session: the simulated one behind a descriptor, or the TDX guest that this process runs in."""
    if descriptor is not None:
        return SimulatedTD(descriptor)
    from affiant.attestation.quote.providers.kernel.tdx_guest import RTMR3_LOG, TDXGuest  # noqa: PLC0415 - on hardware

    return nullcontext(TDXGuest.of_this_machine(RTMR3_LOG, random_bytes=secrets.token_bytes))


def _surroundings(td: QuoteSource, limits: RecordLimits, template: int | None) -> Surroundings:
    return Surroundings(
        td=td,
        build=image_digest(Image.SESSION),
        clock=SteadyClock(lambda: datetime.now(UTC), time.monotonic),
        random_bytes=secrets.token_bytes,
        limits=limits,
        template=template,
    )


if __name__ == "__main__":
    sys.exit(main())
