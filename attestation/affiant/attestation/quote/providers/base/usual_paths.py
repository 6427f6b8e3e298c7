"""Names the paths by which a Linux guest shows what it is, for programs that only look whether they are there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["DSTACK_SOCKET", "TAPPD_SOCKET", "TDX_DEVICE"]

DSTACK_SOCKET: Final = Path("/var/run/dstack.sock")
TAPPD_SOCKET: Final = Path("/var/run/tappd.sock")
TDX_DEVICE: Final = Path("/dev/tdx_guest")
