"""Formats a measured log as text and as a document: registers by replay, and how far each event is proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from affiant.attestation.tdx.event_log.measured_log import Binding, MeasuredEvent, MeasuredLog
from affiant.attestation.tdx.event_log.runtime_log import READY, RUNTIME_EVENT
from affiant.attestation.tdx.quote.quote import TDReport
from affiant.attestation.verdict.lines import field, heading, hex_value, one_line, prose

__all__ = ["event_log_document", "render_event_log"]

_MEANING: Final = {
    Binding.CONTENT: "proven",
    Binding.DATA: "data",
    Binding.DIGEST: "digest",
    Binding.NONE: "-",
}


def event_log_document(log: MeasuredLog, body: TDReport | None) -> Mapping[str, object]:
    """The document ``affiant-eventlog-replay/1``; with a quote's body, what matches."""
    replayed = log.replay()
    return {
        "typ": "affiant-eventlog-replay/1",
        "verified": False,
        "form": log.form,
        "registers": {f"rtmr{rtmr}": value.hex() for rtmr, value in enumerate(replayed)},
        "matches_quote": None
        if body is None
        else [value == found for value, found in zip(replayed, body.rtmrs, strict=True)],
        "events": [
            {
                "rtmr": event.rtmr,
                "type": event.number,
                "kind": event.kind,
                "name": event.name,
                "digest": event.digest.hex(),
                "content": event.content.hex(),
                "binding": str(event.binding),
            }
            for event in log.events
        ],
    }


def render_event_log(log: MeasuredLog, body: TDReport | None) -> str:
    """The whole text, with a final newline."""
    return "\n".join(_lines(log, body)) + "\n"


def _lines(log: MeasuredLog, body: TDReport | None) -> Iterator[str]:
    yield f"Event log, form {log.form}, {len(log.events)} events. A claim, until it replays to a verified quote."
    yield from heading("REGISTERS BY REPLAY")
    for rtmr, value in enumerate(log.replay()):
        yield field(f"RTMR{rtmr}", f"{len(log.of(rtmr))} events{_match(value, body, rtmr)}")
        yield field("", hex_value(value.hex()))
    yield from heading("EVENTS")
    yield "  proven  hashed again from all that stands here"
    yield "  data    hashed again from its data; what the event calls itself is not covered"
    yield "  digest  only the digest counts: what was hashed is not in the log"
    ready = False
    for number, event in enumerate(log.events, start=1):
        yield from _event(number, event)
        if event.rtmr == 3 and event.name == READY and not ready and log.form == "dstack":
            ready = True
            yield field("", "-- from here on RTMR3 is the application's word --")


def _match(value: bytes, body: TDReport | None, rtmr: int) -> str:
    if body is None:
        return ""
    return ", as in the quote" if value == body.rtmrs[rtmr] else ", NOT AS IN THE QUOTE"


def _event(number: int, event: MeasuredEvent) -> Iterator[str]:
    register = "-" if event.rtmr is None else f"RTMR{event.rtmr}"
    head = f"{number:>4} {register:<6}{_MEANING[event.binding]:<8}{event.kind}"
    text = event.name
    if event.number == RUNTIME_EVENT and event.content:
        text += f" = {_payload(event.content)}"
    yield from prose(head, one_line(text, limit=300), width=52)


def _payload(content: bytes) -> str:
    text = content.decode("ascii", "replace")
    return repr(text) if text.isprintable() and "\ufffd" not in text else content.hex()
