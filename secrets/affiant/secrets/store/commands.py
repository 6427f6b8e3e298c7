"""``affiant secret``: the local store, by hand.

A value is asked for without echo, or read from standard input; it is never an argument, because arguments
are in the process list and in shell histories. Nothing here ever prints one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from secrets import token_bytes
from typing import Final

import click

from affiant.command_line import Group, print_json
from affiant.secrets.names.ref import secret_name
from affiant.secrets.names.value import MAX_VALUE_BYTES, SecretValue
from affiant.secrets.store.local_store_file import LocalStoreFile

__all__ = ["secret"]

_PROTECTS: Final = (
    "Anyone who can copy this folder can read the values. Use --passphrase or Vault to prevent that."
)

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def secret() -> None:
    """Keep secrets in the encrypted local store.

    Profiles name them (`ref: local:NAME`); agents hold placeholders, and the broker alone reads the store when
    a session starts. The store lies below $AFFIANT_HOME, encrypted under a key file beside it (or a
    passphrase). Anyone who can copy this folder can read the values. Use `--passphrase` or Vault to
    prevent that.

    \b
    Examples:
      affiant secret set GITHUB_TOKEN
      gh auth token | affiant secret set GITHUB_TOKEN
      affiant secret list
      affiant secret remove GITHUB_TOKEN
    """


@secret.command("set")
@click.argument("name")
@click.argument("rest", nargs=-1, metavar="", type=click.UNPROCESSED)
@click.option("--passphrase", is_flag=True, help="A new store is opened by a passphrase, not a key file.")
@_json_option
def set_(name: str, rest: tuple[str, ...], *, passphrase: bool, as_json: bool) -> None:
    """Keep a value under NAME, asked for without echo or read from standard input.

    The value is one line of 16 to 4096 bytes, neither regular nor repeating, or a private key in PEM. A newline at its
    end is dropped.

    \b
    Examples:
      affiant secret set GITHUB_TOKEN
      affiant secret set GITHUB_TOKEN < token.txt
      affiant secret set SIGNING_KEY < key.pem
    """
    if rest:  # not shown: this may be the value
        raise click.UsageError("one NAME and nothing more: a value is asked for, or read from standard input")
    secret_name(name)
    store = _store(new_passphrase=passphrase)
    stored = store.set(name, SecretValue(_asked_value(name)), with_passphrase=passphrase)
    if as_json:
        print_json({"name": name, "path": str(store.path), "version": stored.version})
    else:
        click.echo(f"Kept {name} (version {stored.version}) in {store.path}")
        click.echo(_PROTECTS)


@secret.command("list")
@_json_option
def list_(*, as_json: bool) -> None:
    """Print the names of the secrets in the store, never a value.

    \b
    Examples:
      affiant secret list
      affiant secret list --json
    """
    entries = _store().read()
    if as_json:
        print_json(
            {"secrets": [{"name": name, "version": entries[name].version} for name in sorted(entries)]}
        )
    elif not entries:
        click.echo("The local store is empty. Keep a secret with: affiant secret set NAME")
    else:
        for name in sorted(entries):
            click.echo(name)


@secret.command("remove")
@click.argument("name")
@_json_option
def remove(name: str, *, as_json: bool) -> None:
    """Forget NAME. Sessions that run already keep it until they end.

    \b
    Examples:
      affiant secret remove GITHUB_TOKEN
    """
    secret_name(name)
    store = _store()
    store.remove(name)
    if as_json:
        print_json({"path": str(store.path), "removed": name})
    else:
        click.echo(f"Removed {name} from {store.path}. Revoke it where it was issued if it may have leaked")


@secret.command("path")
@_json_option
def path(*, as_json: bool) -> None:
    """Print where the store and its key file lie.

    \b
    Examples:
      affiant secret path
    """
    store = _store()
    if as_json:
        print_json({"key": str(store.key_path), "path": str(store.path)})
    else:
        click.echo(store.path)


def _store(*, new_passphrase: bool = False) -> LocalStoreFile:
    return LocalStoreFile(
        _home() / "secrets",
        random_bytes=token_bytes,
        ask_passphrase=lambda: _asked_passphrase(twice=new_passphrase),
    )


def _home() -> Path:
    """``$AFFIANT_HOME``, by default the XDG state folder."""
    if chosen := os.environ.get("AFFIANT_HOME"):
        return Path(chosen).absolute()
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state).absolute() / "affiant"


def _asked_value(name: str) -> bytes:
    if sys.stdin.isatty():
        value: str = click.prompt(f"Value of {name}", hide_input=True, err=True)
        return value.encode()
    return sys.stdin.buffer.read(MAX_VALUE_BYTES + 3).removesuffix(b"\n").removesuffix(b"\r")


def _asked_passphrase(*, twice: bool) -> bytes:
    """From the terminal, even when standard input holds the value."""
    passphrase: str = click.prompt(
        "Passphrase of the local store", hide_input=True, confirmation_prompt=twice, err=True
    )
    return passphrase.encode()
