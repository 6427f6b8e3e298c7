"""Collateral from the cache, for the platform that a quote names: offline, verified again, and never a step back.

The cache remembers the newest collateral that it has held of each FMSPC, so that point 22 of the checklist is made:
what is older than that is refused, here and in verification.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from affiant.attestation.collateral.cache import CollateralCache
from affiant.attestation.collateral.errors import CacheBusy, CollateralNotCached, SettingsInvalid
from affiant.attestation.collateral.wanted import platform_of
from affiant.attestation.quotes.collateral_folder import CollateralAbsent
from affiant.attestation.quotes.verdict import RememberedCollateral
from affiant.attestation.tdx.errors import PCKChainInvalid
from affiant.attestation.tdx.quote import TDQuote
from affiant.attestation.tdx.roots import TrustRoots

__all__ = ["read_cached_collateral"]


def read_cached_collateral(
    path: Path, quote: TDQuote, *, now: datetime, trust: TrustRoots
) -> RememberedCollateral:
    """What the cache in the folder ``path`` keeps of the platform that ``quote`` names.

    Raises:
        CollateralAbsent: nothing is kept of it under any of the accepted roots, or others hold the cache.
        CacheDamaged: what is kept cannot be read, or is not what was stored.
        CollateralRollback: what is kept is older than what was seen.
        AffiantError: it does not verify at ``now``, or the quote's chain cannot be read.
    """
    try:
        platform = platform_of(quote)
    except SettingsInvalid as error:
        raise PCKChainInvalid(error.message, expected=error.expected, found=error.found) from error
    cache = CollateralCache(path)
    try:
        # The memory first: what is stored meanwhile makes the collateral newer than it, never older.
        seen = cache.newest_mark(platform, trust=trust)
        return RememberedCollateral(cache.load(platform, now=now, trust=trust), seen)
    except (CollateralNotCached, CacheBusy) as error:
        raise CollateralAbsent(
            error.message,
            where=error.where,
            hint="Give --collateral, or fetch it: affiant collateral fetch.",
        ) from error
