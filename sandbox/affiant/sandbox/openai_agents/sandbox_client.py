"""``AffiantSandboxClient``: makes, resumes and deletes the SDK's sandbox sessions, all under one agent's profile."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final

from agents.sandbox.errors import MountConfigError
from agents.sandbox.manifest import Manifest
from agents.sandbox.session.dependencies import Dependencies
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.sandbox_client import BaseSandboxClient
from agents.sandbox.session.sandbox_session import SandboxSession
from agents.sandbox.session.sandbox_session_state import SandboxSessionState
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot

from affiant.errors import AffiantError
from affiant.sandbox.api.sandbox import Sandbox
from affiant.sandbox.openai_agents.host_sources import (
    host_sources,
    place_text,
    with_host_sources,
)
from affiant.sandbox.openai_agents.sandbox_session import AffiantSandboxSession
from affiant.sandbox.openai_agents.sdk_errors import unsupported
from affiant.sandbox.openai_agents.serialized import (
    AffiantSandboxClientOptions,
    AffiantSandboxSessionState,
    AffiantSecretRef,
)

__all__ = ["AffiantSandboxClient"]

_OF_STATES: Final = {"name", "idempotency_key", "ttl", "resources", "task"}
_DEFAULTS: Final = {
    each.name: each.default
    for each in signature(Sandbox.create).parameters.values()
    if each.default is not Parameter.empty and each.name not in _OF_STATES
}
"""Arguments of :meth:`Sandbox.create` that a client leaves out."""


class AffiantSandboxClient(BaseSandboxClient[AffiantSandboxClientOptions | None]):
    """Gives sandbox agents of the OpenAI Agents SDK attested sessions, each with its receipts.

    The profile belongs to the client: neither a manifest nor a resumed state can change what an agent may do.

    Args:
        profile, agent, home: as of :meth:`Sandbox.create`.
        trusted_manifest: what a resumed state may name of this machine's files, beside what this client's own
            sessions were created with. See :meth:`resume`.
        instrumentation, dependencies: as of the SDK's own clients.
        more: other arguments of :meth:`Sandbox.create`, for every session: ``input``, ``runtime``, ``rootfs``, ...
    """

    backend_id = "affiant"
    supports_default_options = True

    def __init__(
        self,
        *,
        profile: Path | str | Mapping[str, object],
        agent: str,
        home: Path | None = None,
        trusted_manifest: Manifest | None = None,
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
        **more: Any,
    ) -> None:
        self._given: Mapping[str, Any] = {"profile": profile, "agent": agent, "home": home, **more}
        self._instrumentation = instrumentation if instrumentation is not None else Instrumentation()
        self._dependencies = dependencies
        self._trusted = {} if trusted_manifest is None else host_sources(trusted_manifest)
        self._created: dict[uuid.UUID, Mapping[str, str]] = {}
        """What each session that this client created with files of the host names of them."""
        self._open: dict[tuple[uuid.UUID, str], Sandbox] = {}
        """By the SDK's session and the sandbox's id: a state that names another session's sandbox does not get it."""
        self._bundles: list[Path] = []

    @property
    def bundles(self) -> tuple[Path, ...]:
        """The bundles of the sessions that were closed, in that order."""
        return tuple(self._bundles)

    async def create(
        self,
        *,
        snapshot: SnapshotSpec | SnapshotBase | None = None,
        manifest: Manifest | None = None,
        options: AffiantSandboxClientOptions | None = None,
    ) -> SandboxSession:
        """A session of the SDK; its sandbox is opened when it is started."""
        asked = AffiantSandboxClientOptions() if options is None else options
        given = Manifest() if manifest is None else manifest
        _require_supported(self._validate_manifest_for_create(given))
        session_id = uuid.uuid4()
        if sources := host_sources(given):
            self._created[session_id] = sources
        state = AffiantSandboxSessionState(
            session_id=session_id,
            manifest=given,
            snapshot=resolve_snapshot(snapshot, str(session_id)),
            exposed_ports=asked.exposed_ports,
            ttl=asked.ttl,
            resources=asked.resources,
            task=asked.task,
            name=asked.name,
            keep=asked.keep,
        )
        return self._session(state)

    async def resume(self, state: SandboxSessionState) -> SandboxSession:
        """The session of ``state``, in its sandbox if that still runs, else in a new one.

        It still runs if this client has it open, or if a session host holds it (``name``, ``keep``) for the same
        session, of a client with the same arguments. A new sandbox gets the workspace of the state's snapshot, under
        this client's profile.

        A state that was stored may name files and folders of this machine (``LocalFile``, ``LocalDir``) and path
        grants only if they equal those that its session was created with by this client, or those of the client's
        ``trusted_manifest``.

        Raises:
            ConfigurationError: it names others.
        """
        if not isinstance(state, AffiantSandboxSessionState):
            raise TypeError("AffiantSandboxClient.resume expects an AffiantSandboxSessionState")
        state.assert_path_grants_rebound()
        _require_supported(state.manifest)
        return self._session(self._with_trusted_sources(state))

    def _with_trusted_sources(self, state: AffiantSandboxSessionState) -> AffiantSandboxSessionState:
        """``state`` with what it named of this machine's files, as far as this client trusts it.

        A capability of the agent may have put an entry back already, from this process's own configuration.
        """
        if not state.host_sources:
            return state
        trusted = {**self._trusted, **self._created.get(state.session_id, {})}
        there = host_sources(state.manifest)
        lost = {place: text for place, text in state.host_sources.items() if place not in there}
        manifest = with_host_sources(
            state.manifest, {place: text for place, text in lost.items() if trusted.get(place) == text}
        )
        missing = sorted(map(place_text, lost.keys() - host_sources(manifest).keys()))
        if missing:
            raise unsupported(
                "only those files and path grants of this machine that its client trusts",
                op="materialize",
                hint=f"The stored state names others ({', '.join(missing)}): give the client a trusted_manifest= that "
                "has them",
            )
        return state.model_copy(update={"manifest": manifest, "host_sources": {}})

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Close the session's sandbox, if it is open and not kept; its bundle stays.

        A sandbox of a session with ``keep`` goes on, until its ``ttl`` is over or `affiant session stop`.
        """
        inner = session._inner  # noqa: SLF001 - the SDK gives a client no other way to its own session
        if not isinstance(inner, AffiantSandboxSession):
            raise TypeError("AffiantSandboxClient.delete expects an AffiantSandboxSession")
        await inner.shutdown()
        return session

    def deserialize_session_state(self, payload: dict[str, object]) -> SandboxSessionState:
        """A state from what :meth:`serialize_session_state` made."""
        return self._deserialize_session_state_payload(payload, AffiantSandboxSessionState)

    def _session(self, state: AffiantSandboxSessionState) -> SandboxSession:
        inner = AffiantSandboxSession(state, opened=self._opened, closed=self._closed)
        return self._wrap_session(inner, instrumentation=self._instrumentation)

    async def _opened(self, state: AffiantSandboxSessionState) -> tuple[Sandbox, bool]:
        """The sandbox of ``state``, and whether it was open already."""
        before = None if state.sandbox is None else self._open.get((state.session_id, state.sandbox))
        sandbox = before or await self._made(state)
        if sandbox.id == state.sandbox and not await _has_commands(sandbox):
            self._open.pop((state.session_id, sandbox.id), None)
            with suppress(AffiantError):  # why it ended by itself
                await self._close(sandbox)
            sandbox = await self._made(state)
        self._open[state.session_id, sandbox.id] = sandbox
        return sandbox, sandbox.id == state.sandbox

    async def _made(self, state: AffiantSandboxSessionState) -> Sandbox:
        """A new sandbox, or the one of ``state`` that a session host holds."""
        return await Sandbox.create(
            name=state.name,
            idempotency_key=await asyncio.to_thread(self._key, state),
            ttl=state.ttl,
            resources=None if state.resources is None else state.resources.resources(),
            task=None if state.task is None else state.task.label(),
            **self._given,
        )

    def _key(self, state: AffiantSandboxSessionState) -> str | None:
        """What only the same session of a client with the same arguments has; None: this process holds the session.

        Of files that are arguments the content counts; of the secret store's key only its kind.
        """
        if state.name is None and not state.keep:
            return None
        given = {**_DEFAULTS, **self._given}
        profile = given["profile"]
        if isinstance(profile, str) and "\n" not in profile:
            given["profile"] = Path(profile)
        given["store_key"] = type(given["store_key"]).__name__
        parts = [state.session_id.hex, {name: _content(value) for name, value in given.items()}]
        return hashlib.sha256(json.dumps(parts, default=_plain, sort_keys=True).encode()).hexdigest()

    async def _closed(self, sandbox: Sandbox, state: AffiantSandboxSessionState) -> None:
        """Close ``sandbox``, unless it is kept, and remember its bundle."""
        if self._open.pop((state.session_id, sandbox.id), None) is not None and not state.keep:
            await self._close(sandbox)

    async def _close(self, sandbox: Sandbox) -> None:
        try:
            await sandbox.close()
        finally:
            if sandbox.bundle_path.exists():
                self._bundles.append(sandbox.bundle_path)


async def _has_commands(sandbox: Sandbox) -> bool:
    """Whether commands can be run in it: not after its time is over, or a limit has ended its processes."""
    try:
        await sandbox.metrics()
    except AffiantError as error:
        return error.retryable is True
    return True


def _content(value: object) -> object:
    """The digest of a file; a folder's path, or that of a file that cannot be read; another value as it is."""
    if not isinstance(value, Path):
        return value
    with suppress(OSError), value.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return str(value.absolute())


