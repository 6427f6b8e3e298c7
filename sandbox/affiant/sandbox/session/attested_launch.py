"""From a plan to an admitted supervisor, and back: every resource of a session in the order of making.

1. a launch record, so that whatever follows can be ended by another command;
2. platform and gateway, those that run or new ones;
3. the manifest, and a supervisor from the pool of exactly this kind, if there is one;
4. the session's folder, with copies of the input and the image, given to the supervisor's user;
5. where no pool has a supervisor: a TD whose MRCONFIGID is the manifest's, and the supervisor in it;
6. the activation, upon which the supervisor answers when the gateway has admitted it.

Leaving undoes them in reverse. The copies of the agent's files are removed with the session; records, bundle and a
note of the session stay. A start that is interrupted (its task is cancelled) ends within two seconds: before the
gateway was asked for admission there is no session; after that the supervisor closes it, and its receipts are gathered.
Only a gateway that is slow to close it makes that longer, by at most six seconds; then the session is lost.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.attestation.statements.gateway_config import GatewayConfig
from affiant.attestation.statements.manifest import mrconfigid
from affiant.errors import AffiantError, ConfigurationError, UnreachableError
from affiant.policy.decision_log.rotation import Rotation, open_rotated
from affiant.sandbox.base.descriptors import descriptor_from_thread
from affiant.sandbox.base.privileges import SUPERVISOR_USER, Owner, is_root
from affiant.sandbox.base.threads import Proceed, abandonable, stoppable
from affiant.sandbox.isolation.backends.backend import file_owner
from affiant.sandbox.isolation.plan.isolation_class import BackendName
from affiant.sandbox.isolation.plan.leftover_record import ProcessName
from affiant.sandbox.isolation.runner.reconcile import reap_leftovers as reap_isolation
from affiant.sandbox.pools.taking import take_pooled
from affiant.sandbox.processes.home import Home
from affiant.sandbox.processes.launch_records import Launch
from affiant.sandbox.processes.provisioner import Image
from affiant.sandbox.processes.services import Services, ensure_services
from affiant.sandbox.processes.session_note import Asked, SessionNote, SessionState, read_note, write_note
from affiant.sandbox.session.binding import (
    SessionBindings,
    TemplateBindings,
    bind_session,
    bind_template,
    kind_of,
    provision,
)
from affiant.sandbox.session.private_paths import private_inodes
from affiant.sandbox.session.session_plan import SessionPlan
from affiant.sandbox.session.supervisor_link import Progress, SupervisorLink, start_supervisor
from affiant.sandbox.session_state.recovery import gather_now
from affiant.sandbox.session_state.session_folder import BASE, RECORDS, SEALED, reclaim_folder, settle_files
from affiant.sandbox.session_state.shared_input import can_share, input_store, release_input, show_shared
from affiant.sandbox.supervisor.launch.lifecycle import STATES, note_killed
from affiant.sandbox.workspace.copy_in import Copied, copy_in
from affiant.sandbox.workspace.git_commit import copy_commit, resolve_commit
from affiant.sandbox.workspace.image import IMAGE_LIMITS, unpack_image
from affiant.sandbox.workspace.input_store import commit_key
from affiant.sandbox.workspace.tree import tree_digest
from affiant.sandbox.workspace.walk import WHOLE, Limits, read_tree

__all__ = ["LaunchedSession", "launched"]

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
    pooled: bool = False
    """Whether the supervisor is from a pool."""


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
        starting = _Starting(home, plan, services, launch, progress, stack, random_bytes, decisions, echo)
        yield await starting.launched()


@dataclass(frozen=True, slots=True)
class _Starting:
    """What steps 3 to 6 need."""

    home: Home
    plan: SessionPlan
    services: Services
    launch: Launch
    progress: Progress
    stack: AsyncExitStack
    random_bytes: Callable[[int], bytes]
    decisions: int | None
    echo: bool

    async def launched(self) -> LaunchedSession:
        home, plan = self.home, self.plan
        folder = home.session(plan.session)
        if plan.image is not None:
            folder.mkdir(mode=0o700)
            image, rootfs = plan.image, plan.rootfs
            assert rootfs is not None
            digest = await stoppable(
                lambda proceed: unpack_image(image, rootfs, limits=replace(IMAGE_LIMITS, proceed=proceed))
            )
            self.progress("rootfs", {"digest": digest})
        template = await bind_template(home, plan, self.services)
        pooled = None if plan.image is not None else await self._pooled(template)
        if pooled is None and plan.image is None:
            folder.mkdir(mode=0o700)
        copied = await stoppable(lambda proceed: self._filled(proceed, shared=pooled is None))
        bindings = await bind_session(home, plan, copied, random_bytes=self.random_bytes)
        facts = None if pooled is None else await self._ready_from_pool(pooled, bindings)
        link = pooled
        if facts is None or link is None:
            link, facts = await self._ready_from_nothing(template, bindings)
        self.progress("ready", facts)
        return LaunchedSession(home, plan, copied, self.launch, link, facts, pooled=link is pooled)

    async def _pooled(self, template: TemplateBindings) -> SupervisorLink | None:
        def adopt(pid: int, descriptors: Mapping[str, int]) -> SupervisorLink:
            link = SupervisorLink.handed_over(pid, descriptors, self.progress, echo=self.echo)
            self.stack.push_async_callback(link.stop)
            return link

        key = kind_of(self.plan, self.services, template.manifest)
        spki = self.services.gateway_spki
        return await take_pooled(self.home, key, spki=spki, launch=self.launch, adopt=adopt)

    def _filled(self, proceed: Proceed, *, shared: bool) -> Copied | None:
        """The input in its place; the folder is the supervisor's then."""
        plan, copied = self.plan, None
        if plan.request.input is not None and plan.place is not None:
            limits = replace(WHOLE, proceed=proceed)
            copied = _fill_input(self.home, plan, plan.request.input, plan.place, limits, may_share=shared)
            self.progress(
                "input", {"digest": copied.digest, "entries": len(copied.entries), "commit": copied.commit}
            )
        if is_root():
            os.chown(self.home.session(plan.session), SUPERVISOR_USER, SUPERVISOR_USER)
        return copied

    async def _ready_from_pool(
        self, link: SupervisorLink, bindings: SessionBindings
    ) -> Mapping[str, object] | None:
        """What the supervisor said when it was ready; None: it failed before the gateway could know of the session."""
        try:
            await provision(link, self.home, self.plan, bindings, whole=None, decisions=self.decisions)
            return await _until_ready(link)
        except AffiantError:
            if link.may_be_admitted:
                raise
            await link.stop()
            (self.home.session(self.plan.session) / STATES).unlink(missing_ok=True)
            return None

    async def _ready_from_nothing(
        self, template: TemplateBindings, bindings: SessionBindings
    ) -> tuple[SupervisorLink, Mapping[str, object]]:
        """A supervisor in a TD of its own, and what it said when it was ready."""
        home, plan, services = self.home, self.plan, self.services
        identity = mrconfigid(template.manifest)
        td = await descriptor_from_thread(
            lambda: services.provisioner.create_td(image=Image.SESSION, mrconfigid=identity)
        )
        link = await start_supervisor(
            home, plan, self.progress, td=td, membership=services.membership, echo=self.echo
        )
        self.stack.push_async_callback(link.stop)
        self.launch.add(home, link.pid)
        try:
            whole = (services, template)
            await provision(link, home, plan, bindings, whole=whole, decisions=self.decisions)
        except asyncio.CancelledError:
            await link.end_opening()
            raise
        return link, await _until_ready(link)


