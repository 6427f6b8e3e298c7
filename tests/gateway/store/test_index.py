"""The index: behind the journal, rebuilt from it, and never more than a way to find things."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.store import index as index_module
from affiant.gateway.store.entries import OpeningEntry
from affiant.gateway.store.index import Index
from affiant.gateway.store.journal import Place


def bundle_of(inside: InProcess, session: str) -> dict:
    """Without the proofs, whose checkpoint grows; that there is one for each receipt is looked at here."""
    found = json.loads(inside.run(inside.service.bundles.of_session(session)))
    assert all(entry.pop("proof") for entry in found["bundle"]["receipts"])
    return found


def filled(platform: PlatformClient, store: Path) -> tuple[str, dict]:
    """A session and its bundle; the index as it was in the middle of it is left as ``early.sqlite``."""
    with in_process(platform, store) as inside:
        session = SessionClient.start(inside, platform)
        session.say("hi")
        inside.run(inside.service.bundles.index.caught_up())
        with (
            closing(sqlite3.connect(store / "index.sqlite")) as now,
            closing(sqlite3.connect(store / "early.sqlite")) as early,
        ):
            now.backup(early)
        session.say("hi again")
        session.submit(session.end_record())
        session.close()
        return session.id, bundle_of(inside, session.id)


@pytest.mark.parametrize("damage", ["none", "gone", "garbage", "emptied", "ahead", "behind"])
def test_a_session_of_an_earlier_boot_is_found_whatever_became_of_the_index(
    platform: PlatformClient, tmp_path: Path, damage: str
) -> None:
    session, bundle = filled(platform, tmp_path)
    path = tmp_path / "index.sqlite"
    match damage:
        case "gone":
            for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
                (tmp_path / name).unlink(missing_ok=True)
        case "garbage":
            path.write_bytes(b"not a database" * 1000)
        case "emptied":
            path.write_bytes(b"")
        case "behind":  # as a crash leaves it, before the last rows were written
            for name in ("index.sqlite-wal", "index.sqlite-shm"):
                (tmp_path / name).unlink(missing_ok=True)
            (tmp_path / "early.sqlite").replace(path)
        case "ahead":
            connection = sqlite3.connect(path)
            connection.execute("UPDATE reached SET segment = 77")
            connection.commit()
            connection.close()
    with in_process(platform, tmp_path) as inside:
        assert bundle_of(inside, session) == bundle


def test_an_unknown_session_is_not_found(platform: PlatformClient, tmp_path: Path) -> None:
    with in_process(platform, tmp_path) as inside, pytest.raises(Exception) as refused:
        bundle_of(inside, "A" * 22)
    assert refused.value.code == "not_found"  # type: ignore[attr-defined]


def test_a_bundle_has_what_was_durable_when_it_was_asked_for(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with in_process(platform, tmp_path) as inside:
        session = SessionClient.start(inside, platform)
        for n in range(1, 6):
            session.say("hi")
            assert len(session.bundle()["bundle"]["receipts"]) == 3 + n  # two boots, the start, and these


def test_other_sessions_records_come_along_without_openings(platform: PlatformClient, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    with in_process(platform, tmp_path) as inside:
        mine, other = (
            SessionClient.start(inside, platform, openings=X25519PrivateKey.generate()) for _ in range(2)
        )
        other.say("hi")
        mine.say("hi")
        bundle = mine.bundle()
    assert len(bundle["bundle"]["receipts"]) == 2 + 4  # both boots; two starts and two inferences
    keys = [text for text in bundle["openings"].values() if text.startswith("2k.")]
    assert len(keys) == 1, "the gateway's for this session"
    assert len(bundle["openings"]) == 3, "and of its two records"


def opening(number: int) -> tuple[OpeningEntry, Place]:
    return OpeningEntry(rh=str(number), ses="s", sealed=""), Place(0, number, 1)


@pytest.mark.anyio
async def test_rows_are_gathered_until_something_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[int] = []
    real = index_module.insert
    monkeypatch.setattr(index_module, "_BEHIND_S", 60.0)
    monkeypatch.setattr(
        index_module, "insert", lambda at, boot, rows: (writes.append(len(rows)), real(at, boot, rows))
    )
    index = Index(tmp_path, boot=b64u(bytes(16)))
    for number in range(200):
        index.on_durable([opening(number)])
    found = await index.openings("s")
    await index.close()
    assert len(found) == 200
    assert writes == [200]


@pytest.mark.anyio
async def test_what_is_gathered_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = threading.Event()
    real = index_module.insert
    monkeypatch.setattr(index_module, "_BEHIND_S", 60.0)
    monkeypatch.setattr(index_module, "insert", lambda at, boot, rows: (real(at, boot, rows), written.set()))
    index = Index(tmp_path, boot=b64u(bytes(16)))
    for number in range(index_module._MOST_BEHIND + 1):
        index.on_durable([opening(number)])
    assert written.wait(30), "nothing was asked, and nothing was written"
    await index.close()


@pytest.mark.anyio
async def test_closing_writes_what_was_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_BEHIND_S", 60.0)
    index = Index(tmp_path, boot=b64u(bytes(16)))
    index.on_durable([opening(number) for number in range(70)])
    await index.close()
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM openings").fetchone() == (70,)
