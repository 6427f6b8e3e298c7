"""kill -9 at any write: no completed answer without its record, and every open closed or disclosed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.gateway.in_process import in_process, settings_for
from tests.gateway.journal_reader import entries_of, opens_of, records_of, statement_of
from tests.gateway.killpoints import Zygote, started_zygote
from tests.gateway.session_client import Gateway, SessionClient

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import parse_receipt, receipt_hash, verify_receipt
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.statement import parse_statement
from affiant.gateway.service.recovery import recover
from affiant.gateway.store.entries import Entry, PeerEntry, RecordEntry

NEVER = 1 << 40
Ask = Callable[[str, bool], tuple[str, dict]]
"""A text, and whether to stream -> where to ask, and with what."""
ECHO = "affiant-dev-echo"
DIALECTS: Mapping[str, Ask] = {
    "chat": lambda text, stream: (
        "/v1/chat/completions",
        {"model": ECHO, "stream": stream, "messages": [{"role": "user", "content": text}]},
    ),
    "responses": lambda text, stream: ("/v1/responses", {"model": ECHO, "stream": stream, "input": text}),
    "messages": lambda text, stream: (
        "/v1/messages",
        {
            "model": ECHO,
            "max_tokens": 64,
            "stream": stream,
            "messages": [{"role": "user", "content": text}],
        },
    ),
}


@dataclass
class Seen:
    """What a client was told, before the server was gone."""

    answered: list[str] = field(default_factory=list)
    """Receipt ids of answers that came whole."""
    acknowledged: list[str] = field(default_factory=list)
    admitted: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)


def work(gateway: Gateway, platform: PlatformClient, seen: Seen, ask: Ask) -> None:
    """A little of everything, one step after another."""
    session = SessionClient.start(gateway, platform, boot=False)
    seen.admitted.append(session.id)
    boot = session.boot_record()
    if session.submit(boot).status == 200:
        seen.acknowledged.append(boot.rh)
    for text, stream in (
        ("hi", False),
        ("several words", True),
        ('call_tool:read_file {"a": 1}', True),
        ("call_tool:rm {}", True),
    ):
        answer = session.post(*ask(text, stream))  # http.client raises if the body is not whole
        seen.answered.append(answer.headers["affiant-receipt-id"])
    session.post(ask("", False)[0], b"not json")
    end = session.end_record()
    if session.submit(end).status == 200:
        seen.acknowledged.append(end.rh)
    if session.close().status == 200:
        seen.closed.append(session.id)


def check(store: Path, platform: PlatformClient, seen: Seen) -> None:
    """Compare what was told with what is there, then start again and see what is disclosed."""
    recover(store)  # as the next boot will: cuts what is torn
    boots = entries_of(store)
    entries: list[Entry] = boots[-1] if boots else []
    records = records_of(entries)
    by_jti = {record["jti"]: record for record in records}
    assert set(seen.answered) <= set(by_jti), "an answer without its record"
    starts = {r["agt"]["ses"] for r in records if r["kind"] == "session-start"}
    closes = {r["agt"]["ses"] for r in records if r["kind"] == "session-close"}
    peers = {receipt_hash(e.jws) for e in entries if isinstance(e, PeerEntry)}
    assert set(seen.admitted) <= starts and set(seen.closed) <= closes
    assert set(seen.acknowledged) <= peers, "an acknowledgement of what is not there"
    check_chain(entries)
    left = opens_of(entries)
    with in_process(platform, store):
        pass
    new = records_of(entries_of(store)[-1])
    gaps = [record for record in new if record["kind"] == "gap"]
    if records and records[-1]["kind"] != "end":
        (gap,) = gaps
        last = records[-1]
        assert (gap["lst"]["chn"], gap["lst"]["seq"]) == (last["chn"], last["seq"])
        assert gap["ext"]["tag:affiant.dev,2026:gap/opens"] == str(len(left))
    else:
        assert gaps == [] and not left
    assert not left & {record["jti"] for record in new}, "signed for another boot's request"


def check_chain(entries: list[Entry]) -> None:
    jws = [entry.jws for entry in entries if isinstance(entry, RecordEntry)]
    if not jws:
        return
    statement = parse_statement(statement_of(entries))
    prev = statement.keyset_digest
    for seq, text in enumerate(jws):
        record = verify_receipt(parse_receipt(text + "~"), statement)
        assert (record.seq, record.prev) == (seq, prev)
        prev = record.rh
        assert len(from_b64u(prev)) == 32


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with started_zygote() as started:
        yield started


def run_to(
    zygote: Zygote, platform: PlatformClient, folder: Path, ask: Ask, kill_at: int, *, lossy: bool = False
) -> tuple[Seen, int]:
    """Work until the server kills itself at ``kill_at``, then check; the points it reached if it never did."""
    folder.mkdir()
    store, counter, seen = folder / "store", folder / "points", Seen()
    settings = settings_for(platform, store)
    with zygote.server(platform, settings, kill_at=kill_at, lossy=lossy, counter=counter) as (ready, end):
        if ready is not None:
            with suppress(OSError, AssertionError, ValueError, KeyError, EOFError, *_http_errors()):
                work(Gateway(ready["url"], ready["spki"]), platform, seen, ask)
        end()
    if store.exists():
        check(store, platform, seen)
    return seen, int(counter.read_text()) if counter.exists() else 0


def _http_errors() -> tuple[type[Exception], ...]:
    import http.client

    return (http.client.HTTPException,)


@dataclass
class Whole:
    """A dialect, and how many points a whole run in it has."""

    ask: Ask
    points: int


@pytest.fixture(scope="module", params=DIALECTS)
def whole(
    request: pytest.FixtureRequest,
    zygote: Zygote,
    platform: PlatformClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Whole:
    ask = DIALECTS[request.param]
    seen, count = run_to(zygote, platform, tmp_path_factory.mktemp("whole") / "run", ask, NEVER)
    assert len(seen.answered) == 4 and seen.closed and count > 60
    return Whole(ask, count)


SAMPLE = 6


@pytest.mark.parametrize("lossy", [False, True], ids=["kept", "lossy"])
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.slow if part % 2 else ()) for part in range(SAMPLE)]
)
def test_a_kill_at_any_write_loses_nothing_that_was_told(
    zygote: Zygote, platform: PlatformClient, whole: Whole, tmp_path: Path, part: int, lossy: bool
) -> None:
    place = int((part + (0.75 if lossy else 0.25)) * whole.points / SAMPLE) + 1
    run_to(zygote, platform, tmp_path / "run", whole.ask, place, lossy=lossy)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lossy", [False, True], ids=["kept", "lossy"])
def test_every_single_point(
    zygote: Zygote, platform: PlatformClient, whole: Whole, tmp_path: Path, lossy: bool
) -> None:
    runs = max(200, whole.points)
    died = 0
    for run in range(runs):
        place = run % whole.points + 1
        seen, reached = run_to(zygote, platform, tmp_path / str(run), whole.ask, place, lossy=lossy)
        died += reached == 0
    assert died > 0.9 * runs
    assert os.listdir(tmp_path)
