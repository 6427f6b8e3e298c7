"""Implements ``affiant quote verify-azure``, which judges evidence of an Azure confidential VM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.quote.bounded_file import policy_of, read_bounded, roots_of
from affiant.attestation.cli.quote.options import (
    at_option,
    cache_option,
    collateral_option,
    hexadecimal,
    json_option,
    refuse_two_sources,
    root_option,
)
from affiant.attestation.cli.quote.policy_signing_options import NamedSigner
from affiant.command_line import print_json

if TYPE_CHECKING:
    from affiant.attestation.quote.judge.azure_verdict import AzureVerdict

__all__ = ["verify_azure"]

_PCR: Final = re.compile(r"([0-9]|1[0-9]|2[0-3])=([0-9a-fA-F]{64})\Z")


def _pcrs(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> Mapping[int, frozenset[bytes]]:
    accepted: dict[int, frozenset[bytes]] = {}
    for value in values:
        if (match := _PCR.match(value)) is None:
            raise click.BadParameter("not a PCR: 0 to 23, `=`, and 64 hexadecimal digits (SHA-256 bank)")
        number = int(match[1])
        accepted[number] = accepted.get(number, frozenset()) | {bytes.fromhex(match[2])}
    return accepted


def _sized(size: int, value: bytes | None, name: str) -> None:
    if value is not None and len(value) != size:
        raise click.UsageError(
            f"{name} is {size} bytes, {2 * size} hexadecimal digits; found {len(value)} bytes"
        )


@click.command("verify-azure")
@click.argument(
    "file", type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path)
)
@click.option(
    "--nonce",
    required=True,
    callback=hexadecimal,
    metavar="HEX",
    help="The 32 bytes that you made for this evidence.",
)
@click.option(
    "--pcr",
    "pcrs",
    multiple=True,
    callback=_pcrs,
    metavar="N=HEX",
    help="Accept this value of PCR N (SHA-256 bank); again for others, or for other values of one.",
)
@click.option(
    "--user-data",
    callback=hexadecimal,
    metavar="HEX",
    help="All 64 bytes that the guest must have given the paravisor.",
)
@collateral_option
@cache_option
@at_option
@root_option
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="What you accept of the platform and its paravisor (docs/formats/appraisal_policy.md).",
)
@json_option
@click.pass_context
def verify_azure(
    ctx: click.Context,
    *,
    file: Path,
    nonce: bytes,
    pcrs: Mapping[int, frozenset[bytes]],
    user_data: bytes | None,
    collateral: Path | None,
    cache: Path | None,
    at: datetime,
    root: str | None,
    policy: Path | None,
    as_json: bool,
) -> None:
    """Verify evidence that `affiant quote take --source azure-vtpm` collected. This is not a verdict of plain TDX.

    The TD quote speaks of hardware and Microsoft's paravisor; a quote of the vTPM that the paravisor runs speaks of
    the guest's boot, and signs your nonce. If you trust this, you trust the paravisor as well.

    Exit codes: 10 both hold and were appraised (--policy and --pcr), which is the best there is; 20 refused; 30 the
    platform or the guest was not appraised; 40 simulated; 2 usage. Not yet run on Azure.

    \b
    Examples:
      affiant quote verify-azure evidence.json --nonce HEX --collateral collateral.json
      affiant quote verify-azure evidence.json --nonce HEX --policy paravisor.yaml --pcr 4=HEX --pcr 11=HEX --json
    """
    from affiant.attestation.cli.collateral.options import default_cache  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.cli.quote.accepted_file import accepted_policy  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.azure_verdict import AzureQuestion, judge_azure  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.platform_collateral import collateral_of  # noqa: PLC0415 - as above
    from affiant.attestation.quote.judge.verdict import Question  # noqa: PLC0415 - as above
    from affiant.attestation.quote.providers.clouds.azure_document import MAX_AZURE_EVIDENCE  # noqa: PLC0415 - as above
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - as above

    _sized(32, nonce, "--nonce")
    _sized(64, user_data, "--user-data")
    refuse_two_sources(collateral, cache)
    written = None if policy is None else accepted_policy(policy, NamedSigner(None, None, None))
    settings = None if written is None else policy_of(written)
    roots = roots_of(root, None if settings is None else settings.roots_at(at))
    kept = (cache or default_cache()).absolute()
    question = AzureQuestion(
        platform=Question(at=at, roots=roots, policy=settings),
        nonce=nonce,
        pcrs=pcrs,
        user_data=user_data,
    )
    verdict = judge_azure(
        read_bounded(file, MAX_AZURE_EVIDENCE),
        lambda parsed: collateral_of(parsed, given=collateral, cache=kept, now=at, trust=roots),
        question,
        build=build_name(),
    )
    if as_json:
        print_json(verdict.to_json())
    else:
        _show(verdict)
    ctx.exit(verdict.exit_code)


def _show(verdict: AzureVerdict) -> None:
    from affiant.attestation.quote.show.verdict_text import render_verdict  # noqa: PLC0415 - as above
    from affiant.attestation.verdict.lines import field, heading, prose  # noqa: PLC0415 - as above

    simulated = " (SIMULATED)" if verdict.platform is not None and verdict.platform.simulated else ""
    lines = [f"profile azure-vtpm{simulated}: {verdict.tier}, exit code {verdict.exit_code}"]
    lines.append(field("evidence", verdict.document))
    if verdict.refusal is not None:
        lines += prose("refusal", f"[{verdict.refusal.code}] {verdict.refusal}")
    lines += prose("believed", "the hardware, Microsoft's paravisor, and the vTPM that it runs")
    lines += heading("GUEST  by the paravisor's vTPM")
    if verdict.guest is None:
        lines.append(field("vTPM", "not judged"))
    else:
        lines.append(field("nonce", "yours"))
        lines.append(field("PCRs", "as accepted" if verdict.pcrs_appraised else "NOT APPRAISED: give --pcr"))
        lines += [
            field(f"  PCR {number}", value.hex()) for number, value in sorted(verdict.guest.pcrs.items())
        ]
        user_data = verdict.guest.user_data
        asked = "" if verdict.user_data_asked else " (not asked)"
        lines.append(field("user data", "none" if user_data is None else f"{user_data.hex()}{asked}"))
    lines += heading("PLATFORM  hardware and paravisor; it says nothing of the guest")
    click.echo("\n".join(lines))
    if verdict.platform is not None:
        click.echo(render_verdict(verdict.platform), nl=False)
