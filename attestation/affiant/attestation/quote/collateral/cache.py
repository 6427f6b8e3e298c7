"""Stores verified collateral on disk by content: one copy of each item, one entry for each platform and root.

::

    <folder>/            0700
      lock               held while storing, shared while reading
      items/<sha256>     the exact bytes
      platforms/<fmspc>-<authority>-<root>.json      which items (entry.py)
      newest/<fmspc>-<root>.json                     what nothing older may replace (newest.py)

Only ``VerifiedCollateral`` can be stored, and only what is
verified again comes out: the folder is on somebody's disk, and is believed for nothing. What is damaged is refused
by name and left as it is; storing fresh collateral heals its entry, except where the memory of the newest itself is
damaged, because then nothing could tell a step back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from affiant.attestation.quote.collateral.entry import MAX_ENTRY, Entry, Source, parse_entry
from affiant.attestation.quote.collateral.errors import CacheDamaged, CollateralNotCached, SettingsInvalid
from affiant.attestation.quote.collateral.newest import Newest, newest_of, parse_newest
from affiant.attestation.quote.collateral.private_folder import PrivateFolder
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import CollateralRollback
from affiant.attestation.tdx.tcb.collateral import ITEMS, MAX_COLLATERAL_BYTES, Collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.attestation.tdx.tcb.rollback import CollateralMark
from affiant.errors import AffiantError

__all__ = ["CollateralCache", "Damaged"]

_LOCK: Final = "lock"
_MAX_NEWEST: Final = 4096
_STEP_BACK: Final = (
    "The service sends older collateral than it did before: ask another one. If an earlier edition was asked for "
    "on purpose, keep it in another cache."
)


@dataclass(frozen=True, slots=True)
class Damaged:
    """An entry that cannot be used, and why."""

    name: str
    refusal: AffiantError


class CollateralCache:
    """The cache in one folder; nothing is opened before it is used, and nothing is written by reading."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    def store(self, verified: VerifiedCollateral, source: Source) -> Entry:
        """Keep ``verified`` instead of what was kept of its platform, if it is not older in any part.

        Raises:
            NotFreshError: a window does not hold at ``source.fetched``.
            CollateralRollback: a part is older than the newest seen; nothing is changed.
            CacheDamaged: the memory of the newest cannot be read; nothing is changed.
            CacheBusy: others hold the cache.
            SettingsInvalid: the folder cannot be used.
        """
        verified.check_time(source.fetched)
        entry = _entry_of(verified, source)
        try:
            with PrivateFolder.open(self.path, create=True) as folder, folder.locked(_LOCK, shared=False):
                self._store(folder, entry, verified)
        except OSError as error:
            raise SettingsInvalid(
                "the cache cannot be written", where=str(self.path), found=error.strerror
            ) from error
        return entry

    def load(self, platform: Platform, *, now: datetime, trust: TrustRoots) -> VerifiedCollateral:
        """The collateral of ``platform``, verified again at ``now``.

        Raises:
            CollateralNotCached: nothing is kept of it under any of the accepted roots.
            CacheDamaged: what is kept cannot be read, or is not what was stored.
            CollateralRollback: what is kept is older than what was seen.
            AffiantError: it does not verify at ``now``.
        """
        with self._reading(platform) as folder:
            entry, collateral = self._entry(folder, platform, trust)
            seen = self._newest(folder, entry)
        verified = verify_collateral(collateral, now=now, trust=trust)
        if verified.root_digest != entry.root or verified.tcb_info.fmspc != platform.fmspc:
            raise self._damaged(
                "platforms", entry.name, "it names another platform or root than its items do"
            )
        if verified.pck_ca is not platform.authority.pck_ca:
            raise self._damaged("platforms", entry.name, "its revocation list is of the other PCK authority")
        if seen is not None:
            newest_of(verified).refuse_step_back(seen)
        return verified

    def newest_mark(self, platform: Platform, *, trust: TrustRoots) -> CollateralMark | None:
        """How new the newest collateral is that was ever kept of this FMSPC; None: there is no memory of it.

        Raises:
            CollateralNotCached, CacheDamaged: as :meth:`load`.
        """
        with self._reading(platform) as folder:
            seen = self._newest(folder, self._entry(folder, platform, trust)[0])
        return None if seen is None else seen.mark

    def entries(self) -> tuple[Entry | Damaged, ...]:
        """All entries by name, each read with its items; damaged ones as such. Nothing is verified."""
        found: list[Entry | Damaged] = []
        try:
            with self._reading(None) as folder:
                with folder.child("platforms") as platforms:
                    names = platforms.names()
                for name in names:
                    try:
                        found.append(self._read(folder, name)[0])
                    except AffiantError as refusal:
                        found.append(Damaged(name, refusal))
        except CollateralNotCached:
            return ()
        return tuple(found)

    # -- inside the lock ------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self, platform: Platform | None) -> Iterator[PrivateFolder]:
        """The folder, with readers sharing its lock; a folder that is not there holds nothing."""
        try:
            with PrivateFolder.open(self.path, create=False) as folder:
                if not {_LOCK, "platforms"} <= set(folder.names()):
                    raise self._absent(platform)
                with folder.locked(_LOCK, shared=True):
                    yield folder
        except FileNotFoundError as error:
            raise self._absent(platform) from error

    def _entry(
        self, folder: PrivateFolder, platform: Platform, trust: TrustRoots
    ) -> tuple[Entry, Collateral]:
        """The first entry of ``platform`` under an accepted root."""
        entries = [_entry_name(platform, root) for root in sorted(trust.spki_sha256)]
        with folder.child("platforms") as platforms:
            kept = platforms.names()
        if not (found := [name for name in entries if name in kept]):
            raise self._absent(platform)
        return self._read(folder, found[0])

    def _read(self, folder: PrivateFolder, name: str) -> tuple[Entry, Collateral]:
        """One entry and its items, each compared with its digest."""
        with folder.child("platforms") as platforms:
            data = platforms.read(name, limit=MAX_ENTRY)
        try:
            entry = parse_entry(data or b"")
        except (AffiantError, ValueError) as error:
            raise self._damaged("platforms", name, "not an entry of this cache") from error
        if entry.name != name:
            raise self._damaged("platforms", name, f"the entry of another platform or root ({entry.name})")
        with folder.child("items") as items:
            contents = {item: self._item(items, item, digest) for item, digest in entry.items.items()}
        return entry, Collateral(**contents)

    def _item(self, items: PrivateFolder, item: str, digest: bytes) -> bytes:
        content = items.read(digest.hex(), limit=MAX_COLLATERAL_BYTES)
        if content is None:
            raise self._damaged("items", digest.hex(), f"{item} is missing")
        if hashlib.sha256(content).digest() != digest:
            raise self._damaged("items", digest.hex(), f"the bytes of {item} have another digest")
        return content

    def _newest(self, folder: PrivateFolder, entry: Entry) -> Newest | None:
        name = _newest_name(entry)
        if "newest" not in folder.names():
            return None
        with folder.child("newest") as newest:
            data = newest.read(name, limit=_MAX_NEWEST)
        if data is None:
            return None
        try:
            seen = parse_newest(data)
        except (AffiantError, ValueError) as error:
            raise self._damaged(
                "newest", name, "the memory of the newest collateral cannot be read"
            ) from error
        if seen.mark.fmspc != entry.platform.fmspc:
            raise self._damaged("newest", name, "it is of another FMSPC")
        return seen

    def _store(self, folder: PrivateFolder, entry: Entry, verified: VerifiedCollateral) -> None:
        seen = self._advance(folder, entry, newest_of(verified))
        # The items, then the entry that names them, then the memory: a crash in between loses none of them.
        with folder.child("items", create=True) as items:
            for name in ITEMS:
                items.write(entry.items[name].hex(), getattr(verified.collateral, name))
        with folder.child("platforms", create=True) as platforms:
            platforms.write(entry.name, entry.to_bytes())
        with folder.child("newest", create=True) as newest:
            newest.write(_newest_name(entry), seen.to_bytes())
        self._prune(folder)

    def _advance(self, folder: PrivateFolder, entry: Entry, offered: Newest) -> Newest:
        """What will have been seen with ``verified``: judged by the memory, and by what is kept (a crash may
        have come between the two)."""
        for known in (self._newest(folder, entry), self._kept(folder, entry)):
            if known is None:
                continue
            try:
                offered.refuse_step_back(known)
            except CollateralRollback as refusal:
                refusal.where = str(self.path / "newest" / _newest_name(entry))
                refusal.hint = _STEP_BACK
                raise
            offered = offered.advanced_by(known)
        return offered

    def _kept(self, folder: PrivateFolder, entry: Entry) -> Newest | None:
        """How new the kept entry is, if there is one and it is authentic; its windows may have passed."""
        with suppress(AffiantError):
            kept, collateral = self._read(folder, entry.name)
            trust = TrustRoots(frozenset((kept.root,)))
            return newest_of(verify_collateral(collateral, now=kept.source.fetched, trust=trust))
        return None

    def _prune(self, folder: PrivateFolder) -> None:
        """Remove items that no entry names; none as long as an entry cannot be read, as it may name them."""
        named: set[str] = set()
        with folder.child("platforms") as platforms:
            for name in platforms.names():
                try:
                    entry = parse_entry(platforms.read(name, limit=MAX_ENTRY) or b"")
                except (AffiantError, ValueError):
                    return
                named |= {digest.hex() for digest in entry.items.values()}
        with folder.child("items") as items:
            for name in set(items.names()) - named:
                items.remove(name)

    def _damaged(self, folder: str, name: str, why: str) -> CacheDamaged:
        return CacheDamaged(
            f"the cache is damaged: {why}",
            where=str(self.path / folder / name),
            hint="It is left as it is. Fetch again to replace it, or look at the file first.",
        )

    def _absent(self, platform: Platform | None) -> CollateralNotCached:
        return CollateralNotCached(
            f"the cache holds no collateral of {platform or 'any platform'} under the accepted roots",
            where=str(self.path),
            hint="Fetch it: affiant collateral fetch.",
        )


def _entry_of(verified: VerifiedCollateral, source: Source) -> Entry:
    return Entry(
        platform=Platform(verified.tcb_info.fmspc, Authority.of(verified.pck_ca)),
        root=verified.root_digest,
        source=source,
        expires=verified.expiry,
        evaluation_number=verified.evaluation_number,
        digest=verified.digest,
        items=dict(verified.item_digests),
    )


def _entry_name(platform: Platform, root: bytes) -> str:
    return f"{platform.fmspc.hex()}-{platform.authority}-{root.hex()}.json"


def _newest_name(entry: Entry) -> str:
    return f"{entry.platform.fmspc.hex()}-{entry.root.hex()}.json"
