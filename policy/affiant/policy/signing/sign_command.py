"""``affiant policy sign`` signs a profile file with a plain key or through sigstore.

What the command needs is imported when it runs, so that help costs nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.log.sigstore_options import service_from, signing_options
from affiant.command_line import print_json, printable
from affiant.policy.loading.policy_file import read_policy_file
from affiant.policy.rendering.terminal import floor_option

if TYPE_CHECKING:
    from affiant.attestation.signatures.profiles.accepted_signers import ProfileSigner

__all__ = ["sign"]

_FILE: Final = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("file", type=_FILE)
@click.option(
    "--key", type=_FILE, help="Private key to sign with: PEM, P-256, P-384 or Ed25519, readable by you only."
)
@signing_options
@click.option("-o", "--output", type=_FILE, help="File for the signature. Default: FILE.sig.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@floor_option
def sign(
    *,
    floor: Path | None,
    file: Path,
    key: Path | None,
    by_sigstore: bool,
    trust_config: Path | None,
    identity_token: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Sign FILE: the meaning of its profiles, with the baseline policy merged in, and its bytes.

    Give exactly one of --key and --sigstore. FILE must load, and its tests must hold. The signature is verified before
    it is written, and never replaces a file.

    With --sigstore an identity signs, through the services that --trust-config names. Their log is public and
    permanent: identity, time and digest stay in it.

    Exit codes: 0 signed; 1 the file is rejected, or a service rejects the request; 2 the command line, a key or an
    output is wrong.

    \b
    Examples:
      affiant policy sign profiles.yaml --key reviewer.pem
      affiant policy sign profiles.yaml --sigstore --trust-config trust_config.json --identity-token token
    """
    from affiant.attestation.cli.quote.policy_output import require_free, write_new  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.profiles.verification import (  # noqa: PLC0415 - help must stay cheap
        parse_profile_signature,
        verify_by,
    )
    from affiant.policy.signing.signature_file import signature_place  # noqa: PLC0415 - as above
    from affiant.policy.signing.signature_report import (  # noqa: PLC0415 - as above
        refusals,
        signature_document,
        signature_lines,
    )
    from affiant.policy.signing.signatures import require_about, signed_profiles  # noqa: PLC0415 - as above

    if (key is None) == (not by_sigstore):
        raise click.UsageError("sign with exactly one of --key and --sigstore")
    if key is not None and (trust_config is not None or identity_token is not None):
        raise click.UsageError("--trust-config and --identity-token belong to --sigstore")
    place = output or signature_place(file)
    with refusals(as_json=as_json):
        profiles = read_policy_file(file, owners=None, floor=floor).profiles
        statement = signed_profiles(profiles).to_bytes()
        require_free(place)
        raw, signer = (
            _by_service(statement, trust_config, identity_token) if key is None else _by_key(statement, key)
        )
        found = verify_by(parse_profile_signature(raw), signer)
        require_about(found.signed, profiles)
        write_new(place, raw)
    if as_json:
        print_json({"file": str(place), **signature_document(found)})
        return
    click.echo(printable(f"SIGNED      {place}"))
    for line in signature_lines(found):
        click.echo(line)


def _by_key(statement: bytes, path: Path) -> tuple[bytes, ProfileSigner]:
    from affiant.attestation.signatures.profiles.envelope import sign_envelope  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.signatures.profiles.private_keys import read_signing_key  # noqa: PLC0415 - as above

    key = read_signing_key(path)
    return sign_envelope(statement, key), key.public


def _by_service(
    statement: bytes, trust_config: Path | None, identity_token: Path | None
) -> tuple[bytes, ProfileSigner]:
    """The bundle, and the signer that its certificate names: the token identifies the caller to the service."""
    from affiant.attestation.signatures.sigstore.sigstore_anchor import signer_of_anchor  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot  # noqa: PLC0415 - as above

    service, trusted_root = service_from(trust_config, identity_token)
    bundle = service(statement)
    return bundle, SigstoreRoot(trusted_root, signer_of_anchor(bundle))
