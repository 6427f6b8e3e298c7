"""Implements ``affiant collateral``. It reads files, the clock and the network, prints, and chooses exit codes.

What a command needs is imported when it runs, so that help costs nothing and the base install has no client.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.collateral.evaluations_command import evaluations
from affiant.attestation.cli.collateral.options import (
    ca_option,
    cache_option,
    default_cache,
    fmspc_option,
    json_option,
    now,
    pccs_option,
    proxy_option,
    root_option,
    roots_of,
    timeout_option,
    tls_ca_option,
)
from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.command_line import UsageGroup, print_json, refusals

if TYPE_CHECKING:
    from affiant.attestation.quote.collateral.cache import CollateralCache
    from affiant.attestation.quote.collateral.files import Choice
    from affiant.attestation.quote.collateral.wanted import Edition, Platform

__all__ = ["collateral"]

_PATH: Final = click.Path(exists=True, readable=True, path_type=Path)


@click.group(cls=UsageGroup)
def collateral() -> None:
    """Fetch, store and check what Intel publishes about a kind of platform.

    Verifiers work offline: you give them collateral. This is the one command that fetches it.

    \b
    Examples:
      affiant collateral fetch quote.bin --output collateral.json
      affiant quote verify quote.bin --collateral collateral.json
      affiant collateral check collateral.json
      affiant collateral evaluations
    """


collateral.add_command(evaluations)


@collateral.command()
@click.argument("quote", type=click.Path(exists=True, dir_okay=False, allow_dash=True), required=False)
@fmspc_option
@ca_option
@click.option(
    "-o",
    "--output",
    help="Write to this file; or, if it is a folder or ends in /, to that folder, one file for each answer.",
)
@cache_option
@click.option("--offline", is_flag=True, help="Ask nobody: take it from the cache, if it holds now.")
@click.option(
    "--update",
    type=click.Choice(["standard", "early"]),
    help="Which edition: standard (the default) is what Intel enforces; early has the next evaluation.",
)
@click.option(
    "--evaluation", type=click.IntRange(1, 65535), metavar="N", help="This tcbEvaluationDataNumber alone."
)
@pccs_option
@tls_ca_option
@proxy_option
@timeout_option
@root_option
@json_option
def fetch(
    *,
    quote: str | None,
    fmspc: str | None,
    ca: str | None,
    output: str | None,
    cache: Path | None,
    offline: bool,
    update: str | None,
    evaluation: int | None,
    pccs: str | None,
    tls_ca: Path | None,
    proxy: str | None,
    timeout: float,
    root: str,
    as_json: bool,
) -> None:
    """Fetch the collateral of a platform, verify it, and write it down.

    The platform is that of QUOTE (a file, or - for standard input), or --fmspc with --ca. Written is what --output
    names and, without it, the cache; with both, both. Nothing is written before everything is verified under
    --root, and never over something newer. The service learns the FMSPC.

    Exit codes: 0 done, 1 refused or not to be had (nothing is written), 2 usage.

    \b
    Examples:
      affiant collateral fetch quote.bin --output collateral.json
      affiant collateral fetch --fmspc 90c06f000000 --ca platform --output collateral/
      affiant collateral fetch quote.bin
      affiant collateral fetch quote.bin --pccs https://localhost:8081 --tls-ca pccs.pem -o c.json
      affiant collateral fetch quote.bin --offline -o c.json
    """
    from affiant.attestation.cli.collateral.steps import fetch_now, tell_fetched  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.entry import Source  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.quote.collateral.output import check_output, is_folder, write_output  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.pcs import HTTPSettings  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.service import INTEL_PCS, Service  # noqa: PLC0415 - as above

    if update is not None and evaluation is not None:
        raise click.UsageError("--update and --evaluation exclude each other")
    if offline and (pccs or proxy or tls_ca or update or evaluation):
        raise click.UsageError(
            "--offline asks nobody: no --pccs, --proxy, --tls-ca, --update or --evaluation"
        )
    if output == "":
        raise click.UsageError("--output names no place")
    with refusals("affiant-collateral-fetched/1", as_json=as_json):
        platform, trust, edition = _platform(quote, fmspc, ca), roots_of(root), _edition(update, evaluation)
        service = INTEL_PCS if pccs is None else Service.pccs(pccs)
        place = None if output is None else Path(output)
        folder = output is not None and is_folder(output)
        if place is not None:
            check_output(place, platform, folder=folder)
        kept = _open_cache(cache) if cache is not None or place is None or offline else None
        if offline:
            assert kept is not None
            verified = kept.load(platform, now=now(), trust=trust)
        else:
            settings = HTTPSettings(
                tls_ca=tls_ca, proxy=proxy, answer_s=timeout, silence_s=min(timeout, 10.0)
            )
            verified = fetch_now(service, platform, edition, trust, settings=settings, clock=now)
        written: list[str] = []
        if kept is not None and not offline:
            kept.store(verified, Source(service.base, str(edition), now()))
            written.append(str(kept.path))
        if place is not None:
            write_output(place, verified, folder=folder, trust=trust)
            written.append(str(place))
        source = str(kept.path) if offline and kept is not None else service.base
        tell_fetched(verified, platform, source, written, as_json=as_json)


@collateral.command()
@click.argument("path", type=_PATH, required=False)
@fmspc_option
@ca_option
@cache_option
@json_option
def show(*, path: Path | None, fmspc: str | None, ca: str | None, cache: Path | None, as_json: bool) -> None:
    """Print what collateral says about itself: dates, numbers, digests. Verifies nothing.

    PATH is a file or a folder; --fmspc and --ca choose in a folder of several platforms. Without PATH: what the
    cache holds.

    Exit codes: 0 done, 1 it cannot be read, 2 usage.

    \b
    Examples:
      affiant collateral show collateral.json
      affiant collateral show collateral/ --fmspc 90c06f000000 --ca platform --json
      affiant collateral show
    """
    from affiant.attestation.cli.collateral.steps import show_cache  # noqa: PLC0415 - as above
    from affiant.attestation.cli.collateral.summary import summarize  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.files import read_collateral_path  # noqa: PLC0415 - help must stay cheap

    if path is None:
        _nothing_to_choose(fmspc, ca)
        show_cache(_open_cache(cache), as_json=as_json)
        return
    with refusals("affiant-collateral-summary/1", as_json=as_json):
        summary = summarize(read_collateral_path(path, _choice(fmspc, ca)))
    if as_json:
        print_json(summary.to_json())
    else:
        click.echo("\n".join(summary.lines()))


@collateral.command()
@click.argument("path", type=_PATH, required=False)
@click.option(
    "--at",
    callback=timestamp,
    metavar="TIME",
    help="Judge at this time: `now` (the default), RFC 3339 in UTC, or seconds since 1970.",
)
@root_option
@click.option(
    "--expires-within",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Warn (exit code 10) if it expires within so many days.",
)
@fmspc_option
@ca_option
@cache_option
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    *,
    path: Path | None,
    at: datetime,
    root: str,
    expires_within: int | None,
    fmspc: str | None,
    ca: str | None,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Verify collateral: signatures, issuers, revocations, and every date at one time.

    PATH is a file or a folder; without it, everything in the cache. `affiant quote verify` checks whether it
    belongs to the platform of a quote.

    Exit codes: 0 affirming, 10 warning (it expires soon), 20 contraindicated, 30 none (nothing to check),
    40 simulated (another root than Intel's), 2 usage.

    \b
    Examples:
      affiant collateral check collateral.json
      affiant collateral check collateral.json --at 2026-11-21T12:00:00Z --json
      affiant collateral check --expires-within 7
      affiant collateral check sim.json --root root.pem
    """
    from affiant.attestation.cli.collateral.steps import cached, given  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.cli.collateral.verdict import judge  # noqa: PLC0415 - as above
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - as above

    trust = roots_of(root)
    if path is None:
        _nothing_to_choose(fmspc, ca)
        candidates = cached(_open_cache(cache), at, trust)
    else:
        candidates = [given(path, _choice(fmspc, ca), at, trust)]
    verdict = judge(
        candidates,
        at=at,
        build=build_name(),
        soon=None if expires_within is None else timedelta(days=expires_within),
        rollback=path is None,
    )
    if as_json:
        print_json(verdict.to_json())
    else:
        click.echo("\n".join(verdict.lines()))
    ctx.exit(verdict.exit_code)


