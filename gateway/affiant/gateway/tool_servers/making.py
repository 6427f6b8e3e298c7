"""The gate of a configuration: each server with what opens connections to it. The only way to the MCP SDK."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.gateway.config.config import socket_of
from affiant.gateway.tool_gate.gate import ToolGate
from affiant.gateway.tool_gate.link import Opener
from affiant.gateway.tool_gate.path_copies import PathCopies
from affiant.gateway.tool_servers.http_server import http_opener
from affiant.gateway.tool_servers.stdio_server import stdio_opener
from affiant.gateway.upstream.openai_upstream import Credentials
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.redaction import Redactor

__all__ = ["make_gate"]


def make_gate(
    servers: Iterable[MCPServerConfig],
    credentials: Mapping[str, Credentials],
    *,
    store: Path,
    secrets: Iterable[SecretValue],
    seconds: Callable[[], float],
    copies: PathCopies | None = None,
) -> ToolGate:
    """The gate in front of ``servers``.

    Args:
        credentials: by server id. secrets: what no answer may give away.
        copies: as :class:`~.gate.ToolGate`.

    Raises:
        ``gateway.settings``: a server's roots are not those of the configuration.
    """

    def opener(server: MCPServerConfig) -> Opener:
        if server.command:
            return stdio_opener(socket_of(store, server.id))
        return http_opener(server, credentials.get(server.id, Credentials()))

    redactor = Redactor((value, "[redacted]") for value in secrets)
    each = [(server, opener(server)) for server in servers]
    return ToolGate(each, redactor=redactor, seconds=seconds, copies=copies)
