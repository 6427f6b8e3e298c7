"""Describes what to request from the provisioning service: a kind of platform, and an edition of its documents.

A kind of platform is an FMSPC (6 bytes) and the authority that issues its PCK certificates. Both be in the
PCK chain of a quote; read from there they are a hint that chooses questions, and prove nothing.

Editions (Intel PCS API v4, parameters ``update`` and ``tcbEvaluationDataNumber``): ``standard`` is what Intel
enforces by default; ``early`` has the next evaluation, months before; a number names one evaluation for good.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from affiant.attestation.quote.collateral.errors import SettingsInvalid
from affiant.attestation.tdx.pki.certificates import parse_chain
from affiant.attestation.tdx.pki.pck import PCKCA, extension_of
from affiant.attestation.tdx.quote.quote import TDQuote

__all__ = ["EARLY", "STANDARD", "Authority", "Edition", "Evaluation", "Platform", "Update", "platform_of"]

FMSPC_SIZE: Final = 6
MAX_EVALUATION: Final = 0xFFFF
_FMSPC: Final = re.compile(r"[0-9A-Fa-f]{12}\Z")


class Authority(StrEnum):
    """The value of ``ca=``: who issues the platform's PCK certificates."""

    PLATFORM = "platform"
    PROCESSOR = "processor"

    @property
    def pck_ca(self) -> PCKCA:
        """The same authority by the name in its certificate."""
        match self:
            case Authority.PLATFORM:
                return PCKCA.PLATFORM
            case Authority.PROCESSOR:
                return PCKCA.PROCESSOR
            case _:
                assert_never(self)

    @classmethod
    def of(cls, pck_ca: PCKCA) -> Authority:
        """The authority of that certificate name."""
        return cls.PLATFORM if pck_ca is PCKCA.PLATFORM else cls.PROCESSOR


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of platform: FMSPC, 6 bytes, and authority.

    Raises:
        SettingsInvalid: an FMSPC of another size.
    """

    fmspc: bytes
    authority: Authority

    def __post_init__(self) -> None:
        if len(self.fmspc) != FMSPC_SIZE:
            raise SettingsInvalid(
                "FMSPC of another size", expected="6 bytes", found=f"{len(self.fmspc)} bytes"
            )

    @classmethod
    def named(cls, fmspc: str, authority: Authority) -> Platform:
        """The platform with this FMSPC in 12 hexadecimal digits of either case.

        Raises:
            SettingsInvalid: another text.
        """
        if _FMSPC.match(fmspc) is None:
            raise SettingsInvalid(
                "not an FMSPC", expected="12 hexadecimal digits, as 90c06f000000", found=repr(fmspc[:40])
            )
        return cls(bytes.fromhex(fmspc), authority)

    def __str__(self) -> str:
        return f"FMSPC {self.fmspc.hex()} ({self.authority} CA)"


def platform_of(quote: TDQuote) -> Platform:
    """The platform that the (unverified) PCK chain of ``quote`` names: good for choosing, never for believing.

    Raises:
        MalformedError: the chain, or the PCK certificate's extension, cannot be read.
        SettingsInvalid: the chain names neither of Intel's two authorities.
    """
    leaf, *issuers = parse_chain(quote.authentication.pck_chain)
    issuer = issuers[0].common_name if issuers else ""
    for authority in Authority:
        if issuer == authority.pck_ca.value:
            return Platform(extension_of(leaf).fmspc, authority)
    raise SettingsInvalid(
        "the quote's PCK chain names neither of the two PCK authorities",
        expected=" or ".join(repr(ca.value) for ca in PCKCA),
        found=repr(issuer[:64]),
        hint="Name the platform yourself: --fmspc and --ca.",
    )


class Update(StrEnum):
    """The values of ``update=``."""

    STANDARD = "standard"
    EARLY = "early"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One TCB evaluation, by its tcbEvaluationDataNumber.

    Raises:
        SettingsInvalid: not in 1..65535.
    """

    number: int

    def __post_init__(self) -> None:
        if not 0 < self.number <= MAX_EVALUATION:
            raise SettingsInvalid(
                "not an evaluation number", expected=f"1 to {MAX_EVALUATION}", found=self.number
            )

    def __str__(self) -> str:
        return f"evaluation {self.number}"


Edition = Update | Evaluation
"""Which edition of TCB Info and QE Identity."""

STANDARD: Final = Update.STANDARD
EARLY: Final = Update.EARLY
