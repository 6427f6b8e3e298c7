"""``AffiantSandboxClient``: makes, resumes and deletes the SDK's sandbox sessions, all under one agent's profile."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agents.sandbox.errors import MountConfigError
from agents.sandbox.manifest import Manifest
from agents.sandbox.session.dependencies import Dependencies
from agents.sandbox.session.manager import Instrumentation
from agents.sandbox.session.sandbox_client import BaseSandboxClient
from agents.sandbox.session.sandbox_session import SandboxSession
from agents.sandbox.session.sandbox_session_state import SandboxSessionState
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec, resolve_snapshot

from affiant.sandbox.api.sandbox import Sandbox
from affiant.sandbox.openai_agents.sandbox_session import AffiantSandboxSession
from affiant.sandbox.openai_agents.sdk_errors import unsupported
from affiant.sandbox.openai_agents.serialized import (
    AffiantSandboxClientOptions,
    AffiantSandboxSessionState,
    AffiantSecretRef,
)

__all__ = ["AffiantSandboxClient"]


class AffiantSandboxClient(BaseSandboxClient[AffiantSandboxClientOptions | None]):
    """Gives sandbox agents of the OpenAI Agents SDK attested sessions, each with its receipts.

    The profile belongs to the client: neither a manifest nor a resumed state can change what an agent may do.

    Args:
        profile, agent, home: as of :meth:`Sandbox.create`.
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
        instrumentation: Instrumentation | None = None,
        dependencies: Dependencies | None = None,
        **more: Any,
    ) -> None:
        self._given: Mapping[str, Any] = {"profile": profile, "agent": agent, "home": home, **more}
        self._instrumentation = instrumentation if instrumentation is not None else Instrumentation()
        self._dependencies = dependencies
        self._open: dict[str, Sandbox] = {}
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

        It still runs if this client has it open, or if a session host holds it (``name``, ``keep``) under the same
        profile. A new sandbox gets the workspace of the state's snapshot, under this client's profile.
        """
        if not isinstance(state, AffiantSandboxSessionState):
            raise TypeError("AffiantSandboxClient.resume expects an AffiantSandboxSessionState")
        state.assert_path_grants_rebound()
        _require_supported(state.manifest)
        return self._session(state)

    async def delete(self, session: SandboxSession) -> SandboxSession:
        """Close the session's sandbox, if it is open; its bundle stays."""
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
        found = None if state.sandbox is None else self._open.get(state.sandbox)
        if found is not None:
            return found, True
        sandbox = await Sandbox.create(
            name=state.name,
            idempotency_key=await asyncio.to_thread(self._key, state),
            ttl=state.ttl,
            resources=None if state.resources is None else state.resources.resources(),
            task=None if state.task is None else state.task.label(),
            **self._given,
        )
        self._open[sandbox.id] = sandbox
        return sandbox, sandbox.id == state.sandbox

    def _key(self, state: AffiantSandboxSessionState) -> str | None:
        """What only the same session under the same profile has; None: this process holds the session."""
        if state.name is None and not state.keep:
            return None
        profile = self._given["profile"]
        if isinstance(profile, Path) or (isinstance(profile, str) and "\n" not in profile):
            with suppress(OSError):  # the sandbox will say so
                profile = Path(profile).read_bytes().hex()
        parts = [state.session_id.hex, self._given["agent"], profile]
        return hashlib.sha256(json.dumps(parts, default=dict).encode()).hexdigest()

    async def _closed(self, sandbox: Sandbox, state: AffiantSandboxSessionState) -> None:
        """Close ``sandbox``, unless it is kept, and remember its bundle."""
        if self._open.pop(sandbox.id, None) is None or state.keep:
            return
        try:
            await sandbox.close()
        finally:
            if sandbox.bundle_path.exists():
                self._bundles.append(sandbox.bundle_path)


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
