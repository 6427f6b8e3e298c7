"""Reads a log behind an HTTP prefix: each of its resources is one bounded request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from affiant.attestation.log_reading.bounded_http import (
    HTTPSettings,
    bounded_request,
    check_prefix,
    make_client,
)
from affiant.attestation.log_reading.errors import LogUnavailable
from affiant.attestation.log_reading.pinned_tls import pinned_context
from affiant.attestation.tlog.tiles import CHECKPOINT_PATH, parse_path

if TYPE_CHECKING:
    import httpx

__all__ = ["HTTPLog", "open_http_log"]


@contextmanager
def open_http_log(prefix: str, settings: HTTPSettings, *, spki: Sequence[str] = ()) -> Iterator[HTTPLog]:
    """The log at ``prefix``; its connections are kept until the block ends.

    Args:
        spki: TLS keys that the server may have, in place of the authorities of ``settings``: see ``pinned_tls``.

    Raises:
        LogSettingsInvalid: ``prefix`` is no http or https address, or the authorities cannot be used.
        LogUnreachable, ServerNotAuthentic: a key is pinned, and the server cannot be reached or has another.
        ExtraMissing: ``httpx`` is not installed.
    """
    check_prefix(prefix)
    with asyncio.Runner() as runner:
        tls = None
        if spki:
            tls = runner.run(pinned_context(prefix, spki, answer_s=settings.answer_s))
        client = make_client(settings, tls=tls)
        try:
            yield HTTPLog(prefix.rstrip("/"), client, runner, settings.answer_s)
        finally:
            runner.run(client.aclose())


class HTTPLog:
    """See ``LogSource``. Made by :func:`open_http_log`."""

    __slots__ = ("_answer_s", "_client", "_prefix", "_runner")

    def __init__(
        self, prefix: str, client: httpx.AsyncClient, runner: asyncio.Runner, answer_s: float
    ) -> None:
        self._prefix = prefix
        self._client = client
        self._runner = runner
        self._answer_s = answer_s

    @property
    def name(self) -> str:
        """The prefix."""
        return self._prefix

    def read(self, path: str, *, limit: int) -> bytes | None:
        """As ``LogSource.read``.

        Raises:
            TileMalformed: ``path`` names no resource of a log.
        """
        if path != CHECKPOINT_PATH:
            parse_path(path)
        return self.get(f"{self._prefix}/{path}", limit=limit)

    def get(self, url: str, *, limit: int) -> bytes | None:
        """The body at ``url``, or None where the server has none."""
        answer = self._runner.run(
            bounded_request(self._client, "GET", url, limit=limit, answer_s=self._answer_s)
        )
        if answer.status in (404, 410):
            return None
        if answer.status != 200:
            raise LogUnavailable("the server has no answer", where=url, found=f"HTTP {answer.status}")
        return answer.body