# -- arguments ----------------------------------------------------------------------------------------------------


def _platform(quote: str | None, fmspc: str | None, ca: str | None) -> Platform:
    from affiant.attestation.quote.collateral.wanted import Authority, Platform, platform_of  # noqa: PLC0415 - as above

    if (quote is None) == (fmspc is None and ca is None):
        raise click.UsageError("name the platform: a QUOTE, or --fmspc and --ca together")
    if quote is None:
        if fmspc is None or ca is None:
            raise click.UsageError("--fmspc and --ca belong together")
        return Platform.named(fmspc, Authority(ca))
    from affiant.attestation.quote.judge.quote_file import MAX_QUOTE_FILE, read_quote_file  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote.quote import parse_quote  # noqa: PLC0415 - as above

    with click.open_file(quote, "rb") as opened:
        content = opened.read(MAX_QUOTE_FILE + 1)
    return platform_of(parse_quote(read_quote_file(content).data))


def _choice(fmspc: str | None, ca: str | None) -> Choice:
    from affiant.attestation.quote.collateral.files import Choice  # noqa: PLC0415 - as above
    from affiant.attestation.quote.collateral.wanted import Authority, Platform  # noqa: PLC0415 - as above

    authority = None if ca is None else Authority(ca)
    chosen = None if fmspc is None else Platform.named(fmspc, authority or Authority.PLATFORM).fmspc
    return Choice(chosen, authority)


def _nothing_to_choose(fmspc: str | None, ca: str | None) -> None:
    if fmspc is not None or ca is not None:
        raise click.UsageError("--fmspc and --ca choose in a folder of several platforms: name its PATH")


def _edition(update: str | None, evaluation: int | None) -> Edition:
    from affiant.attestation.quote.collateral.wanted import Evaluation, Update  # noqa: PLC0415 - as above

    return Update(update or Update.STANDARD) if evaluation is None else Evaluation(evaluation)


def _open_cache(cache: Path | None) -> CollateralCache:
    from affiant.attestation.quote.collateral.cache import CollateralCache  # noqa: PLC0415 - as above

    return CollateralCache((cache or default_cache()).absolute())
