"""``affiant session rm`` and ``prune``: what ended sessions have left goes; the only copy of a record never does."""

from __future__ import annotations

import filecmp
import os
import shutil
import time
from pathlib import Path
from typing import Final

import click

from affiant.command_line import print_json
from affiant.errors import StateError
from affiant.sandbox.base.user_files import copy_user_file
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.cli.session_options import home_option, json_option, session_argument
from affiant.sandbox.detached.kept_output import output_folder, remove_output
from affiant.sandbox.processes.home import Home, lock, open_home
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session_state.session_folder import SEALED
from affiant.sandbox.session_state.session_listing import SessionEntry, find_session, list_sessions

__all__ = ["prune", "remove"]

_DAY_S: Final = 86_400
_IN_ORDER: Final = frozenset({SessionState.CLOSED, SessionState.INTERRUPTED})


@click.command("rm")
@home_option
@session_argument
@click.option(
    "--bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Copy the receipts to this file first. An identical file there is kept.",
)
@json_option
def remove(*, home: Path, name: str, bundle: Path, as_json: bool) -> None:
    """Remove an ended SESSION from the state folder, once its receipts are in another file.

    A session without a signed close is not removed, because its journal may be the only copy of its records:
    `affiant session recover`. Neither is one whose files were kept and not copied out yet.

    \b
    Examples:
      affiant session rm build --bundle build.affiant.json

    \b
    Exit codes: 0 removed, 1 refused, 2 usage.
    """
    opened = open_home(home)
    with lock(opened.path / "reap.lock"):
        entry = find_session(opened, name)
        session = entry.note.session
        _require_whole(entry)
        assert entry.bundle is not None
        _copied_to(bundle, entry.bundle, opened, session)
        freed = remove_output(opened, session)
        shutil.rmtree(opened.session(session))
    if as_json:
        print_json({"session": session, "bundle": str(bundle), "freed": freed})
    else:
        click.echo(f"removed {session}; its receipts are in {bundle}")


def _require_whole(entry: SessionEntry) -> None:
    session = entry.note.session
    if entry.note.state is SessionState.RUNNING:
        raise StateError(
            "the session runs", found=session, hint=f"affiant session stop {session}", code="session.running"
        )
    if entry.bundle is None or entry.note.state not in _IN_ORDER:
        raise StateError(
            "the session's folder may hold the only copy of its records",
            found=entry.note.state.value,
            hint=f"Gather them first: affiant session recover {session} --bundle FILE",
            code="session.only_copy",
        )
    if entry.kept is not None:
        raise StateError(
            "the session's folder holds the only copy of the agent's files",
            where=str(entry.kept),
            hint=f"Copy them first: affiant session recover {session} --output DIR",
            code="session.only_copy",
        )


def _copied_to(path: Path, receipts: Path, home: Home, session: str) -> None:
    """Have the receipts at ``path``, outside of the session's folder.

    Raises:
        ``session.only_copy``: another file exists at that path, or the place goes with the session.
    """
    if path.resolve().is_relative_to(home.session(session).resolve()):
        raise StateError(
            "--bundle is inside the session's folder, which would be removed",
            where=str(path),
            code="session.only_copy",
        )
    if path.exists():
        if filecmp.cmp(path, receipts, shallow=False):
            return
        raise StateError(
            "another file exists at that path",
            where=str(path),
            expected="this session's receipts",
            code="session.only_copy",
        )
    copy_user_file(receipts, path, mode=0o600)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@click.command()
@home_option
@click.option(
    "--older-than",
    type=click.IntRange(min=0),
    default=7,
    show_default=True,
    metavar="DAYS",
    help="Only sessions that ended at least this many days ago.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@json_option
def prune(*, home: Path, older_than: int, dry_run: bool, as_json: bool) -> None:
    """Remove what ended sessions keep besides their receipts: output of detached commands, and the sealed copies of
    bundles that are there opened.

    Bundles, journals of records and files of an agent that were kept stay; `affiant session rm` removes a session.

    \b
    Examples:
      affiant session prune --dry-run
      affiant session prune --older-than 0

    \b
    Exit codes: 0 done, 1 refused, 2 usage.
    """
    opened = open_home(home)
    tell_leftovers(opened)
    before = time.time() - older_than * _DAY_S
    with lock(opened.path / "reap.lock"):
        ended = [entry for entry in list_sessions(opened) if _has_ended(entry, before)]
        freed = {entry.note.session: _pruned(opened, entry, dry_run=dry_run) for entry in ended}
    found = {session: size for session, size in freed.items() if size}
    if as_json:
        print_json({"sessions": found, "bytes": sum(found.values()), "removed": not dry_run})
    else:
        would = "would free" if dry_run else "freed"
        click.echo(f"{would} {sum(found.values())} bytes of {len(found)} sessions")


def _has_ended(entry: SessionEntry, before: float) -> bool:
    return entry.note.state in _IN_ORDER and entry.note.ended is not None and entry.note.ended <= before


def _pruned(home: Home, entry: SessionEntry, *, dry_run: bool) -> int:
    session, size = entry.note.session, 0
    sealed = home.session(session) / SEALED
    if entry.bundle is not None and sealed.is_file():
        size += sealed.stat().st_size
        if not dry_run:
            sealed.unlink()
    folder = output_folder(home, session)
    if folder.is_dir():
        size += sum(path.lstat().st_size for path in folder.iterdir())
        if not dry_run:
            remove_output(home, session)
    return size
