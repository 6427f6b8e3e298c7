"""``affiant approvals``: what waits for an approver, shown as it will be signed, and the signature.

Exit codes: 0 done; 1 refused, or not signed; 2 the command line is wrong.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.keys import public_jwk
from affiant.attestation.signatures.approvers.identities import (
    ApproverIdentity,
    NamedIdentities,
    require_verifiable,
)
from affiant.attestation.signatures.approvers.keys import APPROVER_KEY
from affiant.command_line import EXIT_REFUSED, Group, print_json, printable
from affiant.errors import AffiantError
from affiant.files import write_whole
from affiant.gateway.cli.approvals_client import ApproverClient, Shown
from affiant.gateway.cli.gateway_selection import Asking, Person, asking_options
from affiant.policy.approvals.prompt import card_lines, headline
from affiant.policy.approvals.prompt import shown as printed
from affiant.policy.model.profile import trusted_root_text
from affiant.sandbox.base.errors import GatewayUnreachable

__all__ = ["approvals"]

_NAME: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z")
_PREFIX: Final = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})\Z")
_OPEN: Final = ("pending", "approved")
_EVERY_S: Final = 2.0
_MAX_ROOT: Final = 4 << 20


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_action = click.argument("action")


@click.group(cls=Group)
def approvals() -> None:
    """Approve what an agent may do only once a person has agreed: one action, exactly as shown, once.

    \b
    Examples:
      affiant approvals keygen -o ann.key
      affiant approvals list --key ann.key
      affiant approvals approve 3f8a12c0 --key ann.key
      affiant approvals watch --key ann.key --gateway https://gateway.example.com:8443
      affiant approvals approve 3f8a12c0 --identity --trust-config deployment.json --identity-token token

    With --identity the identity in your token signs, through the sigstore deployment of --trust-config. Its log
    keeps your identity and the time for good, and of what you signed a digest.

    \b
    Exit codes: 0 done, 1 refused or not signed, 2 usage.
    """


@approvals.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="Where to write the key, for your eyes only.",
)
@_json
def keygen(*, output: Path, as_json: bool) -> None:
    """Make an approver's key; print its thumbprint, which profiles name. Never writes over a file.

    \b
    Example:
      affiant approvals keygen -o ann.key
    """
    content = APPROVER_KEY.make(os.urandom)
    try:
        write_whole(output, content, mode=0o600, exact=True, replace=False)
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from error
    signer = APPROVER_KEY.parse(content)
    if as_json:
        print_json({"kid": signer.kid, "jwk": public_jwk(signer.public_key)})
    else:
        click.echo(signer.kid)


@approvals.command("trusted-root")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@_json
def trusted_root(*, file: Path, as_json: bool) -> None:
    """Print a sigstore trusted root as the line of a profile that names approvers by issuer and subject.

    FILE is the deployment's trusted_root.json. The authorities in it decide who your approvers are: take it from where
    you would take a key. It is read as the gateway and the supervisor read it, without any request to others.

    \b
    Example:
      affiant approvals trusted-root trusted_root.json
    """
    with file.open("rb") as opened:
        raw = opened.read(_MAX_ROOT + 1)
    text = trusted_root_text(raw.decode("utf-8", "replace"))
    require_verifiable(
        NamedIdentities(frozenset({ApproverIdentity("https://any", "any@one")}), text.encode())
    )
    if as_json:
        print_json({"trusted_root": text, "digest": sha256_name(text.encode())})
    else:
        quoted = text.replace("'", "''")
        click.echo(f"trusted_root: '{quoted}'")


@approvals.command("list")
@asking_options
@click.option("--all", "every", is_flag=True, help="Also what was denied, done, or never approved in time.")
@_json
def list_(*, asking: Asking, every: bool, as_json: bool) -> None:
    """List what waits for your approval.

    \b
    Examples:
      affiant approvals list --key ann.key
      affiant approvals list --key ann.key --all --json
    """
    client, _ = asking.connect()
    found = [each for each in client.listed() if every or each.get("state") in _OPEN]
    if as_json:
        print_json({"approvals": found})
        return
    for each in found:
        click.echo(_line(each))
    if not found:
        click.echo("nothing waits for you")


@approvals.command()
@_action
@asking_options
@click.option(
    "--bytes", "raw", is_flag=True, help="Print the exact bytes, whose SHA-256 is the action's name."
)
@_json
def show(*, action: str, asking: Asking, raw: bool, as_json: bool) -> None:
    """Show one action: all of it, made from the bytes that an approval signs.

    ACTION is its name, or the beginning of it (8 digits or more).

    \b
    Examples:
      affiant approvals show 3f8a12c0 --key ann.key
      affiant approvals show 3f8a12c0 --key ann.key --bytes | sha256sum
    """
    client, _ = asking.connect()
    found = client.shown(_named(client, action))
    if raw:
        click.echo(found.action.raw, nl=False)
    elif as_json:
        said = {name: value for name, value in found.said.items() if name != "bytes"}
        print_json({**said, "action": found.action.name, "content": dict(found.action.members)})
    else:
        _print_card(found)


@approvals.command()
@_action
@asking_options
@click.option("--yes", is_flag=True, help="Do not ask; ACTION is then its whole name.")
@_json
def approve(*, action: str, asking: Asking, yes: bool, as_json: bool) -> None:
    """Approve one action: it may then be done once, exactly as shown, until its time is over.

    Shows the action and asks. Without a terminal to ask on, nothing is signed, except with --yes and the whole name.

    \b
    Examples:
      affiant approvals approve 3f8a12c0 --key ann.key
      affiant approvals approve sha256:3f8a...c1 --yes --key ann.key
    """
    _decide(action, asking.connect(), approves=True, yes=yes, as_json=as_json)


@approvals.command()
@_action
@asking_options
@click.option("--yes", is_flag=True, help="Do not ask; ACTION is then its whole name.")
@_json
def deny(*, action: str, asking: Asking, yes: bool, as_json: bool) -> None:
    """Deny one action, also when others have approved it already; what was done by then stays done.

    \b
    Example:
      affiant approvals deny 3f8a12c0 --key ann.key
    """
    _decide(action, asking.connect(), approves=False, yes=yes, as_json=as_json)


@approvals.command()
@asking_options
@_json
def watch(*, asking: Asking, as_json: bool) -> None:
    """Show what comes to wait for your approval, and what becomes of it, until Ctrl-C. Signs nothing.

    \b
    Example:
      affiant approvals watch --key ann.key
    """
    client, _ = asking.connect()
    known: dict[str, str] = {}
    away = False
    while True:
        try:
            found, away = client.listed(), False
        except GatewayUnreachable as error:
            if not away:
                click.echo(f"affiant: {printable(str(error))}; trying again", err=True)
            found, away = (), True
        for each in found:
            name, state = str(each.get("action")), str(each.get("state"))
            if known.get(name) != state:
                _print_result(client, each, new=name not in known, as_json=as_json)
                known[name] = state
        time.sleep(_EVERY_S)


def _print_result(client: ApproverClient, said: Mapping[str, Any], *, new: bool, as_json: bool) -> None:
    """One change: a line, and for what newly waits its card."""
    if as_json:
        click.echo(json.dumps(said, sort_keys=True, ensure_ascii=True))
        return
    click.echo(_line(said))
    name = str(said.get("action"))
    if new and said.get("state") in _OPEN and _NAME.match(name):
        try:
            _print_card(client.shown(name))
        except AffiantError as error:
            click.echo(f"affiant: {printable(str(error))} [{error.code}]", err=True)


def _named(client: ApproverClient, text: str) -> str:
    """The whole name of the action that ``text`` begins."""
    whole = _NAME.match(text)
    if whole is not None:
        return f"sha256:{whole.group(1)}"
    part = _PREFIX.match(text)
    if part is None:
        raise click.UsageError("ACTION is sha256:<64 hex>, or at least the first 8 digits of it")
    names = {str(each.get("action")) for each in client.listed()}
    found = sorted(name for name in names if name.startswith(f"sha256:{part.group(1)}") and _NAME.match(name))
    if len(found) != 1:
        raise click.UsageError(f"{len(found)} actions begin so; see `affiant approvals list`")
    return found[0]


def _decide(
    text: str, who: tuple[ApproverClient, Person], *, approves: bool, yes: bool, as_json: bool
) -> None:
    client, person = who
    if yes and _NAME.match(text) is None:
        raise click.UsageError(
            "--yes needs the action's whole name, sha256:<64 hex>: what was not read is not signed"
        )
    found = client.shown(_named(client, text))
    word = "approve" if approves else "deny"
    if not yes:
        _ask(found, word)
    name = found.action.name
    statement, kid = person.says(name, approves=approves, expires=max(found.action.not_after, 0))
    said = client.hand_over(name, statement)
    if as_json:
        print_json({"action": name, "decision": word, "kid": kid, **said})
    else:
        click.echo(f"{word}: {name}")
        click.echo(printable(f"state {said.get('state')}, record {said.get('record')}"))


def _ask(found: Shown, word: str) -> None:
    """Show the action and ask; leave unless a person at a terminal says yes."""
    _print_card(found)
    if not sys.stdin.isatty():
        click.echo(
            "affiant: there is no terminal to ask on, so nothing was signed (--yes with the whole name signs)",
            err=True,
        )
        raise click.exceptions.Exit(EXIT_REFUSED)
    click.echo(f"You sign: {word} {found.action.name}")
    click.echo(f"          {headline(found.action)}")
    if not click.confirm(f"{word.capitalize()} this?", default=False):
        click.echo("nothing was signed", err=True)
        raise click.exceptions.Exit(EXIT_REFUSED)


def _print_card(found: Shown) -> None:
    for line in card_lines(found.action):
        click.echo(line)
    click.echo(printed(f"state    {found.state[:40]}, {_votes(found.said)}"))


def _line(said: Mapping[str, Any]) -> str:
    """One line of a list: all of it the gateway's word."""
    state, plane = str(said.get("state"))[:20], str(said.get("plane"))[:20]
    agent = said.get("agent")
    who = "agent not named" if agent is None else f"agent {str(agent)[:64]}"
    name = str(said.get("action"))[:80]
    return printed(
        f"{name}  {state}  {plane}, {who}, session {str(said.get('session'))[:40]}, {_votes(said)}, {_until(said)}"
    )


def _votes(said: Mapping[str, Any]) -> str:
    approved, denied = (_count(said.get(name)) for name in ("approved", "denied"))
    return f"{approved} of {str(said.get('quorum'))[:20]} approved" + (f", {denied} denied" if denied else "")


def _count(value: object) -> int:
    return len(value) if isinstance(value, Sequence) and not isinstance(value, str) else 0


def _until(said: Mapping[str, Any]) -> str:
    not_after = said.get("not_after")
    if not isinstance(not_after, int) or not 0 <= not_after < 2**36:
        return "until an unknown time"
    return f"until {datetime.fromtimestamp(not_after, UTC):%Y-%m-%d %H:%M:%S} UTC"
