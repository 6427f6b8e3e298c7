"""``AffiantSandboxSession``: one sandbox as a session of the SDK. Files, commands, terminals, ports, the workspace.

Each command has its two records. A file that is read or written, a folder that is made and a path that is removed has
one record. Listings have none.
"""

from __future__ import annotations

import asyncio
import io
import stat
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path, PurePosixPath
from typing import Final

from agents.sandbox.errors import (
    ExecNonZeroError,
    ExecTimeoutError,
    ExposedPortUnavailableError,
    WorkspaceArchiveWriteError,
    WorkspaceStartError,
    WorkspaceStopError,
)
from agents.sandbox.files import EntryKind, FileEntry
from agents.sandbox.session.base_sandbox_session import BaseSandboxSession
from agents.sandbox.session.pty_types import PtyExecUpdate
from agents.sandbox.session.workspace_payloads import coerce_write_payload
from agents.sandbox.types import ExecResult, ExposedPortEndpoint, Permissions, User
from agents.sandbox.workspace_paths import sandbox_path_str

from affiant.errors import AffiantError, ConfigurationError, NotAllowedError, StateError
from affiant.sandbox.api.sandbox import Sandbox
from affiant.sandbox.openai_agents.archive import packed, unpacked
from affiant.sandbox.openai_agents.sdk_errors import context_of, not_run, reading, unsupported, writing
from affiant.sandbox.openai_agents.serialized import AffiantSandboxSessionState, AffiantSecretRef
from affiant.sandbox.openai_agents.terminals import Terminals
from affiant.sandbox.session_acts.sandbox_files import FileInfo
from affiant.sandbox.session_acts.sandbox_ports import OpenPort

__all__ = ["AffiantSandboxSession"]

_OUTPUT: Final = 16 << 20
"""Bytes that are kept of each output of a command."""
_FILE: Final = 64 << 20
"""Bytes of a file that is read whole."""
_LINKS: Final = 40
_AGENT: Final = "agent"
"""The one user of a sandbox, and its group."""
_KINDS: Final = {"file": EntryKind.FILE, "directory": EntryKind.DIRECTORY, "link": EntryKind.SYMLINK}

Opened = Callable[[AffiantSandboxSessionState], Awaitable[tuple[Sandbox, bool]]]
Closed = Callable[[Sandbox, AffiantSandboxSessionState], Awaitable[None]]


