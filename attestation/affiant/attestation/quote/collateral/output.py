"""Writes collateral to a file or folder: each file whole or not at all, never over something else.

What stands there is replaced only if it is collateral of the same platform and not newer in any part; anything
else is left as it is and named.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

from affiant.attestation.quote.collateral.errors import SettingsInvalid
from affiant.attestation.quote.collateral.files import Choice, file_names, other_files, read_collateral_path
from affiant.attestation.quote.collateral.newest import newest_of
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.attestation.tdx.pki.crl import parse_crl
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import CollateralRollback
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.tcb.qe_identity import parse_qe_identity
from affiant.attestation.tdx.tcb.tcb_info import parse_tcb_info
from affiant.errors import AffiantError
from affiant.files import write_whole

__all__ = ["check_output", "is_folder", "write_output"]

_REMOVE: Final = "Name another place, or move this one away first."


def is_folder(path: str) -> bool:
    """Whether ``path`` means a folder: it is one, or it ends in a slash."""
    return path.endswith("/") or Path(path).is_dir()


def check_output(path: Path, platform: Platform, *, folder: bool) -> None:
    """Refuse a place that could not be written to, before anything is fetched for it.

    Raises:
        SettingsInvalid: its parent is missing, or something else stands there.
    """
    if not path.parent.is_dir():
        raise SettingsInvalid("the folder of the output is missing", where=str(path.parent))
    if not folder:
        if path.exists() and not path.is_file():
            raise SettingsInvalid("the output is no regular file", where=str(path), hint=_REMOVE)
        return
    if path.exists() and not path.is_dir():
        raise SettingsInvalid("the output is no folder", where=str(path), hint=_REMOVE)
    names = frozenset(entry.name for entry in path.iterdir()) if path.is_dir() else frozenset()
    if others := other_files(platform, names):
        raise SettingsInvalid(
            "the folder holds files that a reader would take for the same items",
            where=str(path),
            found=", ".join(others),
            hint=_REMOVE,
        )


def write_output(path: Path, verified: VerifiedCollateral, *, folder: bool, trust: TrustRoots) -> None:
    """Write ``verified`` to the file or folder at ``path``.

    Raises:
        SettingsInvalid: something else stands there, or it cannot be written.
        CollateralRollback: newer collateral of the same platform stands there.
    """
    platform = Platform(verified.tcb_info.fmspc, Authority.of(verified.pck_ca))
    check_output(path, platform, folder=folder)
    _refuse_step_back(path, verified, platform, folder=folder, trust=trust)
    try:
        if not folder:
            write_whole(path, verified.collateral.to_bytes())
            return
        path.mkdir(exist_ok=True)
        for item, name in file_names(platform).items():
            write_whole(path / name, getattr(verified.collateral, item))
    except OSError as error:
        raise SettingsInvalid(
            "the output cannot be written", where=str(path), found=error.strerror
        ) from error


def _refuse_step_back(
    path: Path, verified: VerifiedCollateral, platform: Platform, *, folder: bool, trust: TrustRoots
) -> None:
    """Compare with what stands there, judged when it was issued: it may have expired, and still be newer."""
    first = file_names(platform)["tcb_info"]
    if not (path / first if folder else path).exists():
        return
    try:
        kept = read_collateral_path(path, Choice(platform.fmspc, platform.authority))
        known = verify_collateral(kept, now=_issued(kept), trust=trust)
    except AffiantError as error:
        raise SettingsInvalid(
            f"what is at the output is not collateral that could be compared: {error}",
            where=str(path),
            hint=_REMOVE,
        ) from error
    if (known.tcb_info.fmspc, known.pck_ca) != (verified.tcb_info.fmspc, verified.pck_ca):
        raise SettingsInvalid(
            "collateral of another platform is at the output",
            where=str(path),
            found=Platform(known.tcb_info.fmspc, Authority.of(known.pck_ca)),
            hint=_REMOVE,
        )
    try:
        newest_of(verified).refuse_step_back(newest_of(known))
    except CollateralRollback as refusal:
        refusal.where = str(path)
        refusal.hint = "It is left as it is. If older collateral is wanted on purpose, name another place."
        raise


def _issued(collateral: Collateral) -> datetime:
    """The first time at which all of its dated parts are out."""
    return max(
        parse_tcb_info(collateral.tcb_info).issue_date,
        parse_qe_identity(collateral.qe_identity).issue_date,
        parse_crl(collateral.root_ca_crl, name="root CA CRL").this_update,
        parse_crl(collateral.pck_crl, name="PCK CRL").this_update,
    )
