"""``affiant session shell``: an interactive terminal in a session that runs.

The command gets a terminal of its own, which the supervisor keeps, and never this one. This one is raw meanwhile: each
key goes to the command's terminal, whose line discipline makes a signal of Ctrl-C. What the command writes is shown as
it is, since an editor or a shell needs control characters.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import tty
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from affiant.command_line import show_error
from affiant.errors import AffiantError, ConfigurationError
from affiant.sandbox.cli.commands import variables
from affiant.sandbox.cli.detached_commands import forward_signals, words
from affiant.sandbox.cli.session_options import home_option, session_argument
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.session.foreground_command import EXIT_OURS, open_standard_streams
from affiant.sandbox.session.session import Running
from affiant.sandbox.supervisor.launch.user_streams import MOST_CELLS

__all__ = ["shell"]

_SHELL = ("/bin/sh", "-c", "command -v bash > /dev/null && exec bash; exec sh")
_SIZE = (24, 80)


@click.command(context_settings={"allow_interspersed_args": False})
@home_option
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the command.")
@click.option("--cwd", metavar="PATH", help="Working directory in the sandbox. Default: where the input is.")
@session_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(*, home: Path, env: tuple[str, ...], cwd: str | None, name: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on a terminal in a SESSION that was created with `affiant session create`. Default: a shell.

    Every key goes to the command, Ctrl-C too. The command's terminal has the size of this one. What the command writes
    is passed on with its control characters: use `exec` for programs that you do not trust with your terminal.

    \b
    Examples:
      affiant session shell build
      affiant session shell build -- python3
      affiant session shell --cwd /workspace/src build

    \b
    Exit codes: the command's own; 125 error, 126 the command cannot be run, 127 it was not found, 128 + n signal n.
    """
    argv = words(command) if command else _SHELL
    open_standard_streams()
    try:
        if not os.isatty(0):
            raise ConfigurationError(
                "standard input is no terminal",
                hint=f"Without one, use: affiant session exec {name} COMMAND",
                code="session.no_terminal",
            )
        session = DetachedSession.connect(name, home=home)
        given = {"TERM": os.environ.get("TERM", "xterm"), **variables("--env", env)}
        with _raw(0):
            code = asyncio.run(_interactive(session, argv, given, cwd))
    except AffiantError as error:
        show_error(error)
        raise click.exceptions.Exit(EXIT_OURS) from error
    raise click.exceptions.Exit(code)


@contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """The terminal passes every key on, for the length of the block, and is as before when it ends."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)
        yield
    finally:
        with suppress(termios.error):  # it was hung up
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def _interactive(
    session: DetachedSession, argv: tuple[str, ...], env: Mapping[str, str], cwd: str | None
) -> int:
    streams = {"stdin": 0, "stdout": 1, "stderr": 1}
    async with session.begin(argv, streams, env=env, cwd=cwd, terminal=_size()) as running:
        forward_signals(running, signal.SIGHUP)  # a shell ignores SIGTERM
        resizing = _follow_size(running)
        try:
            return (await running.wait()).exit_code
        finally:
            for task in resizing:
                task.cancel()


def _size() -> tuple[int, int]:
    """Rows and columns of this terminal, as far as a command's can have them; of one that has none, 24 and 80."""
    columns, rows = os.get_terminal_size(0)
    return (min(rows, MOST_CELLS), min(columns, MOST_CELLS)) if rows and columns else _SIZE


def _follow_size(running: Running) -> set[asyncio.Task[None]]:
    """Resize the command's terminal with this one; what is under way."""
    loop, telling = asyncio.get_running_loop(), set[asyncio.Task[None]]()

    def changed() -> None:
        task = loop.create_task(running.resize(*_size()))
        telling.add(task)
        task.add_done_callback(telling.discard)

    loop.add_signal_handler(signal.SIGWINCH, changed)
    return telling
