"""From a plan to an admitted supervisor, and back: every resource of a session in the order of making.

1. a launch record, so that whatever follows can be ended by another command;
2. platform and gateway, those that run or new ones;
3. the session's folder, with copies of the input and the image, given to the supervisor's user;
4. manifest, activation, and a TD whose MRCONFIGID is the manifest's;
5. the supervisor, which gets everything else and answers when the gateway has admitted it.

Leaving undoes them in reverse. The copies of the agent's files are removed with the session; records, bundle and a
note of the session stay. A start that is interrupted (its task is cancelled) ends within two seconds: before the
gateway was asked for admission there is no session; after that the supervisor closes it, and its receipts are gathered.
Only a gateway that is slow to close it makes that longer, by at most six seconds; then the session is lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.manifest import mrconfigid
from affiant.errors import ConfigurationError, UnreachableError
from affiant.policy.decision_log.rotation import Rotation, open_rotated
from affiant.sandbox.base.descriptors import descriptor_from_thread
from affiant.sandbox.base.privileges import SUPERVISOR_USER, Owner, is_root
from affiant.sandbox.base.threads import Proceed, abandonable, stoppable
from affiant.sandbox.isolation.backends.backend import file_owner
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.isolation.runner.reconcile import reap_leftovers as reap_isolation
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.provisioner import Image
from affiant.sandbox.processes.services import Services, ensure_services
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, read_note, write_note
from affiant.sandbox.session.binding import bind_session, provision
from affiant.sandbox.session.private_paths import private_inodes
from affiant.sandbox.session.session_plan import SessionPlan
from affiant.sandbox.session.supervisor_link import Progress, SupervisorLink, start_supervisor
from affiant.sandbox.session_state.recovery import gather_now
from affiant.sandbox.session_state.session_folder import BASE, RECORDS, SEALED, reclaim_folder, settle_files
from affiant.sandbox.session_state.shared_input import can_share, input_store, release_input, show_shared
from affiant.sandbox.supervisor.launch.lifecycle import note_killed
from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.git_commit import copy_commit, resolve_commit
from affiant.sandbox.workspace.image import IMAGE_LIMITS, unpack_image
from affiant.sandbox.workspace.input_store import commit_key
from affiant.sandbox.workspace.tree import tree_digest
from affiant.sandbox.workspace.walk import WHOLE, Limits, read_tree

__all__ = ["LaunchedSession", "launched"]

Step = tuple[str, Mapping[str, object]]
"""A step of the start, and what is known about it."""

_ADMITTED_WITHIN_S: Final = 60.0
_GATHERED_WITHIN_S: Final = 1.0
_PLATFORMS: Final = {
    PlatformName.SIMULATED: "SIMULATED platform",
    PlatformName.TDX: "the TDX guest that this is",
}


@dataclass(frozen=True, slots=True)
class LaunchedSession:
    """A session whose supervisor was admitted."""

    home: Home
    plan: SessionPlan
    copied: Copied | None
    launch: Launch
    link: SupervisorLink
    facts: Mapping[str, object]
    """What the supervisor said when it was ready."""


@asynccontextmanager
async def launched(
    home: Home, plan: SessionPlan, progress: Progress, *, random_bytes: Callable[[int], bytes], echo: bool
) -> AsyncIterator[LaunchedSession]:
    """Launch ``plan`` for the length of the block.

    Args:
        random_bytes: for the activation's salts and challenge.
        echo: show what the processes behind the session write.

    Raises:
        AffiantError: the step that could not be made; everything before it has been undone.
    """
    async with AsyncExitStack() as stack:
        _make_output(plan.request.output)
        _make_output(None if plan.request.output_diff is None else plan.request.output_diff.absolute().parent)
        decisions = _open_decisions(plan.request.decisions, stack)
        launch = _record_launch(home, plan, stack)
        progress("services" if is_root() else "services-one-user", {})
        services = await ensure_services(
            home,
            plan.request.gateway,
            platform=plan.request.platform,
            now=datetime.now(UTC),
            random_bytes=random_bytes,
            template=plan.request.hosted,  # a session that outlives its command is seldom the only one
            echo=echo,
        )
        stack.push_async_exit(_leaving(services))
        stack.callback(launch.remove, home)  # before leaving the services: the last launcher waits for them
        progress(
            "services-ready",
            {
                "platform": _PLATFORMS[services.provisioner.platform],
                "gateway": services.gateway_url,
                "started": list(services.started),
            },
        )
        progress("witnesses", {"text": _witnesses(services.gateway_config)})
        stack.callback(_settle_files, home, launch, progress)
        stack.push_async_exit(_settling(home, launch, progress))
        stack.callback(reap_isolation, home.sessions)  # a supervisor that was killed has not done it
        copied, lines = await stoppable(lambda proceed: _fill_folder(home, plan, proceed))
        for step, detail in lines:
            progress(step, detail)
        bindings = await bind_session(home, plan, services, copied, random_bytes=random_bytes)
        td = await descriptor_from_thread(
            lambda: services.provisioner.create_td(
                image=Image.SESSION, mrconfigid=mrconfigid(bindings.manifest)
            )
        )
        link = await start_supervisor(home, plan, progress, td=td, membership=services.membership, echo=echo)
        stack.push_async_callback(link.stop)
        launch.add(home, link.pid)
        try:
            await provision(link, home, plan, services, bindings, decisions=decisions)
            async with asyncio.timeout(_ADMITTED_WITHIN_S):
                facts = await link.expect({"ready"})
        except TimeoutError as error:
            await link.end_opening()
            raise UnreachableError(
                f"the session was not admitted within {_ADMITTED_WITHIN_S:g} s", code="service.silent"
            ) from error
        except asyncio.CancelledError:
            await link.end_opening()
            raise
        progress("ready", facts)
        yield LaunchedSession(home, plan, copied, launch, link, facts)


def _settle_files(home: Home, launch: Launch, progress: Progress) -> None:
    """Remove the agent's files or keep them; what cannot be kept is not removed, and the next command tries again."""
    try:
        if not settle_files(home, launch):
            return
        text = (
            "what the agent left was not copied, and is kept. "
            f"Take it with: affiant session recover {launch.session} --output DIR"
        )
    except OSError as error:
        with suppress(OSError):  # then the record stays as it is, and counts once this process has ended
            launch.abandon(home)
        text = (
            f"the files of session {launch.session} cannot be kept ({error.strerror}), and were not removed. "
            "The next affiant command tries again"
        )
    progress("files-left", {"text": text})


