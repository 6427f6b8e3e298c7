"""``affiant session recover``: a session's receipts and files, once its launcher is gone.

The gateway that had the session is asked first if it runs; otherwise one is started on the same store for as long as
it takes to ask it. A new gateway finds the old one's records in its journal and hands them on as they are: it signs
nothing for them but its own ``gap`` (trust rules, 2). A gateway elsewhere answers only the session's own key, which
died with its supervisor: there its operator has to help, with ``affiant gateway bundle``.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from affiant.attestation.bundle.bundle import MAX_BUNDLE
from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.errors import StateError
from affiant.sandbox.base.errors import GatewayUnreachable, SessionBundleTooLarge
from affiant.sandbox.base.user_files import copy_user_file
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.services import GatewayChoice, ensure_services
from affiant.sandbox.processes.session_note import Asked, SessionState, write_note
from affiant.sandbox.session.private_paths import refuse_private_output
from affiant.sandbox.session_state.bundle_out import SealedBundle, parse_sealed_bundle
from affiant.sandbox.session_state.recovery import Gathered, export_archive, fetch_sealed, gather
from affiant.sandbox.session_state.session_folder import KEPT, remove_kept
from affiant.sandbox.session_state.session_listing import SessionEntry
from affiant.sandbox.session_state.shared_input import changes_of, shown_again
from affiant.sandbox.workspace.copy_out import Taken, copy_out

__all__ = ["Recovered", "recover", "take_files"]

_OPERATOR: Final = (
    "Ask its operator for: affiant gateway bundle {session} > FILE, then give it with --from FILE"
)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was recovered."""

    gathered: Gathered
    taken: Taken | None


def recover(
    home: Home,
    entry: SessionEntry,
    *,
    given: bytes | None,
    bundle: Path | None,
    output: Path | None,
    starting: Callable[[], None],
    most: int = MAX_BUNDLE,
) -> Recovered:
    """Gather the receipts of a session that has ended, and take its files if they were kept.

    Args:
        given: what the gateway's operator gave: a bundle with its sealed openings.
        bundle: where else to write the bundle. output: where to copy the kept files.
        starting: called before services are started.
        most: bytes of a single bundle; receipts that have more become a period archive.

    Raises:
        ``session.running``, ``session.not_gathered``: as named. AffiantError: what it is made of is not of its form.
    """
    session = entry.note.session
    if entry.note.state is SessionState.RUNNING:
        raise StateError(
            "the session runs", where=session, hint="Wait until it has ended", code="session.running"
        )
    if output is not None and entry.kept is None:
        raise StateError("no files were kept of this session", where=session, code="session.not_gathered")
    if output is not None:
        refuse_private_output(home, output)
    key = home.openings_key(random_bytes=secrets.token_bytes)
    try:
        sealed = parse_sealed_bundle(given) if given is not None else _sealed(home, entry, starting, most)
        gathered = gather(home, session, sealed, key)
    except SessionBundleTooLarge as error:
        gathered = export_archive(home, session, error)
    entry = _noted(home, entry, gathered)
    if bundle is not None:
        copy_user_file(gathered.path, bundle, mode=0o600)
    return Recovered(gathered, None if output is None else take_files(home, entry, output))


def _noted(home: Home, entry: SessionEntry, gathered: Gathered) -> SessionEntry:
    """The entry with a note that says what its receipts say: a close that was out of reach before may be there now."""
    state = entry.note.state
    if gathered.in_order and state is SessionState.LOST:
        state = SessionState.CLOSED
    elif not entry.noted:  # one of before there were notes
        state = SessionState.CLOSED if gathered.in_order else SessionState.LOST
    else:
        return entry
    note = replace(entry.note, state=state)
    write_note(home, note)
    return replace(entry, note=note)


def take_files(home: Home, entry: SessionEntry, output: Path) -> Taken:
    """Copy the kept files to ``output`` by the rules of every output, then remove them."""
    session, asked = entry.note.session, entry.note.asked
    with _kept_place(home, session, asked) as place:
        taken = copy_out(place, output, before=(), exclude=frozenset(() if asked is None else asked.exclude))
    remove_kept(home, session)
    write_note(home, replace(entry.note, kept=False))
    return taken


@contextmanager
def _kept_place(home: Home, session: str, asked: Asked | None) -> Iterator[Path]:
    """What was to be copied out: in the folder that it was kept in, or a stored input with the changes to it."""
    changes = changes_of(home, session)
    if changes is not None:
        with ExitStack() as shown:
            try:
                place = shown.enter_context(shown_again(home, session))
            except OSError as error:
                raise StateError(
                    "the input that the kept changes belong to cannot be shown",
                    where=session,
                    found=error.strerror,
                    hint=f"The changes alone are in {changes}",
                    code="session.not_gathered",
                ) from error
            yield place
        return
    kept = home.session(session) / KEPT
    if kept.is_symlink():  # the folder was the supervisor's while the session ran
        raise StateError("what was kept is a link", where=session, code="session.not_gathered")
    below = PurePosixPath("files" if asked is None or asked.source is None else asked.source)
    yield kept / PurePosixPath(*below.parts[1:])


def _sealed(home: Home, entry: SessionEntry, starting: Callable[[], None], most: int) -> SealedBundle:
    session, asked = entry.note.session, entry.note.asked
    try:
        return fetch_sealed(home, session, most=most)
    except GatewayUnreachable as error:
        if asked is not None and asked.gateway is not None:
            raise StateError(
                "this session's gateway is not the state folder's own, and answers only the session",
                where=asked.gateway,
                hint=_OPERATOR.format(session=session),
                code="session.not_gathered",
            ) from error
    starting()
    return asyncio.run(_from_new_gateway(home, session, most))


async def _from_new_gateway(home: Home, session: str, most: int) -> SealedBundle:
    services = await ensure_services(
        home,
        GatewayChoice(),
        platform=PlatformName.SIMULATED,
        now=datetime.now(UTC),
        random_bytes=secrets.token_bytes,
    )
    try:
        return await asyncio.to_thread(fetch_sealed, home, session, most=most)
    except GatewayUnreachable as error:
        raise StateError(
            "no gateway of this state folder has had this session",
            where=session,
            found=error.found,
            hint=_OPERATOR.format(session=session),
            code="session.not_gathered",
        ) from error
    finally:
        await services.leave()
