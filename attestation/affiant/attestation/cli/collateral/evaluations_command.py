"""Implements ``affiant collateral evaluations``, which lists the TCB evaluations that a verifier can choose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from affiant.attestation.cli.collateral.options import (
    json_option,
    now,
    pccs_option,
    proxy_option,
    root_option,
    roots_of,
    timeout_option,
    tls_ca_option,
)
from affiant.command_line import print_json, refusals

if TYPE_CHECKING:
    from affiant.attestation.quote.collateral.pcs import HTTPSettings
    from affiant.attestation.quote.collateral.service import Service
    from affiant.attestation.tdx.pki.roots import TrustRoots
    from affiant.attestation.tdx.tcb.evaluation_numbers import VerifiedEvaluationNumbers

__all__ = ["evaluations"]


@click.command()
@pccs_option
@tls_ca_option
@proxy_option
@timeout_option
@root_option
@json_option
def evaluations(
    *, pccs: str | None, tls_ca: Path | None, proxy: str | None, timeout: float, root: str, as_json: bool
) -> None:
    """List the TCB evaluations that the service publishes, verified. Writes nothing.

    A number here is what `affiant collateral fetch --evaluation N` asks for, and what a policy's `minimum_evaluation`
    demands. A platform has as long to update as you let pass since the recovery event.

    Exit codes: 0 done, 1 refused or not available, 2 usage.

    \b
    Examples:
      affiant collateral evaluations
      affiant collateral evaluations --pccs https://localhost:8081 --tls-ca pccs.pem --json
    """
    from affiant.attestation.quote.collateral.pcs import HTTPSettings  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quote.collateral.service import INTEL_PCS, Service  # noqa: PLC0415 - as above

    with refusals("affiant-collateral-evaluations/1", as_json=as_json):
        service = INTEL_PCS if pccs is None else Service.pccs(pccs)
        settings = HTTPSettings(tls_ca=tls_ca, proxy=proxy, answer_s=timeout, silence_s=min(timeout, 10.0))
        found = _fetch(service, roots_of(root), settings)
    _tell(found, service.base, as_json=as_json)


def _fetch(service: Service, trust: TrustRoots, settings: HTTPSettings) -> VerifiedEvaluationNumbers:
    from affiant.attestation.cli.collateral.progress import Telling  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.fetch import fetch_evaluation_numbers  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.pcs import connect  # noqa: PLC0415 - as above

    async def run() -> VerifiedEvaluationNumbers:
        telling = Telling(service.base)
        async with connect(settings) as transport:
            try:
                return await fetch_evaluation_numbers(
                    transport, service, trust=trust, clock=now, progress=telling
                )
            finally:
                telling.stop()

    return asyncio.run(run())


def _tell(found: VerifiedEvaluationNumbers, source: str, *, as_json: bool) -> None:
    from affiant.attestation.tdx.pki.roots import EvidenceClass  # noqa: PLC0415 - as above
    from affiant.attestation.verdict.lines import field, heading  # noqa: PLC0415 - as above

    simulated = found.evidence_class is EvidenceClass.SIMULATED
    if as_json:
        print_json(
            {
                "typ": "affiant-collateral-evaluations/1",
                "simulated": simulated,
                "source": source,
                "issued": f"{found.issue_date:%Y-%m-%dT%H:%M:%SZ}",
                "expires": f"{found.next_update:%Y-%m-%dT%H:%M:%SZ}",
                "evaluations": [
                    {
                        "number": each.number,
                        "recovery_event": f"{each.recovery_event:%Y-%m-%d}",
                        "tcb_date": f"{each.tcb_date:%Y-%m-%d}",
                    }
                    for each in found.numbers
                ],
            }
        )
        return
    click.echo(f"TCB evaluations, verified{' under a SIMULATED root' if simulated else ''}")
    click.echo(field("from", source))
    click.echo(field("holds until", f"{found.next_update:%Y-%m-%dT%H:%M:%SZ}"))
    click.echo("\n".join(heading("number   recovery event   TCB date")))
    for each in found.numbers:
        click.echo(f"  {each.number:>6}   {each.recovery_event:%Y-%m-%d}       {each.tcb_date:%Y-%m-%d}")
