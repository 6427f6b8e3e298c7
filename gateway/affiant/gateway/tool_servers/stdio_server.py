"""A server of tools that the launcher runs: MCP's lines of JSON over the Unix socket that takes the place of its pipes.

The gateway holds keys, so it starts no program: it connects to the socket, and ``stdio_host`` starts one for each
connection, under another user. Lines are bounded and strict JSON; a server that sends anything else is disconnected.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from affiant.gateway.dialects.strict_json import parse_json
from affiant.gateway.tool_gate.link import Opener
from affiant.gateway.tool_gate.results import MAX_RESULT
from affiant.gateway.wire.errors import RequestMalformed
from affiant.socket_address import reachable_address

__all__ = ["stdio_opener"]

_MAX_LINE: Final = 2 * MAX_RESULT
_END_S: Final = 1.0


def stdio_opener(socket: Path) -> Opener:
    """Opens connections at ``socket``, each a process of its own."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        with reachable_address(socket) as address:
            reader, writer = await asyncio.open_unix_connection(address, limit=_MAX_LINE)
        to_us, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, to_server = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with to_us, received, sent, to_server, anyio.create_task_group() as tasks:
                tasks.start_soon(_receive, reader, to_us)
                tasks.start_soon(_send, writer, to_server)
                try:
                    yield received, sent
                finally:
                    tasks.cancel_scope.cancel()
        finally:
            writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_END_S):
                    await writer.wait_closed()

    return opened


async def _receive(reader: asyncio.StreamReader, to_us: Any) -> None:
    """Read messages until the server ends, or sends what is none; then nothing more is read of it."""
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async with to_us:
            while True:
                try:
                    line = await reader.readuntil(b"\n")
                    message = jsonrpc_message_adapter.validate_python(parse_json(line), by_name=False)
                except (
                    asyncio.IncompleteReadError,
                    asyncio.LimitOverrunError,
                    RequestMalformed,
                    ValidationError,
                ):
                    return
                await to_us.send(SessionMessage(message))


async def _send(writer: asyncio.StreamWriter, to_server: Any) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async with to_server:
            async for message in to_server:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode("utf-8") + b"\n")
                await writer.drain()
