"""Who gives a program its TD: one narrow interface, so that a launcher does not know what is behind it.

:class:`SimulatedProvisioner` asks the simulated platform of this machine. A provisioner that boots a guest image
on a TDX host implements the same two methods; none is part of this version, and none has been run yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.attestation.tdx.tcb.collateral import Collateral

__all__ = ["Image", "Provisioner", "SimulatedProvisioner"]


class Provisioner(Protocol):
    """What a launcher asks of the platform."""

    def create_td(self, *, image: Image, mrconfigid: bytes) -> int:
        """Launch a TD of ``image`` with these 48 bytes in MRCONFIGID; a descriptor to pass to its program."""
        ...

    def collateral(self) -> Collateral:
        """What a verifier needs beside this platform's quotes."""
        ...


class SimulatedProvisioner:
    """The SIMULATED TDX platform in ``home``; its evidence never counts as hardware."""

    evidence_class = "simulated"

    def __init__(self, home: Path) -> None:
        self._client = PlatformClient(platform_socket(home))

    def create_td(self, *, image: Image, mrconfigid: bytes) -> int:
        """See :class:`Provisioner`.

        Raises:
            PlatformUnreachableError: the platform does not answer.
        """
        return self._client.create_td(image=image, mrconfigid=mrconfigid)

    def collateral(self) -> Collateral:
        """See :class:`Provisioner`."""
        return self._client.collateral()

    def root(self) -> bytes:
        """The platform's root key, DER SubjectPublicKeyInfo."""
        return self._client.root()
