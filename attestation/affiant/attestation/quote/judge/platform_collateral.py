"""Finds the collateral of the platform that a quote names, in the reader's own files or in the cache. It uses no
network.

What the quote says of its platform is a hint that only chooses files. The cache remembers the newest collateral that
it has held of each FMSPC, so that point 22 of the checklist is made: what is older than that is refused, here and in
verification.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from affiant.attestation.quote.collateral.cache import CollateralCache
from affiant.attestation.quote.collateral.errors import CacheBusy, CollateralAbsent, CollateralNotCached
from affiant.attestation.quote.collateral.files import platform_named_by, read_collateral
from affiant.attestation.quote.judge.verdict import RememberedCollateral
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral

__all__ = ["collateral_of", "read_cached_collateral"]


def collateral_of(
    quote: TDQuote, *, given: Path | None, cache: Path, now: datetime, trust: TrustRoots
) -> Collateral | RememberedCollateral:
    """From the file or folder ``given``; where None, from the ``cache``.

    Raises:
        AffiantError: as ``read_collateral`` and :func:`read_cached_collateral`.
    """
    if given is not None:
        return read_collateral(given, quote)
    return read_cached_collateral(cache, quote, now=now, trust=trust)


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
    platform = platform_named_by(quote)
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
