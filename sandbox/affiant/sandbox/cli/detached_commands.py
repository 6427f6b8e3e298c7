"""``affiant session create``, ``exec``, ``logs`` and ``stop``: sessions that outlive the command that created them.

Exit codes of ``exec`` are those of ``affiant run``: the command's own; 125 affiant reported an error; 126, 127 the
command cannot be run, was not found; 128 + n signal n ended it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from affiant.command_line import print_json, printable, show_error
from affiant.errors import AffiantError
from affiant.sandbox.cli.commands import require_compatible, run, session_request, store_key, variables
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.cli.session_options import home_option, json_option, session_argument
from affiant.sandbox.detached.client import DetachedSession, KeptPiece
from affiant.sandbox.detached.host import StartingHost, ended_early, start_host
from affiant.sandbox.detached.kept_output import Kept, incomplete, read_kept
from affiant.sandbox.detached.names import require_name
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.session.foreground_command import EXIT_OURS, open_standard_streams
from affiant.sandbox.session.run_report import ARCHIVED, Detail, RunReport
from affiant.sandbox.session.session import Running
from affiant.sandbox.session.terminal_output import safely_shown
from affiant.sandbox.session_state.session_folder import ARCHIVE
from affiant.sandbox.session_state.session_listing import find_session
from affiant.sandbox.supervisor.launch.control import sent_error

__all__ = ["create", "execute", "forward_signals", "logs", "stop", "words"]

_NOT_OF_CREATE = frozenset({"bundle", "command", "env", "timeout", "json_path", "raw", "verbose"})
"""Parameters of `affiant run` that are about its command, or that a session host has no use for."""
_DEFAULT_TTL_S = 900
_MAX_TTL_S = 30 * 86_400


def _created(**given: Any) -> None:
    name, key, ttl = given.pop("name"), given.pop("idempotency_key"), given.pop("ttl")
    as_json, quiet = given.pop("as_json"), given.pop("quiet")
    opened = open_home(given["home"])
    tell_leftovers(opened)
    passphrase = given.pop("secret_passphrase_file")
    del given["home"]
    files = {"--decisions": given["decisions"], "--output-diff": given["output_diff"]}
    require_compatible(quiet=quiet, verbose=False, files=files)
    asked = session_request(**given)
    request = replace(
        asked,
        name=None if name is None else require_name(name),
        key=key,
        store_key=store_key(asked, opened.path, passphrase),
    )
    detail = Detail.QUIET if quiet else Detail.STEPS if sys.stderr.isatty() else Detail.SUMMARY
    host = start_host(opened, request, ttl_s=ttl)
    with host.stream:
        ready = _until_ready(host, RunReport(detail))
    if as_json:
        print_json({**ready, "name": name})
    else:
        click.echo(name or str(ready["session"]))


def _until_ready(host: StartingHost, report: RunReport) -> Mapping[str, object]:
    """Show what the host reports, until the session is ready.

    Raises:
        AffiantError: why it is not.
    """
    try:
        for event in host.lines():
            members = {name: value for name, value in event.items() if name != "event"}
            match event["event"]:
                case "step":
                    report.step(
                        str(event["step"]), event["detail"] if isinstance(event["detail"], dict) else {}
                    )
                case "refused":
                    raise sent_error(members)
                case "ready":
                    return members
    except KeyboardInterrupt:
        host.interrupt()
        host.stream.read()  # until what was started is undone
        raise
    raise ended_early()


create = click.Command(
    "create",
    callback=_created,
    params=[
        click.Option(["--name"], help="Name of the session, unique among running sessions. Default: its id."),
        click.Option(
            ["--ttl"],
            type=click.IntRange(1, _MAX_TTL_S),
            default=_DEFAULT_TTL_S,
            show_default=True,
            metavar="SECONDS",
            help="Seconds after which the session is closed.",
        ),
        click.Option(
            ["--idempotency-key"],
            metavar="KEY",
            help="Where a session of this key runs (under --name, if that is given), print that one and create none.",
        ),
        *(param for param in run.params if param.name not in _NOT_OF_CREATE),
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON document."),
    ],
    help="""Create a session that runs until it is stopped, or its --ttl is over, and print its name.

    A process of its own holds it: the terminal may be closed. `affiant session exec NAME COMMAND` runs commands
    in it, any number, also at once. Everything has its receipt, in one bundle, when the session is closed.

    \b
    Examples:
      affiant session create --name build --profile profiles.yaml --agent code_implementer --input .
      affiant session exec build make test
      affiant session stop build

    \b
    Exit codes: 0 created, 1 error, 2 usage.
    """,
)


@click.command("exec", context_settings={"allow_interspersed_args": False})
@home_option
@click.option(
    "--detach", is_flag=True, help="Print the command's number and leave it running; its output is kept."
)
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the command.")
@click.option("--cwd", metavar="PATH", help="Working directory in the sandbox. Default: where the input is.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Time limit of the command, in seconds."
)
@click.option("--raw", is_flag=True, help="On a terminal, pass the command's control characters on.")
@session_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(
    *,
    home: Path,
    detach: bool,
    env: tuple[str, ...],
    cwd: str | None,
    timeout: float | None,
    raw: bool,
    name: str,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in a SESSION that was created with `affiant session create`.

    Its input, output and exit code are the command's own. Ctrl-C, SIGTERM and SIGHUP reach the command; a second one
    kills it. A command ends with this process; one with --detach does not.

    \b
    Examples:
      affiant session exec build make test
      affiant session exec --detach build python3 server.py
      affiant session exec build sh -c 'cat > notes.txt' < notes.txt

    \b
    Exit codes: the command's own; 125 error, 126 the command cannot be run, 127 it was not found, 128 + n signal n.
    """
    command = words(command)
    open_standard_streams()
    try:
        session = DetachedSession.connect(name, home=home)
        given = variables("--env", env)
        if detach:
            number = asyncio.run(session.detach(command, env=given, cwd=cwd, timeout_s=timeout))
            click.echo(number)
            return
        code = asyncio.run(_foreground(session, command, given, cwd, timeout, raw=raw))
    except AffiantError as error:
        show_error(error)
        raise click.exceptions.Exit(EXIT_OURS) from error
    raise click.exceptions.Exit(code)


