"""Asks dstack's guest agent for quotes: HTTP over its Unix socket. Not yet run on TDX hardware.

Source: dstack's guest agent API, agent_rpc.proto. The socket says which of two endpoints answers::

    /var/run/dstack.sock   POST /GetQuote                    0.5 and later
    /var/run/tappd.sock    POST /prpc/Tappd.RawQuote?json    before, and kept afterwards

Both take ``{"report_data":"<128 hex>"}`` and give ``quote`` in hexadecimal and ``event_log`` as a text. Of the older
agent's two it is ``RawQuote``: ``TdxQuote`` would hash the report data by a rule of its own. The agent is part of the
TD and is measured with it; what it answers is still compared with what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final, Self

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.quote.providers.base.checked_quote import check_quote, check_report_data
from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
)
from affiant.errors import AffiantError
from affiant.unix_http import ResponseTooLarge, request

__all__ = ["DSTACK_SOCKET", "TAPPD_SOCKET", "DstackAPI", "DstackAgent", "DstackQuote"]

DSTACK_SOCKET: Final = Path("/var/run/dstack.sock")
TAPPD_SOCKET: Final = Path("/var/run/tappd.sock")
_MAX_ANSWER: Final = 4 * 1024 * 1024
"""An event log of 10,000 events fits."""


class DstackAPI(Enum):
    """Where an agent answers for quotes."""

    GUEST = "/GetQuote"
    TAPPD = "/prpc/Tappd.RawQuote?json"


@dataclass(frozen=True, slots=True)
class DstackQuote:
    """A quote over the report data that was asked for, and the agent's event log as it sent it."""

    quote: bytes = field(repr=False)
    event_log: bytes = field(repr=False)


class DstackAgent:
    """The agent of the TD that this program runs in.

    Args:
        path: its socket.
        api: the endpoint that this socket has.
        silence_s: seconds without a byte; a quote takes the kernel a second or more.
    """

    def __init__(
        self, path: Path = DSTACK_SOCKET, *, api: DstackAPI = DstackAPI.GUEST, silence_s: float = 40.0
    ) -> None:
        self._path = path
        self._api = api
        self._silence_s = silence_s

    @classmethod
    def of_this_machine(cls, guest: Path = DSTACK_SOCKET, tappd: Path = TAPPD_SOCKET) -> Self:
        """The agent's newer socket, or the older one where that alone is there."""
        if not guest.exists() and tappd.exists():
            return cls(tappd, api=DstackAPI.TAPPD)
        return cls(guest)

    def quote(self, report_data: bytes) -> bytes:
        """A quote over exactly 64 bytes of ``report_data``; see :meth:`quote_with_log`."""
        return self.quote_with_log(report_data).quote

    def quote_with_log(self, report_data: bytes) -> DstackQuote:
        """A quote over exactly 64 bytes of ``report_data``, and the event log that belongs to it.

        Raises:
            SettingsInvalid: another size.
            ProviderAbsent, ProviderDenied, ProviderBusy: the agent cannot be reached, or is silent.
            ResponseRefused: another answer than such a quote.
        """
        check_report_data(report_data)
        body = self._post(self._api.value, canonical({"report_data": report_data.hex()}))
        try:
            members = parse_object(body, limit=_MAX_ANSWER, strict_form=False)
        except AffiantError as error:
            raise ResponseRefused(f"dstack's agent answered something else: {error}") from error
        quote, event_log = members.get("quote"), members.get("event_log", "")
        if not isinstance(quote, str) or not isinstance(event_log, str):
            raise ResponseRefused(
                "dstack's agent answered without a quote", expected="members quote, event_log"
            )
        return DstackQuote(
            check_quote(_from_hex(quote), report_data, source="dstack's agent"), event_log.encode("utf-8")
        )

    def emit_event(self, name: str, payload: bytes) -> None:
        """Have the agent extend RTMR3 by dstack's own digest of ``name`` and ``payload``; see ``dstack_guest``.

        Raises:
            ProviderAbsent, ProviderDenied, ProviderBusy: as :meth:`quote_with_log`.
            ResponseRefused: the agent refuses, as every one from 0.6 on does.
        """
        self._post("/EmitEvent", canonical({"event": name, "payload": payload.hex()}))

    def _post(self, target: str, body: bytes) -> bytes:
        try:
            response = request(self._path, "POST", target, body, limit=_MAX_ANSWER, timeout_s=self._silence_s)
        except ResponseTooLarge as error:
            raise ResponseRefused(
                "dstack's agent answered too much", expected=f"at most {_MAX_ANSWER} bytes"
            ) from error
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise ProviderAbsent(
                "dstack's guest agent does not listen here",
                where=str(self._path),
                found=error.strerror,
                hint="Its socket must be mounted into the container.",
            ) from error
        except PermissionError as error:
            raise ProviderDenied("dstack's socket may not be used", where=str(self._path)) from error
        except OSError as error:
            raise ProviderBusy(
                "dstack's guest agent did not answer", where=str(self._path), found=type(error).__name__
            ) from error
        if response.status != 200:
            raise ResponseRefused(
                "dstack's agent refuses the question",
                expected="status 200",
                found=f"status {response.status}",
            )
        return response.body


def _from_hex(text: str) -> bytes:
    """:meth:`bytes.fromhex` would ignore spaces."""
    try:
        if text.isalnum():
            return bytes.fromhex(text)
    except ValueError as error:
        raise ResponseRefused("dstack's agent gave a quote that is not hexadecimal") from error
    raise ResponseRefused("dstack's agent gave a quote that is not hexadecimal")
