"""Sessions in memory: what is kept of one does not grow with its requests, and its close sums up all of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.records.head import Head
from affiant.attestation.records.session_summary import session_root
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.service.service import Service
from affiant.gateway.sessions import sessions
from affiant.gateway.sessions.sessions import Population, RecordTree, Session, SupervisorChain

HASHES = [b64u_sha256(bytes([n % 256, n // 256])) for n in range(600)]


def tree_of(numbers: list[int]) -> RecordTree:
    tree = RecordTree()
    for number in numbers:
        tree.add(number, HASHES[number])
    return tree


@given(st.integers(1, 40).flatmap(lambda size: st.permutations(range(size))))
def test_a_tree_has_the_root_of_its_records_in_whatever_order_they_come(numbers: list[int]) -> None:
    expected = session_root({number: HASHES[number] for number in numbers})
    assert tree_of(numbers).root(len(numbers)) == expected


@given(st.integers(2, 300), st.sets(st.integers(0, 299), max_size=3))
def test_a_tree_keeps_what_is_missing_in_mind_and_not_what_is_there(size: int, missing: set[int]) -> None:
    tree = tree_of([number for number in range(size) if number not in missing])
    assert len(tree) <= (len(missing) + 1) * size.bit_length()
    left = [number for number in missing if number < size]
    if left:
        with pytest.raises(AssertionError):
            tree.root(size)
    for number in left:
        tree.add(number, HASHES[number])
    assert tree.root(size) == session_root(dict(enumerate(HASHES[:size])))


def chain() -> SupervisorChain:
    return SupervisorChain(chn="c", prev="p", evd="e")


def test_a_supervisor_may_name_what_it_was_told_since_its_last_record_named_something() -> None:
    told = chain()
    for seq in range(5):
        told.tell(Head("g", seq, HASHES[seq]))
    assert [told.told(rh) is not None for rh in HASHES[:6]] == [True] * 5 + [False]
    told.take("r", 0, peer_seq=3)
    told.tell(Head("g", 7, HASHES[7]))
    assert [seq for seq in range(9) if told.told(HASHES[seq])] == [3, 4, 7]
    assert told.named == Head("g", 7, HASHES[7])


def test_what_is_kept_of_a_supervisors_chain_is_bounded_whatever_it_names() -> None:
    silent, speaking = chain(), chain()
    for seq in range(600):
        for told, peer in ((silent, None), (speaking, max(seq - 1, 0))):
            told.take(HASHES[seq], seq, peer_seq=peer)
            told.tell(Head("g", seq, HASHES[seq]))
    assert len(silent._taken) == len(speaking._taken) == 256
    assert silent.has_taken(HASHES[-256]) and not silent.has_taken(HASHES[-257])
    assert len(silent._told) == 512 and len(speaking._told) == 2
    assert silent.told(HASHES[-512]) and not silent.told(HASHES[-513])


@pytest.mark.parametrize(("count", "most"), [(0, 1024), (1, 1024), (2, 1024), (4, 512), (256, 8), (5000, 4)])
def test_the_receipts_of_all_sessions_share_one_bound(count: int, most: int) -> None:
    population = Population()
    population.count(count + 1)
    population.count(-1)
    assert population.most_receipts == most


def reachable(root: object) -> Iterator[object]:
    """Everything that is kept because of ``root``; no code, and no session above or beside it."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType, FunctionType)):
            continue
        seen[id(each)] = each
        yield each
        waiting += gc.get_referents(each)
        if isinstance(each, dict):  # whose keys the collector leaves out where they are texts
            waiting += each


@pytest.fixture
def gateway(platform: PlatformClient, tmp_path: Path) -> Iterator[InProcess]:
    with in_process(platform, tmp_path) as started:
        yield started


def test_nothing_that_a_gateway_keeps_grows_with_the_requests_of_an_open_session(
    gateway: InProcess, platform: PlatformClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_MOST_RECEIPTS", 4)
    client = SessionClient.start(gateway, platform)
    service = gateway.service
    session = service.sessions.of_id(client.id)

    def after(requests: int) -> tuple[int, int]:
        for _ in range(requests):
            assert client.say("hi").status == 200
            assert client.submit(client.exec_record()).status == 200
        return gateway.run(_count(service, session))

    after(300)  # the supervisor's window of 256 records is full
    first, second = after(20), after(80)
    for kept_before, kept in zip(first, second, strict=True):
        assert kept - kept_before < 80, "less than one object for each of 80 requests and records"
    assert client.submit(client.end_record()).status == 200
    assert client.close().status == 200


async def _count(service: Service, session: Session) -> tuple[int, int]:
    await session.idle(within_s=None)
    await service.log.include()
    await service.bundles.index.caught_up()
    gc.collect()
    counted = sum(1 for _ in reachable(session)), sum(1 for _ in reachable(service))
    print(counted)
    return counted
