"""Whose word counts with a gateway, besides its witnesses': the files in which its operator names them.

They become part of the configuration, and so of what the gateway's TD is launched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from affiant.attestation.encoding.canonical import parse_strict
from affiant.attestation.encoding.keys import public_key_of
from affiant.attestation.signatures.profiles.accepted_signers import (
    MAX_SIGNERS_FILE,
    AcceptedSigner,
    parse_signers_file,
)
from affiant.errors import ConfigurationError, MalformedError
from affiant.policy.loading.baseline import BaselinePolicy
from affiant.policy.loading.policy_file import read_baseline_file

__all__ = ["Named", "read_named"]


@dataclass(frozen=True, slots=True)
class Named:
    """``authorities``: whose orders to erase and to hold are carried out. ``signers``: one of whom must have signed a
    session's profile; none: it need not be signed. ``floor``: what every session's profile must contain."""

    authorities: tuple[ec.EllipticCurvePublicKey, ...]
    signers: tuple[AcceptedSigner, ...]
    floor: BaselinePolicy | None = None


def read_named(
    authorities: Sequence[Path],
    signers: Path | None,
    floor: Path | None = None,
    *,
    owners: frozenset[int] | None = None,
) -> Named:
    """Those whom the files name, and the baseline policy of the organisation.

    Args:
        owners: users whose baseline policy may be enforced (``policy_owners``); None: anyone's.

    Raises:
        ``gateway.settings``: a file cannot be read, or holds no authority's key.
        SignersInvalid: it is no list of signers.
        ``policy.file``, ``policy.floor``: the baseline policy cannot be read, or is none.
    """
    baseline = None if floor is None else read_baseline_file(floor, owners=owners)
    return Named(_authorities(authorities), _signers(signers), baseline)


def _signers(path: Path | None) -> tuple[AcceptedSigner, ...]:
    if path is None:
        return ()
    try:
        with path.open("rb") as file:
            return parse_signers_file(file.read(MAX_SIGNERS_FILE + 1))
    except OSError as error:
        raise ConfigurationError(
            "the file of profile signers cannot be read",
            where=str(path),
            found=error.strerror,
            code="gateway.settings",
        ) from error


def _authorities(paths: Sequence[Path]) -> tuple[ec.EllipticCurvePublicKey, ...]:
    try:
        return tuple(public_key_of(parse_strict(path.read_bytes(), limit=4096)) for path in paths)
    except OSError as error:
        raise ConfigurationError(
            "an authority's public key cannot be read",
            where=str(error.filename),
            found=error.strerror,
            code="gateway.settings",
        ) from error
    except MalformedError as error:
        raise ConfigurationError(
            f"not an authority's public key: {error}",
            hint="Made by: affiant erase keygen",
            code="gateway.settings",
        ) from error
