"""``affiant session cp`` and ``top``: files and use of the sessions that run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from affiant.command_line import print_json, printable
from affiant.errors import AffiantError
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.cli.session_options import home_option, json_option, print_table
from affiant.sandbox.detached.client import DetachedSession
from affiant.sandbox.processes.home import open_home
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session_acts.sandbox_files import Moved
from affiant.sandbox.session_state.session_folder import HOST_SOCKET
from affiant.sandbox.session_state.session_listing import list_sessions

__all__ = ["copy", "top"]

_MIB = 1 << 20
_ANSWERS_WITHIN_S = 10.0
"""A session host that is stopped does not answer."""


@click.command("cp")
@home_option
@click.argument("source")
@click.argument("target")
@json_option
def copy(*, home: Path, source: str, target: str, as_json: bool) -> None:
    """Copy a file or folder into a session that runs, or out of it: write the sandbox side as SESSION:PATH.

    The call acts as the agent, below the paths of its profile alone. A folder's content is copied to the target; files
    there are replaced, nothing else is removed. A file that is copied out to a local folder keeps its name in it. The
    call has its receipt, with the digest that is printed.

    \b
    Examples:
      affiant session cp src build:/workspace/src
      affiant session cp build:/workspace/report.txt report.txt

    \b
    Exit codes: 0 copied, 1 error, 2 usage.
    """
    to, into = _remote(target)
    of, out_of = _remote(source)
    if (to is None) == (of is None):
        raise click.UsageError(
            "One of SOURCE and TARGET is SESSION:PATH, with an absolute path; the other is local."
        )
    session = DetachedSession.connect(str(to or of), home=home)
    moved = asyncio.run(
        _moved(session, source, into) if to is not None else _moved(session, out_of, target, out=True)
    )
    left_out = len(moved.left_out)
    if as_json:
        counted = {"digest": moved.digest, "files": moved.files, "length": moved.length, "left_out": left_out}
        print_json({"session": session.id, **counted})
        return
    more = f", {left_out} entries left out" if left_out else ""
    click.echo(f"{moved.files} files, {moved.length} bytes, {moved.digest}{more}")


async def _moved(session: DetachedSession, source: str, target: str, *, out: bool = False) -> Moved:
    files = (await session.opened()).files
    return await (files.download(source, target) if out else files.upload(source, target))


def _remote(place: str) -> tuple[str | None, str]:
    """The session and the path inside that ``place`` names; None: it is a local path."""
    name, mark, path = place.partition(":")
    return (name, path) if mark and path.startswith("/") and "/" not in name else (None, "")


@click.command("top")
@home_option
@json_option
def top(*, home: Path, as_json: bool) -> None:
    """Show what each session that was created with `affiant session create` uses now.

    Memory and files are those of the agent's sandbox; the processor time is that of commands that have ended.

    \b
    Examples:
      affiant session top
      affiant session top --json

    \b
    Exit codes: 0 shown, 1 error, 2 usage.
    """
    opened = open_home(home)
    tell_leftovers(opened)
    running = [
        entry.note.session for entry in list_sessions(opened) if entry.note.state is SessionState.RUNNING
    ]
    held = [name for name in running if (opened.session(name) / HOST_SOCKET).exists()]
    found = asyncio.run(_metrics(home, held))
    if as_json:
        print_json({"sessions": found})
        return
    columns = ("NAME", "SESSION", "MEMORY", "FILES", "RUNNING", "ENDED", "CPU")
    print_table([columns, *(_row(each) for each in found)])


async def _metrics(home: Path, sessions: Sequence[str]) -> list[Mapping[str, object]]:
    """What each uses; one that does not say, or not in time, is named on standard error."""
    found = await asyncio.gather(*(_metrics_of(home, name) for name in sessions))
    return [each for each in found if each is not None]


async def _metrics_of(home: Path, name: str) -> Mapping[str, object] | None:
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            session = await DetachedSession.connect(name, home=home).opened()
            metrics = (await session.metrics()).to_json()
    except AffiantError as error:
        why = str(error)
    except TimeoutError:
        why = f"no answer within {_ANSWERS_WITHIN_S:g} s"
    else:
        return {"session": name, "name": session.info().get("name"), **metrics}
    click.echo(f"affiant: session {name}: {printable(why)}", err=True)
    return None


def _row(each: Mapping[str, object]) -> tuple[str, ...]:
    def mebibytes(name: str) -> str:
        value = each[name]
        return f"{value / _MIB:.1f} MiB" if isinstance(value, int) else "-"

    processor = each["processor_us"]
    return (
        printable(str(each["name"] or "-")),
        str(each["session"]),
        mebibytes("memory_bytes"),
        mebibytes("files_bytes"),
        str(each["commands_running"]),
        str(each["commands_ended"]),
        f"{processor / 1e6:.2f} s" if isinstance(processor, int) else "-",
    )
