"""``affiant policy verify`` checks offline that a named signer has signed a profile file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.log.sigstore_options import believing_options, named_signer
from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.command_line import print_json
from affiant.policy.loading.policy_file import read_policy_file
from affiant.policy.rendering.terminal import floor_option

if TYPE_CHECKING:
    from affiant.attestation.signatures.profiles.verification import ProfileSignature, VerifiedSignature

    _Verify = Callable[[ProfileSignature], VerifiedSignature]

__all__ = ["verify"]

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--signature", type=_FILE, help="File with the signature. Default: FILE.sig.json.")
@click.option("--key", type=_FILE, help="Public key that must have signed: PEM.")
@believing_options
@click.option(
    "--signers",
    type=_FILE,
    help="File of accepted signers, one of whom must have signed.",
)
@click.option(
    "--at",
    callback=timestamp,
    metavar="TIME",
    help="Time at which the validity of --signers is checked. Default: now.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@floor_option
def verify(
    *,
    floor: Path | None,
    file: Path,
    signature: Path | None,
    key: Path | None,
    trusted_root: Path | None,
    identity: str | None,
    issuer: str | None,
    signers: Path | None,
    at: datetime,
    as_json: bool,
) -> None:
    """Check offline that a signer whom you name has signed FILE as it is, with its baseline policy.

    Name the signer by --key; by --trusted-root, --identity and --issuer together; or by --signers. A signature by any
    other signer is an error.

    Exit codes: 0 the signature holds; 1 the file or the signature is rejected; 2 the command line or the named signer
    is wrong.

    \b
    Examples:
      affiant policy verify profiles.yaml --key reviewer.pub.pem
      affiant policy verify profiles.yaml --trusted-root trusted_root.json \\
          --identity reviewer@example.com --issuer https://accounts.example.com
      affiant policy verify profiles.yaml --signers signers.json --json
    """
    from affiant.policy.signing.signature_file import (  # noqa: PLC0415 - help must stay cheap
        read_signature,
        signature_place,
    )
    from affiant.policy.signing.signature_report import (  # noqa: PLC0415 - as above
        refusals,
        signature_document,
        signature_lines,
    )
    from affiant.policy.signing.signatures import require_about  # noqa: PLC0415 - as above

    identity_given = (trusted_root, identity, issuer) != (None, None, None)
    if sum((key is not None, identity_given, signers is not None)) != 1:
        raise click.UsageError(
            "name who must have signed: --key, or --trusted-root with --identity and --issuer, or --signers"
        )
    with refusals(as_json=as_json):
        by_named = (
            _by_list(signers, at) if signers is not None else _by_one(key, trusted_root, identity, issuer)
        )
        profiles = read_policy_file(file, owners=None, floor=floor).profiles
        found = by_named(read_signature(signature or signature_place(file)))
        require_about(found.signed, profiles)
    if as_json:
        print_json(signature_document(found))
        return
    click.echo("SIGNED      holds: this file, its meaning and its baseline policy")
    for line in signature_lines(found):
        click.echo(line)


def _by_list(path: Path, at: datetime) -> _Verify:
    """Verification by the signers of a file, as they count at ``at``."""
    from affiant.attestation.signatures.profiles.accepted_signers import (  # noqa: PLC0415 - help must stay cheap
        MAX_SIGNERS_FILE,
        parse_signers_file,
    )
    from affiant.attestation.signatures.profiles.verification import (  # noqa: PLC0415 - as above
        require_usable,
        verify_by_one_of,
    )
    from affiant.policy.signing.signature_report import read_limited  # noqa: PLC0415 - as above

    signers = parse_signers_file(read_limited(path, MAX_SIGNERS_FILE))
    require_usable(signers)
    return partial(verify_by_one_of, signers=signers, at=at)


def _by_one(key: Path | None, trusted_root: Path | None, identity: str | None, issuer: str | None) -> _Verify:
    """Verification by the one key, or by the one identity, that the command line names."""
    from affiant.attestation.signatures.profiles.signing_keys import MAX_KEY_FILE, parse_public_pem  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.profiles.verification import verify_by  # noqa: PLC0415 - as above
    from affiant.policy.signing.signature_report import read_limited  # noqa: PLC0415 - as above

    if key is not None:
        return partial(verify_by, signer=parse_public_pem(read_limited(key, MAX_KEY_FILE)))
    named = named_signer(trusted_root, identity, issuer)
    assert named is not None, "one of the three was given"
    return partial(verify_by, signer=named[0][1])
