"""``affiant collateral``: the rim. Reads files, the clock and the network; prints; chooses exit codes.

What a command needs is imported when it runs, so that help costs nothing and the base install has no client.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.attestation.tdx.times import parse_rfc3339_utc
from affiant.command_line import EXIT_REFUSED, Group, RefusalShown, print_json, printable
from affiant.errors import AffiantError, ConfigurationError

if TYPE_CHECKING:
    from affiant.attestation.collateral.cache import CollateralCache
    from affiant.attestation.collateral.files import Choice
    from affiant.attestation.collateral.wanted import Edition, Platform
    from affiant.attestation.tdx.roots import TrustRoots

__all__ = ["collateral", "default_cache"]

_PATH = click.Path(exists=True, readable=True, path_type=Path)
_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_DASH: Final = "-"


class _CollateralGroup(Group):
    """A group in which a mistake of the command line is usage (exit 2), whoever notices it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RefusalShown as shown:
            if not isinstance(shown.error, ConfigurationError):
                raise
            raise click.UsageError(f"{printable(str(shown.error))} [{shown.error.code}]") from shown


@contextmanager
def _refusals(typ: str, *, as_json: bool) -> Iterator[None]:
    """With --json a refusal is a document too; a mistake of the command line stays what it is."""
    try:
        yield
    except AffiantError as refusal:
        if not as_json or isinstance(refusal, ConfigurationError):
            raise
        print_json({"typ": typ, "refused": refusal.to_json()})
        raise click.exceptions.Exit(EXIT_REFUSED) from refusal


def _instant(_ctx: click.Context, _param: click.Parameter, value: str | None) -> datetime:
    """``now``, an RFC 3339 instant in UTC, or seconds since 1970."""
    if value is None or value == "now":
        return _now()
    if value.isascii() and value.isdigit() and len(value) <= 11:
        return datetime.fromtimestamp(int(value), UTC)
    try:
        return parse_rfc3339_utc(value)
    except ValueError as error:
        raise click.BadParameter(
            "not an instant: now, 2026-11-21T12:00:00Z, or seconds since 1970"
        ) from error


