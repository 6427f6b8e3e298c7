"""A TD under dstack, over a real socket: registers out of a quote, and events that are seen to be in the register."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.attestation.quote.providers.conftest import REPORT_DATA, launch
from tests.attestation.quote.providers.dstack_agent import Agent, ok, refused, runtime_event

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.quote.providers.base.errors import RegisterMismatch, ResponseRefused, SettingsInvalid
from affiant.attestation.quote.providers.clouds.dstack import DstackAgent
from affiant.attestation.quote.providers.clouds.dstack_guest import DstackGuest
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.event_log.eventlog import Event
from affiant.attestation.tdx.event_log.measured_log import verify_replay
from affiant.attestation.tdx.event_log.runtime_log import parse_runtime_log
from affiant.attestation.tdx.quote.quote import parse_quote

EVENT = Event("affiant-policy", {"number": 1, "text": "a:b"})


class Dstack:
    """What stands behind the agent: a TD of the simulated platform that booted into dstack's first events."""

    def __init__(self, machine: SimulatedPlatform) -> None:
        self.machine = machine
        self.launched = replace(launch(machine), rtmrs=(bytes(48),) * 4)
        self.log = [runtime_event(name, b"x") for name in ("system-preparing", "app-id", "system-ready")]
        self.loses = self.doubles = self.hides = False

    def registers(self) -> TDRegisters:
        rtmr3 = bytes(48)
        for event in self.log:
            rtmr3 = hashlib.sha384(rtmr3 + bytes.fromhex(str(event["digest"]))).digest()
        return replace(self.launched, rtmrs=(*self.launched.rtmrs[:3], rtmr3))

    def answer(self, body: dict[str, str]) -> bytes:
        if "event" in body:
            event = runtime_event(body["event"], bytes.fromhex(body["payload"]))
            self.log += [event] * (0 if self.loses else 2 if self.doubles else 1)
            return ok(b"")
        quote = self.machine.quote(self.registers(), bytes.fromhex(body["report_data"]))
        log = self.log[:-1] if self.hides else self.log
        return ok(json.dumps({"quote": quote.hex(), "event_log": json.dumps(log)}).encode())


@pytest.fixture
def dstack(machine: SimulatedPlatform) -> Dstack:
    return Dstack(machine)


@pytest.fixture
def agent(tmp_path: Path, dstack: Dstack) -> Iterator[Agent]:
    running = Agent(tmp_path / "dstack.sock")
    running.answer = dstack.answer
    yield running
    running.close()


@pytest.fixture
def td(agent: Agent) -> DstackGuest:
    counter = itertools.count(1)
    return DstackGuest(DstackAgent(agent.path), random_bytes=lambda size: next(counter).to_bytes(size, "big"))


def test_the_registers_are_those_of_a_fresh_quote(td: DstackGuest, dstack: Dstack, agent: Agent) -> None:
    assert td.report() == replace(dstack.registers(), td_id=None)
    td.report()
    assert len({body["report_data"] for _, body in agent.asked}) == 2
    assert parse_quote(td.quote(REPORT_DATA)).body.report_data == REPORT_DATA


def test_an_emitted_event_is_in_the_register_and_any_verifier_sees_it(
    td: DstackGuest, dstack: Dstack, agent: Agent
) -> None:
    td.emit(EVENT)
    td.emit(EVENT)  # the same once more is one more
    taken = DstackAgent(agent.path).quote_with_log(REPORT_DATA)
    log = parse_runtime_log(taken.event_log)
    assert verify_replay(log, parse_quote(taken.quote).body) == (3,)
    last = log.of(3)[-1]
    assert (last.name, last.content) == (EVENT.name, canonical(EVENT.payload))


@pytest.mark.parametrize("fault", ["loses", "doubles", "hides"])
def test_an_event_that_is_not_where_it_should_be_is_refused(
    td: DstackGuest, dstack: Dstack, fault: str
) -> None:
    setattr(dstack, fault, True)
    with pytest.raises(RegisterMismatch):
        td.emit(EVENT)


def test_an_agent_that_lets_nobody_extend_is_refused(td: DstackGuest, dstack: Dstack, agent: Agent) -> None:
    """As every one from 0.6 on."""
    agent.answer = lambda body: refused(400) if "event" in body else dstack.answer(body)
    with pytest.raises(ResponseRefused, match="400"):
        td.emit(EVENT)


def test_a_log_whose_digests_do_not_hold_is_refused(td: DstackGuest, dstack: Dstack) -> None:
    """Among them the newer digests, which this does not know."""
    dstack.log[0]["digest"] = "00" * 48
    with pytest.raises(ResponseRefused, match="cannot be read"):
        td.emit(EVENT)


def test_dstacks_own_names_are_not_taken(td: DstackGuest, agent: Agent) -> None:
    with pytest.raises(SettingsInvalid):
        td.emit(Event("app-id", {}))
    assert agent.asked == []
