"""``affiant quote``: the rim. Reads files and the clock, prints, chooses exit codes; decides nothing.

What a command needs is imported when it runs, so that help costs nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from affiant.attestation.encoding import from_hex
from affiant.attestation.published.commands import publish, published, statement
from affiant.attestation.published.options import PublishedBy, published_options
from affiant.attestation.quotes.reading import (
    pins_of,
    policy_of,
    read_bounded,
    read_event_log,
    read_quote,
    roots_of,
)
from affiant.attestation.quotes.take_command import sources, take
from affiant.command_line import EXIT_REFUSED, Group, print_json, printable, show_refusal
from affiant.errors import AffiantError, ConfigurationError

__all__ = ["quote"]

_EXIT_CONTRAINDICATED: Final = 20
_EXIT_SIMULATED: Final = 40
_quote_file = click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")


def _instant(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime:
    """``now``, an RFC 3339 instant in UTC, or seconds since 1970."""
    from affiant.attestation.tdx.times import parse_rfc3339_utc  # noqa: PLC0415 - help must stay cheap

    if value is None or value == "now":
        return datetime.now(UTC)
    if value.isascii() and value.isdigit() and len(value) <= 11:
        return datetime.fromtimestamp(int(value), UTC)
    try:
        return parse_rfc3339_utc(value)
    except ValueError as error:
        raise click.BadParameter(
            "not an instant: now, 2026-11-21T12:00:00Z, or seconds since 1970"
        ) from error


def _hexadecimal(_ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
    if value is None:
        return None
    try:
        return from_hex(value.lower())
    except AffiantError as error:
        raise click.BadParameter(f"{error}", param=param) from error


_collateral = click.option(
    "--collateral",
    type=click.Path(exists=True, readable=True, path_type=Path),
    help="Collateral of the quote's platform: one JSON file, or a folder of the service's answers.",
)
_cache = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="Or take it from this cache of `affiant collateral fetch`, which also remembers the newest it has held. "
    "Without --collateral: the default cache. Nobody is asked.",
)
_at = click.option(
    "--at",
    callback=_instant,
    metavar="TIME",
    help="Judge at this instant: `now` (the default), RFC 3339 in UTC, or seconds since 1970.",
)
_root = click.option(
    "--root",
    metavar="intel|FILE",
    help="The root key you accept: Intel's, or a certificate or public key. Only Intel's is hardware. "
    "Default: the root that --reference or --policy names, else intel.",
)
_reference = click.option(
    "--reference",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="What you accept to run: reference values, or your trust file. Without it or --policy nothing is appraised.",
)


def _refuse_two_sources(collateral: Path | None, cache: Path | None) -> None:
    if collateral is not None and cache is not None:
        raise click.UsageError("--collateral and --cache are two sources of the same: give one of them")


@click.group(cls=Group)
def quote() -> None:
    """Inspect, verify and explain TDX quotes, offline; take one of the TD that this runs in.

    FILE is a quote in raw bytes, hexadecimal or base64; `-` reads standard input.

    \b
    Examples:
      affiant quote inspect quote.bin
      affiant quote verify quote.bin --collateral collateral.json --reference trust.json
      affiant quote explain quote.bin --collateral collateral.json
      affiant quote eventlog ccel.bin --quote quote.bin
      affiant quote conformance vectors/tdx
      affiant quote policy check appraisal.yaml
      affiant quote take --report-data HEX --output quote.bin
    """


quote.add_command(take)
quote.add_command(sources)


@quote.command()
@_quote_file
@_json
def inspect(file: Path, *, as_json: bool) -> None:
    """Print everything that a quote claims, by name. Verifies nothing.

    Exit codes: 0 it is a TDX quote, 1 it is not (the refusal says what it is instead), 2 usage.

    \b
    Examples:
      affiant quote inspect quote.bin
      affiant quote inspect quote.hex --json
      cat /sys/kernel/config/tsm/report/r0/outblob | affiant quote inspect -
    """
    from affiant.attestation.quotes.inspection import inspect_quote  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quotes.inspection_text import render_inspection  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote import dissect_quote  # noqa: PLC0415 - as above

    try:
        found = read_quote(file)
        document = inspect_quote(dissect_quote(found.data), found)
    except AffiantError as refusal:
        if as_json:
            print_json({"typ": "affiant-quote-inspection/1", "refused": refusal.to_json()})
        else:
            show_refusal(refusal)
        raise click.exceptions.Exit(EXIT_REFUSED) from refusal
    if as_json:
        print_json(document)
    else:
        click.echo(render_inspection(document), nl=False)


@quote.command()
@_quote_file
@_collateral
@_cache
@_at
@_root
@_reference
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Or what you accept as a policy that a person writes (docs/formats/appraisal_policy.md).",
)
@published_options(required=False)
@click.option(
    "--image",
    metavar="NAME",
    help="Accept this image alone: gateway or session with --reference, a name of the --policy with it.",
)
@click.option("--mrconfigid", callback=_hexadecimal, metavar="HEX", help="What the launcher must have bound.")
@click.option(
    "--report-data", callback=_hexadecimal, metavar="HEX", help="All 64 bytes that REPORTDATA must be."
)
@click.option("--rtmr3", callback=_hexadecimal, metavar="HEX", help="What RTMR3 must be.")
@click.option(
    "--event-log",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="An event log that must replay to the quote's registers.",
)
@_json
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    file: Path,
    collateral: Path | None,
    cache: Path | None,
    at: datetime,
    root: str | None,
    reference: Path | None,
    policy: Path | None,
    signer: str | None,
    signer_issuer: str | None,
    trusted_root: Path | None,
    image: str | None,
    mrconfigid: bytes | None,
    report_data: bytes | None,
    rtmr3: bytes | None,
    event_log: Path | None,
    as_json: bool,
) -> None:
    """Verify a quote offline, and appraise it against what you expect.

    Verification: this hardware made the quote, at this TCB level. Appraisal: the TD is what you accept. What you
    do not ask is listed as not made, and never affirmed.

    Exit codes: 0 affirming (everything was asked and held, UpToDate), 10 warning (an accepted status short of
    UpToDate, an exception was needed, or not everything asked), 20 contraindicated (refused), 30 none (no --reference
    or --policy: nothing appraised), 40 simulated, 2 usage, also for a --reference or --policy that is refused.

    Either may be a published file (docs/formats/published.md): a sigstore bundle, which needs --signer,
    --signer-issuer and --trusted-root.

    \b
    Examples:
      affiant quote verify quote.bin --collateral collateral.json
      affiant quote verify quote.bin --collateral collateral/ --at 2026-11-21T12:00:00Z --reference trust.json
      affiant quote verify quote.bin --policy appraisal.yaml
      affiant quote verify quote.bin --policy appraisal.yaml.sigstore.json --signer release@vendor.example \\
          --signer-issuer https://accounts.example --trusted-root trusted_root.json
      affiant quote verify quote.bin --collateral c.json --reference trust.json --image session \\
          --mrconfigid HEX --report-data HEX --rtmr3 HEX --json
    """
    from affiant.attestation.collateral.options import default_cache  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quotes.accepted_file import accepted_policy, accepted_reference  # noqa: PLC0415 - as above
    from affiant.attestation.quotes.event_log_file import MAX_EVENT_LOG_FILE  # noqa: PLC0415 - as above
    from affiant.attestation.quotes.platform_collateral import collateral_of  # noqa: PLC0415 - as above
    from affiant.attestation.quotes.quote_file import MAX_QUOTE_FILE  # noqa: PLC0415 - as above
    from affiant.attestation.quotes.verdict import Question, judge_quote  # noqa: PLC0415 - as above
    from affiant.attestation.quotes.verdict_text import render_verdict  # noqa: PLC0415 - as above
    from affiant.attestation.release import build_name  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.expectations import Expectations  # noqa: PLC0415 - as above

    if reference is not None and policy is not None:
        raise click.UsageError("--reference and --policy both say what is accepted: give one of them")
    _refuse_two_sources(collateral, cache)
    if image is not None and reference is None and policy is None:
        raise click.UsageError(
            "--image says which of the accepted images counts: give --reference or --policy"
        )
    if reference is not None and image not in (None, "gateway", "session"):
        raise click.UsageError("--reference knows the images gateway and session")
    by = PublishedBy(signer, signer_issuer, trusted_root)
    if by.any_given and reference is None and policy is None:
        raise click.UsageError("--signer and its like say who published --reference or --policy: give one")
    try:
        given = None if reference is None else accepted_reference(reference, by)
        pins = None if given is None else pins_of(given, at)
        written = None if policy is None else accepted_policy(policy, by)
        settings = None if written is None else policy_of(written)
        if pins is not None:
            roots = roots_of(root, pins.roots)
        else:
            roots = roots_of(root, None if settings is None else settings.roots_at(at))
        kept = (cache or default_cache()).absolute()
        question = Question(
            at=at,
            roots=roots,
            policy=settings,
            references=() if pins is None else pins.references,
            reference_file=None if pins is None else pins.digest,
            published=next((each.publication for each in (given, written) if each is not None), None),
            expected=Expectations(image=image, mrconfigid=mrconfigid, report_data=report_data, rtmr3=rtmr3),
        )
        verdict = judge_quote(
            read_bounded(file, MAX_QUOTE_FILE),
            lambda parsed: collateral_of(parsed, given=collateral, cache=kept, now=at, trust=roots),
            question,
            event_log=None if event_log is None else read_bounded(event_log, MAX_EVENT_LOG_FILE),
            build=build_name(),
        )
    except ConfigurationError as error:
        raise click.UsageError(f"{printable(str(error))} [{error.code}]") from error
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo(render_verdict(verdict), nl=False)
    ctx.exit(verdict.exit_code)


@quote.command()
@_quote_file
@_collateral
@_cache
@_at
@_root
@_json
@click.pass_context
def explain(
    ctx: click.Context,
    *,
    file: Path,
    collateral: Path | None,
    cache: Path | None,
    at: datetime,
    root: str | None,
    as_json: bool,
) -> None:
    """Say why a quote has its TCB status: which level, which component decided, what an update would change.

    Levels of the platform, its TDX module and the quoting enclave, each with the SVNs found and required. Works
    also where `verify` refuses the level; not where it refuses the quote.

    Exit codes: 0 explained (which is no verdict), 20 refused, 40 explained, of a SIMULATED platform, 2 usage.

    \b
    Examples:
      affiant quote explain quote.bin
      affiant quote explain quote.bin --collateral collateral/ --at 2026-11-21T12:00:00Z --json
    """
    from affiant.attestation.collateral.options import default_cache  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quotes.explanation_text import (  # noqa: PLC0415 - as above
        explanation_document,
        render_explanation,
    )
    from affiant.attestation.quotes.platform_collateral import collateral_of  # noqa: PLC0415 - as above
    from affiant.attestation.quotes.verdict import RememberedCollateral  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.collateral_verification import verify_collateral  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.explanation import explain_quote  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote import parse_quote  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.verify import authenticate_quote  # noqa: PLC0415 - as above

    _refuse_two_sources(collateral, cache)
    roots = roots_of(root, None)
    try:
        parsed = parse_quote(read_quote(file).data)
        kept = (cache or default_cache()).absolute()
        found = collateral_of(parsed, given=collateral, cache=kept, now=at, trust=roots)
        checked = (
            found.verified
            if isinstance(found, RememberedCollateral)
            else verify_collateral(found, now=at, trust=roots)
        )
        explanation = explain_quote(authenticate_quote(parsed, checked, now=at))
    except ConfigurationError as error:
        raise click.UsageError(f"{printable(str(error))} [{error.code}]") from error
    except AffiantError as refusal:
        if as_json:
            print_json({"typ": "affiant-quote-explanation/1", "refused": refusal.to_json()})
        else:
            show_refusal(refusal)
        raise click.exceptions.Exit(_EXIT_CONTRAINDICATED) from refusal
    if as_json:
        print_json(explanation_document(explanation))
    else:
        click.echo(render_explanation(explanation), nl=False)
    if explanation.refusal is not None:
        ctx.exit(_EXIT_CONTRAINDICATED)
    ctx.exit(0 if explanation.evidence_class == "hardware" else _EXIT_SIMULATED)


@quote.command()
@_quote_file
@click.option(
    "--quote",
    "quote_path",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Compare with the registers that this quote claims; the quote itself is not verified here.",
)
@_json
def eventlog(file: Path, *, quote_path: Path | None, as_json: bool) -> None:
    """Replay an event log to RTMR0-3, and say which events' contents are proven.

    FILE is a CCEL table (TCG2), the JSON array of dstack's guest agent, or an affiant-eventlog/1 document. Contents
    are hashed again where the format permits. To appraise a log, give it to `affiant quote verify --event-log`.

    Exit codes: 0 it replays (with --quote: to the quote's registers), 1 it does not, or is refused, 2 usage.

    \b
    Examples:
      affiant quote eventlog /sys/firmware/acpi/tables/data/CCEL
      affiant quote eventlog eventlog.json --quote quote.bin --json
    """
    from affiant.attestation.quotes.event_log_text import (  # noqa: PLC0415 - help must stay cheap
        event_log_document,
        render_event_log,
    )
    from affiant.attestation.tdx.measured_log import verify_replay  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote import dissect_quote  # noqa: PLC0415 - as above

    body = None
    refused: AffiantError | None = None
    try:
        log = read_event_log(file)
        if quote_path is not None:
            body = dissect_quote(read_quote(quote_path).data).body
    except AffiantError as refusal:
        if as_json:
            print_json({"typ": "affiant-eventlog-replay/1", "refused": refusal.to_json()})
        else:
            show_refusal(refusal)
        raise click.exceptions.Exit(EXIT_REFUSED) from refusal
    try:
        if body is not None:
            verify_replay(log, body)
    except AffiantError as refusal:
        refused = refusal
    if as_json:
        print_json(
            {**event_log_document(log, body), "refused": None if refused is None else refused.to_json()}
        )
    else:
        click.echo(render_event_log(log, body), nl=False)
    if refused is not None:
        if not as_json:
            show_refusal(refused)
        raise click.exceptions.Exit(EXIT_REFUSED) from refused


@quote.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@_json
def conformance(folder: Path, *, as_json: bool) -> None:
    """Hold this verifier against a folder of test vectors, and name every disagreement.

    DIR holds expected.json (schema 1, docs/formats/conformance.md) and the quotes, collateral, roots and event
    logs that it names.

    Exit codes: 0 no disagreement, 1 at least one, 2 usage, also for a folder that is empty or cannot be read.

    \b
    Examples:
      affiant quote conformance vectors/tdx
      affiant quote conformance vectors/tdx --json
    """
    from affiant.attestation.quotes.conformance import (  # noqa: PLC0415 - help must stay cheap
        render_conformance,
        run_conformance,
    )
    from affiant.attestation.quotes.vector_folder import open_vectors  # noqa: PLC0415 - as above

    try:
        result = run_conformance(open_vectors(folder))
    except ConfigurationError as error:
        raise click.UsageError(f"{printable(str(error))} [{error.code}]") from error
    if as_json:
        print_json(result.to_json())
    else:
        click.echo(render_conformance(result), nl=False)
    if result.disagreements:
        raise click.exceptions.Exit(EXIT_REFUSED)


@quote.group(cls=Group)
def policy() -> None:
    """Look at an appraisal policy before it decides anything, sign one, or see who did.

    \b
    Examples:
      affiant quote policy check appraisal.yaml
      affiant quote policy publish appraisal.yaml --output appraisal.yaml.sigstore.json \\
          --trust-config trust_config.json --identity-token-file token
      affiant quote policy published appraisal.yaml.sigstore.json --signer release@vendor.example \\
          --signer-issuer https://accounts.example --trusted-root trusted_root.json
    """


for _command in (statement, publish, published):
    policy.add_command(_command)


@policy.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@_at
@click.option(
    "--ends-within",
    type=click.IntRange(min=0, max=3650),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Report entries that end within so many days.",
)
@_json
def check(*, file: Path, at: datetime, ends_within: int, as_json: bool) -> None:
    """Read a policy, and report what a reviewer should see: what ended or ends soon, what is wide or not limited.

    Exit codes: 0 nothing to report, 1 findings, each of which can be meant, 2 usage, also for a file that is refused.

    \b
    Examples:
      affiant quote policy check appraisal.yaml
      affiant quote policy check appraisal.yaml --at 2027-01-01T00:00:00Z --ends-within 90 --json
    """
    from affiant.attestation.quotes.accepted_file import plain_policy  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.tdx.policy_lint import lint_policy  # noqa: PLC0415 - as above

    settings = policy_of(plain_policy(file))
    found = lint_policy(settings, at=at, soon=timedelta(days=ends_within), source=file.name)
    if as_json:
        print_json(
            {
                "typ": "affiant-appraisal-lint/1",
                "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "policy": settings.digest,
                "findings": [finding.to_json() for finding in found],
            }
        )
    else:
        for finding in found:
            click.echo(printable(f"{finding.where}: {finding.text} [{finding.code}]"))
        click.echo(f"{len(found)} findings at {at:%Y-%m-%dT%H:%M:%SZ}")
    if found:
        raise click.exceptions.Exit(EXIT_REFUSED)
