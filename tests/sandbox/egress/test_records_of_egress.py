"""What the proxy writes: bounded, printable, and nothing in clear that says where or what."""

from __future__ import annotations

import asyncio
import os

from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.sandbox.egress.conftest import Chain

from affiant.attestation.schema.trace_context import trace_of
from affiant.sandbox.egress.http.errors import EgressDenied
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.records_of_egress import Action, EgressRecords, Outcome, PolicyFacts

FACTS = PolicyFacts("dev", "sha384:" + "0" * 96, "sha256:" + "0" * 64)
ORIGIN = Origin("https", "api.example.com", 443)


def written(*calls):
    chain = Chain()
    records = EgressRecords(chain, FACTS)

    async def scenario() -> None:
        for call in calls:
            await call(records)

    asyncio.run(scenario())
    return chain.records


def test_host_target_and_rules_are_hidden() -> None:
    action = Action(ORIGIN, "GET", "/private?token=x")
    (record,) = written(lambda r: r.outcome(action, ("egress/0",), Outcome("complete"), intents=()))
    clear = record.text.split.payload
    for word in (b"api.example.com", b"private", b"egress/0", b'"dev"'):
        assert word not in clear
    assert record.disclosed.text("act.tgt") == "GET https://api.example.com/private?token=x"


def test_a_refusal_carries_reason_rules_and_counter() -> None:
    denied = EgressDenied("no", reason="egress_denied", rules=("egress/1",))
    (record,) = written(lambda r: r.refusal(denied, Action(None, "CONNECT", "x:1"), cseq=7))
    assert record.member("rsn") == "egress_denied"
    assert record.member("agt", "cseq") == 7
    assert record.disclosed.get("pol.rules") == ["egress/1"]


@thorough(60)
@given(method=st.text(max_size=20), target=st.text(max_size=3000), known=st.booleans())
def test_whatever_an_agent_asks_for_can_be_recorded(method: str, target: str, known: bool) -> None:
    action = Action(ORIGIN if known else None, method, target)
    denied = EgressDenied("no", reason="host_not_listed", rules=())
    (record,) = written(lambda r: r.refusal(denied, action))
    shown = record.disclosed.text("act.tgt")
    assert len(shown) <= 2048
    assert shown.isascii()
    assert shown.isprintable()


def test_two_long_targets_stay_two() -> None:
    actions = [Action(ORIGIN, "GET", "/" + "a" * 4000 + end) for end in ("x", "y")]
    denied = EgressDenied("no", reason="host_not_listed", rules=())
    first, second = written(*[lambda r, action=action: r.refusal(denied, action) for action in actions])
    assert first.disclosed.text("act.tgt") != second.disclosed.text("act.tgt")


def test_a_trace_is_kept_hidden() -> None:
    trace, span = os.urandom(16).hex(), os.urandom(8).hex()
    found = trace_of([f"00-{trace}-{span}-01".encode()])
    action = Action(ORIGIN, "GET", "/", found)
    (record,) = written(lambda r: r.outcome(action, (), Outcome("complete"), intents=()))
    assert record.disclosed.get("trc") == {"t": trace, "s": span}
    assert trace.encode() not in record.text.split.payload