async def _until_ready(link: SupervisorLink) -> Mapping[str, object]:
    """What the supervisor says when the gateway has admitted it."""
    try:
        async with asyncio.timeout(_ADMITTED_WITHIN_S):
            return await link.expect({"ready"})
    except TimeoutError as error:
        await link.end_opening()
        raise UnreachableError(
            f"the session was not admitted within {_ADMITTED_WITHIN_S:g} s", code="service.silent"
        ) from error
    except asyncio.CancelledError:
        await link.end_opening()
        raise


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


def _fill_input(
    home: Home, plan: SessionPlan, source: Path, place: str, limits: Limits, *, may_share: bool
) -> Copied:
    """The input in the session's folder: shown through an overlay over a stored tree, or copied.

    Args:
        may_share: whether the supervisor will see what is mounted now; one from a pool has its own view already.
    """
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

    if (
        may_share
        and plan.backend is BackendName.GVISOR
        and owner is not None
        and can_share(home, plan.session)
    ):
        with suppress(OSError):  # the store cannot be used: the session gets a copy
            return shared(owner)
    release_input(home, plan.session)
    copied = fill(target, reference)
    if plan.request.output_diff is not None and copied.commit is None:
        (folder / BASE).mkdir(mode=0o700)
        copy_in(target, folder / BASE, limits=limits)
    return copied
