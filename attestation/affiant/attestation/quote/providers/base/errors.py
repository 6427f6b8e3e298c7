"""Defines the errors of evidence providers."""

from __future__ import annotations

from affiant.errors import (
    ConfigurationError,
    MalformedError,
    NotAllowedError,
    NotAuthenticError,
    UnreachableError,
)

__all__ = [
    "AzureEvidenceMalformed",
    "AzurePCRsInvalid",
    "LogDamaged",
    "ProviderAbsent",
    "ProviderBusy",
    "ProviderDenied",
    "RegisterMismatch",
    "ResponseRefused",
    "SettingsInvalid",
    "TPMRefused",
]


class ProviderAbsent(UnreachableError):
    """There is no such interface on this machine."""

    code = "source.absent"
    retryable: bool | None = False


class ProviderBusy(UnreachableError):
    """The interface did not answer, or others were quicker, as often as it was tried."""

    code = "source.busy"


class ResponseRefused(MalformedError):
    """What the interface gave is not what was asked for: no quote or report, or one over other report data."""

    code = "source.response"


class TPMRefused(MalformedError):
    """The TPM answered a command with an error.

    Args:
        return_code: the TPM's (TPM 2.0 Library, part 2, 6.6); :attr:`found` names it.
    """

    code = "tpm.refused"

    def __init__(self, message: str, *, where: str, found: str, return_code: int) -> None:
        super().__init__(message, where=where, found=found)
        self.return_code = return_code


class LogDamaged(MalformedError):
    """The event log's file holds something that this program did not write. It is left as it is."""

    code = "source.log"


class RegisterMismatch(NotAuthenticError):
    """The register does not hold what the log says: somebody extended it without a log entry, or the log is of
    another boot. No verifier would accept a quote of this TD."""

    code = "source.register"


class ProviderDenied(NotAllowedError):
    """This user may not use the interface."""

    code = "source.denied"


class SettingsInvalid(ConfigurationError):
    """Report data of another size, or a path that cannot be meant."""

    code = "source.settings"


class AzureEvidenceMalformed(MalformedError):
    """The HCL report or the TPM quote has another form."""

    code = "azure.malformed"


class AzurePCRsInvalid(NotAuthenticError):
    """The PCR values are not those whose digest the TPM quote carries."""

    code = "azure.pcrs"
