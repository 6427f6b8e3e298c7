"""Finds out which evidence providers this machine has, and why not the others. It changes nothing.

It asks the TPM for an index's size and the simulated platform for its state; no directory is made, no quote taken, no
network asked. What is seen only by taking a quote is therefore said with each source.
"""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.quote.providers.base.errors import ProviderAbsent, ProviderDenied, SettingsInvalid
from affiant.attestation.quote.providers.clouds.azure_guest import HCL_REPORT_INDEX
from affiant.attestation.quote.providers.collection import ProviderName
from affiant.attestation.quote.providers.machine_paths import Places
from affiant.attestation.quote.providers.tpm.tpm import TPM
from affiant.attestation.quote.providers.tpm.tpm_device import TPMDevice
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.errors import AffiantError

__all__ = ["ProviderState", "probe"]


@dataclass(frozen=True, slots=True)
class ProviderState:
    """One source on this machine.

    Args:
        gives: what its evidence is.
        unseen: what only taking a quote would show.
        error: why it cannot be used; None: nothing stands against it.
    """

    source: ProviderName
    gives: str
    unseen: str
    refusal: AffiantError | None


def probe(places: Places) -> tuple[ProviderState, ...]:
    """All sources, in the order in which they are looked for; the simulated one, which is never chosen, last."""
    return tuple(
        ProviderState(source, gives, unseen, _refusal(look, places)) for source, gives, unseen, look in _LOOKS
    )


def _refusal(look: Callable[[Places], None], places: Places) -> AffiantError | None:
    try:
        look(places)
    except AffiantError as error:
        return error
    return None


def _configfs_tsm(places: Places) -> None:
    if not places.tsm_root.is_dir():
        raise ProviderAbsent("there is no configfs-tsm on this machine", where=str(places.tsm_root))
    if not os.access(places.tsm_root, os.W_OK | os.X_OK):
        raise ProviderDenied("configfs-tsm may not be used by this user", where=str(places.tsm_root))


def _dstack(places: Places) -> None:
    found = [path for path in (places.dstack_socket, places.tappd_socket) if _is_socket(path)]
    if not found:
        raise ProviderAbsent("dstack's guest agent does not listen here", where=str(places.dstack_socket))
    if not os.access(found[0], os.W_OK):
        raise ProviderDenied("dstack's socket may not be used by this user", where=str(found[0]))


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.stat().st_mode)
    except OSError:
        return False


def _azure_vtpm(places: Places) -> None:
    TPM(TPMDevice(places.tpm_device)).nv_size(HCL_REPORT_INDEX)
    if importlib.util.find_spec("httpx") is None:
        raise SettingsInvalid(
            "the package 'httpx' is not installed", hint="Install it with: pip install 'affiant[collateral]'"
        )


def _simulated(places: Places) -> None:
    PlatformClient(platform_socket(places.home)).status()


_LOOKS: Final = (
    (
        ProviderName.CONFIGFS_TSM,
        "a TDX quote over your report data, from the kernel",
        "whether TDX is behind it",
        _configfs_tsm,
    ),
    (
        ProviderName.DSTACK,
        "a TDX quote over your report data, from the TD's own agent",
        "whether the agent answers",
        _dstack,
    ),
    (
        ProviderName.AZURE_VTPM,
        "a paravisor's TD quote and its vTPM's quote over your nonce; not plain TDX",
        "whether the metadata service answers",
        _azure_vtpm,
    ),
    (
        ProviderName.SIMULATED,
        "a SIMULATED quote over your report data; never hardware",
        "nothing",
        _simulated,
    ),
)
