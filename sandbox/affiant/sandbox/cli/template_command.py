"""``affiant session template``: a template process beside services that run by themselves."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import click

from affiant.errors import StateError
from affiant.sandbox.cli.session_options import home_option
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.service_process import ServiceProcess
from affiant.sandbox.processes.template_service import start_template

__all__ = ["template"]

_LOADED_WITHIN_S = 60.0


@click.command()
@home_option
def template(*, home: Path) -> None:
    """Keep a template process, from which sessions fork their programs instead of starting an interpreter for each.

    Run it beside `affiant platform serve` and `affiant gateway serve`, as the same user. It holds no key.
    Sessions that run go on when it ends; new ones then start their programs with an interpreter again.
    `affiant session create` starts one by itself where it starts the services.

    \b
    Examples:
      affiant session template --home /var/lib/affiant

    \b
    Exit codes: 0 ended by SIGTERM or Ctrl-C, 1 the template process could not start or failed, 2 usage.
    """
    started = start_template(open_home(home))
    if started is None:
        raise StateError(
            "a template process serves this state folder already", where=str(home), code="store.locked"
        )
    asyncio.run(_kept(started))


async def _kept(process: ServiceProcess) -> None:
    """Return at a signal.

    Raises:
        ``service.failed``: it ended by itself. ``service.silent``: it was not ready in time.
    """
    enough = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    asked = asyncio.ensure_future(enough.wait())
    try:
        ready = asyncio.ensure_future(process.ready(timeout_s=_LOADED_WITHIN_S))
        await asyncio.wait({asked, ready}, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            ready.result()
            click.echo(f"template process {process.pid} is ready")
            ended = asyncio.ensure_future(process.wait())
            await asyncio.wait({asked, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                raise StateError(
                    "the template process has ended",
                    found=f"exit status {ended.result()}",
                    hint="Start it again. Sessions that run go on",
                    code="service.failed",
                )
        else:
            ready.cancel()
    finally:
        await process.stop()
