"""Implements ``affiant quote policy statement``, ``publish`` and ``published``. It reads files, prints, and chooses
exit codes.

What a command needs is imported when it runs, so that help costs nothing and the base install needs no sigstore.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.quote.bounded_file import read_bounded
from affiant.attestation.cli.quote.policy_signing_options import signer_options
from affiant.command_line import print_json, printable, refusals

if TYPE_CHECKING:
    from affiant.attestation.signatures.sigstore.statement import SignedFile
    from affiant.attestation.signatures.sigstore.verification import VerifiedFile

__all__ = ["publish", "published", "read_publication", "statement"]

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_MAX_TOKEN: Final = 16 << 10
_DOCUMENT: Final = "affiant-publication-verdict/1"
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")


def _to_be_published(file: Path) -> SignedFile:
    from affiant.attestation.signatures.sigstore.content import file_to_sign  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.signatures.sigstore.statement import MAX_CONTENT  # noqa: PLC0415 - as above

    return file_to_sign(file.name, read_bounded(file, MAX_CONTENT))


def read_publication(bundle: bytes, *, signer: str, signer_issuer: str, trusted_root: Path) -> VerifiedFile:
    """Verify a bundle by what the three options say.

    Raises:
        AffiantError: as ``verify_signed_file``.
    """
    from affiant.attestation.signatures.sigstore.trusted_identity import MAX_TRUSTED_ROOT, Signer  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.verification import verify_signed_file  # noqa: PLC0415 - as above

    return verify_signed_file(
        bundle,
        trusted_root=read_bounded(trusted_root, MAX_TRUSTED_ROOT),
        signer=Signer(signer, signer_issuer),
    )


@click.command()
@click.argument("file", type=_FILE)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write it here instead of printing it.")
def statement(*, file: Path, output: Path | None) -> None:
    """Write the in-toto statement that a signer signs over FILE, a policy or reference values.

    FILE is read as strictly as a verifier reads it; a file that a verifier would reject is not signed.

    Exit codes: 0 written, 1 the file is refused, 2 usage, also for an output that is there already.

    \b
    Examples:
      affiant quote policy statement appraisal.yaml
      affiant quote policy statement appraisal.yaml --output appraisal.statement.json
    """
    from affiant.attestation.cli.quote.policy_output import require_free, write_new  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.statement import file_statement  # noqa: PLC0415 - as above

    with refusals(_DOCUMENT, as_json=False):
        if output is not None:
            require_free(output)
        unsigned = file_statement(_to_be_published(file))
        if output is None:
            click.echo(unsigned.decode())
        else:
            write_new(output, unsigned)


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="The bundle: FILE.sigstore.json."
)
@click.option(
    "--trust-config",
    required=True,
    type=_FILE,
    help="A sigstore client trust configuration: services and roots.",
)
@click.option(
    "--identity-token-file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path),
    help="An OIDC token for the audience `sigstore`; `-` reads it from standard input.",
)
def publish(*, file: Path, output: Path, trust_config: Path, identity_token_file: Path) -> None:
    """Sign FILE, a policy or reference values, with an identity through sigstore, and record it in the log.

    Talks to the services that the trust configuration names. The log is public and permanent: identity, time and
    digest stay in it. What comes back is verified before it is written.

    Exit codes: 0 published, 1 refused (the file, or by a service), 2 usage.

    \b
    Examples:
      affiant quote policy publish appraisal.yaml --output appraisal.yaml.sigstore.json \\
          --trust-config trust_config.json --identity-token-file token
    """
    from affiant.attestation.cli.quote.policy_output import require_free, write_new  # noqa: PLC0415 - as above
    from affiant.attestation.quote.show.policy_text import publication_lines  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.errors import ExtraMissing, SettingsInvalid  # noqa: PLC0415 - as above

    with refusals(_DOCUMENT, as_json=False):
        try:
            from affiant.attestation.signatures.sigstore.sigstore_signing import (  # noqa: PLC0415 - an extra, slow to load
                MAX_TRUST_CONFIG,
                publish_file,
            )
        except ModuleNotFoundError as error:
            raise ExtraMissing from error
        require_free(output)
        ready = _to_be_published(file)
        token = read_bounded(identity_token_file, _MAX_TOKEN).strip()
        if not token.isascii() or not 0 < len(token) <= _MAX_TOKEN:
            raise SettingsInvalid(
                "the identity token cannot be used", expected="one OIDC token, a line of text"
            )
        bundle, found = publish_file(
            ready, trust_config=read_bounded(trust_config, MAX_TRUST_CONFIG), token=token.decode()
        )
        write_new(output, bundle)
    click.echo(f"PUBLISHED  {printable(str(output))}")
    for line in publication_lines(found):
        click.echo(line)


@click.command()
@click.argument("bundle", type=_FILE)
@signer_options(required=True)
@click.option("--extract", type=click.Path(path_type=Path), help="Write the signed file here.")
@_json
def published(
    *,
    bundle: Path,
    signer: str,
    signer_issuer: str,
    trusted_root: Path,
    extract: Path | None,
    as_json: bool,
) -> None:
    """Verify a signed policy or signed reference values offline, and show who signed them.

    Exit codes: 0 it holds, 1 it is refused (nothing is written), 2 usage.

    \b
    Examples:
      affiant quote policy published appraisal.yaml.sigstore.json --signer release@vendor.example \\
          --signer-issuer https://accounts.example --trusted-root trusted_root.json --extract appraisal.yaml
    """
    from affiant.attestation.cli.quote.policy_output import require_free, write_new  # noqa: PLC0415 - as above
    from affiant.attestation.quote.show.policy_text import publication_lines  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.bundle import MAX_BUNDLE  # noqa: PLC0415 - as above

    with refusals(_DOCUMENT, as_json=as_json, published=None):
        if extract is not None:
            require_free(extract)
        found = read_publication(
            read_bounded(bundle, MAX_BUNDLE),
            signer=signer,
            signer_issuer=signer_issuer,
            trusted_root=trusted_root,
        )
        if extract is not None:
            write_new(extract, found.file.content)
    if as_json:
        print_json({"typ": _DOCUMENT, "refused": None, "published": found.to_json()})
        return
    click.echo("PUBLISHED FILE  holds: signed, logged, and read")
    for line in publication_lines(found):
        click.echo(line)
