"""The connections behind the tool gate: for each session its own to each server, made when it first needs one.

Sessions share no connection, so that what a server keeps of one agent no other agent meets. A server that does not
answer is left out of a session's catalogue, and asked again a little later; the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.errors import AffiantError, UnreachableError
from affiant.gateway.tool_gate.catalogue import Catalogue, FirstSeen, ServedTool
from affiant.gateway.tool_gate.link import Link, Opener
from affiant.gateway.tool_gate.path_copies import PathCopies
from affiant.gateway.wire.errors import Busy
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.model.profile import ToolRule
from affiant.secrets.redaction.redaction import Redactor

__all__ = ["ToolGate"]

_MAX_LINKS: Final = 512
_IDLE_S: Final = 600.0
_AGAIN_S: Final = 5.0


class _Kept:
    """A link, and when it was last used."""

    __slots__ = ("link", "used")

    def __init__(self, link: Link, used: float) -> None:
        self.link = link
        self.used = used


class ToolGate:
    """All servers of the configuration, for all sessions.

    Args:
        servers: each with what opens connections to it.
        redactor: knows the secrets of the gateway and its servers, so that no answer gives one away.
        seconds: a clock that never goes back.
        copies: makes what servers get in the place of approved paths; None: no call with a path can be approved.
    """

    def __init__(
        self,
        servers: Sequence[tuple[MCPServerConfig, Opener]],
        *,
        redactor: Redactor,
        seconds: Callable[[], float],
        copies: PathCopies | None = None,
    ) -> None:
        self._servers = {config.id: (config, opener) for config, opener in servers}
        self._seconds = seconds
        self._links: dict[tuple[str, str], _Kept] = {}
        self._down: dict[tuple[str, str], tuple[float, str]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.redactor = redactor
        self.copies = copies
        self.folders: Mapping[str, tuple[str, ...]] = (
            {} if copies is None else {config.id: config.folders for config, _ in servers}
        )
        """By server, where what its paths lead to can be read and be handed to it as a copy."""
        self.seen = FirstSeen()

    async def catalogue(
        self, session: str, policy: CompiledPolicy, tools_named: Collection[str] | None = None
    ) -> Catalogue:
        """What the servers serve now, before one profile.

        Args:
            tools_named: what is asked about; None: every tool that the profile lists. Where all rules for that name
                their servers, no other server is asked.
        """
        names = self._concerned(policy, tools_named)
        return await self._listed(session, policy, names)

    async def everything(self, session: str, policy: CompiledPolicy) -> Catalogue:
        """What all servers serve now."""
        return await self._listed(session, policy, list(self._servers))

    def _concerned(self, policy: CompiledPolicy, tools_named: Collection[str] | None) -> list[str]:
        wanted = {
            rule.server
            for rule in policy.policy.tools
            if isinstance(rule, ToolRule) and (tools_named is None or rule.name in tools_named)
        }
        return [name for name in self._servers if None in wanted or name in wanted]

    async def _listed(self, session: str, policy: CompiledPolicy, names: Sequence[str]) -> Catalogue:
        found = await asyncio.gather(*(self._tools(session, name) for name in names))
        tools: list[ServedTool] = []
        unavailable: dict[str, str] = {}
        for name, each in zip(names, found, strict=True):
            if isinstance(each, AffiantError):
                unavailable[name] = each.code
            else:
                tools += each
        return Catalogue(policy, self.seen.note(tools), self.seen, unavailable, self.folders)

    async def _tools(self, session: str, server: str) -> tuple[ServedTool, ...] | AffiantError:
        since, _ = self._down.get((session, server), (None, ""))
        if since is not None and self._seconds() - since < _AGAIN_S:
            return UnreachableError(
                "a server of tools did not answer just now", where=server, code="tool.server_unavailable"
            )
        try:
            found = await self._link(session, server).tools()
        except AffiantError as error:
            self._down[session, server] = (self._seconds(), error.code)
            return error
        self._down.pop((session, server), None)
        return found

    async def call(
        self, session: str, tool: ServedTool, arguments: Mapping[str, object], *, ready: Callable[[], None]
    ) -> Mapping[str, object]:
        """Call a tool that was judged; as :meth:`~.link.Link.call`."""
        return await self._link(session, tool.server).call(tool.name, arguments, ready=ready)

    def _link(self, session: str, server: str) -> Link:
        key = session, server
        kept = self._links.get(key)
        if kept is not None and not kept.link.failed:
            kept.used = self._seconds()
            return kept.link
        if kept is not None:
            self._close(key)
        if len(self._links) >= _MAX_LINKS:
            raise Busy("too many connections to servers of tools", expected=f"at most {_MAX_LINKS}")
        config, opener = self._servers[server]
        self._links[key] = _Kept(Link(config, opener, seconds=self._seconds), self._seconds())
        return self._links[key].link

    def sweep(self, open_sessions: Iterable[str]) -> None:
        """Close the connections of sessions that have ended, and those that were not used for long."""
        living, now = set(open_sessions), self._seconds()
        for key, kept in tuple(self._links.items()):
            if key[0] not in living or now - kept.used > _IDLE_S:
                self._close(key)
        self._down = {key: since for key, since in self._down.items() if key[0] in living}

    def leave(self, session: str) -> None:
        """Close the connections of one session."""
        for key in [key for key in self._links if key[0] == session]:
            self._close(key)

    def _close(self, key: tuple[str, str]) -> None:
        task = asyncio.create_task(self._links.pop(key).link.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close every connection."""
        for key in tuple(self._links):
            self._close(key)
        if self._closing:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(tuple(self._closing), timeout=_AGAIN_S)