def default_cache() -> Path:
    """``collateral/`` in ``$AFFIANT_HOME``, or in ``affiant`` of the XDG state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(os.environ.get("AFFIANT_HOME") or Path(state) / "affiant") / "collateral"


def _now() -> datetime:
    return datetime.now(UTC)


_fmspc = click.option("--fmspc", metavar="HEX", help="The platform's FMSPC, 12 hexadecimal digits.")
_ca = click.option(
    "--ca", type=click.Choice(["platform", "processor"]), help="Who issues its PCK certificates."
)
_cache = click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    help="The cache's folder. Default: collateral/ in $AFFIANT_HOME, or in affiant of the XDG state folder.",
)
_root = click.option(
    "--root",
    metavar="intel|FILE",
    default="intel",
    show_default=True,
    help="The root key you accept: Intel's, or a certificate or public key. Only Intel's is hardware.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")


@click.group(cls=_CollateralGroup)
def collateral() -> None:
    """Fetch, keep and check what Intel publishes about a kind of platform.

    Verifiers work offline: collateral is an argument of theirs. This is the one command that asks for it.

    \b
    Examples:
      affiant collateral fetch quote.bin --output collateral.json
      affiant quote verify quote.bin --collateral collateral.json
      affiant collateral check collateral.json
    """


@collateral.command()
@click.argument("quote", type=click.Path(exists=True, dir_okay=False, allow_dash=True), required=False)
@_fmspc
@_ca
@click.option(
    "-o",
    "--output",
    help="Write to this file; or, if it is a folder or ends in /, to that folder, one file for each answer.",
)
@_cache
@click.option("--offline", is_flag=True, help="Ask nobody: take it from the cache, if it holds now.")
@click.option(
    "--update",
    type=click.Choice(["standard", "early"]),
    help="Which edition: standard (the default) is what Intel enforces; early has the next evaluation.",
)
@click.option(
    "--evaluation", type=click.IntRange(1, 65535), metavar="N", help="This tcbEvaluationDataNumber alone."
)
@click.option("--pccs", metavar="URL", help="Ask this PCCS instead of Intel's own service. https only.")
@click.option("--tls-ca", type=_FILE, help="PEM authorities for TLS, instead of the public ones.")
@click.option("--proxy", metavar="URL", help="Go through this proxy; the environment is not read.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="For each of the four answers, as a whole.",
)
@_root
@_json
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
    from affiant.attestation.collateral.entry import Source  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.collateral.output import check_output, is_folder, write_output  # noqa: PLC0415 - as above
    from affiant.attestation.collateral.pcs import HTTPSettings  # noqa: PLC0415 - as above
    from affiant.attestation.collateral.service import INTEL_PCS, Service  # noqa: PLC0415 - as above
    from affiant.attestation.collateral.steps import fetch_now, tell_fetched  # noqa: PLC0415 - as above

    if update is not None and evaluation is not None:
        raise click.UsageError("--update and --evaluation exclude each other")
    if offline and (pccs or proxy or tls_ca or update or evaluation):
        raise click.UsageError(
            "--offline asks nobody: no --pccs, --proxy, --tls-ca, --update or --evaluation"
        )
    if output == "":
        raise click.UsageError("--output names no place")
    with _refusals("affiant-collateral-fetched/1", as_json=as_json):
        platform, trust, edition = _platform(quote, fmspc, ca), _roots(root), _edition(update, evaluation)
        service = INTEL_PCS if pccs is None else Service.pccs(pccs)
        place = None if output is None else Path(output)
        folder = output is not None and is_folder(output)
        if place is not None:
            check_output(place, platform, folder=folder)
        kept = _open_cache(cache) if cache is not None or place is None or offline else None
        if offline:
            assert kept is not None
            verified = kept.load(platform, now=_now(), trust=trust)
        else:
            settings = HTTPSettings(
                tls_ca=tls_ca, proxy=proxy, answer_s=timeout, silence_s=min(timeout, 10.0)
            )
            verified = fetch_now(service, platform, edition, trust, settings=settings, clock=_now)
        written: list[str] = []
        if kept is not None and not offline:
            kept.store(verified, Source(service.base, str(edition), _now()))
            written.append(str(kept.path))
        if place is not None:
            write_output(place, verified, folder=folder, trust=trust)
            written.append(str(place))
        source = str(kept.path) if offline and kept is not None else service.base
        tell_fetched(verified, platform, source, written, as_json=as_json)


@collateral.command()
@click.argument("path", type=_PATH, required=False)
@_fmspc
@_ca
@_cache
@_json
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
    from affiant.attestation.collateral.files import read_collateral_path  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.collateral.steps import show_cache  # noqa: PLC0415 - as above
    from affiant.attestation.collateral.summary import summarize  # noqa: PLC0415 - as above

    if path is None:
        _nothing_to_choose(fmspc, ca)
        show_cache(_open_cache(cache), as_json=as_json)
        return
    with _refusals("affiant-collateral-summary/1", as_json=as_json):
        summary = summarize(read_collateral_path(path, _choice(fmspc, ca)))
    if as_json:
        print_json(summary.to_json())
    else:
        click.echo("\n".join(summary.lines()))


@collateral.command()
@click.argument("path", type=_PATH, required=False)
@click.option(
    "--at",
    callback=_instant,
    metavar="TIME",
    help="Judge at this instant: `now` (the default), RFC 3339 in UTC, or seconds since 1970.",
)
@_root
@click.option(
    "--expires-within",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Warn (exit code 10) if it expires within so many days.",
)
@_fmspc
@_ca
@_cache
@_json
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
    """Verify collateral: signatures, issuers, revocations, and every date at one instant.

    PATH is a file or a folder; without it, everything in the cache. Whether it is the collateral of a quote's
    platform, `affiant quote verify` says.

    Exit codes: 0 affirming, 10 warning (it expires soon), 20 contraindicated, 30 none (nothing to check),
    40 simulated (another root than Intel's), 2 usage.

    \b
    Examples:
      affiant collateral check collateral.json
      affiant collateral check collateral.json --at 2026-11-21T12:00:00Z --json
      affiant collateral check --expires-within 7
      affiant collateral check sim.json --root root.pem
    """
    from affiant.attestation.collateral.steps import cached, given  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.collateral.verdict import judge  # noqa: PLC0415 - as above
    from affiant.attestation.release import build_name  # noqa: PLC0415 - as above

    trust = _roots(root)
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
    from affiant.attestation.collateral.wanted import Authority, Platform, platform_of  # noqa: PLC0415 - as above

    if (quote is None) == (fmspc is None and ca is None):
        raise click.UsageError("name the platform: a QUOTE, or --fmspc and --ca together")
    if quote is None:
        if fmspc is None or ca is None:
            raise click.UsageError("--fmspc and --ca belong together")
        return Platform.named(fmspc, Authority(ca))
    from affiant.attestation.quotes.quote_file import MAX_QUOTE_FILE, read_quote_file  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.quote import parse_quote  # noqa: PLC0415 - as above

    with click.open_file(quote, "rb") as opened:
        content = opened.read(MAX_QUOTE_FILE + 1)
    return platform_of(parse_quote(read_quote_file(content).data))


def _choice(fmspc: str | None, ca: str | None) -> Choice:
    from affiant.attestation.collateral.files import Choice  # noqa: PLC0415 - as above
    from affiant.attestation.collateral.wanted import Authority, Platform  # noqa: PLC0415 - as above

    authority = None if ca is None else Authority(ca)
    chosen = None if fmspc is None else Platform.named(fmspc, authority or Authority.PLATFORM).fmspc
    return Choice(chosen, authority)


def _nothing_to_choose(fmspc: str | None, ca: str | None) -> None:
    if fmspc is not None or ca is not None:
        raise click.UsageError("--fmspc and --ca choose in a folder of several platforms: name its PATH")


def _edition(update: str | None, evaluation: int | None) -> Edition:
    from affiant.attestation.collateral.wanted import Evaluation, Update  # noqa: PLC0415 - as above

    return Update(update or Update.STANDARD) if evaluation is None else Evaluation(evaluation)


def _roots(root: str) -> TrustRoots:
    from affiant.attestation.quotes.pins import MAX_ROOT_FILE, parse_root_file  # noqa: PLC0415 - as above
    from affiant.attestation.tdx.roots import TrustRoots  # noqa: PLC0415 - as above

    if root == "intel":
        return TrustRoots.intel()
    try:
        with open(root, "rb") as opened:
            return parse_root_file(opened.read(MAX_ROOT_FILE + 1))
    except (OSError, AffiantError) as error:
        raise click.UsageError(f"--root: {printable(str(error))}") from error


def _open_cache(cache: Path | None) -> CollateralCache:
    from affiant.attestation.collateral.cache import CollateralCache  # noqa: PLC0415 - as above

    return CollateralCache((cache or default_cache()).absolute())
