"""Keeps platform and gateway running for as long as any launcher of this state folder lives.

``python -m affiant.sandbox.processes.service_supervisor --home DIR [--platform] [--gateway] [--template]
[--upstream URL]... --ready-fd N`` starts what is asked for, says so in one JSON line, and then waits for the exclusive
lock on ``launchers.lock``. Every launcher holds that lock shared, so the service supervisor gets it exactly
when the last of them has ended, by whatever death (flock(2)); it then stops what it started and ends.
While it stops them it holds the lock: a launcher that comes
just then waits, finds nothing running and starts afresh.

As long as it lives it holds ``keepers.lock`` shared, with every other service supervisor. A process that gets it
exclusively knows that all have ended.

If the service supervisor itself is killed, what it started gets SIGTERM from the kernel.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from affiant.attestation.log.witness.embedded import own_witness
from affiant.attestation.simulated.served.confinement import PLATFORM_USER
from affiant.errors import AffiantError
from affiant.sandbox.base.exposure import Need
from affiant.sandbox.base.privileges import GATEWAY_USER, is_root
from affiant.sandbox.processes.home import Home, give_folder, lock, open_home, open_lock
from affiant.sandbox.processes.service_process import READY_FD, ServiceProcess, ServiceSpec, start_service
from affiant.sandbox.processes.template_service import start_template

__all__ = [
    "gateway_spec",
    "launchers_lock",
    "main",
    "platform_spec",
    "service_supervisor_spec",
    "service_supervisors_lock",
]


def launchers_lock(home: Home) -> Path:
    """What every launcher holds shared, and a service supervisor waits for."""
    return home.path / "launchers.lock"


def service_supervisors_lock(home: Home) -> Path:
    """What every service supervisor holds shared until it has ended."""
    return home.path / "keepers.lock"


def service_supervisor_spec(
    home: Home, *, platform: bool, gateway: bool, serve: Sequence[str] = (), template: bool = False
) -> ServiceSpec:
    """How a launcher starts the service supervisor. It outlives the launcher if others still need it.

    Args:
        serve: options of ``affiant gateway serve``.
    """
    asked = {"--platform": platform, "--gateway": gateway, "--template": template}
    wanted = [option for option, each in asked.items() if each]
    chosen = [f"--serve={option}" for option in serve]
    return ServiceSpec(
        name="service supervisor",
        argv=(
            "affiant.sandbox.processes.service_supervisor",
            f"--home={home.path}",
            *wanted,
            *chosen,
            "--ready-fd",
            READY_FD,
        ),
        home=home.path,
        own_view=False,
    )


def platform_spec(home: Home) -> ServiceSpec:
    """The simulated platform: its own user, its own folder and nothing else of the state folder."""
    return ServiceSpec(
        name="simulated platform",
        argv=("affiant", "platform", "serve", "--home", str(home.path), "--ready-fd", READY_FD),
        home=home.platform,
        user=PLATFORM_USER,
        needs=(Need(str(home.platform), writable=True),),
        death_signal=signal.SIGTERM,
    )


def gateway_spec(home: Home, *, serve: Sequence[str]) -> ServiceSpec:
    """The gateway. Its launching half keeps our user, for it alone may ask the platform for a TD; the half that
    serves is its child, holds the keys, and gives the user up."""
    read = [path for name, _, path in (option.partition("=") for option in serve) if name == "--upstream-ca"]
    return ServiceSpec(
        name="gateway",
        argv=("affiant", "gateway", "serve", "--home", str(home.path), *serve, "--ready-fd", READY_FD),
        home=home.gateway,
        needs=(
            *(Need(str(folder), writable=True) for folder in (home.gateway, home.witness)),
            *(Need(str(path)) for path in (home.platform, home.secrets, *read)),
        ),
        death_signal=signal.SIGTERM,
    )


async def _start(home: Home, given: argparse.Namespace) -> tuple[list[ServiceProcess], Mapping[str, object]]:
    started: list[ServiceProcess] = []
    facts: dict[str, object] = {}
    try:
        if given.platform:
            if is_root():
                give_folder(home.platform, PLATFORM_USER)
            started.append(start_service(platform_spec(home), echo=True))
            facts["platform"] = json.loads(await started[-1].ready())
        if given.gateway:
            own_witness(
                home.path, random_bytes=os.urandom
            )  # its view of the state folder is of what is there
            if is_root():
                give_folder(home.gateway, GATEWAY_USER)
            started.append(start_service(gateway_spec(home, serve=given.serve), echo=True))
            facts["gateway"] = json.loads(await started[-1].ready())
        if given.template and (template := _template(home)) is not None:
            started.append(template)  # not waited for: until it listens, programs are started without it
    except BaseException:  # whatever went wrong, what was started does not stay; raised again
        await _stop(started)
        raise
    return started, facts


def _template(home: Home) -> ServiceProcess | None:
    """The template process; None: there is one already, or none can be started. Sessions do without it."""
    try:
        return start_template(home)
    except AffiantError as error:
        with suppress(OSError, ValueError):  # our standard error is closed
            sys.stderr.write(f"affiant: sessions start without a template process: {error} [{error.code}]\n")
        return None


async def _stop(started: Sequence[ServiceProcess]) -> None:
    for service in reversed(started):
        await service.stop()


async def _keep(home: Home, given: argparse.Namespace) -> int:
    enough = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    starting = asyncio.ensure_future(_start(home, given))
    stopping = asyncio.ensure_future(enough.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # its launcher was interrupted: what it has started so far ends
        starting.cancel()
        await asyncio.wait({starting})
        return 1
    try:
        started, facts = starting.result()
    except AffiantError as error:
        _say(given.ready_fd, {"refused": error.to_json()})
        return 1
    _say(given.ready_fd, facts)
    _call_when_alone(home, enough.set)
    await enough.wait()
    await _stop(started)
    return 0


def _call_when_alone(home: Home, call: Callable[[], None]) -> None:
    """Have the loop ``call`` once no launcher is left; from then on this process holds the lock until it ends."""
    loop = asyncio.get_running_loop()
    descriptor = open_lock(launchers_lock(home))

    def wait() -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(RuntimeError):  # the loop is closed: a signal was faster
            loop.call_soon_threadsafe(call)

    threading.Thread(target=wait, name="last-launcher", daemon=True).start()


def _say(descriptor: int, facts: Mapping[str, object]) -> None:
    with suppress(BrokenPipeError), open(descriptor, "wb") as ready:  # the launcher may have gone
        ready.write(json.dumps(facts).encode("ascii") + b"\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Start what is asked for, and stay until no launcher needs it."""
    parser = argparse.ArgumentParser(prog="affiant-service-supervisor", allow_abbrev=False)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--platform", action="store_true")
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--template", action="store_true")
    parser.add_argument("--serve", action="append", default=[])
    parser.add_argument("--ready-fd", type=int, required=True)
    given = parser.parse_args(arguments)
    home = open_home(given.home)
    with lock(service_supervisors_lock(home), shared=True):
        return asyncio.run(_keep(home, given))


if __name__ == "__main__":
    sys.exit(main())
