"""Implements ``affiant quote verify``: one quote, one question, one verdict."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from affiant.attestation.cli.quote.bounded_file import (
    pins_of,
    policy_of,
    read_bounded,
    roots_of,
)
from affiant.attestation.cli.quote.options import (
    at_option,
    cache_option,
    collateral_option,
    hexadecimal,
    json_option,
    quote_file_argument,
    reference_option,
    refuse_two_sources,
    root_option,
)
from affiant.attestation.cli.quote.policy_signing_options import NamedSigner, signer_options
from affiant.command_line import print_json

__all__ = ["verify"]


@click.command()
@quote_file_argument
@collateral_option
@cache_option
@at_option
@root_option
@reference_option
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Or what you accept as a policy that a person writes (docs/formats/appraisal_policy.md).",
)
@signer_options(required=False)
@click.option(
    "--image",
    metavar="NAME",
    help="Accept this image alone: gateway or session with --reference, a name of the --policy with it.",
)
@click.option("--mrconfigid", callback=hexadecimal, metavar="HEX", help="What the launcher must have bound.")
@click.option(
    "--report-data", callback=hexadecimal, metavar="HEX", help="All 64 bytes that REPORTDATA must be."
)
@click.option("--rtmr3", callback=hexadecimal, metavar="HEX", help="What RTMR3 must be.")
@click.option(
    "--event-log",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="An event log that must replay to the quote's registers.",
)
@json_option
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

    Either may be a signed file (docs/formats/published.md): a sigstore bundle, which needs --signer,
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
    from affiant.attestation.cli.collateral.options import default_cache  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.cli.quote.accepted_file import accepted_policy, accepted_reference  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.event_log_file import MAX_EVENT_LOG_FILE  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.platform_collateral import collateral_of  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.quote_file import MAX_QUOTE_FILE  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.verdict import Question, judge_quote  # noqa: PLC0415 - as above
    from affiant.attestation.quote.show.verdict_text import render_verdict  # noqa: PLC0415 - as above
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.appraise.expectations import Expectations  # noqa: PLC0415 - as above

    if reference is not None and policy is not None:
        raise click.UsageError("--reference and --policy both say what is accepted: give one of them")
    refuse_two_sources(collateral, cache)
    if image is not None and reference is None and policy is None:
        raise click.UsageError(
            "--image says which of the accepted images counts: give --reference or --policy"
        )
    if reference is not None and image not in (None, "gateway", "session"):
        raise click.UsageError("--reference knows the images gateway and session")
    by = NamedSigner(signer, signer_issuer, trusted_root)
    if by.any_given and reference is None and policy is None:
        raise click.UsageError("--signer and its like say who published --reference or --policy: give one")
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
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo(render_verdict(verdict), nl=False)
    ctx.exit(verdict.exit_code)
