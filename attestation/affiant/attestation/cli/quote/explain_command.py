"""Implements ``affiant quote explain``, which shows why a quote has its TCB status."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from affiant.attestation.cli.quote.bounded_file import (
    read_quote,
    roots_of,
)
from affiant.attestation.cli.quote.options import (
    EXIT_CONTRAINDICATED,
    EXIT_SIMULATED,
    at_option,
    cache_option,
    collateral_option,
    json_option,
    quote_file_argument,
    refuse_two_sources,
    root_option,
)
from affiant.command_line import print_json, refusals

__all__ = ["explain"]


@click.command()
@quote_file_argument
@collateral_option
@cache_option
@at_option
@root_option
@json_option
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
    """Show why a quote has its TCB status: which level, which component decided, what an update would change.

    Levels of the platform, its TDX module and the quoting enclave, each with the SVNs found and required. Works
    also where `verify` refuses the level; not where it refuses the quote.

    Exit codes: 0 explained (which is no verdict), 20 refused, 40 explained, of a SIMULATED platform, 2 usage.

    \b
    Examples:
      affiant quote explain quote.bin
      affiant quote explain quote.bin --collateral collateral/ --at 2026-11-21T12:00:00Z --json
    """
    from affiant.attestation.cli.collateral.options import default_cache  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quote.judge.platform_collateral import collateral_of  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.verdict import RememberedCollateral  # noqa: PLC0415 - as above
    from affiant.attestation.quote.show.explanation_text import (  # noqa: PLC0415 - as above
        explanation_document,
        render_explanation,
    )
    from affiant.attestation.tdx.quote.quote import parse_quote  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.verify.explanation import explain_quote  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.verify.verify import authenticate_quote  # noqa: PLC0415 - as above

    refuse_two_sources(collateral, cache)
    roots = roots_of(root, None)
    with refusals("affiant-quote-explanation/1", as_json=as_json, exit_code=EXIT_CONTRAINDICATED):
        parsed = parse_quote(read_quote(file).data)
        kept = (cache or default_cache()).absolute()
        found = collateral_of(parsed, given=collateral, cache=kept, now=at, trust=roots)
        checked = (
            found.verified
            if isinstance(found, RememberedCollateral)
            else verify_collateral(found, now=at, trust=roots)
        )
        explanation = explain_quote(authenticate_quote(parsed, checked, now=at))
    if as_json:
        print_json(explanation_document(explanation))
    else:
        click.echo(render_explanation(explanation), nl=False)
    if explanation.refusal is not None:
        ctx.exit(EXIT_CONTRAINDICATED)
    ctx.exit(0 if explanation.evidence_class == "hardware" else EXIT_SIMULATED)
