"""Names the platform's folder and its socket in a home folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["SOCKET_NAME", "platform_folder", "platform_socket"]

SOCKET_NAME: Final = "platform.sock"


def platform_folder(home: Path) -> Path:
    """The platform's folder in ``home``."""
    return home / "platform"


def platform_socket(home: Path) -> Path:
    """The platform's socket in ``home``."""
    return platform_folder(home) / SOCKET_NAME
