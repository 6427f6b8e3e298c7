"""Recognises the form of an event log file (CCEL, dstack's array, or the project's own) and reads the measured log in
it.
"""

from __future__ import annotations

from typing import Final

from affiant.attestation.tdx.event_log.ccel import is_ccel, parse_ccel
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.tdx.event_log.measured_log import MAX_MEASURED_LOG_BYTES, MeasuredLog, measured
from affiant.attestation.tdx.event_log.runtime_log import parse_runtime_log
from affiant.errors import MalformedError

__all__ = ["MAX_EVENT_LOG_FILE", "parse_event_log_file"]

MAX_EVENT_LOG_FILE: Final = MAX_MEASURED_LOG_BYTES


def parse_event_log_file(content: bytes) -> MeasuredLog:
    """The log in a file's ``content``; its first bytes say which form it is, and only that one is tried.

    Raises:
        MalformedError, ``eventlog.preimage``: as the form's own parser refuses.
        ``eventlog.malformed``: none of the forms.
    """
    if is_ccel(content):
        return parse_ccel(content)
    start = content.lstrip(b" \t\r\n")[:1]
    if start == b"[":
        return parse_runtime_log(content)
    if start == b"{":
        return measured(parse_event_log(content.removesuffix(b"\n")))
    raise MalformedError(
        "not an event log",
        expected="CCEL (TCG2), dstack's JSON array, or an affiant-eventlog/1 document",
        code="eventlog.malformed",
    )
