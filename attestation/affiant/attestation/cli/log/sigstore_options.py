"""Defines the sigstore options of the anchor commands: who signs, and whose signatures are trusted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from affiant.attestation.cli.log.options import FILE, read_bounded
from affiant.printable import shown_time

if TYPE_CHECKING:
    from affiant.attestation.anchors.checkpoint_signing import SignedAnchor, Signing
    from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot
    from affiant.attestation.signatures.timestamps.renewal import AcceptedRoot

__all__ = [
    "believing_options",
    "named_signer",
    "service_from",
    "signed_document",
    "signing_from",
    "signing_options",
]

TOKEN_VARIABLE: Final = "SIGSTORE_IDENTITY_TOKEN"  # noqa: S105 - a name
_TOKEN: Final = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)
_MAX_TOKEN: Final = 16 << 10
_Command = TypeVar("_Command", bound=Callable[..., Any])


def signing_options(command: _Command) -> _Command:
    """``--sigstore``, ``--trust-config`` and ``--identity-token``, for :func:`signing_from`."""
    sigstore = click.option(
        "--sigstore", "by_sigstore", is_flag=True, help="Have an identity sign, and sigstore record it."
    )
    config = click.option(
        "--trust-config", type=FILE, help="A sigstore client trust configuration: services and roots."
    )
    token = click.option(
        "--identity-token",
        type=_TOKEN,
        help=f"An OIDC token for the audience `sigstore`; `-`: standard input. Default: ${TOKEN_VARIABLE}.",
    )
    return sigstore(config(token(command)))


def believing_options(command: _Command) -> _Command:
    """``--trusted-root``, ``--identity`` and ``--issuer``: all, or none, by :func:`named_signer`."""
    root = click.option("--trusted-root", type=FILE, help="Your sigstore trusted_root.json.")
    identity = click.option("--identity", help="Who must have signed: an e-mail address or a URI.")
    issuer = click.option("--issuer", metavar="URL", help="The OIDC issuer of that identity.")
    return root(identity(issuer(command)))


def signing_from(trust_config: Path | None, token: Path | None, now: datetime) -> Signing:
    """How the command line has a checkpoint signed.

    Raises:
        AffiantError: as :func:`service_from`.
    """
    from affiant.attestation.anchors.checkpoint_signing import Signing  # noqa: PLC0415 - help must stay cheap

    sign, trusted_root = service_from(trust_config, token)
    return Signing(sign=sign, trusted_root=trusted_root, now=now)


def service_from(trust_config: Path | None, token: Path | None) -> tuple[Callable[[bytes], bytes], bytes]:
    """The deployment that signs: an in-toto statement -> a sigstore bundle; and its trusted root.

    Raises:
        SettingsInvalid, AnchorSettingsInvalid: no configuration or token, or one that cannot be meant.
        AnchorExtraMissing: the library is not installed.
    """
    from affiant.attestation.signatures.timestamps.errors import (  # noqa: PLC0415 - help must stay cheap
        AnchorExtraMissing,
        AnchorSettingsInvalid,
    )

    if trust_config is None:
        raise AnchorSettingsInvalid(
            "name the sigstore deployment that signs",
            expected="--trust-config FILE",
            hint="None is chosen for you: its log keeps your identity.",
        )
    try:
        from affiant.attestation.signatures.sigstore.sigstore_signing import (  # noqa: PLC0415 - an extra, slow to load
            MAX_TRUST_CONFIG,
            sign_statement,
            trusted_root_of,
        )
    except ModuleNotFoundError as error:
        raise AnchorExtraMissing(
            "signing by sigstore needs the sigstore library, which is not installed",
            hint="Install it with: pip install 'affiant[sigstore]'",
        ) from error
    config, identity = read_bounded(trust_config, MAX_TRUST_CONFIG), _token(token)
    return (
        lambda statement: sign_statement(statement, trust_config=config, token=identity)[0],
        trusted_root_of(config),
    )


def named_signer(
    trusted_root: Path | None, identity: str | None, issuer: str | None
) -> Sequence[tuple[AcceptedRoot, SigstoreRoot]] | None:
    """The signer of the command line, without an end; None where it names none.

    Raises:
        AnchorSettingsInvalid: not all three.
        SettingsInvalid: an identity or an issuer that cannot be meant.
    """
    from affiant.attestation.signatures.sigstore.sigstore_root import SigstoreRoot  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.sigstore.trusted_identity import MAX_TRUSTED_ROOT, Signer  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.signatures.timestamps.renewal import Always  # noqa: PLC0415 - as above

    if trusted_root is None and identity is None and issuer is None:
        return None
    if trusted_root is None or identity is None or issuer is None:
        raise AnchorSettingsInvalid(
            "a signer is named by three options", expected="--trusted-root, --identity and --issuer"
        )
    return [(Always(), SigstoreRoot(read_bounded(trusted_root, MAX_TRUSTED_ROOT), Signer(identity, issuer)))]


def signed_document(anchor: SignedAnchor) -> Mapping[str, object]:
    """One anchor; identity and issuer are those that the caller trusts."""
    from affiant.attestation.signatures.sigstore.sigstore_anchor import not_after_of  # noqa: PLC0415 - help must stay cheap

    record, signer = anchor.record, anchor.root.signer
    return {
        "size": anchor.checkpoint.size,
        "kind": "sigstore",
        "not_after": shown_time(not_after_of(record)),
        "identity": signer.identity,
        "issuer": signer.issuer,
        "log": {"origin": record.origin, "index": record.index},
        "at_from": "log" if record.promised else "timestamp-authority",
    }


def _token(file: Path | None) -> str:
    """The identity token: one line of ASCII."""
    from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid  # noqa: PLC0415 - as above

    if file is None:
        raw = os.environ.get(TOKEN_VARIABLE, "").encode("utf-8", "surrogateescape")
    else:
        raw = sys.stdin.buffer.read(_MAX_TOKEN + 1) if file == Path("-") else read_bounded(file, _MAX_TOKEN)
    token = raw.strip()
    if not token.isascii() or not 0 < len(token) <= _MAX_TOKEN:
        raise AnchorSettingsInvalid(
            "no identity token that could be used",
            expected=f"one OIDC token, a line of text, in --identity-token or {TOKEN_VARIABLE}",
        )
    return token.decode()
