"""``affiant session rm`` and ``prune``: what ended sessions have left goes; the only copy of a record never does."""

from __future__ import annotations

import filecmp
import os
import time
from pathlib import Path
from typing import Final

import click

from affiant.command_line import print_json
from affiant.errors import StateError
from affiant.files import sync_folder
from affiant.sandbox.base.errors import OutputPlaceError
from affiant.sandbox.base.user_files import copy_user_file
from affiant.sandbox.cli.interrupted_sessions import tell_leftovers
from affiant.sandbox.cli.session_options import home_option, json_option, session_argument
from affiant.sandbox.detached.kept_output import output_folder, remove_output
from affiant.sandbox.detached.removal import remove_ended
from affiant.sandbox.processes.home import Home, lock, open_home
from affiant.sandbox.session_state.session_folder import SEALED
from affiant.sandbox.session_state.session_listing import SessionEntry, list_sessions
from affiant.sandbox.session_state.shared_input import input_store

__all__ = ["prune", "remove"]

_DAY_S: Final = 86_400


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
    Exit codes: 0 removed, 1 error, 2 usage.
    """
    opened = open_home(home)
    tell_leftovers(opened)

    def require_copy(entry: SessionEntry) -> None:
        assert entry.bundle is not None  # what has none is not removed
        _copied_to(bundle, entry.bundle, opened)

    session, freed = remove_ended(opened, name, require_copy)
    if as_json:
        print_json({"session": session, "bundle": str(bundle), "freed": freed})
    else:
        click.echo(f"removed {session}; its receipts are in {bundle}")


def _copied_to(path: Path, receipts: Path, home: Home) -> None:
    """Have the receipts at ``path``, durably, where no session's removal takes them.

    Raises:
        ``session.only_copy``: something else exists at that path, or it goes with this session or another one.
    """
    for folder in (home.sessions, home.path / "output"):
        if path.resolve().is_relative_to(folder.resolve()):
            raise StateError(
                "--bundle is inside a session's folder, which would be removed",
                where=str(path),
                code="session.only_copy",
            )
    if not path.exists():
        copy_user_file(receipts, path, mode=0o600)
    elif not path.is_file() or not filecmp.cmp(
        path, receipts, shallow=False
    ):  # a pipe has no end, and keeps nothing
        raise StateError(
            "another file exists at that path",
            where=str(path),
            expected="this session's receipts",
            code="session.only_copy",
        )
    try:
        _make_durable(path)
    except OSError as error:
        raise OutputPlaceError(
            "the copy cannot be made durable", where=str(path), found=error.strerror
        ) from error


def _make_durable(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(path.absolute().parent)


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
    bundles that are there opened. Stored inputs that no session uses go as well.

    Bundles, journals of records and files of an agent that were kept stay; `affiant session rm` removes a session.

    \b
    Examples:
      affiant session prune --dry-run
      affiant session prune --older-than 0

    \b
    Exit codes: 0 done, 1 error, 2 usage.
    """
    opened = open_home(home)
    tell_leftovers(opened)
    before = time.time() - older_than * _DAY_S
    with lock(opened.path / "reap.lock"):
        ended = [entry for entry in list_sessions(opened) if _has_ended(entry, before)]
        freed = {entry.note.session: _pruned(opened, entry, dry_run=dry_run) for entry in ended}
    try:
        inputs = input_store(opened).prune(before, dry_run=dry_run)
    except TimeoutError as error:
        raise StateError(
            "another process holds the stored inputs",
            where=str(input_store(opened).folder),
            hint="Sessions and their receipts are pruned. Run the command again for the stored inputs",
            code="store.locked",
        ) from error
    found = {session: size for session, size in freed.items() if size}
    if as_json:
        print_json(
            {"sessions": found, "bytes": sum(found.values()), "inputs": inputs, "removed": not dry_run}
        )
    else:
        would = "would free" if dry_run else "freed"
        click.echo(f"{would} {sum(found.values())} bytes of {len(found)} sessions")
        if inputs:
            click.echo(f"{would} {inputs} bytes of stored inputs")


def _has_ended(entry: SessionEntry, before: float) -> bool:
    return entry.note.state.in_order and entry.note.ended is not None and entry.note.ended <= before


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
