"""Whether a stream is complete that has ended without its dialect's terminal event. Sans I/O.

Some servers end a stream of chat completions with the HTTP body alone. Where that body is framed (chunks, or a length)
its end is no cut; and where every choice has its ``finish_reason`` nothing is missing.

>>> end = FinishedChoices(answers=1)
>>> end.take(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\\n\\n')
>>> end.reached
True
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from affiant.gateway.dialects.sse import event_data
from affiant.gateway.dialects.strict_json import parse_json
from affiant.gateway.wire.errors import RequestMalformed

__all__ = ["NO_END", "FinishedChoices", "StreamEnd"]

_FINISHES: Final = re.compile(rb'"finish_reason"\s*:\s*"')
_FAILS: Final = re.compile(rb'"error"\s*:')
_MAX_INDEX: Final = 1 << 31
_MAX_CHOICES: Final = 128


class StreamEnd(Protocol):
    """What the events of one stream say of its end."""

    def take(self, event: bytes) -> None:
        """Take in an event that is passed on; not the terminal one."""
        ...

    @property
    def reached(self) -> bool:
        """Whether nothing is missing, if the framed body ends now."""
        ...


class _NoEnd:
    def take(self, event: bytes) -> None:
        pass

    @property
    def reached(self) -> bool:
        return False


NO_END: Final[StreamEnd] = _NoEnd()
"""Of a dialect whose streams end with their terminal event alone."""


class FinishedChoices:
    """The choices of a stream that have a ``finish_reason``. No error came after them, and none before.

    Args:
        answers: how many choices the request asked for.
    """

    __slots__ = ("_answers", "_failed", "_finished")

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._finished: set[int] = set()
        self._failed = False

    def take(self, event: bytes) -> None:
        """As :meth:`StreamEnd.take`."""
        if _FINISHES.search(event) is None and _FAILS.search(event) is None:
            return
        try:
            value = parse_json(event_data(event) or b"")
        except RequestMalformed:  # it says nothing that could be relied on
            return
        if isinstance(value, dict):
            self._failed = self._failed or value.get("error") is not None
            self._take_choices(value.get("choices"))

    def _take_choices(self, choices: object) -> None:
        for place, choice in enumerate(choices if isinstance(choices, list) else ()):
            if not isinstance(choice, dict) or not isinstance(choice.get("finish_reason"), str):
                continue
            index = choice.get("index", place)
            valid = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < _MAX_INDEX
            if valid and choice["finish_reason"] and len(self._finished) < _MAX_CHOICES:
                self._finished.add(index)

    @property
    def reached(self) -> bool:
        """As :meth:`StreamEnd.reached`."""
        return len(self._finished) >= self._answers and not self._failed
