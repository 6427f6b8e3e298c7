"""``affiant session pool``: supervisors that wait for sessions of one kind."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from datetime import UTC, datetime
from typing import Any

import click

from affiant.errors import UnreachableError
from affiant.policy.loading.policy_file import policy_owners
from affiant.sandbox.cli.commands import run, session_request
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.detached.supervisor_pool import SupervisorPool, require_poolable
from affiant.sandbox.isolation.backends.backend import probe
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.launch_records import POOLED
from affiant.sandbox.processes.service_process import ServiceProcess
from affiant.sandbox.processes.services import ensure_services
from affiant.sandbox.processes.template_service import start_template, template_listens
from affiant.sandbox.session.session_plan import SessionRequest, plan_session

__all__ = ["pool"]

_OF_SESSION = frozenset(
    {
        *(
            "policy_signature",
            "input_",
            "output",
            "output_diff",
            "output_branch",
            "secret_store",
            "decisions",
        ),
        "task",
    }
)
"""Options of `affiant run` that only a session needs. All others say what its supervisor is started for."""
_OF_COMMAND = frozenset(
    {
        *("command", "env", "timeout", "bundle", "json_path", "raw", "quiet", "verbose"),
        "secret_passphrase_file",
    }
)
_MOST = 64
_LOADED_WITHIN_S = 60.0
_LOOKS_EVERY_S = 0.1


def _pooled(**given: Any) -> None:
    home, size = open_home(given.pop("home")), given.pop("size")
    tell_leftovers(home)
    unasked: dict[str, Any] = {**dict.fromkeys(_OF_SESSION), "task": ()}
    request = session_request(**given, **unasked)
    require_poolable(request)
    asyncio.run(_held(home, request, size))


async def _held(home: Home, request: SessionRequest, size: int) -> None:
    """Hold the pool until SIGTERM or Ctrl-C."""
    enough = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, enough.set)
    plan = plan_session(
        request,
        session=POOLED,
        folder=home.session(POOLED),
        probe=probe,
        owners=policy_owners(os.geteuid(), os.environ),
    )
    services = await ensure_services(
        home,
        request.gateway,
        platform=request.platform,
        now=datetime.now(UTC),
        random_bytes=secrets.token_bytes,
    )
    template: ServiceProcess | None = None
    try:
        require_poolable(request, services)
        template = start_template(home)
        await _until_loaded(home, template)
        holder = SupervisorPool(
            home,
            plan,
            services,
            size=size,
            random_bytes=secrets.token_bytes,
            filled=lambda: click.echo(f"{size} of {size} supervisors wait"),
        )
        await holder.hold(enough)
    finally:
        await services.leave()
        if template is not None:
            await template.stop()


async def _until_loaded(home: Home, template: ServiceProcess | None) -> None:
    """Wait for the template process: ours, or another's that may still load.

    Raises:
        ``service.failed``, ``service.silent``: there will be none.
    """
    if template is not None:
        await template.ready(timeout_s=_LOADED_WITHIN_S)
        return
    try:
        async with asyncio.timeout(_LOADED_WITHIN_S):
            while not template_listens(home):  # noqa: ASYNC110 - a socket sends no event when it begins to listen
                await asyncio.sleep(_LOOKS_EVERY_S)
    except TimeoutError as error:
        raise UnreachableError("the template process does not load", code="service.silent") from error


pool = click.Command(
    "pool",
    callback=_pooled,
    params=[
        click.Option(
            ["--size"],
            type=click.IntRange(1, _MOST),
            default=2,
            show_default=True,
            help="How many supervisors wait.",
        ),
        *(param for param in run.params if param.name not in _OF_SESSION | _OF_COMMAND),
    ],
    help="""Keep supervisors that wait for sessions of one profile, so that these start faster.

    Each has its TD, its key and an appraised gateway, and nothing of a session. `affiant run`, `affiant session
    create` and `Sandbox.create` take one by themselves where profile, gateway, isolation, runtime and state folder
    are the same, and the pool starts another. A supervisor serves one session. It needs root, and holds no secret.

    \b
    Examples:
      affiant session pool --profile profiles.yaml --agent code_implementer --size 4

    \b
    Exit codes: 0 ended by SIGTERM or Ctrl-C, 1 the pool could not be held, 2 usage.
    """,
)
