"""Defines what the commands of ``affiant log`` share: options, how a log is opened, exit codes and progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from affiant.command_line import ErrorShown, Group, usage_error
from affiant.document_output import DocumentCommand
from affiant.errors import AffiantError, ConfigurationError, UnreachableError

if TYPE_CHECKING:
    from affiant.attestation.log_reading.bounded_http import HTTPSettings
    from affiant.attestation.log_reading.log_trust import LogTrust, SignedCheckpoint
    from affiant.attestation.log_reading.severity import Severity
    from affiant.attestation.log_reading.source import LogSource
    from affiant.attestation.tlog.note import Note

__all__ = [
    "EXIT_NONE",
    "EXIT_REFUSED_LOG",
    "EXIT_WARNING",
    "FILE",
    "LogAccess",
    "LogCommand",
    "LogGroup",
    "exit_code",
    "exit_code_by",
    "log_options",
    "progress_of",
    "read_bounded",
    "require_new",
    "write_new",
]

EXIT_WARNING: Final = 10
EXIT_REFUSED_LOG: Final = 20
EXIT_NONE: Final = 30
FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_MAX_POLICY: Final = 1 << 20
_DIGEST: Final = 32
_Command = TypeVar("_Command", bound=Callable[..., Any])

_KEYS: Final = (
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="VKEY",
        help="The log's verifier key, NAME+ID+BASE64. Several: any of them.",
    ),
    click.option(
        "--policy",
        type=FILE,
        help="Or a witness policy (C2SP tlog-policy): keys of logs, witnesses, and their quorum.",
    ),
)
_TLS_SPKI: Final = click.option(
    "--tls-spki",
    multiple=True,
    metavar="DIGEST",
    callback=lambda _ctx, _parameter, given: _pins(given),
    help="SHA-256 of the TLS key of the log's server (43 characters), in place of a certificate: a gateway's, as "
    "`affiant gateway status` and its keyset name it. Several: any of them.",
)
_TLS_CA: Final = click.option(
    "--tls-ca", type=FILE, help="PEM authorities for TLS, instead of the public ones."
)
_TIMEOUT: Final = click.option(
    "--timeout",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For each whole response of a server.",
)


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The options of :func:`log_options`: which log, how its server is reached, and the keys under which it counts."""

    log: str
    settings: HTTPSettings
    keys: tuple[str, ...] = ()
    policy: Path | None = None

    def trust(self) -> LogTrust:
        """The keys or the policy of the command line.

        Raises:
            LogSettingsInvalid: neither, both, or not to be read.
        """
        from affiant.attestation.log_reading.log_trust import trust_of  # noqa: PLC0415 - help must stay cheap

        return trust_of(self.keys, None if self.policy is None else read_bounded(self.policy, _MAX_POLICY))

    def verified(self, note: Note) -> SignedCheckpoint | None:
        """``note`` as verified; None, and said so, where the user has named no key."""
        if self.keys or self.policy is not None:
            return self.trust().verify(note)
        click.echo("affiant: no --key or --policy: whether the log has signed this was not checked", err=True)
        return None

    @contextmanager
    def opened(self) -> Iterator[LogSource]:
        """The log: an address, or a folder."""
        from affiant.attestation.log_reading.errors import LogSettingsInvalid  # noqa: PLC0415 - help must stay cheap
        from affiant.attestation.log_reading.folder import FolderLog  # noqa: PLC0415 - as above
        from affiant.attestation.log_reading.http_prefix import open_http_log  # noqa: PLC0415 - as above
        from affiant.attestation.log_reading.object_store import open_objects  # noqa: PLC0415 - as above
        from affiant.attestation.log_reading.objects import ObjectLog  # noqa: PLC0415 - as above

        settings = self.settings
        if self.log.startswith("s3://"):
            if settings.tls_ca is not None or settings.log_spki:
                raise LogSettingsInvalid(
                    "--tls-ca and --tls-spki are for http(s) addresses: a store of objects has the system's"
                )
            yield ObjectLog(open_objects(self.log, answer_s=settings.answer_s))
        elif "://" in self.log:
            with open_http_log(self.log, settings, spki=settings.log_spki) as source:
                yield source
        else:
            yield FolderLog(Path(self.log))


