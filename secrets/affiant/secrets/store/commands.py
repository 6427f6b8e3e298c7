"""``affiant secret``: the local store, by hand.

A value is asked for without echo, or read from standard input; it is never an argument, because arguments
are in the process list and in shell histories. Nothing here ever prints one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from secrets import token_bytes
from typing import Final

import click

from affiant.command_line import Group, print_json
from affiant.secrets.names.ref import secret_name
from affiant.secrets.names.value import MAX_VALUE_BYTES, SecretValue
from affiant.secrets.store.local_store import KeyKind
from affiant.secrets.store.local_store_file import LocalStoreFile
from affiant.secrets.store.secret_service import SecretService

__all__ = ["asked_passphrase", "secret"]

_PROTECTS: Final[Mapping[KeyKind, str]] = {
    KeyKind.FILE: "Anyone who can copy this folder can read the values. To prevent that, run 'affiant secret protect "
    "--passphrase' or '--keyring', or use Vault.",
    KeyKind.PASSPHRASE: "A copy of this folder opens by the passphrase alone; an offline search can try passphrases.",
    KeyKind.KEYRING: "A copy of this folder opens by the key in the system keyring alone.",
}

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def secret() -> None:
    """Keep secrets in the encrypted local store.

    Profiles name them (`ref: local:NAME`); agents hold placeholders, and the broker alone reads the store when
    a session starts. The store lies below $AFFIANT_HOME, encrypted under a key file beside it: anyone who can
    copy this folder can read the values. Use `--passphrase`, `--keyring` or Vault to prevent that.

    \b
    Examples:
      affiant secret set GITHUB_TOKEN
      gh auth token | affiant secret set GITHUB_TOKEN
      affiant secret list
      affiant secret protect --passphrase
      affiant secret remove GITHUB_TOKEN
    """


@secret.command("set")
@click.argument("name")
@click.argument("rest", nargs=-1, metavar="", type=click.UNPROCESSED)
@click.option("--passphrase", is_flag=True, help="A new store is opened by a passphrase, not a key file.")
@click.option("--keyring", is_flag=True, help="A new store is opened by a key in the system keyring.")
@_json_option
def set_(name: str, rest: tuple[str, ...], *, passphrase: bool, keyring: bool, as_json: bool) -> None:
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
    kind = _kind(passphrase=passphrase, keyring=keyring)
    store = _store()
    stored = store.set(name, SecretValue(_asked_value(name)), kind=kind)
    if as_json:
        print_json({"name": name, "path": str(store.path), "version": stored.version})
    else:
        click.echo(f"Kept {name} (version {stored.version}) in {store.path}")
        click.echo(_PROTECTS[store.kind or KeyKind.FILE])


@secret.command("protect")
@click.option("--passphrase", is_flag=True, help="A passphrase opens the store. Twice: a new one does.")
@click.option(
    "--keyring", is_flag=True, help="A key in the system keyring opens it (GNOME Keyring, KWallet)."
)
@click.option("--key-file", is_flag=True, help="A key file beside it opens it: a copied folder is then open.")
def protect(*, passphrase: bool, keyring: bool, key_file: bool) -> None:
    """Change what opens the store, and remove what opened it before.

    Copies that were made before still open as they did: change the values in them where they were issued.
    'affiant run' asks for the passphrase at the terminal, or reads it from --secret-passphrase-file.

    \b
    Examples:
      affiant secret protect --passphrase
      affiant secret protect --keyring
    """
    if passphrase + keyring + key_file != 1:
        raise click.UsageError("one of --passphrase, --keyring and --key-file")
    kind = _kind(passphrase=passphrase, keyring=keyring) or KeyKind.FILE
    store = _store()
    if not store.protect(kind):
        click.echo(
            "warning: affiant re-encrypted the store, but the system keyring still holds its former key. Remove "
            '"Key of an affiant secret store" there',
            err=True,
        )
    click.echo(f"{store.path} is encrypted anew. {_PROTECTS[kind]}")


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
    """Print where the store and its key file lie; no key file where a passphrase or the keyring opens it.

    \b
    Examples:
      affiant secret path
    """
    store = _store()
    if as_json:
        has_key_file = store.kind in (None, KeyKind.FILE)
        print_json({"key": str(store.key_path) if has_key_file else None, "path": str(store.path)})
    else:
        click.echo(store.path)


def _kind(*, passphrase: bool, keyring: bool) -> KeyKind | None:
    if passphrase and keyring:
        raise click.UsageError("--passphrase or --keyring, not both")
    return KeyKind.PASSPHRASE if passphrase else KeyKind.KEYRING if keyring else None


def _store() -> LocalStoreFile:
    return LocalStoreFile(
        _home() / "secrets",
        random_bytes=token_bytes,
        ask_passphrase=asked_passphrase,
        keyring=SecretService(os.environ.get("DBUS_SESSION_BUS_ADDRESS")),
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


def asked_passphrase(new: bool) -> bytes:  # noqa: FBT001 - the store's own question
    """From the terminal, even when standard input holds the value."""
    text = "New passphrase of the local store" if new else "Passphrase of the local store"
    passphrase: str = click.prompt(text, hide_input=True, confirmation_prompt=new, err=True)
    return passphrase.encode()
