"""The operator's file of tool servers: strict JSON, read once by the launcher.

::

    {"mcp_servers": {
      "k8s":  {"command": ["/usr/local/bin/k8s-mcp"], "env": {"KUBE_TOKEN": "local:KUBE_TOKEN"},
               "folders": ["/srv/manifests"]},
      "docs": {"url": "https://docs.example.com/mcp", "ca": "docs-ca.pem", "header": "Authorization",
               "key": "local:DOCS_KEY", "timeout_s": 30, "concurrent": 4}}}

Secrets are there by name alone. The file itself is not bound; what it says is, as ``mcp_servers`` of the
configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import parse_strict
from affiant.attestation.statements.gateway_config import MCPServerConfig
from affiant.errors import ConfigurationError, MalformedError

__all__ = ["ToolServers", "read_tool_servers"]

_MAX_FILE: Final = 64 * 1024
_MEMBERS: Final = frozenset(
    {"command", "env", "folders", "url", "ca", "header", "key", "timeout_s", "concurrent"}
)


@dataclass(frozen=True, slots=True)
class ToolServers:
    """What the file says, and the certificates that it names, by server id."""

    configs: tuple[MCPServerConfig, ...] = ()
    roots: Mapping[str, bytes] | None = None


def read_tool_servers(path: Path, root: Callable[[Path], bytes]) -> ToolServers:
    """The servers in ``path``; their form is judged with the whole configuration.

    Args:
        root: a certificate's DER bytes, from its file.

    Raises:
        ``gateway.settings``: it cannot be read, or is no such file.
    """
    try:
        with path.open("rb") as file:
            value = parse_strict(file.read(_MAX_FILE + 1), limit=_MAX_FILE)
    except OSError as error:
        raise ConfigurationError(
            "the tool servers cannot be read", where=str(path), found=error.strerror, code="gateway.settings"
        ) from error
    except MalformedError as error:
        raise ConfigurationError(
            f"not a file of tool servers: {error}", where=str(path), code="gateway.settings"
        ) from error
    servers = value.get("mcp_servers") if isinstance(value, dict) and set(value) == {"mcp_servers"} else None
    if not isinstance(servers, dict) or not servers:
        raise ConfigurationError(
            "not a file of tool servers",
            expected='{"mcp_servers": {"id": {...}}}',
            where=str(path),
            code="gateway.settings",
        )
    roots = {
        name: root(path.parent / str(entry["ca"]))
        for name, entry in servers.items()
        if isinstance(entry, dict) and "ca" in entry
    }
    configs = tuple(_config(path, name, entry, roots) for name, entry in sorted(servers.items()))
    return ToolServers(configs, roots)


def _config(path: Path, name: str, entry: object, roots: Mapping[str, bytes]) -> MCPServerConfig:
    where = f"{path}: {ascii(name)[:70]}"
    if not isinstance(entry, dict) or not set(entry) <= _MEMBERS:
        raise ConfigurationError(
            "not a tool server", expected=", ".join(sorted(_MEMBERS)), where=where, code="gateway.settings"
        )
    command, env, folders = entry.get("command", []), entry.get("env", {}), entry.get("folders", [])
    if not isinstance(command, list) or not isinstance(env, dict) or not isinstance(folders, list):
        raise ConfigurationError(
            "not a tool server",
            expected="lists 'command' and 'folders', an object 'env'",
            where=where,
            code="gateway.settings",
        )
    return MCPServerConfig(
        id=name,
        url=entry.get("url"),
        roots=(sha256_name(roots[name]),) if name in roots else (),
        header=entry.get("header"),
        key=entry.get("key"),
        command=tuple(command),
        env=tuple(sorted(env.items())),
        folders=tuple(folders),
        timeout_s=entry.get("timeout_s", 60),
        concurrent=entry.get("concurrent", 8),
    )
