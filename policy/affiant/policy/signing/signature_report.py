"""Reports a verified signature as text and JSON, and maps errors to exit codes.

Exit codes of the commands: 1 the file or the signature is refused; 2 what the caller gave to judge it by, or to sign
with, cannot be meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from affiant.attestation.signatures.profiles.errors import SignersInvalid, SigningKeyInvalid
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.attestation.signatures.profiles.verification import VerifiedSignature
from affiant.attestation.signatures.sigstore.errors import ExtraMissing, SettingsInvalid, TrustedRootUnusable
from affiant.attestation.signatures.timestamps.errors import AnchorExtraMissing, AnchorSettingsInvalid
from affiant.command_line import EXIT_REFUSED, print_json, printable, show_error
from affiant.errors import AffiantError

__all__ = [
    "read_limited",
    "refusals",
    "signature_document",
    "signature_lines",
]

_GIVEN: Final = (
    AnchorExtraMissing,
    AnchorSettingsInvalid,
    ExtraMissing,
    SettingsInvalid,
    SignersInvalid,
    SigningKeyInvalid,
    TrustedRootUnusable,
)
"""What is wrong with the caller's own means, and says nothing about file or signature."""


@contextmanager
def refusals(*, as_json: bool) -> Iterator[None]:
    """Turn an error into its exit code; with --json, into a document too."""
    try:
        yield
    except _GIVEN as error:
        raise click.UsageError(f"{printable(str(error))} [{error.code}]") from error
    except AffiantError as error:
        if as_json:
            print_json({"refused": error.to_json(), "verified": None})
        else:
            show_error(error)
        raise click.exceptions.Exit(EXIT_REFUSED) from error


def read_limited(path: Path, limit: int) -> bytes:
    """The first ``limit`` + 1 bytes of a file, which every reader refuses.

    Raises:
        click.UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(limit + 1)
    except OSError as error:
        raise click.UsageError(f"{printable(str(path))} cannot be read: {error.strerror}") from error


def signature_document(found: VerifiedSignature) -> Mapping[str, object]:
    """The same for programs."""
    return {"refused": None, "verified": found.to_json()}


def signature_lines(found: VerifiedSignature) -> Iterator[str]:
    """What was signed, by whom, and who says when; what others wrote is escaped."""
    signed, signer = found.signed, found.signer
    count = f"{len(signed.profiles)} profile" + ("" if len(signed.profiles) == 1 else "s")
    yield f"meaning     {signed.digest} ({count}, {signed.semantics})"
    yield f"file        {signed.source}"
    yield f"baseline    {signed.floor or 'none'}"
    if isinstance(signer, ProfileKey):
        yield f"signed by   key {signer.id} ({signer.kind})"
        yield "signed at   unknown: a plain key records no time"
    else:
        assert found.log is not None
        said_by = "the log" if found.log.promised else "the timestamp authority"
        yield printable(f"signed by   {signer.signer.identity}")
        yield printable(f"issuer      {signer.signer.issuer}")
        yield f"signed at   {found.log.at:%Y-%m-%dT%H:%M:%SZ}, says {said_by}"
        yield printable(f"log         {found.log.origin}, entry {found.log.index} of {found.log.size}")
    yield f"signature   {found.signature}"