def _make_output(path: Path | None) -> None:
    """Make the output's folder now: what could not be written should not be found out after the work is done."""
    if path is not None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                "the output cannot be made", where=str(path), found=error.strerror, code="session.input"
            ) from error


def _open_decisions(path: Path | None, stack: AsyncExitStack) -> int | None:
    """The descriptor of the decision log, before anything is started that would have to be undone."""
    if path is None:
        return None
    descriptor = open_rotated(path, Rotation())
    stack.callback(os.close, descriptor)
    return descriptor


def _record_launch(home: Home, plan: SessionPlan, stack: AsyncExitStack) -> Launch:
    launcher = ProcessName.of(os.getpid())
    assert launcher is not None
    launch = Launch(plan.session, launcher, asked=_asked(plan))
    launch.write(home)
    stack.callback(launch.remove, home)
    return launch


def _leaving(services: Services) -> Callable[..., Awaitable[bool]]:
    """Leave the services; shortly, if the start was interrupted."""

    async def leave(kind: type[BaseException] | None, *_: object) -> bool:
        await services.leave(interrupted=kind is asyncio.CancelledError)
        return False

    return leave


def _settling(home: Home, launch: Launch, progress: Progress) -> Callable[..., Awaitable[bool]]:
    """Settle a session that was never opened; shortly, if the start was interrupted."""

    async def settle(kind: type[BaseException] | None, *_: object) -> bool:
        within_s = _GATHERED_WITHIN_S if kind is asyncio.CancelledError else None
        await _settle_unopened(home, launch, progress, within_s=within_s)
        return False

    return settle


async def _settle_unopened(home: Home, launch: Launch, progress: Progress, *, within_s: float | None) -> None:
    """Gather the receipts of a session that signed records and was never handed to its caller, and leave a note.

    Args:
        within_s: so long a gateway is asked for them that the supervisor did not leave; None: as long as it takes.
    """
    folder = home.session(launch.session)
    if not (folder / RECORDS).exists():
        return
    reclaim_folder(folder)
    if read_note(folder) is not None:
        return
    gathered = None
    with suppress(TimeoutError):
        async with asyncio.timeout(None if (folder / SEALED).exists() else within_s):
            gathered = await abandonable(lambda: gather_now(home, launch.session))
    closed, now = gathered is not None and gathered.in_order, datetime.now(UTC)
    note_killed(folder, at=now)
    note = SessionNote(
        session=launch.session,
        state=SessionState.CLOSED if closed else SessionState.LOST,
        asked=launch.asked,
        ended=int(now.timestamp()),
    )
    write_note(home, note)
    if gathered is not None:
        progress("bundled", {"path": str(gathered.path)})
    if not closed:
        progress("lost", {"session": launch.session})