def words(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command without a ``--`` before it.

    Raises:
        click.UsageError: it begins with an option, or there is none.
    """
    rest = command[1:] if command[0] == "--" else command
    if not rest or (rest == command and command[0].startswith("-")):
        raise click.UsageError(f"{command[0]!r} is no command. Options come before the session.")
    return rest


async def _foreground(
    session: DetachedSession,
    command: tuple[str, ...],
    env: Mapping[str, str],
    cwd: str | None,
    timeout_s: float | None,
    *,
    raw: bool,
) -> int:
    async with safely_shown(1, 2, raw=raw) as (stdout, stderr):
        streams = {"stdin": 0, "stdout": stdout, "stderr": stderr}
        async with session.begin(command, streams, env=env, cwd=cwd) as running:
            forward_signals(running)
            result = await running.wait(timeout_s)
    if result.timed_out:
        click.echo(f"affiant: --timeout: the command was ended after {timeout_s:g} s", err=True)
    return result.exit_code


def forward_signals(running: Running, first: signal.Signals | None = None) -> None:
    """The first signal is the command's, as ``first`` where that is given; the second kills it."""
    loop, told, count = asyncio.get_running_loop(), set[asyncio.Task[None]](), [0]

    def arrived(number: signal.Signals) -> None:
        count[0] += 1
        task = loop.create_task(running.signal((first or number) if count[0] == 1 else signal.SIGKILL))
        told.add(task)
        task.add_done_callback(told.discard)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, arrived, number)


@click.command()
@home_option
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Follow the output until the command ends, and exit with its exit code.",
)
@click.option("--raw", is_flag=True, help="On a terminal, pass the command's control characters on.")
@session_argument
@click.argument("number", type=click.IntRange(min=1))
def logs(*, home: Path, follow: bool, raw: bool, name: str, number: int) -> None:
    """Print what command NUMBER of a SESSION wrote, if it was started with --detach.

    The last 4 MiB of its standard output and of its standard error are kept, also when the session has ended, until
    `affiant session prune` or `rm`. Without --follow, what the command writes after this call is not printed.

    \b
    Examples:
      affiant session logs build 3
      affiant session logs -f build 3

    \b
    Exit codes: 0 printed, 1 error, 2 usage; with -f the command's own.
    """
    opened = open_home(home)
    try:
        session = DetachedSession.connect(name, home=home)
    except AffiantError:
        kept: Kept = read_kept(opened, find_session(opened, name).note.session, number)
        code = asyncio.run(_shown(lambda streams: _whole(kept, streams), raw=raw))
    else:
        code = asyncio.run(
            _shown(lambda streams: _followed(session, number, streams, follow=follow), raw=raw)
        )
    if follow:
        raise click.exceptions.Exit(EXIT_OURS if code is None else code)


_Printed = tuple[int | None, str | None]
"""A command's exit code, and why its output is not whole; None: it is not known, and it is."""


async def _shown(print_to: Callable[[Sequence[int]], Awaitable[_Printed]], *, raw: bool) -> int | None:
    """Print kept output, which is the agent's, as the output of a command that runs; the command's exit code."""
    async with safely_shown(1, 2, raw=raw) as streams:
        code, not_whole = await print_to(streams)
    if not_whole is not None:
        click.echo(f"affiant: {printable(not_whole)}", err=True)
    return code


async def _whole(kept: Kept, streams: Sequence[int]) -> _Printed:
    _print(streams, kept.stdout, kept.stderr)
    code = None if kept.facts is None else kept.facts.get("code")
    return code if isinstance(code, int) else None, kept.incomplete


async def _followed(
    session: DetachedSession, number: int, streams: Sequence[int], *, follow: bool
) -> _Printed:
    at, missing, end = (0, 0), 0, None
    while True:
        piece: KeptPiece = await session.kept(number, at, wait=follow)
        _print(streams, piece.stdout, piece.stderr)
        missing, at, end = missing + piece.missing, piece.at, end or piece.end
        nothing = not piece.stdout and not piece.stderr
        printed = not follow and (end is None or (at[0] >= end[0] and at[1] >= end[1]))
        if printed or (nothing and piece.ended):
            return piece.exit_code, incomplete(missing, piece.failed)


def _print(streams: Sequence[int], *pieces: bytes) -> None:
    for descriptor, data in zip(streams, pieces, strict=True):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]


@click.command()
@home_option
@session_argument
@json_option
def stop(*, home: Path, name: str, as_json: bool) -> None:
    """Close a SESSION that was created with `affiant session create`, and say where its receipts are.

    Commands that run are killed; the session is then closed as `killed`.

    \b
    Examples:
      affiant session stop build

    \b
    Exit codes: 0 closed, 1 error, 2 usage.
    """
    session = DetachedSession.connect(name, home=home)
    bundle = asyncio.run(session.close())
    archive = bundle.name == ARCHIVE
    if archive:
        click.echo(f"affiant: {ARCHIVED}", err=True)
    if as_json:
        print_json({"session": session.id, "bundle": str(bundle), "archive": archive})
    else:
        click.echo(f"receipts in {bundle}")
