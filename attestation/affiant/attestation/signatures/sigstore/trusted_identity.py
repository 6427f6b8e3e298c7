"""Names the identity that a reader trusts: one subject, as one issuer knows it, under a trusted root. All exact,
never a pattern.

An identity alone is worth nothing: whoever runs any accepted issuer can put any address into a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from affiant.attestation.signatures.sigstore.errors import SettingsInvalid

__all__ = ["MAX_TRUSTED_ROOT", "Signer"]

MAX_TRUSTED_ROOT: Final = 4 << 20
"""Bytes of a reader's trusted root; the public deployment's has a few thousand."""

_MAX_TEXT: Final = 1024


@dataclass(frozen=True, slots=True)
class Signer:
    """An identity (an e-mail address, or the URI of a workflow) and the issuer of its token.

    Raises:
        SettingsInvalid: one of them is empty, too long, or has characters that cannot be seen.
    """

    identity: str
    issuer: str

    def __post_init__(self) -> None:
        for name, value in (("identity", self.identity), ("issuer", self.issuer)):
            if not 0 < len(value) <= _MAX_TEXT or not value.isprintable() or value != value.strip():
                raise SettingsInvalid(
                    f"no signer's {name}", expected=f"1 to {_MAX_TEXT} characters that can be seen"
                )

    def __str__(self) -> str:
        return f"{self.identity} (issuer {self.issuer})"