def _plain(value: object) -> object:
    """A value as JSON has it; what is not known differs in each process, so no running session is found."""
    match value:
        case Mapping():
            return dict(value)
        case frozenset():
            return sorted(map(str, value))
        case Enum():
            return value.value
        case Path():
            return str(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else repr(value)


def _require_supported(manifest: Manifest) -> None:
    """Return if a session can be what ``manifest`` describes.

    Raises:
        ConfigurationError, MountConfigError: it asks for accounts, mounts, host paths or a renamed secret.
    """
    if manifest.users or manifest.groups:
        raise unsupported("one user, the agent", op="materialize", hint="Leave users and groups out")
    if manifest.mount_targets():
        raise MountConfigError(
            message="a session of affiant mounts nothing; use the client's input=, or files of the manifest",
            context={"backend": "affiant"},
        )
    if any(grant.host_path is not None for grant in manifest.extra_path_grants):
        raise unsupported(
            "no paths of the host", op="materialize", hint="Leave host_path out, or use the client's input="
        )
    for variable, entry in manifest.environment.normalized().items():
        if isinstance(entry.value, AffiantSecretRef) and entry.value.name != variable:
            raise unsupported(
                "each secret's placeholder in the variable of the secret's own name",
                op="materialize",
                hint=f"Call the variable {entry.value.name}, not {variable}",
            )
