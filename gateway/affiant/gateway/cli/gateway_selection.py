"""Who asks which gateway: what the commands of approvers share. A key file, or an identity that signs through sigstore.

An identity signs twice: that a key made here, for this command, reads in its place at this gateway; and the statement
about the action, which is verified under the deployment's own trusted root before it leaves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, Protocol

import click

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.signatures.approvers.identities import MAX_SIGNED, NamedIdentities
from affiant.attestation.signatures.approvers.keys import APPROVER_KEY
from affiant.attestation.signatures.approvers.signed_by_identity import (
    action_statement,
    claimed_identity,
    reader_statement,
    verify_signed_action,
)
from affiant.attestation.signatures.approvers.statement import sign_statement
from affiant.folders import default_home
from affiant.gateway.cli.approvals_client import ApproverClient
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.processes.gateway_probe import read_gateway_file

__all__ = ["Asking", "Person", "asking_options"]

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_TOKEN: Final = click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)


class Person(Protocol):
    """The person who signs."""

    def says(self, action: str, *, approves: bool, expires: int) -> tuple[str, str]:
        """A statement about the action of this SHA-256 name, and the name of the approver who made it.

        Raises:
            AffiantError: nothing was signed.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Key:
    signer: Signer

    def says(self, action: str, *, approves: bool, expires: int) -> tuple[str, str]:
        statement = sign_statement(
            self.signer, action=action, approves=approves, made=int(time.time()), expires=expires
        )
        return statement, self.signer.kid


@dataclass(frozen=True, slots=True)
class _Identity:
    """Args: service: as ``service_from`` finds it, each time anew."""

    service: Callable[[], tuple[Callable[[bytes], bytes], bytes]]

    def says(self, action: str, *, approves: bool, expires: int) -> tuple[str, str]:
        statement = action_statement(action=action, approves=approves, expires=expires)
        text, trusted_root = self.bundle(statement)
        who = NamedIdentities(frozenset({claimed_identity(text)}), trusted_root)
        return text, verify_signed_action(text, who).name

    def bundle(self, statement: bytes) -> tuple[str, bytes]:
        """The bundle over a statement, in its canonical form, and the trusted root that it must hold under."""
        sign, trusted_root = self.service()
        return canonical(parse_object(sign(statement), limit=MAX_SIGNED, strict_form=False)).decode(
            "utf-8"
        ), trusted_root


@dataclass(frozen=True, slots=True)
class Asking:
    """What the command line says of who asks, and whom."""

    key: Path | None
    by_identity: bool
    trust_config: Path | None
    identity_token: Path | None
    gateway: str | None
    spki: str | None
    home: Path

    def connect(self) -> tuple[ApproverClient, Person]:
        """The client and the signer; an identity is introduced to the gateway first.

        Raises:
            AffiantError: the key, the deployment or the gateway cannot be used.
        """
        if (self.key is None) != self.by_identity:
            raise click.UsageError("give one of --key (or $AFFIANT_APPROVER_KEY) and --identity")
        if self.key is not None:
            if self.trust_config is not None or self.identity_token is not None:
                raise click.UsageError("--trust-config and --identity-token belong to --identity")
            signer = APPROVER_KEY.read(self.key)
            return self._client(signer), _Key(signer)
        reader, person = Signer.generate(), _Identity(self._services())
        client = self._client(reader)
        client.introduce(lambda spki: person.bundle(reader_statement(kid=reader.kid, spki=spki))[0])
        return client, person

    def _services(self) -> Callable[[], tuple[Callable[[bytes], bytes], bytes]]:
        """A token is short-lived, so that its file is read again for each signature; standard input, once."""
        from affiant.attestation.cli.log.sigstore_options import service_from  # noqa: PLC0415 - help must stay cheap

        if self.identity_token == Path("-"):
            once = service_from(self.trust_config, self.identity_token)
            return lambda: once
        return lambda: service_from(self.trust_config, self.identity_token)

    def _client(self, signer: Signer) -> ApproverClient:
        url, spki = self.gateway, self.spki
        if url is None:
            running = read_gateway_file(self.home.absolute() / "gateway" / "gateway.json")
            if running is None:
                raise GatewayUnreachable(
                    "no gateway has served from this folder",
                    where=str(self.home),
                    hint="Name one with --gateway https://HOST:PORT",
                )
            url, spki = running.url, spki or running.spki
        return ApproverClient(signer, url, spki=spki, now=lambda: int(time.time()), random_bytes=os.urandom)


def asking_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who asks whom, as the one argument ``asking``."""

    @wraps(command)
    def gathered(**given: Any) -> Any:
        names = Asking.__dataclass_fields__
        return command(
            asking=Asking(**{name: given.pop(name) for name in names}),
            **given,
        )

    for option in (
        click.option(
            "--home",
            type=click.Path(file_okay=False, path_type=Path),
            envvar="AFFIANT_HOME",
            default=default_home,
            show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
            help="State folder of a gateway on this machine.",
        ),
        click.option("--spki", metavar="DIGEST", help="The only TLS key of the gateway to talk to."),
        click.option("--gateway", metavar="URL", help="A gateway elsewhere: https://HOST:PORT."),
        click.option(
            "--identity-token",
            type=_TOKEN,
            help="An OIDC token for the audience `sigstore`; `-`: standard input. "
            "Default: $SIGSTORE_IDENTITY_TOKEN.",
        ),
        click.option(
            "--trust-config",
            type=_FILE,
            help="A sigstore client trust configuration: services and roots.",
        ),
        click.option(
            "--identity",
            "by_identity",
            is_flag=True,
            help="Sign as the identity of your token, through sigstore.",
        ),
        click.option(
            "--key",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar="AFFIANT_APPROVER_KEY",
            help="Your key file, as `affiant approvals keygen` made it.",
        ),
    ):
        gathered = option(gathered)
    return gathered