class AffiantSandboxSession(BaseSandboxSession):
    """A sandbox of affiant in the hands of the SDK; made by :class:`AffiantSandboxClient` only."""

    state: AffiantSandboxSessionState  # pyright: ignore[reportIncompatibleVariableOverride] - as the SDK's own

    def __init__(self, state: AffiantSandboxSessionState, *, opened: Opened, closed: Closed) -> None:
        self.state = state  # pyright: ignore[reportIncompatibleVariableOverride] - as above
        self._opened = opened
        self._closed = closed
        self._sandbox: Sandbox | None = None
        self._started = False
        self._terminals = Terminals()
        self._ports = AsyncExitStack()
        self._reached: dict[int, OpenPort] = {}
        self._reaching = asyncio.Lock()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox itself, with what the SDK has no call for.

        Raises:
            ``session.not_open``: the session is not started, or is shut down.
        """
        if self._sandbox is None:
            raise StateError(
                "the session is not started, or is shut down",
                expected="start() first",
                code="session.not_open",
            )
        return self._sandbox

    # Starting and ending.

    async def _ensure_backend_started(self) -> None:
        if self._sandbox is None:
            self._sandbox, preserved = await self._opened(self.state)
            self.state.sandbox = self._sandbox.id
            self._set_start_state_preserved(preserved)

    async def _prepare_backend_workspace(self) -> None:
        root, info = str(self._workspace_root_path()), self.sandbox.info()
        folders, held = (_texts(info.get(name)) for name in ("files", "secrets"))
        if root not in folders:
            raise ConfigurationError(
                "the manifest's root is no path of the profile's filesystem_access",
                expected=", ".join(folders) or "a path there",
                found=root,
                hint="Change Manifest(root=...), or list the path",
                code="openai_agents.root",
            )
        for variable, entry in self.state.manifest.environment.normalized().items():
            if isinstance(entry.value, AffiantSecretRef) and entry.value.name not in held:
                raise ConfigurationError(
                    "the session has no such secret",
                    where=variable,
                    expected="one that the profile grants and the secret store holds",
                    hint=f"Keep it with: affiant secret set {entry.value.name}",
                    code="openai_agents.secret",
                )

    async def _after_start(self) -> None:
        self._started = True

    def _wrap_start_error(self, error: Exception) -> Exception:
        if isinstance(error, AffiantError):
            return WorkspaceStartError(
                path=self._workspace_root_path(),
                context=context_of(error),
                cause=error,
                message=f"the session was not started: {error}",
                retryable=error.retryable,
            )
        return error

    def _wrap_stop_error(self, error: Exception) -> Exception:
        return WorkspaceStopError(path=self._workspace_root_path(), cause=error)

    async def _shutdown_backend(self) -> None:
        sandbox, self._sandbox, self._started = self._sandbox, None, False
        ports, self._ports = self._ports, AsyncExitStack()
        self._reached.clear()
        if sandbox is not None:
            try:
                await ports.aclose()
            finally:
                await self._closed(sandbox, self.state)

    async def running(self) -> bool:
        """Whether commands can be run: asked of the sandbox itself."""
        if self._sandbox is None or not self._started:
            return False
        try:
            await self._sandbox.metrics()
        except AffiantError:
            return False
        return True

    # Commands.

    def _prepare_exec_command(
        self, *command: str | Path, shell: bool | list[str], user: str | User | None
    ) -> list[str]:
        _require_agent(user)
        chosen = ["sh", "-c"] if shell is True else shell
        return super()._prepare_exec_command(*command, shell=chosen, user=None)

    async def _environment(self) -> Mapping[str, str]:
        """The manifest's variables, without those that the supervisor sets to placeholders."""
        entries = self.state.manifest.environment.normalized()
        return {
            variable: await entry.value.resolve()
            for variable, entry in entries.items()
            if not isinstance(entry.value, AffiantSecretRef)
        }

    async def _exec_internal(self, *command: str | Path, timeout: float | None = None) -> ExecResult:
        try:
            result = await self.sandbox.run(
                [str(word) for word in command],
                env=await self._environment(),
                cwd=str(self._workspace_root_path()),
                timeout=timeout,
                capture_limit=_OUTPUT,
            )
        except AffiantError as error:
            raise not_run(command, error) from error
        if result.timed_out:
            raise ExecTimeoutError(command=command, timeout_s=timeout)
        note = f"\naffiant: output beyond {_OUTPUT} bytes was dropped\n".encode() if result.truncated else b""
        return ExecResult(
            stdout=result.stdout_bytes, stderr=result.stderr_bytes + note, exit_code=result.exit_code
        )

    def supports_pty(self) -> bool:
        """Yes."""
        return True

    async def pty_exec_start(
        self,
        *command: str | Path,
        timeout: float | None = None,
        shell: bool | list[str] = True,
        user: str | User | None = None,
        tty: bool = False,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Start a command that goes on between calls; ``timeout`` is not used, as in the SDK's own sessions."""
        del timeout
        argv = self._prepare_exec_command(*command, shell=shell, user=user)
        try:
            sandbox = self.sandbox
        except AffiantError as error:
            raise not_run(command, error) from error
        return await self._terminals.start(
            sandbox,
            argv,
            env=await self._environment(),
            cwd=str(self._workspace_root_path()),
            tty=tty,
            wait_s=yield_time_s,
            max_tokens=max_output_tokens,
        )

    async def pty_write_stdin(
        self,
        *,
        session_id: int,
        chars: str,
        yield_time_s: float | None = None,
        max_output_tokens: int | None = None,
    ) -> PtyExecUpdate:
        """Type to a command that was started, or only look what it wrote."""
        return await self._terminals.type(
            session_id, chars, wait_s=yield_time_s, max_tokens=max_output_tokens
        )

    async def pty_terminate_all(self) -> None:
        """End all commands that go on between calls."""
        await self._terminals.end_all()

    async def _resolve_exposed_port(self, port: int) -> ExposedPortEndpoint:
        """Where the agent's server is reached on this machine, until the session is shut down."""
        try:
            async with self._reaching:
                if port not in self._reached:
                    self._reached[port] = await self._ports.enter_async_context(self.sandbox.port(port))
        except AffiantError as error:
            raise ExposedPortUnavailableError(
                port=port,
                exposed_ports=self.state.exposed_ports,
                reason="backend_unavailable",
                context=context_of(error),
                cause=error,
            ) from error
        address = self._reached[port].address
        assert isinstance(address, tuple)
        return ExposedPortEndpoint(host=address[0], port=address[1], tls=False)

    # Files.

    def _path(self, path: Path | str, *, for_write: bool = False) -> str:
        return sandbox_path_str(
            self._workspace_path_policy().normalize_sandbox_path(path, for_write=for_write)
        )

    async def _found(self, path: str) -> FileInfo | None:
        """What is at ``path``, a link not followed; None: nothing."""
        try:
            return await self.sandbox.files.stat(path)
        except AffiantError as error:
            if error.code == "files.missing":
                return None
            raise

    async def _validate_path_access(self, path: Path | str, *, for_write: bool = False) -> Path:
        """The absolute path, if no link on the way leads out of the workspace."""
        place = self._path(path, for_write=for_write)
        with writing(path) if for_write else reading(path):
            await self._found(place)
        return Path(place)

    async def _behind_links(self, place: str, *, for_write: bool = False) -> tuple[str, FileInfo | None]:
        """Where the links at ``place`` end, and what is there; the session's files decide what can be reached.

        Raises:
            InvalidManifestPathError: one leads out of the workspace. ``files.path``: there is no end.
        """
        for _ in range(_LINKS):
            found = await self._found(place)
            if found is None or found.kind != "link":
                return place, found
            place = self._path(str(PurePosixPath(place).parent / str(found.target)), for_write=for_write)
        raise NotAllowedError("too many links", expected=f"at most {_LINKS}", code="files.path")

    async def _content(self, place: str, at_most: int, *, cut: bool = False) -> bytes:
        """A file's content; a link is followed, an absolute one too if it stays in the workspace."""
        try:
            return await self.sandbox.files.read(place, at_most=at_most, cut=cut)
        except AffiantError as error:
            if error.code != "files.path":
                raise
            end, _ = await self._behind_links(place)
            if end == place:
                raise
        return await self.sandbox.files.read(end, at_most=at_most, cut=cut)

    async def read(self, path: Path, *, user: str | User | None = None) -> io.IOBase:
        """The content of a file, at most 64 MiB."""
        _require_agent(user)
        place = self._path(path)
        with reading(path):
            return io.BytesIO(await self._content(place, _FILE))

    async def _read_bounded(self, path: Path, *, max_bytes: int) -> bytes:
        place = self._path(path)
        with reading(path):
            return await self._content(place, max_bytes, cut=True)

    async def write(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        """Write a file, whole or not at all; one that is there stays executable if it is."""
        _require_agent(user)
        place = self._path(path, for_write=True)
        content = await asyncio.to_thread(coerce_write_payload(path=path, data=data).stream.read)
        with writing(path):
            end, found = await self._behind_links(place, for_write=True)
            executable = found is not None and found.executable
            await self.sandbox.files.write(end, content, executable=executable)

    async def _write_new_file(self, path: Path, data: io.IOBase, *, user: str | User | None = None) -> None:
        place = self._path(path, for_write=True)
        with writing(path):
            end, found = await self._behind_links(place, for_write=True)
        if found is not None or end != place:
            raise FileExistsError(str(path))
        await self.write(path, data, user=user)

    async def ls(self, path: Path | str, *, user: str | User | None = None) -> list[FileEntry]:
        """What is in a folder. Of permissions only the kind and "executable" are known."""
        _require_agent(user)
        place = self._path(path)
        with reading(path):
            try:
                listing = await self.sandbox.files.list(place)
            except AffiantError as error:
                if error.code not in {"files.missing", "files.kind"}:
                    raise
                raise _nonzero("ls", place, error.message, error) from error
        return [_entry(place, found) for found in listing]

    async def mkdir(self, path: Path | str, *, parents: bool = False, user: str | User | None = None) -> None:
        """Make a folder. One that is there already is no error, and has no record."""
        _require_agent(user)
        place = self._path(path, for_write=True)
        with writing(path):
            found = await self._found(place)
            if found is not None and found.kind == "directory":
                return
            if not parents and found is None and await self._found(place.rpartition("/")[0]) is None:
                raise _not_written(place, "the folder above is missing")
            with tempfile.TemporaryDirectory() as empty:
                await self.sandbox.files.upload(empty, place)

    async def rm(self, path: Path | str, *, recursive: bool = False, user: str | User | None = None) -> None:
        """Remove a file or a link, or with ``recursive`` a folder; then what is not there is no error."""
        _require_agent(user)
        place = self._path(path, for_write=True)
        with writing(path):
            found = await self._found(place)
            if found is None and recursive:
                return
            if found is None:
                raise _nonzero("rm", place, "no such file or folder")
            if found.kind == "directory" and not recursive:
                raise _not_written(place, "a folder")
            await self.sandbox.files.remove(place)

    # The workspace as a whole.

    async def persist_workspace(self) -> io.IOBase:
        """The workspace as a tar archive. Links that lead out of it, pipes and sockets are left out."""
        root = self._workspace_root_path()
        with tempfile.TemporaryDirectory() as folder:
            with reading(root):
                await self.sandbox.files.download(str(root), folder)
            return await asyncio.to_thread(packed, Path(folder), self._persist_workspace_skip_relpaths())

    async def hydrate_workspace(self, data: io.IOBase) -> None:
        """Unpack a tar archive on this side and copy it into the workspace in one call."""
        root = self._workspace_root_path()
        with tempfile.TemporaryDirectory() as folder:
            await asyncio.to_thread(unpacked, data, Path(folder))
            with writing(root):
                await self.sandbox.files.upload(folder, str(root))

    async def _can_skip_snapshot_restore_on_resume(self, *, is_running: bool) -> bool:
        """Whether the sandbox is the one of the state: its workspace is then as new as the snapshot, or newer."""
        del is_running
        return self._workspace_state_preserved_on_start()

    def _should_compute_snapshot_fingerprint_on_persist(self) -> bool:
        return False


def _require_agent(user: str | User | None) -> None:
    name = user.name if isinstance(user, User) else user
    if name not in {None, _AGENT}:
        raise unsupported("one user, the agent", op="exec", hint="Leave user= and run_as= out")


def _texts(found: object) -> tuple[str, ...]:
    return tuple(map(str, found)) if isinstance(found, (list, tuple)) else ()


def _nonzero(program: str, path: str, reason: str, cause: AffiantError | None = None) -> ExecNonZeroError:
    """As if ``program`` had been run, which is what callers of the SDK expect."""
    result = ExecResult(stdout=b"", stderr=f"{program}: {path}: {reason}\n".encode(), exit_code=1)
    return ExecNonZeroError(result, command=(program, "--", path), cause=cause)


def _not_written(path: str, reason: str) -> WorkspaceArchiveWriteError:
    return WorkspaceArchiveWriteError(path=Path(path), context={"reason": reason}, retryable=False)


def _entry(folder: str, found: FileInfo) -> FileEntry:
    mode = 0o755 if found.kind == "directory" or found.executable else 0o644
    kind = stat.S_IFDIR if found.kind == "directory" else 0
    return FileEntry(
        path=f"{folder.rstrip('/')}/{found.path}",
        permissions=Permissions.from_mode(mode | kind),
        owner=_AGENT,
        group=_AGENT,
        size=found.size,
        kind=_KINDS[found.kind],
    )
