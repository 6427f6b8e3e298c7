"""Says what this machine is: a TD under dstack, a TDX guest, or a machine without TDX. It looks, and changes nothing.

A machine that is a TDX guest is one even if its kernel gives no quotes: nothing here ever says "simulated" instead.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.clouds.dstack import DSTACK_SOCKET, TAPPD_SOCKET
from affiant.attestation.quote.providers.kernel.tdx_device import TDX_DEVICE

__all__ = ["PlatformName", "PlatformSigns", "own_platform"]

_CPU_FLAG: Final = "tdx_guest"
"""Linux, arch/x86/include/asm/cpufeatures.h: X86_FEATURE_TDX_GUEST."""


class PlatformName(StrEnum):
    """Where a session's TD comes from, as a user asks for it."""

    AUTO = "auto"
    SIMULATED = "simulated"
    TDX = "tdx"
    DSTACK = "dstack"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSigns:
    """Where a Linux guest shows what it is; tests name other paths."""

    cpuinfo: Path = Path("/proc/cpuinfo")
    tdx_device: Path = TDX_DEVICE
    dstack_socket: Path = DSTACK_SOCKET
    tappd_socket: Path = TAPPD_SOCKET


def own_platform(signs: PlatformSigns) -> PlatformName:
    """What this machine is; ``simulated`` only if nothing says that it is a TDX guest."""
    if any(_is_socket(path) for path in (signs.dstack_socket, signs.tappd_socket)):
        return PlatformName.DSTACK
    if signs.tdx_device.exists() or _CPU_FLAG in _cpu_flags(signs.cpuinfo):
        return PlatformName.TDX
    return PlatformName.SIMULATED


def _cpu_flags(cpuinfo: Path) -> frozenset[str]:
    """Of the first processor; all processors of a guest have the same."""
    try:
        lines = cpuinfo.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    return next((frozenset(line.split()) for line in lines if line.startswith("flags")), frozenset())


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False
