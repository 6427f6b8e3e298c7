"""Prints the progress of a fetch on standard error: nothing while it is quick, one line for each slow step."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from affiant.attestation.quote.collateral.errors import ServiceUnavailable, ServiceUnreachable
from affiant.attestation.quote.collateral.pcs_responses import Answer
from affiant.attestation.quote.collateral.service import Question
from affiant.command_line import printable

__all__ = ["Telling"]

_QUIET_S: Final = 1.5


class Telling:
    """See ``Progress``. Used inside of a running loop."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._timer: asyncio.TimerHandle | None = None

    def asking(self, question: Question) -> None:
        """Say what is being waited for, once that takes long."""
        line = f"waiting for {question.title} from {self._host} ..."
        self._timer = asyncio.get_running_loop().call_later(_QUIET_S, _say, line)

    def answered(self, question: Question, answer: Answer) -> None:
        """Say that it came, if its wait was told."""
        if self._quick():
            return
        _say(f"{question.title}: {len(answer.content)} bytes")

    def waiting(self, question: Question, seconds: int, why: ServiceUnreachable | ServiceUnavailable) -> None:
        """Say why it is asked again, and when."""
        self._quick()
        found = "" if why.found is None else f" ({why.found})"
        _say(f"{question.title}: {why.message}{found}; asking again in {seconds} s")

    def stop(self) -> None:
        """Nothing is waited for any more."""
        self._quick()

    def _quick(self) -> bool:
        """End the wait; whether it was too short to be told."""
        timer, self._timer = self._timer, None
        if timer is None:
            return True
        told = timer.when() <= asyncio.get_running_loop().time()
        timer.cancel()
        return not told


def _say(line: str) -> None:
    click.echo(f"affiant: {printable(line, limit=300)}", err=True)
