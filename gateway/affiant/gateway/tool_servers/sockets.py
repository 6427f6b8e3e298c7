"""Where the gateway finds the tool servers that its launcher runs."""

from __future__ import annotations

from pathlib import Path

__all__ = ["socket_of"]


def socket_of(store: Path, server: str) -> Path:
    """The socket at which the gateway connects for a process of ``server``."""
    return store / f"mcp-{server}.sock"
