"""Names the paths of one machine's evidence providers. The defaults are a Linux guest's; tests name others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from affiant.attestation.quote.providers.clouds.azure_imds import AZURE_IMDS
from affiant.attestation.quote.providers.clouds.dstack import DSTACK_SOCKET, TAPPD_SOCKET
from affiant.attestation.quote.providers.kernel.configfs_tsm import TSM_REPORT_ROOT
from affiant.attestation.quote.providers.tpm.tpm_device import TPM_DEVICE

__all__ = ["Places"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One machine's.

    Args:
        home: the state folder, which holds the simulated platform's.
        imds: address of Azure's metadata service.
    """

    home: Path
    tsm_root: Path = TSM_REPORT_ROOT
    dstack_socket: Path = DSTACK_SOCKET
    tappd_socket: Path = TAPPD_SOCKET
    tpm_device: Path = TPM_DEVICE
    imds: str = AZURE_IMDS
