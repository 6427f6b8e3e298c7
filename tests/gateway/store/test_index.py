"""The index: behind the journal, rebuilt from it, and never more than a way to find things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.simulated.served.client import PlatformClient


def bundle_of(inside: InProcess, session: str) -> dict:
    """Without the proofs, whose checkpoint grows; that there is one for each receipt is looked at here."""
    found = json.loads(inside.run(inside.service.bundles.of_session(session)))
    assert all(entry.pop("proof") for entry in found["bundle"]["receipts"])
    return found


def filled(platform: PlatformClient, store: Path) -> tuple[str, dict]:
    with in_process(platform, store) as inside:
        session = SessionClient.start(inside, platform)
        session.say("hi")
        session.submit(session.end_record())
        session.close()
        return session.id, bundle_of(inside, session.id)


@pytest.mark.parametrize("damage", ["none", "gone", "garbage", "emptied", "ahead"])
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
        case "ahead":
            import sqlite3

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
    assert (len(keys), len(bundle["openings"])) == (
        1,
        3,
    )  # the gateway's for this session, and of its two records
