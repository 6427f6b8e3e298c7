"""``affiant approvals``: what waits for an approver, shown as it will be signed, and the signature.

Exit codes: 0 done; 1 refused, or not signed; 2 the command line is wrong.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from affiant.attestation.approving.keys import APPROVER_KEY
from affiant.attestation.approving.statement import sign_statement
from affiant.attestation.keys import Signer, public_jwk
from affiant.attestation.simulated.commands import default_home
from affiant.command_line import EXIT_REFUSED, Group, print_json, printable
from affiant.errors import AffiantError
from affiant.files import write_whole
from affiant.gateway.approvals.client import ApproverClient, Shown
from affiant.policy.approvals.card import card_lines, headline
from affiant.policy.approvals.card import shown as printed
from affiant.sandbox.errors import GatewayUnreachable
from affiant.sandbox.gateway_probe import read_gateway_file

__all__ = ["approvals"]

_NAME: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z")
_PREFIX: Final = re.compile(r"(?:sha256:)?([0-9a-f]{8,64})\Z")
_OPEN: Final = ("pending", "approved")
_EVERY_S: Final = 2.0


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say who asks whom."""
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
            "--key",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar="AFFIANT_APPROVER_KEY",
            required=True,
            help="Your key file, as `affiant approvals keygen` made it.",
        ),
    ):
        command = option(command)
    return command


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


@approvals.command("list")
@_where
@click.option("--all", "every", is_flag=True, help="Also what was denied, done, or never approved in time.")
@_json
def list_(
    *, key: Path, gateway: str | None, spki: str | None, home: Path, every: bool, as_json: bool
) -> None:
    """List what waits for your approval.

    \b
    Examples:
      affiant approvals list --key ann.key
      affiant approvals list --key ann.key --all --json
    """
    client, _ = _client(key, gateway, spki, home)
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
@_where
@click.option(
    "--bytes", "raw", is_flag=True, help="Print the exact bytes, whose SHA-256 is the action's name."
)
@_json
def show(
    *, action: str, key: Path, gateway: str | None, spki: str | None, home: Path, raw: bool, as_json: bool
) -> None:
    """Show one action: all of it, made from the bytes that an approval signs.

    ACTION is its name, or the beginning of it (8 digits or more).

    \b
    Examples:
      affiant approvals show 3f8a12c0 --key ann.key
      affiant approvals show 3f8a12c0 --key ann.key --bytes | sha256sum
    """
    client, _ = _client(key, gateway, spki, home)
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
@_where
@click.option("--yes", is_flag=True, help="Do not ask; ACTION is then its whole name.")
@_json
def approve(
    *, action: str, key: Path, gateway: str | None, spki: str | None, home: Path, yes: bool, as_json: bool
) -> None:
    """Approve one action: it may then be done once, exactly as shown, until its time is over.

    Shows the action and asks. Where nobody can be asked, nothing is signed, except with --yes and the whole name.

    \b
    Examples:
      affiant approvals approve 3f8a12c0 --key ann.key
      affiant approvals approve sha256:3f8a...c1 --yes --key ann.key
    """
    _decide(action, _client(key, gateway, spki, home), approves=True, yes=yes, as_json=as_json)


@approvals.command()
@_action
@_where
@click.option("--yes", is_flag=True, help="Do not ask; ACTION is then its whole name.")
@_json
def deny(
    *, action: str, key: Path, gateway: str | None, spki: str | None, home: Path, yes: bool, as_json: bool
) -> None:
    """Deny one action, also when others have approved it already; what was done by then stays done.

    \b
    Example:
      affiant approvals deny 3f8a12c0 --key ann.key
    """
    _decide(action, _client(key, gateway, spki, home), approves=False, yes=yes, as_json=as_json)


@approvals.command()
@_where
@_json
def watch(*, key: Path, gateway: str | None, spki: str | None, home: Path, as_json: bool) -> None:
    """Show what comes to wait for your approval, and what becomes of it, until Ctrl-C. Signs nothing.

    \b
    Example:
      affiant approvals watch --key ann.key
    """
    client, _ = _client(key, gateway, spki, home)
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
                _tell(client, each, new=name not in known, as_json=as_json)
                known[name] = state
        time.sleep(_EVERY_S)


def _tell(client: ApproverClient, said: Mapping[str, Any], *, new: bool, as_json: bool) -> None:
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


def _client(key: Path, gateway: str | None, spki: str | None, home: Path) -> tuple[ApproverClient, Signer]:
    signer = APPROVER_KEY.read(key)
    url = gateway
    if url is None:
        running = read_gateway_file(home.absolute() / "gateway" / "gateway.json")
        if running is None:
            raise GatewayUnreachable(
                "no gateway has served from this folder",
                where=str(home),
                hint="Name one with --gateway https://HOST:PORT",
            )
        url, spki = running.url, spki or running.spki
    client = ApproverClient(signer, url, spki=spki, now=lambda: int(time.time()), random_bytes=os.urandom)
    return client, signer


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
    text: str, who: tuple[ApproverClient, Signer], *, approves: bool, yes: bool, as_json: bool
) -> None:
    client, signer = who
    if yes and _NAME.match(text) is None:
        raise click.UsageError(
            "--yes needs the action's whole name, sha256:<64 hex>: what was not read is not signed"
        )
    found = client.shown(_named(client, text))
    word = "approve" if approves else "deny"
    if not yes:
        _ask(found, word)
    now = int(time.time())
    statement = sign_statement(
        signer,
        action=found.action.name,
        approves=approves,
        made=now,
        expires=max(found.action.not_after, 0),
    )
    said = client.hand_over(found.action.name, statement)
    if as_json:
        print_json({"action": found.action.name, "decision": word, "kid": signer.kid, **said})
    else:
        click.echo(f"{word}: {found.action.name}")
        click.echo(printable(f"state {said.get('state')}, record {said.get('record')}"))


def _ask(found: Shown, word: str) -> None:
    """Show the action and ask; leave unless somebody at a terminal says yes."""
    _print_card(found)
    if not sys.stdin.isatty():
        click.echo(
            "affiant: nobody can be asked: nothing was signed (--yes with the whole name signs)", err=True
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
    who = "agent not told" if agent is None else f"agent {str(agent)[:64]}"
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
