"""Gives a session its TD, from the platform that ``--platform`` names: one small interface for launchers.

:class:`SimulatedProvisioner` asks the simulated platform of this machine for a new TD. :class:`OwnTDProvisioner` uses
the TDX guest that it runs in: from inside a guest no other can be launched, so the guest must have been launched with
the session's MRCONFIGID. The second has not been run on TDX hardware.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from affiant.attestation.quote.providers.own_platform import PlatformName, PlatformSigns, own_platform
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
from affiant.errors import ConfigurationError
from affiant.sandbox.processes.home import Home

__all__ = ["Image", "OwnTDProvisioner", "Provisioner", "SimulatedProvisioner", "chosen_provisioner"]


class Provisioner(Protocol):
    """What a launcher asks of the platform."""

    @property
    def platform(self) -> PlatformName:
        """Which one it is; never ``auto``."""
        ...

    def create_td(self, *, image: Image, mrconfigid: bytes) -> int | None:
        """A TD of ``image`` with these 48 bytes in MRCONFIGID.

        Returns:
            A descriptor to pass to the program that shall run in it; None: the TD is the one that we run in.
        """
        ...

    def collateral(self) -> Collateral:
        """What a verifier needs beside the quotes of the gateway's platform."""
        ...


class SimulatedProvisioner:
    """The SIMULATED TDX platform in ``home``; its evidence never counts as hardware."""

    platform = PlatformName.SIMULATED

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


class OwnTDProvisioner:
    """The TDX guest that this program runs in, for one session in each boot.

    Args:
        td: this TD. collateral: the file that ``affiant collateral fetch`` wrote.
    """

    platform = PlatformName.TDX

    def __init__(self, td: QuoteSource, collateral: Path) -> None:
        self._td = td
        self._collateral = collateral

    def create_td(self, *, image: Image, mrconfigid: bytes) -> None:  # noqa: ARG002 - the guest has booted already
        """This TD, if it was launched for the session.

        Raises:
            ``session.platform``: it was launched with another MRCONFIGID.
            AffiantError: the kernel gives no report of this TD.
        """
        found = self._td.report().mrconfigid
        if found != mrconfigid:
            raise ConfigurationError(
                "this TDX guest was not launched for this session",
                expected=f"MRCONFIGID {mrconfigid.hex()}",
                found=found.hex(),
                hint="Launch a guest with that MRCONFIGID on its host, and run the command there",
                code="session.platform",
            )

    def collateral(self) -> Collateral:
        """See :class:`Provisioner`.

        Raises:
            ``session.platform``: there is no such file.
        """
        try:
            return parse_collateral(self._collateral.read_bytes())
        except FileNotFoundError as error:
            raise ConfigurationError(
                "there is no collateral to check the gateway's quote with",
                expected=str(self._collateral),
                hint="Fetch it for the gateway's platform: affiant collateral fetch",
                code="session.platform",
            ) from error


def chosen_provisioner(
    asked: PlatformName, home: Home, *, signs: PlatformSigns | None = None, td: QuoteSource | None = None
) -> Provisioner:
    """The platform that was asked for; ``auto``: what this machine is. A TD that fails is never replaced.

    Args:
        signs: where this machine shows what it is. td: the TDX guest, if it is not the kernel's at its usual places.

    Raises:
        ``session.platform``: a TD of dstack.
    """
    platform = own_platform(signs or PlatformSigns()) if asked is PlatformName.AUTO else asked
    if platform is PlatformName.SIMULATED:
        return SimulatedProvisioner(home.path)
    if platform is PlatformName.DSTACK:
        raise ConfigurationError(
            "a session cannot run in a TD of dstack",
            expected="a TD whose RTMR3 holds the session's events alone",
            found="dstack extends RTMR3 by events and digests of its own",
            hint="Use a TDX guest without dstack (--platform tdx); a quote alone: affiant quote take --source dstack",
            code="session.platform",
        )
    if td is None:
        from affiant.attestation.quote.providers.kernel.tdx_guest import RTMR3_LOG, TDXGuest  # noqa: PLC0415 - hardware

        td = TDXGuest.of_this_machine(RTMR3_LOG, random_bytes=os.urandom)
    return OwnTDProvisioner(td, home.path / "collateral.json")
