"""Implements ``affiant quote policy``, which checks appraisal policies before they are used."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click

from affiant.attestation.cli.quote.bounded_file import (
    policy_of,
)
from affiant.attestation.cli.quote.options import (
    at_option,
    json_option,
)
from affiant.attestation.cli.quote.policy_signing_commands import publish, published, statement
from affiant.command_line import EXIT_REFUSED, Group, print_json, printable

__all__ = ["policy"]


@click.group(cls=Group)
def policy() -> None:
    """Check an appraisal policy before you use it, sign one, or verify who signed one.

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
@at_option
@click.option(
    "--ends-within",
    type=click.IntRange(min=0, max=3650),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Report entries that end within so many days.",
)
@json_option
def check(*, file: Path, at: datetime, ends_within: int, as_json: bool) -> None:
    """Read a policy, and report what a reviewer should see: what ended or ends soon, what accepts much or has no limit.

    Exit codes: 0 nothing to report, 1 findings, each of which can be meant, 2 usage, also for a file that is refused.

    \b
    Examples:
      affiant quote policy check appraisal.yaml
      affiant quote policy check appraisal.yaml --at 2027-01-01T00:00:00Z --ends-within 90 --json
    """
    from affiant.attestation.cli.quote.accepted_file import plain_policy  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.tdx.policy.lint import lint_policy  # noqa: PLC0415 - as above

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
