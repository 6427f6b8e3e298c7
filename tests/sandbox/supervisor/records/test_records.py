"""The session's chain: in order, durable, acknowledged; and what happens when any of that fails."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.head import Head
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, receipt_hash, verify_receipt
from affiant.attestation.records.sealed_disclosures import DisclosureReader, apart, recipient
from affiant.attestation.statements.statement import KeysetStatement, parse_statement, session_statement
from affiant.errors import UnreachableError
from affiant.sandbox.base.errors import GatewayUnreachable
from affiant.sandbox.egress.http.errors import RecordsUnavailable
from affiant.sandbox.supervisor.launch.errors import AdmissionError, GatewayLost
from affiant.sandbox.supervisor.records.records import (
    BOUND,
    AgentFacts,
    SessionRecords,
    Submission,
    keep_epochs,
)
from affiant.sandbox.supervisor.records.spool import Spool, SpoolEntry, read_unacknowledged

LINK = b64u(bytes(32))
KEY = X25519PrivateKey.generate()


class Gateway:
    """Takes records as the gateway does: contiguous, idempotent; can be away."""

    def __init__(self, statement: KeysetStatement) -> None:
        self.statement = statement
        self.taken: list[VerifiedReceipt] = []
        self.sealed: dict[str, str | None] = {}
        self.away = False
        self.refuses = False
        self.calls = 0
        self.heads = 0

    async def submit(self, submission: Submission) -> Head:
        self.calls += 1
        await asyncio.sleep(0)
        if self.refuses:
            raise AdmissionError("no", gateway_code="record.out_of_place")
        if self.away:
            raise UnreachableError("away")
        record = verify_receipt(parse_receipt(submission.jws + "~"), self.statement)
        if all(record.rh != known.rh for known in self.taken):
            assert record.seq == len(self.taken)
            assert record.prev == (self.taken[-1].rh if self.taken else self.statement.keyset_digest)
            self.taken.append(record)
            if submission.openings is not None:
                self.sealed |= apart(submission.jws, submission.openings)
        self.heads += 1
        return Head(b64u(b"g" * 16), self.heads, b64u(self.heads.to_bytes(32, "big")))


class FailingSpool:
    """A disk that fails after ``good`` appends."""

    def __init__(self, good: int) -> None:
        self.good = good

    def append(self, entries) -> None:
        if self.good <= 0:
            raise OSError(28, "No space left on device")
        self.good -= 1

    def acknowledge(self, rh: str, *, all_done: bool) -> None:
        pass


def identity() -> tuple[Signer, KeysetStatement, str]:
    signer, chn = Signer.generate(), b64u(os.urandom(16))
    raw = session_statement(
        session=b64u(b"s" * 16), cls="simulated", chn=chn, key=signer.public_key, man=LINK, act=LINK, gks=LINK,
        epoch_s=60, not_after=int(datetime.now(UTC).timestamp()) + 3600, nonce=LINK,
    )  # fmt: skip
    return signer, parse_statement(raw), chn


def run(
    scenario: Callable[[SessionRecords, Gateway], Awaitable[object]],
    *,
    spool=None,
    folder: Path | None = None,
    wait_s: float = 5.0,
):
    async def whole() -> object:
        signer, statement, chn = identity()
        gateway = Gateway(statement)
        place = spool
        if place is None:
            assert folder is not None
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
            place = Spool(os.open(folder / "records.ndjson", flags, 0o600))
        chain = ChainSigner(
            signer=signer, statement=statement, chn=chn, evd=LINK, random_bytes=os.urandom,
            clock=lambda: datetime.now(UTC),
        )  # fmt: skip
        records = SessionRecords(
            chain=chain,
            spool=place,
            submit=gateway.submit,
            agent=AgentFacts(b64u(b"s" * 16), LINK, signer.kid, "gvisor", "dev", "alice"),
            sealing=chain.sealing(to=recipient(KEY), session=b64u(b"s" * 16)),
            wait_s=wait_s,
        )  # fmt: skip
        records.start()
        try:
            async with asyncio.timeout(30):
                return await scenario(records, gateway)
        finally:
            await records.stop()
            if isinstance(place, Spool):
                place.close()

    return asyncio.run(whole())


async def refusal(records: SessionRecords, *, acknowledged: bool = False) -> str:
    return await records.record("refusal", {"rsn": "egress.denied"}, {}, acknowledged=acknowledged)


def contiguous(records: list[VerifiedReceipt]) -> bool:
    return [record.seq for record in records] == list(range(len(records))) and all(
        after.prev == before.rh for before, after in zip(records, records[1:], strict=False)
    )


def test_records_reach_the_gateway_in_order_whoever_writes_them(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        await asyncio.gather(*(refusal(records, acknowledged=number % 3 == 0) for number in range(100)))
        assert await records.settled(5)
        return gateway

    gateway = run(scenario, folder=tmp_path)
    assert len(gateway.taken) == 100
    assert contiguous(gateway.taken)


def test_an_acknowledged_record_is_held_by_the_gateway_when_the_call_returns(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        jti = await refusal(records, acknowledged=True)
        assert [record.jti for record in gateway.taken] == [jti]

    run(scenario, folder=tmp_path)


def test_a_record_is_durable_before_the_call_returns(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        jti = await refusal(records)
        (entry,) = read_unacknowledged((tmp_path / "records.ndjson").read_bytes())
        assert verify_receipt(parse_receipt(entry.jws + "~"), gateway.statement).jti == jti

    run(scenario, folder=tmp_path)


def test_the_gateways_head_becomes_the_next_records_peer(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        await refusal(records, acknowledged=True)
        await refusal(records, acknowledged=True)
        return gateway.taken

    first, second = run(scenario, folder=tmp_path)
    assert first.member("peer") is None
    assert second.member("peer", "seq") == 1


def test_files_and_ports_are_recorded_with_what_they_hide(tmp_path: Path) -> None:
    """A call that failed names its record; a port that is closed names the record that opened it."""

    async def scenario(records, gateway):
        what = {"path": "/workspace", "dig": "sha256:" + "0" * 64, "n": 3, "len": 900}
        moved = await records.record("file", {"mov": {"dir": "in"}}, {"mov": what}, acknowledged=True)
        failed = {"mov": {"dir": "in"}, "ph": "failed", "par": [moved]}
        await records.record("file", failed, {"mov": {"n": 1, "len": 300}})
        begun = {"prt": {}, "ph": "opened"}
        opened = await records.record("port", begun, {"prt": {"num": 8080}}, acknowledged=True)
        ended = {"prt": {}, "ph": "closed", "par": [opened]}
        await records.record("port", ended, {"prt": {"num": 8080, "in": 5, "out": 7}}, acknowledged=True)
        return gateway

    gateway = run(scenario, folder=tmp_path)
    assert [(record.kind, record.member("ph")) for record in gateway.taken] == [
        ("file", None),
        ("file", "failed"),
        ("port", "opened"),
        ("port", "closed"),
    ]
    last = gateway.taken[-1]
    opened = DisclosureReader(KEY).open(last.text.jws, gateway.sealed.get)
    shown = verify_receipt(parse_receipt("~".join([last.text.jws, *opened, ""])), gateway.statement)
    assert [shown.disclosed.get(f"prt.{name}") for name in ("num", "in", "out")] == [8080, 5, 7]


def test_disclosures_are_sealed_to_the_starter_only(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        await records.record(
            "refusal",
            {"rsn": "x", "act": {"typ": "egress"}},
            {"act": {"name": "api.example.com"}},
            acknowledged=True,
        )
        return gateway

    gateway = run(scenario, folder=tmp_path)
    (record,) = gateway.taken
    opened = DisclosureReader(KEY).open(record.text.jws, gateway.sealed.get)
    shown = verify_receipt(parse_receipt("~".join([record.text.jws, *opened, ""])), gateway.statement)
    assert shown.disclosed.text("act.name") == "api.example.com"
    assert (shown.disclosed.text("agt.id"), shown.disclosed.text("agt.user")) == ("dev", "alice")
    assert b"api.example.com" not in (tmp_path / "records.ndjson").read_bytes()


def test_a_gateway_that_was_away_gets_everything_once_in_order(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        for _ in range(20):
            await refusal(records)
        assert records.unacknowledged == 20
        gateway.away = False
        assert await records.settled(5)
        return gateway.taken

    taken = run(scenario, folder=tmp_path)
    assert len(taken) == 20
    assert contiguous(taken)


def test_an_effect_does_not_happen_without_its_acknowledgement(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        with pytest.raises(RecordsUnavailable):
            await refusal(records, acknowledged=True)

    run(scenario, folder=tmp_path, wait_s=0.3)


def test_beyond_the_bound_the_chain_stops(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        results = await asyncio.gather(*(refusal(records) for _ in range(BOUND + 10)), return_exceptions=True)
        assert sum(isinstance(result, RecordsUnavailable) for result in results) == 10
        reason = await asyncio.wait_for(asyncio.shield(records.stopped), 1)
        assert records.unacknowledged == BOUND
        with pytest.raises(RecordsUnavailable):
            await refusal(records)
        return reason.code

    code = run(scenario, folder=tmp_path, wait_s=2.0)
    assert code in {"session.records_stopped", "unreachable"}
    assert len(read_unacknowledged((tmp_path / "records.ndjson").read_bytes())) == BOUND


def test_a_gateway_that_stays_away_stops_the_chain(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        await refusal(records)
        return (await asyncio.wait_for(asyncio.shield(records.stopped), 5)).code

    assert run(scenario, folder=tmp_path, wait_s=0.3) == "unreachable"


def test_a_connection_on_which_nothing_comes_does_not_hold_the_records_up(tmp_path: Path) -> None:
    """The first submission is never answered; the next, on another connection, is."""

    async def scenario(records, gateway):
        real, asked = gateway.submit, []

        async def submit(submission):
            asked.append(submission)
            if len(asked) == 1:
                await asyncio.Event().wait()
            return await real(submission)

        records._submit = submit
        await refusal(records, acknowledged=True)
        return len(asked), len(gateway.taken)

    assert run(scenario, folder=tmp_path, wait_s=2.0) == (2, 1)


def test_a_gateway_that_never_answers_stops_the_chain(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        async def submit(_):
            await asyncio.Event().wait()

        records._submit = submit
        await refusal(records)
        return (await asyncio.wait_for(asyncio.shield(records.stopped), 5)).code

    assert run(scenario, folder=tmp_path, wait_s=0.3) == GatewayUnreachable.code


GONE = GatewayLost("gone")


def test_once_the_gateway_is_gone_an_effect_is_refused_at_once_and_signs_nothing(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        waiting = asyncio.create_task(refusal(records, acknowledged=True))
        await asyncio.sleep(0.1)
        records.interrupt(GONE)
        with pytest.raises(RecordsUnavailable):
            await asyncio.wait_for(waiting, 0.5)
        with pytest.raises(RecordsUnavailable):
            await asyncio.wait_for(refusal(records, acknowledged=True), 0.5)
        return records.count, records.stopped.done()

    assert run(scenario, folder=tmp_path) == (1, False)


def test_once_the_gateway_is_gone_what_happened_is_still_signed_to_its_end(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        await refusal(records, acknowledged=True)
        gateway.away = True
        records.interrupt(GONE)
        for _ in range(BOUND + 10):
            await refusal(records)
        await records.record("end", {"why": "shutdown", "cseq": -1}, {})
        assert not await records.settled(5)
        return gateway

    gateway = run(scenario, folder=tmp_path)
    left = read_unacknowledged((tmp_path / "records.ndjson").read_bytes())
    found = [verify_receipt(parse_receipt(entry.jws + "~"), gateway.statement) for entry in left]
    assert [record.seq for record in found] == list(range(1, BOUND + 12))
    assert found[-1].kind == "end"
    assert contiguous([*gateway.taken, *found])


def test_a_refused_record_stops_the_chain_and_everybody_who_waits(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.refuses = True
        with pytest.raises(RecordsUnavailable):
            await refusal(records, acknowledged=True)
        return (await records.stopped).code

    assert run(scenario, folder=tmp_path) == "session.not_admitted"


def test_a_full_disk_stops_the_chain() -> None:
    async def scenario(records, gateway):
        await refusal(records)
        with pytest.raises(RecordsUnavailable):
            await refusal(records)
        return (await records.stopped).code, len(gateway.taken)

    code, taken = run(scenario, spool=FailingSpool(1))
    assert code == "session.records_stopped"
    assert taken <= 1


def test_a_malformed_record_is_refused_and_leaves_no_gap(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        with pytest.raises(Exception, match="does not list"):
            await records.record("refusal", {"rsn": "x", "nonsense": 1}, {})
        await refusal(records, acknowledged=True)
        return gateway.taken

    assert contiguous(run(scenario, folder=tmp_path))


def test_epochs_are_written_when_nothing_happens(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        task = asyncio.create_task(keep_epochs(records, every_s=0.1, in_flight=lambda: 3))
        while len(gateway.taken) < 2:
            await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return gateway.taken

    first, second = run(scenario, folder=tmp_path)[:2]
    assert (first.kind, first.member("n"), first.member("inf")) == ("epoch", 0, 3)
    assert second.member("n") == 1


def test_an_epoch_that_waits_for_room_counts_what_was_signed_meanwhile(tmp_path: Path) -> None:
    async def scenario(records, gateway):
        gateway.away = True
        await asyncio.gather(*(refusal(records) for _ in range(BOUND)))
        waiting = [asyncio.create_task(refusal(records)) for _ in range(20)]
        await asyncio.sleep(0)
        epochs = asyncio.create_task(keep_epochs(records, every_s=0.0, in_flight=lambda: 0))
        await asyncio.sleep(0.05)
        gateway.away = False
        await asyncio.gather(*waiting)
        while not any(record.kind == "epoch" for record in gateway.taken):
            await asyncio.sleep(0.02)
        epochs.cancel()
        await asyncio.gather(epochs, return_exceptions=True)
        return [record for record in gateway.taken if record.kind == "epoch"]

    epochs = run(scenario, folder=tmp_path)
    assert [record.member("n") for record in epochs] == [record.seq for record in epochs]


@thorough(60)
@given(count=st.integers(1, 12), acked=st.integers(0, 12), cut=st.integers(0, 6000))
def test_a_crash_at_any_byte_leaves_a_contiguous_chain(count: int, acked: int, cut: int) -> None:
    signer, statement, chn = identity()
    chain = ChainSigner(
        signer=signer,
        statement=statement,
        chn=chn,
        evd=LINK,
        random_bytes=os.urandom,
        clock=lambda: datetime.now(UTC),
    )
    data, hashes = b"", []
    for number in range(count):
        issued = chain.issue("epoch", {"n": number, "inf": 0})
        hashes.append(issued.rh)
        data += json.dumps({"jws": issued.jws, "openings": None}).encode() + b"\n"
        if number < acked:
            data += json.dumps({"ack": issued.rh}).encode() + b"\n"
    left = read_unacknowledged(data[: max(0, len(data) - cut)])
    found = [verify_receipt(parse_receipt(entry.jws + "~"), statement) for entry in left]
    assert all(after.prev == before.rh for before, after in zip(found, found[1:], strict=False))
    if found:
        assert found[0].seq <= min(acked, count)


def test_an_acknowledged_spool_starts_again_once_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affiant.sandbox.supervisor.records.spool._COMPACT_ABOVE", 100)
    path = tmp_path / "records.ndjson"
    spool = Spool(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
    spool.append([SpoolEntry("a" * 200, None)])
    spool.acknowledge(receipt_hash("a" * 200), all_done=False)
    assert read_unacknowledged(path.read_bytes()) == ()
    spool.acknowledge(receipt_hash("a" * 200), all_done=True)
    assert path.read_bytes() == b""
    spool.append([SpoolEntry("b", "sealed")])
    assert read_unacknowledged(path.read_bytes()) == (SpoolEntry("b", "sealed"),)
    spool.close()
