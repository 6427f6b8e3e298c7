"""Reads the file of accepted values: the reader's own as it is, or a signed one after its signature is verified.

A file is published if it calls itself a sigstore bundle, or its name ends in ``.sigstore.json``. The options that say
whom it must be from are demanded with one, and refused with any other file: they would be believed to hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.quote.bounded_file import read_bounded
from affiant.attestation.cli.quote.policy_signing_options import NamedSigner
from affiant.command_line import printable
from affiant.errors import AffiantError, NotAllowedError

if TYPE_CHECKING:
    from affiant.attestation.signatures.sigstore.verification import VerifiedFile

__all__ = ["AcceptedFile", "accepted_policy", "accepted_reference", "plain_policy"]

_SUFFIX: Final = ".sigstore.json"


@dataclass(frozen=True, slots=True)
class AcceptedFile:
    """The bytes that are believed, the name that errors show for them, and who published them, if anybody did."""

    name: str
    content: bytes
    publication: VerifiedFile | None = None


def accepted_policy(file: Path, by: NamedSigner) -> AcceptedFile:
    """The file behind --policy; if it is a published one that does not hold, nothing is judged.

    Raises:
        click.UsageError: the options do not fit the file, or the publication is refused.
    """
    from affiant.attestation.encoding.strict_yaml import PLAIN  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.tdx.policy.policy_file import APPRAISAL_POLICY_TYPE  # noqa: PLC0415 - as above

    return _accepted(file, by, kind=APPRAISAL_POLICY_TYPE, limit=PLAIN.max_bytes)


def accepted_reference(file: Path, by: NamedSigner) -> AcceptedFile:
    """The file behind --reference, likewise. A published one holds reference values, never a trust file.

    Raises:
        click.UsageError: the options do not fit the file, or the publication is refused.
    """
    from affiant.attestation.quote.judge.pins import MAX_REFERENCE_FILE  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.statement import FileKind  # noqa: PLC0415 - as above

    return _accepted(file, by, kind=FileKind.REFERENCE_VALUES, limit=MAX_REFERENCE_FILE)


def plain_policy(file: Path) -> AcceptedFile:
    """A policy that is only looked at, as it is in a file of its own.

    Raises:
        click.UsageError: it is a signed file.
    """
    from affiant.attestation.signatures.sigstore.bundle import MAX_BUNDLE, looks_like_bundle  # noqa: PLC0415 - as above

    content = read_bounded(file, MAX_BUNDLE)
    if looks_like_bundle(content):
        raise click.UsageError(
            f"{printable(file.name)} is a signed file: `affiant quote policy published --extract` gives the policy"
        )
    return AcceptedFile(file.name, content)


def _accepted(file: Path, by: NamedSigner, *, kind: str, limit: int) -> AcceptedFile:
    """``kind``: the ``typ`` that a signed file must have here; ``limit``: bytes of one that is not published."""
    from affiant.attestation.cli.quote.policy_signing_commands import read_publication  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.bundle import MAX_BUNDLE, looks_like_bundle  # noqa: PLC0415 - help must stay cheap

    content = read_bounded(file, max(limit, MAX_BUNDLE))
    if not file.name.endswith(_SUFFIX) and not looks_like_bundle(content):
        if by.any_given:
            raise click.UsageError(
                f"{printable(file.name)} is not a sigstore bundle: --signer, --signer-issuer and --trusted-root "
                "are about a signed file"
            )
        return AcceptedFile(file.name, content)
    if by.signer is None or by.signer_issuer is None or by.trusted_root is None:
        raise click.UsageError(f"{printable(file.name)} is a signed file: give {', '.join(by.missing)}")
    try:
        found = read_publication(
            content, signer=by.signer, signer_issuer=by.signer_issuer, trusted_root=by.trusted_root
        )
        if found.file.kind != kind:
            raise NotAllowedError(
                "a signed file of another kind", expected=kind, found=found.file.kind, code="published.kind"
            )
    except AffiantError as error:
        raise click.UsageError(
            f"the signed file is refused: {printable(str(error))} [{error.code}]"
        ) from error
    return AcceptedFile(found.file.name, found.file.content, found)
