"""Implements ``affiant log monitor``. It reads files, the network and the clock, waits, prints, and chooses exit
codes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from affiant.attestation.cli.log.options import (
    EXIT_NONE,
    EXIT_REFUSED_LOG,
    EXIT_WARNING,
    FILE,
    LogAccess,
    LogCommand,
    exit_code,
    exit_code_by,
    log_options,
    progress_of,
)
from affiant.command_line import show_error
from affiant.document_output import AS_JSON, Output, print_output
from affiant.errors import AffiantError, ConfigurationError

if TYPE_CHECKING:
    from affiant.attestation.log.monitor.proof_files import ProofFiles
    from affiant.attestation.log.monitor.report import Report
    from affiant.attestation.log.monitor.signer_chains import Rules
    from affiant.attestation.log_reading.log_trust import LogTrust

__all__ = ["monitor"]

_SECONDS: Final = click.IntRange(1, 1_000_000)
_TYP: Final = "affiant-log-monitor/1"
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Watch:
    """What the command line says."""

    access: LogAccess
    origin: str | None
    state: Path
    also: tuple[Path, ...]
    rules: Rules


def _seconds(
    name: str, default: int, text: str, *, form: click.IntRange = _SECONDS
) -> Callable[[_Function], _Function]:
    return click.option(name, type=form, default=default, show_default=True, help=text)


@click.command(cls=LogCommand, typ=_TYP)
@log_options(keys=False)
@click.option(
    "--policy",
    type=FILE,
    required=True,
    help="Witness policy (C2SP tlog-policy): the log's key, witnesses with their addresses, the quorum.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of what was verified so far, and of findings/. Made where it is missing.",
)
@click.option("--origin", help="Which log, where the policy names several.")
@click.option(
    "--also", multiple=True, type=FILE, help="A checkpoint that another reader has; several may be given."
)
@click.option("--once", is_flag=True, help="One round (the default).")
@click.option(
    "--every", type=_SECONDS, metavar="SECONDS", help="A round every so often, until SIGTERM or SIGINT."
)
@_seconds("--epoch-s", 60, "Seconds between a chain's epochs.")
@_seconds("--merge-delay-s", 60, "Seconds within which a record is logged.")
@_seconds("--wit-max-s", 300, "Age of the newest cosigned checkpoint.")
@_seconds("--slack-s", 30, "Seconds by which clocks may differ.", form=click.IntRange(0, 86_400))
@click.pass_context
def monitor(
    ctx: click.Context,
    /,
    *,
    access: LogAccess,
    policy: Path,
    state: Path,
    origin: str | None,
    also: tuple[Path, ...],
    once: bool,
    every: int | None,
    wit_max_s: int,
    **rules: int,
) -> Output:
    """Watch a log: signature and quorum, growth, the same tree for every reader, and no record missing in any chain.

    A contradiction is written as files to findings/ in the state's folder; one that the log itself has signed is never
    forgotten. Nothing that did not verify is where the next round starts from.

    Exit codes: 0 nothing found, 10 warnings, 20 something does not hold (or the log has contradicted itself before), 30
    the log cannot be read, 2 usage. With --every: the worst of all rounds.

    \b
    Examples:
      affiant log monitor https://log.example/affiant --policy witnesses.policy --state /var/lib/monitor
      affiant log monitor /mnt/log --policy witnesses.policy --state state --also colleague.checkpoint --json
      affiant log monitor https://log.example/affiant --policy witnesses.policy --state state --every 60
    """
    from affiant.attestation.log.monitor.signer_chains import Rules  # noqa: PLC0415 - help must stay cheap

    if once and every is not None:
        raise click.UsageError("--once and --every exclude each other")
    expected = Rules(stale_s=wit_max_s, **rules)
    watch = _Watch(replace(access, policy=policy), origin, state, also, expected)
    if every is not None:
        ctx.exit(_keep_watching(watch, every, as_json=ctx.meta[AS_JSON]))
    report = _round(watch)
    return Output(report.to_json(_files(watch)), exit_code_by(report.severity))


def _keep_watching(watch: _Watch, every: int, *, as_json: bool) -> int:
    codes = {0}
    with _stoppable():
        try:
            while True:
                begun = time.monotonic()
                try:
                    report = _round(watch)
                except ConfigurationError:
                    raise
                except AffiantError as error:  # the next round asks again
                    codes.add(exit_code(error))
                    show_error(error)
                else:
                    codes.add(exit_code_by(report.severity))
                    print_output(Output(report.to_json(_files(watch))), as_json=as_json, one_line=True)
                time.sleep(max(0.0, begun + every - time.monotonic()))
        except KeyboardInterrupt:
            pass
    return next(code for code in (EXIT_REFUSED_LOG, EXIT_WARNING, EXIT_NONE, 0) if code in codes)


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does: a round that is under way is undone."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _round(watch: _Watch) -> Report:
    from affiant.attestation.log.monitor.other_checkpoints import ask_witnesses, read_notes  # noqa: PLC0415 - as above
    from affiant.attestation.log.monitor.state import open_monitor_state  # noqa: PLC0415 - as above
    from affiant.attestation.log.monitor.watching import Round  # noqa: PLC0415 - as above

    trust = _of_origin(watch.access.trust(), watch.origin)
    if trust.policy is None:  # pragma: no cover - a policy was given
        raise ConfigurationError("a monitor needs a policy", code="monitor.settings")
    others = read_notes(watch.also)
    asked, not_made = ask_witnesses(trust.policy, trust.keys[0].name, watch.access.settings)
    with (
        watch.access.opened() as source,
        open_monitor_state(watch.state) as state,
    ):
        return Round(
            source,
            trust=trust,
            policy=trust.policy,
            state=state,
            files=_files(watch),
            rules=watch.rules,
            others=[*others, *asked],
            not_made=not_made,
            now=int(time.time()),
            progress=progress_of("leaves read"),
        ).run()


def _of_origin(trust: LogTrust, origin: str | None) -> LogTrust:
    """The keys of one log alone: a monitor watches one tree."""
    from affiant.attestation.log_reading.log_trust import LogTrust  # noqa: PLC0415 - help must stay cheap

    names = {key.name for key in trust.keys}
    wanted = origin if origin is not None else next(iter(names))
    if wanted not in names or (origin is None and len(names) > 1):
        raise ConfigurationError(
            "which log is meant",
            expected=f"--origin, one of {', '.join(sorted(map(ascii, names)))}",
            code="monitor.settings",
        )
    return LogTrust(tuple(key for key in trust.keys if key.name == wanted), trust.policy)


def _files(watch: _Watch) -> ProofFiles:
    from affiant.attestation.log.monitor.proof_files import ProofFiles  # noqa: PLC0415 - as above

    return ProofFiles(watch.state / "findings")
