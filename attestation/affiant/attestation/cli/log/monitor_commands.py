"""Implements ``affiant log monitor``. It reads files, the network and the clock, waits, prints, and chooses exit
codes.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.log.options import (
    EXIT_NONE,
    EXIT_REFUSED_LOG,
    EXIT_WARNING,
    exit_code,
    json_option,
    log_argument,
    opened_log,
    progress_of,
    refusals,
    settings_of,
    timeout_option,
    tls_ca_option,
    tls_spki_option,
    trust_from,
)
from affiant.command_line import print_json, show_refusal
from affiant.errors import AffiantError, ConfigurationError

if TYPE_CHECKING:
    from affiant.attestation.log.monitor.report import Report
    from affiant.attestation.log.monitor.signer_chains import Rules
    from affiant.attestation.log_reading.bounded_http import HTTPSettings
    from affiant.attestation.log_reading.log_trust import LogTrust

__all__ = ["monitor"]

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_SECONDS: Final = click.IntRange(1, 1_000_000)
_TYP: Final = "affiant-log-monitor/1"


@dataclass(frozen=True, slots=True)
class _Watch:
    """What the command line says."""

    log: str
    policy: Path
    origin: str | None
    state: Path
    also: tuple[Path, ...]
    rules: Rules
    settings: HTTPSettings


@click.command()
@log_argument
@click.option(
    "--policy",
    type=_FILE,
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
    "--also", multiple=True, type=_FILE, help="A checkpoint that another reader has; several may be given."
)
@click.option("--once", is_flag=True, help="One round (the default).")
@click.option(
    "--every", type=_SECONDS, metavar="SECONDS", help="A round every so often, until SIGTERM or SIGINT."
)
@click.option(
    "--epoch-s", type=_SECONDS, default=60, show_default=True, help="Seconds between a chain's epochs."
)
@click.option(
    "--merge-delay-s",
    type=_SECONDS,
    default=60,
    show_default=True,
    help="Seconds within which a record is logged.",
)
@click.option(
    "--wit-max-s",
    type=_SECONDS,
    default=300,
    show_default=True,
    help="Age of the newest cosigned checkpoint.",
)
@click.option(
    "--slack-s",
    type=click.IntRange(0, 86_400),
    default=30,
    show_default=True,
    help="Seconds by which clocks may differ.",
)
@tls_ca_option
@tls_spki_option
@timeout_option
@json_option
@click.pass_context
def monitor(
    ctx: click.Context,
    *,
    log: str,
    policy: Path,
    state: Path,
    origin: str | None,
    also: tuple[Path, ...],
    once: bool,
    every: int | None,
    epoch_s: int,
    merge_delay_s: int,
    wit_max_s: int,
    slack_s: int,
    tls_ca: Path | None,
    tls_spki: tuple[str, ...],
    timeout: float,
    as_json: bool,
) -> None:
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
    rules = Rules(epoch_s, merge_delay_s, slack_s, wit_max_s)
    watch = _Watch(log, policy, origin, state, also, rules, settings_of(tls_ca, timeout, tls_spki))
    if every is not None:
        ctx.exit(_keep_watching(watch, every, as_json=as_json))
    with refusals(_TYP, as_json=as_json):
        report = _round(watch)
    _tell(watch, report, as_json=as_json, one_line=False)
    ctx.exit(_weighed(report))


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
                    show_refusal(error)
                else:
                    codes.add(_weighed(report))
                    _tell(watch, report, as_json=as_json, one_line=True)
                time.sleep(max(0.0, begun + every - time.monotonic()))
        except KeyboardInterrupt:
            pass
    return next(code for code in (EXIT_REFUSED_LOG, EXIT_WARNING, EXIT_NONE, 0) if code in codes)


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does: a round that is under way is undone."""

    def told(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
        raise KeyboardInterrupt

    earlier = signal.signal(signal.SIGTERM, told)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def _round(watch: _Watch) -> Report:
    from affiant.attestation.log.monitor.other_checkpoints import ask_witnesses, read_notes  # noqa: PLC0415 - as above
    from affiant.attestation.log.monitor.proof_files import ProofFiles  # noqa: PLC0415 - as above
    from affiant.attestation.log.monitor.state import open_monitor_state  # noqa: PLC0415 - as above
    from affiant.attestation.log.monitor.watching import Round  # noqa: PLC0415 - as above

    trust = _of_origin(trust_from((), watch.policy), watch.origin)
    if trust.policy is None:  # pragma: no cover - a policy was given
        raise ConfigurationError("a monitor needs a policy", code="monitor.settings")
    others = read_notes(watch.also)
    asked, not_made = ask_witnesses(trust.policy, trust.keys[0].name, watch.settings)
    with (
        opened_log(watch.log, watch.settings) as source,
        open_monitor_state(watch.state) as state,
    ):
        return Round(
            source,
            trust=trust,
            policy=trust.policy,
            state=state,
            files=ProofFiles(watch.state / "findings"),
            rules=watch.rules,
            others=[*others, *asked],
            not_made=not_made,
            now=int(time.time()),
            progress=_progress(),
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


def _progress() -> Callable[[int, int], None]:
    tell: Callable[[int], None] | None = None

    def progress(done: int, total: int) -> None:
        nonlocal tell
        if tell is None:
            tell = progress_of("leaves read", total)
        tell(done)

    return progress


def _tell(watch: _Watch, report: Report, *, as_json: bool, one_line: bool) -> None:
    from affiant.attestation.log.monitor.proof_files import ProofFiles  # noqa: PLC0415 - as above
    from affiant.attestation.log.monitor.report_text import report_document, report_lines  # noqa: PLC0415 - as above

    files = ProofFiles(watch.state / "findings")
    if not as_json:
        click.echo("\n".join(report_lines(report, files)))
    elif one_line:
        click.echo(json.dumps(report_document(report, files), sort_keys=True))
    else:
        print_json(report_document(report, files))


def _weighed(report: Report) -> int:
    from affiant.attestation.log_reading.severity import Severity  # noqa: PLC0415 - as above

    return {None: 0, Severity.WARNING: EXIT_WARNING, Severity.CONTRAINDICATED: EXIT_REFUSED_LOG}[
        report.severity
    ]
