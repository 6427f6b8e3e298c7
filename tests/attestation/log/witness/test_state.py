"""The database: made once, compared and replaced as one, durable before anything is signed; never a step back."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.attestation.log.witness.conftest import FORK, KEYS, LOG, NOW, ORIGIN, opened, request
from tests.raising import raises_code

from affiant.attestation.log.witness.errors import WitnessStateUnavailable
from affiant.attestation.log.witness.protocol import Accepted, Stored
from affiant.attestation.log.witness.state import WitnessState, create_state, open_state


def accept(size: int, log: object = LOG) -> Accepted:
    root = log.checkpoint(size).root  # type: ignore[attr-defined]
    note = log.note(size)  # type: ignore[attr-defined]
    return Accepted(Stored(ORIGIN, size, root, note.to_bytes(), NOW), note)


def test_what_was_accepted_is_there_after_a_restart(home: Path) -> None:
    with opened(home) as witness:
        witness.add_checkpoint(request(0, 9), now=NOW)
    with opened(home) as witness:
        assert witness.state.stored(ORIGIN) == accept(9).stored
        assert [each.size for each in witness.state.all()] == [9]


def test_every_commit_reaches_the_disk(home: Path) -> None:
    with opened(home) as witness:
        connection = witness.state._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_lost_database_retires_the_witness(home: Path) -> None:
    path = home / "w.key.sqlite"
    path.unlink()
    with raises_code("witness.state_lost", match="retired"), open_state(path, KEYS.identity):
        pass
    assert not path.exists()
    path.touch(0o600)
    with raises_code("witness.state_lost", match="empty"), open_state(path, KEYS.identity):
        pass
    path.unlink()
    create_state(path, "0" * 32)
    with raises_code("witness.state_lost", match="another witness"), open_state(path, KEYS.identity):
        pass


def test_a_damaged_or_shared_database_is_refused(home: Path) -> None:
    path = home / "w.key.sqlite"
    path.chmod(0o644)
    with pytest.raises(WitnessStateUnavailable), open_state(path, KEYS.identity):
        pass
    path.chmod(0o600)
    path.write_bytes(b"x" * 4096)
    with pytest.raises(WitnessStateUnavailable), open_state(path, KEYS.identity):
        pass
    path.unlink()
    path.symlink_to("nowhere")
    with raises_code("witness.state_unavailable", "witness.state_lost"), open_state(path, KEYS.identity):
        pass


@pytest.mark.parametrize(("size", "log"), [(5, LOG), (9, FORK)])
def test_a_step_back_cannot_be_stored_whoever_decides(home: Path, size: int, log: object) -> None:
    """The database itself refuses, also where the protocol's steps were wrong."""
    with opened(home) as witness:
        witness.state.advance(ORIGIN, lambda _stored: accept(9))
        with pytest.raises(WitnessStateUnavailable, match="a step back"):
            witness.state.advance(ORIGIN, lambda _stored: accept(size, log))
        assert witness.state.stored(ORIGIN) == accept(9).stored
        with pytest.raises(sqlite3.IntegrityError):
            witness.state._connection.execute("DELETE FROM latest")


@pytest.mark.parametrize("shared", [True, False], ids=["one connection", "two connections"])
def test_nobody_looks_while_another_decides(home: Path, *, shared: bool) -> None:
    """What the second one is compared with is what the first one has stored, however long that took."""
    deciding, go_on, looked = threading.Event(), threading.Event(), threading.Event()
    found: list[Stored | None] = []

    def slow(_stored: Stored | None) -> Accepted:
        deciding.set()
        assert go_on.wait(20)
        return accept(9)

    def next_one(stored: Stored | None) -> Accepted:
        looked.set()
        found.append(stored)
        return accept(10)

    with opened(home) as one, opened(home) as two, ThreadPoolExecutor(2) as pool:
        first = pool.submit(one.state.advance, ORIGIN, slow)
        assert deciding.wait(20)
        second = pool.submit((one if shared else two).state.advance, ORIGIN, next_one)
        assert not looked.wait(0.3)
        go_on.set()
        first.result()
        second.result()
    assert found == [accept(9).stored]


def test_a_refusal_within_a_step_stores_nothing(home: Path) -> None:
    class Stop(Exception):
        pass

    def stop(_stored: object) -> Accepted:
        raise Stop

    with opened(home) as witness:
        with pytest.raises(Stop):
            witness.state.advance(ORIGIN, stop)
        assert witness.state.stored(ORIGIN) is None
        assert isinstance(witness.state.advance(ORIGIN, lambda _stored: accept(9)), Accepted)


def test_monitors_get_the_largest_tree_that_was_cosigned(home: Path) -> None:
    with opened(home) as witness:
        state: WitnessState = witness.state
        assert state.cosigned(ORIGIN) is None
        state.advance(ORIGIN, lambda _stored: accept(9))
        assert state.cosigned(ORIGIN) is None  # stored, and not cosigned yet
        state.publish(ORIGIN, 9, b"nine")
        state.publish(ORIGIN, 5, b"five")
        assert state.cosigned(ORIGIN) == b"nine"


def test_a_database_that_cannot_be_written_signs_nothing(home: Path) -> None:
    with opened(home) as witness:
        witness.state._connection.execute("PRAGMA query_only = 1")
        answer = witness.add_checkpoint(request(0, 9), now=NOW)
        assert (answer.status, answer.code) == (503, "witness.state_unavailable")
        assert b"\xe2\x80\x94" not in answer.body
