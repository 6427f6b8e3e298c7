"""Does the work of ``affiant collateral`` after the arguments have become values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from affiant.attestation.cli.collateral.progress import Telling
from affiant.attestation.cli.collateral.verdict import Candidate
from affiant.attestation.quote.collateral.cache import CollateralCache, Damaged
from affiant.attestation.quote.collateral.fetch import fetch_collateral
from affiant.attestation.quote.collateral.files import Choice, read_collateral_path
from affiant.attestation.quote.collateral.pcs import HTTPSettings, connect
from affiant.attestation.quote.collateral.service import Service
from affiant.attestation.quote.collateral.wanted import Edition, Platform
from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.verdict.lines import field, heading
from affiant.command_line import print_json, printable
from affiant.errors import AffiantError, ConfigurationError

__all__ = ["cached", "fetch_now", "given", "show_cache", "tell_fetched"]


def fetch_now(
    service: Service,
    platform: Platform,
    edition: Edition,
    trust: TrustRoots,
    *,
    settings: HTTPSettings,
    clock: Callable[[], datetime],
) -> VerifiedCollateral:
    """Fetch and verify, telling on standard error what takes long. Ctrl-C ends it at any point."""

    async def run() -> VerifiedCollateral:
        telling = Telling(service.base)
        async with connect(settings) as transport:
            try:
                return await fetch_collateral(
                    transport, service, platform, trust=trust, clock=clock, edition=edition, progress=telling
                )
            finally:
                telling.stop()

    return asyncio.run(run())


def tell_fetched(
    verified: VerifiedCollateral, platform: Platform, source: str, written: list[str], *, as_json: bool
) -> None:
    """What was fetched, where it came from and what was written."""
    simulated = verified.evidence_class is EvidenceClass.SIMULATED
    expires = f"{verified.expiry:%Y-%m-%dT%H:%M:%SZ}"
    if as_json:
        print_json(
            {
                "typ": "affiant-collateral-fetched/1",
                "fmspc": platform.fmspc.hex(),
                "authority": str(platform.authority),
                "simulated": simulated,
                "evaluation_number": verified.evaluation_number,
                "expires": expires,
                "digest": verified.digest,
                "source": source,
                "written": written,
            }
        )
        return
    click.echo(f"collateral of {platform}, verified{' under a SIMULATED root' if simulated else ''}")
    click.echo(field("from", source))
    click.echo(field("evaluation number", verified.evaluation_number))
    click.echo(field("holds until", expires))
    click.echo(field("digest", verified.digest))
    for place in written:
        click.echo(field("written", place))


def show_cache(cache: CollateralCache, *, as_json: bool) -> None:
    """Entries by platform; a damaged one is a line of its own and exit code 1."""

    entries = cache.entries()
    damaged = [entry for entry in entries if isinstance(entry, Damaged)]
    sound = [entry for entry in entries if not isinstance(entry, Damaged)]
    if as_json:
        documents = [
            {
                "fmspc": entry.platform.fmspc.hex(),
                "authority": str(entry.platform.authority),
                "root": f"sha256:{entry.root.hex()}",
                "source": entry.source.service,
                "edition": entry.source.edition,
                "fetched": f"{entry.source.fetched:%Y-%m-%dT%H:%M:%SZ}",
                "expires": f"{entry.expires:%Y-%m-%dT%H:%M:%SZ}",
                "evaluation_number": entry.evaluation_number,
            }
            for entry in sound
        ]
        broken = [{"name": each.name, "refused": each.refusal.to_json()} for each in damaged]
        print_json(
            {
                "typ": "affiant-collateral-cache/1",
                "path": str(cache.path),
                "entries": documents,
                "damaged": broken,
            }
        )
    else:
        click.echo(f"cache {printable(str(cache.path))}: {len(sound)} sound, {len(damaged)} damaged")
        for entry in sound:
            click.echo("\n".join(heading(str(entry.platform))))
            click.echo(field("root", f"sha256:{entry.root.hex()}"))
            click.echo(field("from", f"{entry.source.service}, {entry.source.edition}"))
            click.echo(field("fetched", f"{entry.source.fetched:%Y-%m-%dT%H:%M:%SZ}"))
            click.echo(field("holds until", f"{entry.expires:%Y-%m-%dT%H:%M:%SZ}"))
            click.echo(field("evaluation number", entry.evaluation_number))
        for each in damaged:
            click.echo("\n".join(heading("DAMAGED")))
            click.echo(field("refusal", f"[{each.refusal.code}] {each.refusal}"))
    if damaged:
        raise click.exceptions.Exit(1)


def cached(cache: CollateralCache, at: datetime, trust: TrustRoots) -> list[Candidate]:
    """Every entry under the accepted roots, and every damaged one."""
    found: list[Candidate] = []
    for entry in cache.entries():
        if isinstance(entry, Damaged):
            found.append(Candidate.unreadable(entry.name, entry.refusal))
        elif entry.root in trust.spki_sha256:
            found.append(
                Candidate(str(entry.platform), entry.digest, _load(cache, entry.platform, at, trust))
            )
    return found


def given(path: Path, choice: Choice, at: datetime, trust: TrustRoots) -> Candidate:
    """The collateral in a file or a folder.

    Raises:
        CollateralAbsent: an item is missing.
        SettingsInvalid: it is not said which one.
    """
    try:
        collateral = read_collateral_path(path, choice)
    except ConfigurationError:
        raise
    except AffiantError as refusal:
        return Candidate.unreadable(str(path), refusal)
    return Candidate(str(path), collateral.digest, lambda: verify_collateral(collateral, now=at, trust=trust))


def _load(
    cache: CollateralCache, platform: Platform, at: datetime, trust: TrustRoots
) -> Callable[[], VerifiedCollateral]:
    return lambda: cache.load(platform, now=at, trust=trust)
