"""What a request is likely to cost an upstream, in tokens: an estimate for sharing it out, and no bound.

A limit of a profile takes one token for each byte, because it may never let too much through
(``session_limits``). Here too much would be as wrong as too little, and is made good when the
request is over.

>>> from affiant.gateway.openai.passable_responses import AnswerBound
>>> estimated_cost(AnswerBound(tokens=100, answers=2), size=4000)
1200
"""

from __future__ import annotations

from typing import Final

from affiant.gateway.openai.passable_responses import AnswerBound
from affiant.gateway.upstream.priority_band import MOST_COST

__all__ = ["estimated_cost"]

_BYTES: Final = 4
"""Of a request, for each token: what tokenizers make of English text and of code."""
_UNSAID: Final = 4096
"""Tokens of an answer whose length the request does not bound; to leave it out must not be the cheap way to wait."""


def estimated_cost(answer: AnswerBound, *, size: int) -> int:
    """Tokens, 1 to :data:`~.band.MOST_COST`.

    Args:
        answer: how long its answers may be. size: bytes that go upstream.
    """
    asked = _UNSAID if answer.tokens is None else answer.tokens
    return min(max(1, -(-size // _BYTES) + asked * answer.answers), MOST_COST)
