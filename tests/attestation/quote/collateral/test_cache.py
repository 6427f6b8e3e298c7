"""The cache: only what is verified goes in, only what is verified again comes out, and never a step back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.quote.collateral.conftest import NOW, Recorded, Simulated

from affiant.attestation.quote.collateral import private_folder
from affiant.attestation.quote.collateral.cache import CollateralCache, Damaged
from affiant.attestation.quote.collateral.entry import Entry, Source, parse_entry
from affiant.attestation.quote.collateral.errors import (
    CacheBusy,
    CacheDamaged,
    CollateralNotCached,
    SettingsInvalid,
)
from affiant.attestation.quote.collateral.newest import newest_of, parse_newest
from affiant.attestation.quote.collateral.private_folder import PrivateFolder
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.attestation.simulated.platform.platform import CollateralPart
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import CollateralExpired, CollateralRollback, CRLExpired
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
from affiant.errors import AffiantError, NotFreshError

DAY = timedelta(days=1)


@pytest.fixture
def cache(tmp_path: Path) -> CollateralCache:
    return CollateralCache(tmp_path / "state" / "collateral")


def verified_of(simulated: Simulated, collateral: Collateral, now: datetime = NOW) -> VerifiedCollateral:
    return verify_collateral(collateral, now=now, trust=simulated.trust)


def source(now: datetime = NOW) -> Source:
    return Source("https://pccs.example", "standard", now)


def store(cache: CollateralCache, simulated: Simulated, *, issued: datetime = NOW, **changes: Any) -> Entry:
    """Store what is issued at an instant and verified then."""
    collateral = simulated.collateral(issued=issued, **changes)
    return cache.store(verified_of(simulated, collateral, issued), source(issued))


def load(cache: CollateralCache, simulated: Simulated, now: datetime = NOW) -> VerifiedCollateral:
    return cache.load(simulated.asked, now=now, trust=simulated.trust)


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


# -- storing and reading ------------------------------------------------------------------------------------------


def test_what_is_stored_comes_back_with_every_byte(cache: CollateralCache, simulated: Simulated) -> None:
    entry = store(cache, simulated)
    loaded = load(cache, simulated)
    assert loaded.collateral == simulated.collateral()
    assert (entry.platform, entry.expires) == (simulated.asked, loaded.expiry)
    assert cache.entries() == (entry,)


def test_intels_recorded_answers_are_kept_under_intels_root(
    cache: CollateralCache, recorded: Recorded
) -> None:
    trust = TrustRoots.intel()
    verified = verify_collateral(recorded.collateral(), now=recorded.now, trust=trust)
    cache.store(verified, source(recorded.now))
    assert cache.load(recorded.platform, now=recorded.now, trust=trust).collateral == recorded.collateral()
    with pytest.raises(NotFreshError):
        cache.load(recorded.platform, now=recorded.now + 60 * DAY, trust=trust)


def test_the_folder_and_its_files_are_the_users_alone(cache: CollateralCache, simulated: Simulated) -> None:
    previous = os.umask(0)
    try:
        store(cache, simulated)
    finally:
        os.umask(previous)
    for path in (cache.path, *cache.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_items_are_named_by_their_content_and_shared(cache: CollateralCache, simulated: Simulated) -> None:
    import hashlib

    machine = replace(simulated.platform.machine, fmspc=bytes.fromhex("00a06d080000"))
    second = Simulated(replace(simulated.platform, machine=machine))
    info = replace(simulated.platform.tcb_info, fmspc=machine.fmspc)
    store(cache, simulated)
    store(cache, second, tcb_info=info)
    names = {path.name: path.read_bytes() for path in (cache.path / "items").iterdir()}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in names.items())
    assert len(names) == 7  # two chains are one text, and one TCB Info more
    assert len(cache.entries()) == 2


def test_items_that_nothing_names_any_more_are_removed(cache: CollateralCache, simulated: Simulated) -> None:
    store(cache, simulated)
    before = snapshot(cache.path).keys()
    store(cache, simulated, issued=NOW + DAY)
    assert len(snapshot(cache.path)) == len(before)
    assert load(cache, simulated, NOW + DAY).collateral == simulated.collateral(issued=NOW + DAY)


def test_an_empty_or_absent_cache_holds_nothing_and_reading_makes_nothing(
    cache: CollateralCache, simulated: Simulated
) -> None:
    for _ in range(2):
        with pytest.raises(CollateralNotCached, match="affiant collateral fetch") as refused:
            load(cache, simulated)
        assert refused.value.code == "collateral.not_cached"
        assert cache.entries() == ()
        assert not cache.path.exists() or list(cache.path.iterdir()) == []
        cache.path.mkdir(mode=0o700, parents=True, exist_ok=True)


def test_reading_writes_nothing(cache: CollateralCache, simulated: Simulated) -> None:
    store(cache, simulated)
    before = snapshot(cache.path)
    load(cache, simulated)
    cache.entries()
    assert snapshot(cache.path) == before


def test_platforms_authorities_and_roots_are_kept_apart(
    cache: CollateralCache, simulated: Simulated, other: Simulated
) -> None:
    store(cache, simulated)
    authority = next(each for each in Authority if each is not simulated.asked.authority)
    for platform, trust in (
        (Platform(bytes(6), simulated.asked.authority), simulated.trust),
        (Platform(simulated.asked.fmspc, authority), simulated.trust),
        (simulated.asked, other.trust),
        (simulated.asked, TrustRoots.intel()),
    ):
        with pytest.raises(CollateralNotCached):
            cache.load(platform, now=NOW, trust=trust)


def test_what_has_expired_is_kept_and_refused(cache: CollateralCache, simulated: Simulated) -> None:
    store(cache, simulated)
    with pytest.raises((CollateralExpired, CRLExpired)):
        load(cache, simulated, NOW + 40 * DAY)
    assert load(cache, simulated).collateral == simulated.collateral()


def test_what_does_not_hold_any_more_is_not_stored(cache: CollateralCache, simulated: Simulated) -> None:
    verified = verified_of(simulated, simulated.collateral())
    with pytest.raises(NotFreshError):
        cache.store(verified, source(NOW + 40 * DAY))
    assert not cache.path.exists()


# -- no step back -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "older",
    [
        {"issued": NOW - DAY},
        {"number": 10},
        {"shifts": {CollateralPart.TCB_INFO: -DAY}},
        {"shifts": {CollateralPart.QE_IDENTITY: -DAY}},
        {"shifts": {CollateralPart.PCK_CRL: -DAY}},
        {"shifts": {CollateralPart.ROOT_CRL: -DAY}},
    ],
)
def test_no_part_is_ever_replaced_by_an_older_one(
    cache: CollateralCache, simulated: Simulated, older: dict[str, Any]
) -> None:
    store(cache, simulated, number=11)
    before = snapshot(cache.path)
    with pytest.raises(CollateralRollback) as refused:
        store(cache, simulated, **{"number": 11, **older})
    assert refused.value.code == "collateral.rollback"
    assert refused.value.hint is not None
    assert snapshot(cache.path) == before


def test_the_same_collateral_again_is_no_step_back(cache: CollateralCache, simulated: Simulated) -> None:
    store(cache, simulated)
    store(cache, simulated)


def test_the_memory_outlives_the_entry(cache: CollateralCache, simulated: Simulated) -> None:
    entry = store(cache, simulated)
    (cache.path / "platforms" / entry.name).unlink()
    with pytest.raises(CollateralRollback):
        store(cache, simulated, issued=NOW - DAY)


def test_an_entry_put_back_from_a_copy_is_refused(
    cache: CollateralCache, simulated: Simulated, tmp_path: Path
) -> None:
    """An old folder restored below the memory of the newest: authentic, in its time, and a step back."""
    store(cache, simulated, issued=NOW - DAY)
    old = snapshot(cache.path)
    store(cache, simulated)
    for name, content in old.items():
        if not name.startswith("newest"):
            (cache.path / name).write_bytes(content)
            (cache.path / name).chmod(0o600)
    with pytest.raises(CollateralRollback):
        load(cache, simulated)


def test_a_kept_entry_protects_even_without_its_memory(cache: CollateralCache, simulated: Simulated) -> None:
    """A crash may come between the entry and the memory."""
    store(cache, simulated)
    for path in (cache.path / "newest").iterdir():
        path.unlink()
    with pytest.raises(CollateralRollback):
        store(cache, simulated, issued=NOW - DAY)
    store(cache, simulated, issued=NOW + DAY)


def test_another_root_cannot_make_the_genuine_one_look_old(
    cache: CollateralCache, simulated: Simulated, other: Simulated
) -> None:
    store(cache, other, issued=NOW + 300 * DAY)
    store(cache, simulated)


def test_the_memory_is_read_as_it_is_written(simulated: Simulated) -> None:
    newest = newest_of(verified_of(simulated, simulated.collateral()))
    assert parse_newest(newest.to_bytes()) == newest
    later = newest_of(verified_of(simulated, simulated.collateral(issued=NOW + DAY), NOW + DAY))
    assert newest.advanced_by(later) == later == later.advanced_by(newest)


# -- damage -------------------------------------------------------------------------------------------------------


def items(cache: CollateralCache) -> list[Path]:
    return sorted((cache.path / "items").iterdir())


def entry_file(cache: CollateralCache) -> Path:
    (path,) = (cache.path / "platforms").iterdir()
    return path


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[CollateralCache], Path]] = {}


def damage(name: str) -> Callable[[Callable[[CollateralCache], Path]], Callable[[CollateralCache], Path]]:
    def keep(function: Callable[[CollateralCache], Path]) -> Callable[[CollateralCache], Path]:
        DAMAGE[name] = function
        return function

    return keep


@damage("an item with one bit changed")
def _(cache: CollateralCache) -> Path:
    flip(items(cache)[0])
    return items(cache)[0]


@damage("an item cut short")
def _(cache: CollateralCache) -> Path:
    path = items(cache)[-1]
    path.write_bytes(path.read_bytes()[:-1])
    return path


@damage("an item missing")
def _(cache: CollateralCache) -> Path:
    path = items(cache)[2]
    path.unlink()
    return path


@damage("an item that is a link")
def _(cache: CollateralCache) -> Path:
    path = items(cache)[3]
    target = cache.path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    return path


@damage("an item that is a pipe")
def _(cache: CollateralCache) -> Path:
    path = items(cache)[1]
    path.unlink()
    os.mkfifo(path)
    return path


@damage("an entry cut short")
def _(cache: CollateralCache) -> Path:
    path = entry_file(cache)
    path.write_bytes(path.read_bytes()[:-20])
    return path


@damage("an empty entry")
def _(cache: CollateralCache) -> Path:
    entry_file(cache).write_bytes(b"")
    return entry_file(cache)


@damage("an entry of another platform")
def _(cache: CollateralCache) -> Path:
    path = entry_file(cache)
    path.write_bytes(replace(parse_entry(path.read_bytes()), root=bytes(32)).to_bytes())
    return path


@pytest.mark.parametrize("name", sorted(DAMAGE))
def test_damage_is_named_left_alone_and_healed_by_storing(
    cache: CollateralCache, simulated: Simulated, name: str
) -> None:
    store(cache, simulated)
    path = DAMAGE[name](cache)
    with pytest.raises(CacheDamaged) as refused:
        load(cache, simulated)
    assert str(path) in str(refused.value)
    assert refused.value.code == "collateral.damaged"
    (found,) = cache.entries()
    assert isinstance(found, Damaged)
    assert str(path) in str(found.refusal)
    store(cache, simulated, issued=NOW + DAY)
    assert load(cache, simulated, NOW + DAY).collateral == simulated.collateral(issued=NOW + DAY)


def test_a_damaged_entry_costs_no_other_its_items(
    cache: CollateralCache, simulated: Simulated, other: Simulated
) -> None:
    store(cache, simulated)
    broken = entry_file(cache)
    store(cache, other)
    kept = {path.name for path in items(cache)}
    content = broken.read_bytes()
    broken.write_bytes(b"{}")
    store(cache, other, issued=NOW + DAY)
    assert kept <= {path.name for path in items(cache)}
    broken.write_bytes(content)
    assert load(cache, simulated).collateral == simulated.collateral()


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"typ":"affiant-collateral-newest/1"}'])
def test_a_damaged_memory_stops_storing_and_reading(
    cache: CollateralCache, simulated: Simulated, content: bytes
) -> None:
    """Nothing could tell a step back; its owner decides."""
    store(cache, simulated)
    (path,) = (cache.path / "newest").iterdir()
    path.write_bytes(content)
    before = snapshot(cache.path)
    with pytest.raises(CacheDamaged, match="newest") as refused:
        store(cache, simulated, issued=NOW + DAY)
    assert str(path) in str(refused.value)
    with pytest.raises(CacheDamaged):
        load(cache, simulated)
    assert snapshot(cache.path) == before


def test_an_entry_that_lies_about_its_platform_is_refused(
    cache: CollateralCache, simulated: Simulated
) -> None:
    entry = store(cache, simulated)
    lie = replace(entry, platform=Platform(bytes.fromhex("00806f050000"), entry.platform.authority))
    (cache.path / "platforms" / lie.name).write_bytes(lie.to_bytes())
    with pytest.raises(AffiantError) as refused:
        cache.load(lie.platform, now=NOW, trust=simulated.trust)
    assert refused.value.code == "collateral.damaged"


# -- crashes, and others at the same time -------------------------------------------------------------------------


@pytest.mark.parametrize("writes", range(9))
def test_a_crash_at_any_write_loses_nothing(
    cache: CollateralCache, simulated: Simulated, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """Storing writes seven items, an entry and the memory."""
    store(cache, simulated)
    write, done = PrivateFolder.write, []

    def crash(self: PrivateFolder, name: str, data: bytes) -> None:
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(name)
        write(self, name, data)

    monkeypatch.setattr(PrivateFolder, "write", crash)
    with pytest.raises(KeyboardInterrupt):
        store(cache, simulated, issued=NOW + DAY)
    monkeypatch.undo()
    found = load(cache, simulated, NOW + DAY).collateral
    assert found in (simulated.collateral(), simulated.collateral(issued=NOW + DAY))
    store(cache, simulated, issued=NOW + 2 * DAY)
    with pytest.raises(CollateralRollback):
        store(cache, simulated, issued=NOW + DAY)


def test_an_unfinished_file_is_no_file(cache: CollateralCache, simulated: Simulated) -> None:
    entry = store(cache, simulated)
    (cache.path / "platforms" / f"{entry.name}.new").write_bytes(b"half")
    assert cache.entries() == (entry,)
    store(cache, simulated, issued=NOW + DAY)
    assert not (cache.path / "platforms" / f"{entry.name}.new").exists()


def test_many_at_once_leave_the_newest(cache: CollateralCache, simulated: Simulated) -> None:
    """Writers in any order, readers in between: every read verifies, and the newest stands at the end."""
    ready = [
        verified_of(simulated, simulated.collateral(issued=NOW + day * DAY), NOW + day * DAY)
        for day in range(6)
    ]
    store(cache, simulated, issued=NOW - DAY)
    failures: list[BaseException] = []

    def write(index: int) -> None:
        try:
            cache.store(ready[index], source(NOW + index * DAY))
        except CollateralRollback:
            pass
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            for _ in range(5):
                load(cache, simulated, NOW + 5 * DAY)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(index,)) for index in (3, 5, 0, 4, 1, 2)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert load(cache, simulated, NOW + 5 * DAY).collateral == simulated.collateral(issued=NOW + 5 * DAY)


def test_a_held_cache_is_named_after_a_while(
    cache: CollateralCache, simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(cache, simulated)
    code = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    lock = str(cache.path / "lock")
    with subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        monkeypatch.setattr(private_folder, "_POLLS", 2)
        for use in (lambda: load(cache, simulated), lambda: store(cache, simulated), cache.entries):
            with pytest.raises(CacheBusy) as refused:
                use()  # type: ignore[operator]
            assert refused.value.retryable is True
        holder.stdin.close()
    load(cache, simulated)


# -- the folder itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o750, 0o707, 0o777])
def test_a_folder_that_others_can_reach_is_refused(
    cache: CollateralCache, simulated: Simulated, mode: int
) -> None:
    store(cache, simulated)
    cache.path.chmod(mode)
    for use in (lambda: load(cache, simulated), lambda: store(cache, simulated)):
        with pytest.raises(SettingsInvalid, match="chmod go="):
            use()


def test_a_link_in_the_folders_place_is_refused(
    cache: CollateralCache, simulated: Simulated, tmp_path: Path
) -> None:
    cache.path.parent.mkdir()
    (tmp_path / "target").mkdir(mode=0o700)
    cache.path.symlink_to(tmp_path / "target")
    with pytest.raises(SettingsInvalid):
        store(cache, simulated)
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_in_the_folders_place_is_refused(cache: CollateralCache, simulated: Simulated) -> None:
    cache.path.parent.mkdir()
    cache.path.write_text("no folder")
    with pytest.raises(SettingsInvalid):
        store(cache, simulated)
    with pytest.raises(SettingsInvalid):
        cache.entries()


def test_a_full_disk_is_a_refusal(
    cache: CollateralCache, simulated: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(cache, simulated)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsInvalid, match="No space left"):
        store(cache, simulated, issued=NOW + DAY)
    monkeypatch.undo()
    assert load(cache, simulated).collateral == simulated.collateral()
