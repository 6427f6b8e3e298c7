"""Collects one quote from the first evidence provider that this machine has, and reports which one.

Of its own accord (``auto``) it asks, in this order, those for which the caller gave what they bind: configfs-tsm and
dstack, which bind report data, then azure-vtpm, which binds a nonce. It goes on past a source that is absent, and past
nothing else: one that is there and refuses is what the caller should see. The simulated platform is never taken unless
it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

from affiant.attestation.quote.providers.base.checked_quote import check_report_data
from affiant.attestation.quote.providers.base.errors import ProviderAbsent, SettingsInvalid
from affiant.attestation.quote.providers.clouds.azure_document import encode_azure_evidence
from affiant.attestation.quote.providers.clouds.azure_guest import AzureGuest
from affiant.attestation.quote.providers.clouds.azure_imds import AzureIMDS
from affiant.attestation.quote.providers.clouds.azure_vtpm import PROFILE as AZURE_VTPM_PROFILE
from affiant.attestation.quote.providers.clouds.dstack import DstackAgent
from affiant.attestation.quote.providers.kernel.configfs_tsm import ConfigfsTSM
from affiant.attestation.quote.providers.machine_paths import Places
from affiant.attestation.quote.providers.tpm.tpm import TPM
from affiant.attestation.quote.providers.tpm.tpm_device import TPMDevice
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.served.client import PlatformClient, SimulatedTD
from affiant.attestation.simulated.served.socket_path import platform_socket

__all__ = ["AUTO_ORDER", "CollectedEvidence", "EvidenceRequest", "ProviderName", "collect"]


class ProviderName(StrEnum):
    """A source, as it is asked for."""

    CONFIGFS_TSM = "configfs-tsm"
    DSTACK = "dstack"
    AZURE_VTPM = "azure-vtpm"
    SIMULATED = "simulated"


AUTO_ORDER: Final = (ProviderName.CONFIGFS_TSM, ProviderName.DSTACK, ProviderName.AZURE_VTPM)
_TDX_PROFILE: Final = "tdx"
_UNBOUND: Final = bytes(48)
"""MRCONFIGID of a TD that nobody launched for anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRequest:
    """What shall be bound.

    Args:
        report_data: 64 bytes, for a source whose guest chooses REPORTDATA.
        nonce: 32 bytes, for azure-vtpm.
        user_data: 64 bytes for the runtime data of azure-vtpm.
    """

    report_data: bytes | None = None
    nonce: bytes | None = None
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedEvidence:
    """Evidence as it was taken. Nothing of it is verified.

    Args:
        content: a TDX quote; for azure-vtpm a document that holds one.
        profile: ``tdx`` or ``azure-vtpm``.
        passed_over: what was not there, in the order in which it was looked for.
    """

    source: ProviderName
    profile: str
    content: bytes = field(repr=False)
    passed_over: tuple[tuple[ProviderName, ProviderAbsent], ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether the simulated platform was asked; about the others only verification says anything."""
        return self.source is ProviderName.SIMULATED


def collect(
    asked: EvidenceRequest,
    places: Places,
    *,
    source: ProviderName | None,
    random_bytes: Callable[[int], bytes],
    sleep: Callable[[float], None],
) -> CollectedEvidence:
    """Evidence over what was ``asked``, by ``source`` or, if None, by the first that is there.

    Raises:
        SettingsInvalid: nothing was asked that such a source binds, or something that it does not.
        ProviderAbsent: none is there. ProviderDenied, ProviderBusy, ResponseRefused, ...: as the source refuses.
    """
    if source is not None:
        _demand_fitting(asked, source)
        return _collect(asked, places, source, random_bytes, sleep)
    if asked.user_data is not None and asked.nonce is None:
        raise SettingsInvalid("user data is for azure-vtpm, which binds a nonce, and none was given")
    order = tuple(name for name in AUTO_ORDER if _binds(asked, name))
    if not order:
        raise SettingsInvalid("nothing was given that a quote could bind", expected="report data, or a nonce")
    passed_over = list[tuple[ProviderName, ProviderAbsent]]()
    for name in order:
        try:
            taken = _collect(asked, places, name, random_bytes, sleep)
        except ProviderAbsent as absent:
            passed_over.append((name, absent))
        else:
            return CollectedEvidence(
                source=name, profile=taken.profile, content=taken.content, passed_over=tuple(passed_over)
            )
    raise ProviderAbsent(
        "this machine has no source of quotes for what was given",
        found="; ".join(f"{name}: {absent.message}" for name, absent in passed_over),
        hint=None if asked.nonce else "An Azure confidential VM binds a nonce, and no report data.",
    )


def _binds(asked: EvidenceRequest, source: ProviderName) -> bool:
    given = asked.nonce if source is ProviderName.AZURE_VTPM else asked.report_data
    return given is not None


def _demand_fitting(asked: EvidenceRequest, source: ProviderName) -> None:
    """Nothing that was given is left out in silence."""
    azure = source is ProviderName.AZURE_VTPM
    if not _binds(asked, source):
        raise SettingsInvalid(f"{source} binds {'a nonce' if azure else 'report data'}, and none was given")
    if azure and asked.report_data is not None:
        raise SettingsInvalid("azure-vtpm binds no report data", hint="Its guest may have user data bound.")
    if not azure and (asked.nonce is not None or asked.user_data is not None):
        raise SettingsInvalid(f"{source} binds report data alone, and no nonce or user data")


def _collect(
    asked: EvidenceRequest,
    places: Places,
    source: ProviderName,
    random_bytes: Callable[[int], bytes],
    sleep: Callable[[float], None],
) -> CollectedEvidence:
    match source:
        case ProviderName.AZURE_VTPM:
            guest = AzureGuest(TPM(TPMDevice(places.tpm_device)), AzureIMDS(places.imds), sleep=sleep)
            found = guest.collect(asked.nonce or b"", user_data=asked.user_data)
            return CollectedEvidence(
                source=source, profile=AZURE_VTPM_PROFILE, content=encode_azure_evidence(found)
            )
        case ProviderName.CONFIGFS_TSM:
            quote = ConfigfsTSM(random_bytes=random_bytes, root=places.tsm_root).quote(
                asked.report_data or b""
            )
        case ProviderName.DSTACK:
            agent = DstackAgent.of_this_machine(places.dstack_socket, places.tappd_socket)
            quote = agent.quote(asked.report_data or b"")
        case ProviderName.SIMULATED:
            quote = _simulated(asked.report_data or b"", places, random_bytes)
        case _:
            assert_never(source)
    return CollectedEvidence(source=source, profile=_TDX_PROFILE, content=quote)


def _simulated(report_data: bytes, places: Places, random_bytes: Callable[[int], bytes]) -> bytes:
    """By a TD that is launched for this one quote, and ends with it."""
    check_report_data(report_data)
    client = PlatformClient(platform_socket(places.home), random_bytes=random_bytes)
    descriptor = client.create_td(image=Image.SESSION, mrconfigid=_UNBOUND)
    with SimulatedTD(descriptor, random_bytes=random_bytes) as td:
        return td.quote(report_data)