def _asked(plan: SessionPlan) -> Asked:
    request, place = plan.request, plan.place
    results = (request.output, request.output_diff)
    output = next((_text(path.absolute()) for path in results if path is not None), request.output_branch)
    return Asked(
        agent=request.agent,
        profile=_text(request.profile),
        started=int(datetime.now(UTC).timestamp()),
        gateway=request.gateway.url,
        output=output,
        source=None if place is None else plan.sandbox.source_of(place),
        exclude=() if place is None else plan.sandbox.carved_out(place),
        name=request.name,
        key=request.key,
        owner=request.owner,
        file=plan.file_digest,
    )


def _witnesses(config: GatewayConfig) -> str:
    """Who cosigns the gateway's log, and what that is worth; for a person."""
    if config.witness_policy is None:
        return "none (warning: only the gateway sees its log)"
    if config.asks_own_witness:
        return "self (warning: only this machine witnessed the log; that catches accidents, not tampering by its owner)"
    return ", ".join(config.witness_policy.witnesses)


def _text(path: Path) -> str:
    """A path as text: names that are none of it are shown, not kept."""
    return os.fsencode(path).decode("utf-8", "replace")


def _fill_folder(home: Home, plan: SessionPlan, proceed: Proceed) -> tuple[Copied | None, Sequence[Step]]:
    """Make the session's folder, with the input in its place; what was done, step by step."""
    folder = home.session(plan.session)
    folder.mkdir(mode=0o700)
    copied, steps = None, list[Step]()
    if plan.request.input is not None and plan.place is not None:
        copied = _fill_input(home, plan, plan.request.input, plan.place, replace(WHOLE, proceed=proceed))
        steps.append(
            ("input", {"digest": copied.digest, "entries": len(copied.entries), "commit": copied.commit})
        )
    if plan.image is not None and plan.rootfs is not None:
        digest = unpack_image(plan.image, plan.rootfs, limits=replace(IMAGE_LIMITS, proceed=proceed))
        steps.append(("rootfs", {"digest": digest}))
    if is_root():
        os.chown(folder, SUPERVISOR_USER, SUPERVISOR_USER)
    return copied, steps


def _fill_input(home: Home, plan: SessionPlan, source: Path, place: str, limits: Limits) -> Copied:
    """The input in the session's folder: shown through an overlay over a stored tree, or copied."""
    folder, inside = home.session(plan.session), plan.sandbox.source_of(place)
    target, reference = folder / inside, plan.request.input_commit
    exclude, private = frozenset(plan.sandbox.carved_out(place)), private_inodes(home, plan.request)
    owner = file_owner(plan.backend, plan.session) if is_root() else None

    def fill(to: Path, commit: str | None) -> Copied:
        if commit is None:
            return copy_in(source, to, limits=limits, exclude=exclude, private=private, owner=owner)
        return copy_commit(source, commit, to, limits=limits, exclude=exclude, owner=owner)[0]

    def shared(owner: Owner) -> Copied:
        store, key, commit = input_store(home), None, None
        if reference is None:
            entries = read_tree(source.resolve(), limits=limits, exclude=exclude, private=private)
            known: str | None = tree_digest(entries)
        else:
            commit, named = resolve_commit(source, reference)
            key = commit_key({"commit": commit, "repository": named, "exclude": sorted(exclude)})
            known = store.known_commit(key)
        copied = store.use(plan.session, known, fill=lambda to: fill(to, commit), limits=limits)
        if key is not None:
            store.note_commit(key, copied.digest)
        show_shared(home, plan.session, inside, owner)
        return replace(copied, commit=commit)

    if plan.backend is BackendName.GVISOR and owner is not None and can_share(home, plan.session):
        with suppress(OSError):  # the store cannot be used: the session gets a copy
            return shared(owner)
    release_input(home, plan.session)
    copied = fill(target, reference)
    if plan.request.output_diff is not None and copied.commit is None:
        (folder / BASE).mkdir(mode=0o700)
        copy_in(target, folder / BASE, limits=limits)
    return copied
