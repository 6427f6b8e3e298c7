"""Reads the registers, quotes and RTMR3 events of a TD under dstack, by dstack's own rule. Not yet run on TDX hardware.

Not a whole ``QuoteSource``, and a session's supervisor cannot run on it.
RTMR3 begins with dstack's own events, and the agent extends it by *its* digest of an event (SHA-384 of type, name and
payload), not by the project's, so that a session's log would not replay. Agents from 0.6 on let no application extend a
register at all (agent_rpc.proto).

There is no local report: the registers are read out of a quote over fresh bytes. That is a signed report, and as good
here; its signature is not checked, as nobody checks what the own agent says about the own TD.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.quote.providers.base.checked_quote import REPORT_DATA_SIZE
from affiant.attestation.quote.providers.base.errors import RegisterMismatch, ResponseRefused, SettingsInvalid
from affiant.attestation.quote.providers.clouds.dstack import DstackAgent
from affiant.attestation.statements.evidence_source import TDRegisters
from affiant.attestation.tdx.event_log.eventlog import Event
from affiant.attestation.tdx.event_log.measured_log import verify_replay
from affiant.attestation.tdx.event_log.runtime_log import SYSTEM_EVENTS, parse_runtime_log
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError

__all__ = ["DstackGuest"]

_RTMR3: Final = 3


class DstackGuest:
    """The TD that this program runs in.

    Args:
        random_bytes: for the report data of quotes that only this program reads.
    """

    def __init__(self, agent: DstackAgent, *, random_bytes: Callable[[int], bytes]) -> None:
        self._agent = agent
        self._random_bytes = random_bytes

    def report(self) -> TDRegisters:
        """The registers now, out of a quote; ``td_id`` is None.

        Raises:
            As ``DstackAgent.quote``.
        """
        body = parse_quote(self.quote(self._random_bytes(REPORT_DATA_SIZE))).body
        return TDRegisters(
            td_attributes=body.td_attributes,
            xfam=body.xfam,
            mrtd=body.mrtd,
            mrconfigid=body.mrconfigid,
            mrowner=body.mrowner,
            mrownerconfig=body.mrownerconfig,
            rtmrs=body.rtmrs,
        )

    def quote(self, report_data: bytes) -> bytes:
        """A quote over exactly 64 bytes of ``report_data``; as ``DstackAgent.quote``."""
        return self._agent.quote(report_data)

    def emit(self, event: Event) -> None:
        """Have ``event`` extended into RTMR3, and see that it was: a quote before, and one after.

        The payload that is hashed is RFC 8785 of the event's. Not to be tried again after a failure: the event may be
        in the register.

        Raises:
            SettingsInvalid: a name of dstack's own events, which no verifier would accept a second time.
            ResponseRefused: the agent refuses, or gives a log that no verifier would read.
            RegisterMismatch: the log does not replay to the quote, or has not one such event more than before.
            As :meth:`quote`.
        """
        if event.name in SYSTEM_EVENTS:
            raise SettingsInvalid("an event name of dstack's own", found=event.name)
        payload = canonical(event.payload)
        before = self._count(event.name, payload)
        self._agent.emit_event(event.name, payload)
        if (after := self._count(event.name, payload)) != before + 1:
            raise RegisterMismatch(
                "the event is not in dstack's log as it was emitted",
                expected=f"{before + 1} such events",
                found=after,
            )

    def _count(self, name: str, payload: bytes) -> int:
        """How many such events RTMR3 holds, by a log that replays to the quote it came with."""
        taken = self._agent.quote_with_log(self._random_bytes(REPORT_DATA_SIZE))
        try:
            log = parse_runtime_log(taken.event_log)
        except AffiantError as error:
            raise ResponseRefused(f"dstack's agent gave a log that cannot be read: {error}") from error
        try:
            verify_replay(log, parse_quote(taken.quote).body)
        except AffiantError as error:
            raise RegisterMismatch(
                f"dstack's event log does not replay to the registers of its quote: {error}"
            ) from error
        return sum((each.name, each.content) == (name, payload) for each in log.of(_RTMR3))
