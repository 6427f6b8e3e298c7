"""One session's connection to one server of tools, by the MCP SDK's client.

The gate is the client: it opens the connection, agrees on a version, lists and calls. Whatever a server asks for in
turn (sampling, roots, elicitation) the SDK refuses, because no capability for it is offered; what it reports (logs,
progress) is dropped. Arguments and results pass as plain JSON values through the SDK's dispatcher, so that what was
judged is what is sent, and a server's own schemas are never compiled here.

The connection lives in a task of its own, from the first use until it fails, is closed, or its session ends. A link
that has failed stays so; the gate makes another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp.types import Implementation
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.errors import UnreachableError
from affiant.gateway.tool_gate.catalogue import MAX_TOOLS, ServedTool, served_tools
from affiant.gateway.wire.errors import ToolCallTimeout

__all__ = ["Link", "Opener", "ServerError"]

Opener = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens the SDK's pair of streams to a server."""

_CONNECT_S: Final = 20.0
_LISTED_FOR_S: Final = 2.0
"""A listing is believed for so long: a call is judged by what the server says of the tool now."""
_MAX_PAGES: Final = 32

# What a server says wrong is reported by our own errors; the SDK's log would repeat the server's words.
logging.getLogger("mcp").setLevel(logging.CRITICAL)


class ServerError(Exception):
    """The server answered with an error of JSON-RPC; ``args[0]`` are its own words, unbounded."""


class Link:
    """A connection, made at its first use.

    Args:
        seconds: a clock that never goes back.
    """

    def __init__(self, config: MCPServerConfig, opener: Opener, *, seconds: Callable[[], float]) -> None:
        self._config = config
        self._opener = opener
        self._seconds = seconds
        self._stop = asyncio.Event()
        self._made: asyncio.Future[JSONRPCDispatcher[TransportContext]] = (
            asyncio.get_running_loop().create_future()
        )
        self._listed: tuple[float, tuple[ServedTool, ...]] | None = None
        self._listing = asyncio.Lock()
        self._places = asyncio.Semaphore(config.concurrent)
        self._task = asyncio.create_task(self._run(), name=f"mcp-{config.id}")
        self.failed = False
        """Whether it is of no use any more."""

    async def tools(self) -> tuple[ServedTool, ...]:
        """What the server serves.

        Raises:
            ``tool.server_unavailable``: it does not say.
        """
        async with self._listing:
            if self._listed is None or self._seconds() - self._listed[0] >= _LISTED_FOR_S:
                self._listed = None
                self._listed = (self._seconds(), await self._all_tools())
            return self._listed[1]

    async def _all_tools(self) -> tuple[ServedTool, ...]:
        entries: list[object] = []
        cursor: object = None
        for _ in range(_MAX_PAGES):
            try:
                page = await self._asked(
                    "tools/list", {} if cursor is None else {"cursor": cursor}, timeout=_CONNECT_S
                )
            except (ServerError, ToolCallTimeout) as error:
                raise UnreachableError(
                    "a server does not list its tools", where=self._config.id, code="tool.server_unavailable"
                ) from error
            found, cursor = page.get("tools"), page.get("nextCursor")
            if not isinstance(found, list) or not isinstance(cursor, (str, type(None))):
                raise UnreachableError(
                    "a server's list of tools is none", where=self._config.id, code="tool.server_unavailable"
                )
            entries += found
            if cursor is None:
                return served_tools(self._config.id, entries)
            if len(entries) > MAX_TOOLS:
                break
        raise UnreachableError(
            "a server lists too many tools",
            expected=f"at most {MAX_TOOLS}",
            where=self._config.id,
            code="tool.server_unavailable",
        )

    async def call(
        self, name: str, arguments: Mapping[str, object], *, ready: Callable[[], None]
    ) -> Mapping[str, object]:
        """Call a tool; the server's result as it came.

        Args:
            ready: asked when nothing is waited for any more: nothing is sent where it raises.

        Raises:
            ServerError: the server's own error. ToolCallTimeout, ``tool.server_unavailable``: as named.
        """
        async with self._places:
            await self._dispatcher()
            ready()
            return await self._asked(
                "tools/call", {"name": name, "arguments": arguments}, timeout=float(self._config.timeout_s)
            )

    async def close(self) -> None:
        """Close the connection; its server's process ends with it."""
        self.failed = True
        self._stop.set()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _asked(self, method: str, params: Mapping[str, object], *, timeout: float) -> dict[str, Any]:
        dispatcher = await self._dispatcher()
        try:
            return await dispatcher.send_raw_request(method, params, {"timeout": timeout})
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise ToolCallTimeout(
                    "the server did not answer in time", expected=f"{timeout:g} s", where=self._config.id
                ) from error
            if error.code == CONNECTION_CLOSED:
                self.failed = True
                raise self._gone() from error
            raise ServerError(error.message) from error
        except RuntimeError as error:  # the dispatcher has ended
            self.failed = True
            raise self._gone() from error

    async def _dispatcher(self) -> JSONRPCDispatcher[TransportContext]:
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await asyncio.shield(self._made)
        except TimeoutError as error:
            self.failed = True
            raise self._gone() from error

    def _gone(self) -> UnreachableError:
        return UnreachableError(
            "a server of tools does not answer", where=self._config.id, code="tool.server_unavailable"
        )

    async def _run(self) -> None:
        """Run the connection. Its end, of whatever kind, is one error for those who wait for it."""
        try:
            async with self._opener() as (read, write):
                dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(read, write)
                client = Implementation(name="affiant-tool-gate", version="1")
                async with ClientSession(dispatcher=dispatcher, client_info=client) as session:
                    await session.initialize()
                    self._made.set_result(dispatcher)
                    await self._stop.wait()
        except asyncio.CancelledError:
            raise
        except BaseExceptionGroup as group:
            if group.subgroup(asyncio.CancelledError) is not None and self._stop.is_set():
                raise asyncio.CancelledError from group
        except Exception:  # noqa: BLE001, S110 - whatever the SDK raises, the server is of no use
            pass
        finally:
            self.failed = True
            if not self._made.done():
                self._made.set_exception(self._gone())
                self._made.exception()  # perhaps no call waits