def log_options(
    argument: str = "log", *, keys: bool = True, tls: bool = True, spki: bool = True, **named: Any
) -> Callable[[_Command], _Command]:
    """The options with which a log is read; the command gets them as ``access``, a :class:`LogAccess`.

    Args:
        argument: the argument that names the log; ``named``: more about it.
        keys, tls, spki: with ``--key`` and ``--policy``; with ``--tls-ca``; with ``--tls-spki`` too.
    """

    def add(command: _Command) -> _Command:
        @wraps(command)
        def gathered(
            *, timeout: float, tls_ca: Path | None = None, tls_spki: tuple[str, ...] = (), **more: Any
        ) -> Any:
            from affiant.attestation.log_reading.bounded_http import HTTPSettings  # noqa: PLC0415 - as above

            settings = HTTPSettings(
                tls_ca=tls_ca, log_spki=tls_spki, answer_s=timeout, silence_s=min(timeout, 10.0)
            )
            trusted = {name: more.pop(name) for name in ("keys", "policy") if keys}
            return command(access=LogAccess(str(more.pop(argument)), settings, **trusted), **more)

        options = [click.argument(argument, **named), *(_KEYS if keys else ())]
        options += [_TLS_CA] * tls + [_TLS_SPKI] * (tls and spki) + [_TIMEOUT]
        for option in reversed(options):
            option(gathered)
        return cast("_Command", gathered)

    return add


class LogGroup(Group):
    """A group whose errors are verdicts: 20 what was read does not hold, 30 nothing could be read, 2 usage."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ErrorShown as shown:
            if isinstance(shown.error, ConfigurationError):
                raise usage_error(shown.error) from shown
            shown.show()
            raise click.exceptions.Exit(exit_code(shown.error)) from shown


class LogCommand(DocumentCommand):
    """A command that returns a document, and whose errors are verdicts in the same way."""

    def exit_code_of(self, error: AffiantError) -> int:
        return exit_code(error)


def exit_code(error: AffiantError) -> int:
    """What an error is worth."""
    return EXIT_NONE if isinstance(error, UnreachableError) else EXIT_REFUSED_LOG


def exit_code_by(severity: Severity | None) -> int:
    """What the most severe finding is worth."""
    return 0 if severity is None else {"warning": EXIT_WARNING}.get(severity, EXIT_REFUSED_LOG)


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


def read_bounded(file: Path, limit: int) -> bytes:
    """The first ``limit`` + 1 bytes, which every reader refuses."""
    with file.open("rb") as opened:
        return opened.read(limit + 1)


def require_new(path: Path) -> None:
    """Check before the network is asked that ``path`` is free.

    Raises:
        click.UsageError: a file is there.
    """
    if os.path.lexists(path):
        raise click.UsageError(f"{path} exists already: name another file")


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, whole or not at all.

    Raises:
        click.UsageError: it is there, or cannot be written.
    """
    from affiant.files import write_whole  # noqa: PLC0415 - help must stay cheap

    try:
        write_whole(path, data, replace=False)
    except FileExistsError as error:
        raise click.UsageError(f"{path} exists already: name another file") from error
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error


def progress_of(what: str, total: int = 0) -> Callable[..., None]:
    """Shows on a terminal how far a walk has come; elsewhere nothing.

    Args:
        total: of the walk; 0: the callback gets it as its second argument.
    """
    from affiant.attestation.bundle.period.progress import period_progress  # noqa: PLC0415 - help must stay cheap

    show = period_progress()
    return lambda done, of=total: show(what, done, of) if of else None
