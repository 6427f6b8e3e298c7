"""Finds the reader's own collateral for archived quotes, in a file or a folder. It uses no network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from affiant.attestation.quote.collateral.errors import CollateralAbsent
from affiant.attestation.quote.collateral.files import read_collateral
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.verdict.errors import NotMade

__all__ = ["collateral_at"]


def collateral_at(path: Path) -> Callable[[TDQuote], Collateral]:
    """What finds a quote's collateral at ``path``, as `affiant collateral fetch` writes it; nothing is verified.

    Without any of the quote's platform it says *not made*: the absence of collateral refuses no quote. It can be
    pickled: the quotes of a period are judged in several processes.
    """
    return partial(_find, path)


def _find(path: Path, quote: TDQuote) -> Collateral:
    try:
        return read_collateral(path, quote)
    except CollateralAbsent as error:
        raise NotMade(f"no collateral of this platform is at {path.name}: {error.message}") from error
