"""Defines what the commands of ``affiant log`` share: options, how a log is opened, exit codes and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.command_line import Group, RefusalShown, print_json, printable
from affiant.errors import AffiantError, ConfigurationError, UnreachableError

if TYPE_CHECKING:
    from affiant.attestation.log_reading.bounded_http import HTTPSettings
    from affiant.attestation.log_reading.log_trust import LogTrust, SignedCheckpoint
    from affiant.attestation.log_reading.source import LogSource
    from affiant.attestation.tlog.note import Note

__all__ = [
    "EXIT_NONE",
    "EXIT_REFUSED_LOG",
    "EXIT_WARNING",
    "LogGroup",
    "exit_code",
    "json_option",
    "key_option",
    "log_argument",
    "opened_log",
    "policy_option",
    "progress_of",
    "refusals",
    "settings_of",
    "timeout_option",
    "tls_ca_option",
    "tls_spki_option",
    "trust_from",
    "verified_note",
]

EXIT_WARNING: Final = 10
EXIT_REFUSED_LOG: Final = 20
EXIT_NONE: Final = 30
_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_MAX_POLICY: Final = 1 << 20
_TOLD_S: Final = 0.5
_DIGEST: Final = 32

log_argument = click.argument("log")
key_option = click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="VKEY",
    help="The log's verifier key, NAME+ID+BASE64. Several: any of them.",
)
policy_option = click.option(
    "--policy",
    type=_FILE,
    help="Or a witness policy (C2SP tlog-policy): keys of logs, witnesses, and their quorum.",
)
tls_ca_option = click.option(
    "--tls-ca", type=_FILE, help="PEM authorities for TLS, instead of the public ones."
)
tls_spki_option = click.option(
    "--tls-spki",
    multiple=True,
    metavar="DIGEST",
    callback=lambda _ctx, _parameter, given: _pins(given),
    help="SHA-256 of the TLS key of the log's server (43 characters), in place of a certificate: a gateway's, as "
    "`affiant gateway status` and its keyset name it. Several: any of them.",
)
timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For each whole response of a server.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")


class LogGroup(Group):
    """A group whose errors are verdicts: 20 what was read does not hold, 30 nothing could be read, 2 usage."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RefusalShown as shown:
            if isinstance(shown.error, ConfigurationError):
                raise click.UsageError(f"{printable(str(shown.error))} [{shown.error.code}]") from shown
            shown.show()
            raise click.exceptions.Exit(exit_code(shown.error)) from shown


@contextmanager
def refusals(typ: str, *, as_json: bool) -> Iterator[None]:
    """With --json an error is a document too; a mistake of the command line stays what it is."""
    try:
        yield
    except AffiantError as refusal:
        if not as_json or isinstance(refusal, ConfigurationError):
            raise
        print_json({"typ": typ, "refused": refusal.to_json()})
        raise click.exceptions.Exit(exit_code(refusal)) from refusal


@contextmanager
def opened_log(log: str, settings: HTTPSettings) -> Iterator[LogSource]:
    """The log that ``log`` names: an address, or a folder."""
    from affiant.attestation.log_reading.errors import LogSettingsInvalid  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.log_reading.folder import FolderLog  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.http_prefix import open_http_log  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.object_store import open_objects  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.objects import ObjectLog  # noqa: PLC0415 - as above

    if log.startswith("s3://"):
        if settings.tls_ca is not None or settings.log_spki:
            raise LogSettingsInvalid(
                "--tls-ca and --tls-spki are for http(s) addresses: a store of objects has the system's"
            )
        yield ObjectLog(open_objects(log, answer_s=settings.answer_s))
    elif "://" in log:
        with open_http_log(log, settings, spki=settings.log_spki) as source:
            yield source
    else:
        yield FolderLog(Path(log))


def _pins(given: tuple[str, ...]) -> tuple[str, ...]:
    from affiant.attestation.encoding.binary_text import from_b64u  # noqa: PLC0415 - as above
    from affiant.errors import MalformedError  # noqa: PLC0415 - as above

    for pin in given:
        try:
            whole = len(from_b64u(pin)) == _DIGEST
        except MalformedError:
            whole = False
        if not whole:
            raise click.BadParameter("no digest of a key: 43 characters of base64url are expected")
    return given


def settings_of(tls_ca: Path | None, timeout: float, tls_spki: tuple[str, ...] = ()) -> HTTPSettings:
    """How servers are reached."""
    from affiant.attestation.log_reading.bounded_http import HTTPSettings  # noqa: PLC0415 - as above

    return HTTPSettings(tls_ca=tls_ca, log_spki=tls_spki, answer_s=timeout, silence_s=min(timeout, 10.0))


def trust_from(keys: tuple[str, ...], policy: Path | None) -> LogTrust:
    """The keys or the policy of the command line.

    Raises:
        LogSettingsInvalid: neither, both, or not to be read.
    """
    from affiant.attestation.log_reading.log_trust import trust_of  # noqa: PLC0415 - as above

    content = None
    if policy is not None:
        with policy.open("rb") as opened:
            content = opened.read(_MAX_POLICY + 1)
    return trust_of(keys, content)


def verified_note(note: Note, keys: tuple[str, ...], policy: Path | None) -> SignedCheckpoint | None:
    """``note`` as verified; None, and said so, where the user has named no key."""
    if not keys and policy is None:
        click.echo("affiant: no --key or --policy: whether the log has signed this was not checked", err=True)
        return None
    return trust_from(keys, policy).verify(note)


def progress_of(what: str, total: int) -> Callable[[int], None]:
    """Tells on a terminal how far a walk has come, twice a second at most; elsewhere nothing."""
    if not sys.stderr.isatty() or total == 0:
        return lambda _done: None
    told = time.monotonic()

    def tell(done: int) -> None:
        nonlocal told
        if done >= total:
            click.echo("\r\033[K", err=True, nl=False)
        elif time.monotonic() - told > _TOLD_S:
            told = time.monotonic()
            click.echo(f"\r{what}: {done:,} of {total:,} ({100 * done // total} %)", err=True, nl=False)

    return tell


def exit_code(error: AffiantError) -> int:
    """What an error is worth."""
    return EXIT_NONE if isinstance(error, UnreachableError) else EXIT_REFUSED_LOG
