"""A raw secret value: held in the broker only, and shy even there.

The object shows nothing of itself: no ``repr``, no ``str``, no pickle, no copy, no ordering, and equality is
identity, so that neither a log line nor a comparison says anything about the bytes. :meth:`SecretValue.reveal`
is the one door, easy to find in review.

A value must be usable and strong (``trust.md`` rule 18; negative test S4):

1. no CR, LF, NUL or other control character: it is going to be in an HTTP header. The one exception is a private key
   in PEM (RFC 7468), which is never in a request: :meth:`SecretValue.require_one_line` keeps it out of all others;
2. at most 4096 bytes: redaction holds back as many bytes as its longest encoding;
3. at least 16 bytes and about 40 bits by a generous estimate: redacting an echo shows whether it *was* an echo,
   which for a short or regular value answers guesses.

>>> SecretValue(b"correct-horse-battery-staple")
<SecretValue>
>>> SecretValue(b"hunter2")
Traceback (most recent call last):
    ...
affiant.secrets.names.errors.SecretTooWeak: the value is too short; expected at least 16 bytes. Use a longer one...
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Never

from affiant.secrets.names.errors import SecretTooWeak, SecretValueInvalid

__all__ = ["MAX_VALUE_BYTES", "MIN_ESTIMATED_BITS", "MIN_VALUE_BYTES", "SecretValue"]

MIN_VALUE_BYTES: Final = 16
"""``trust.md`` rule 18."""

MAX_VALUE_BYTES: Final = 4096
"""Its longest encoding (``\\\\u0000`` for each byte) stays below 29 KB, which is what redaction may hold back."""

MIN_ESTIMATED_BITS: Final = 40
"""Sixteen random decimal digits pass; words said twice, runs and repetitions do not."""

_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_PEM_KEY: Final = re.compile(
    rb"-----BEGIN ((?:RSA |EC )?PRIVATE KEY)-----\n(?:[A-Za-z0-9+/=]{1,76}\n)+-----END \1-----\n?\Z"
)
"""RFC 7468, section 3, of one key that is not encrypted, with nothing around it."""


class SecretValue:
    """The bytes of one secret.

    Args:
        value: 16 to 4096 bytes without control characters, or a private key in PEM of no more bytes.

    Raises:
        SecretValueInvalid: control characters, or too long.
        SecretTooWeak: too short or too regular.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if _CONTROL.search(value) is not None and _PEM_KEY.match(value) is None:
            raise _not_one_line()
        if len(value) > MAX_VALUE_BYTES:
            raise SecretValueInvalid("the value is too long", expected=f"at most {MAX_VALUE_BYTES} bytes")
        if len(value) < MIN_VALUE_BYTES:
            raise SecretTooWeak(
                "the value is too short",
                expected=f"at least {MIN_VALUE_BYTES} bytes",
                hint="Use a longer one: redaction of a short value would confirm guesses",
            )
        if _estimated_bits(value) < MIN_ESTIMATED_BITS:
            raise SecretTooWeak(
                "the value is too regular",
                expected=f"about {MIN_ESTIMATED_BITS} bits or more",
                hint="Use a random one: redaction of a guessable value would confirm guesses",
            )
        self._value = bytes(value)

    def reveal(self) -> bytes:
        """The bytes themselves. Every caller is a place to review."""
        return self._value

    def require_one_line(self) -> None:
        """Refuse a private key in PEM, where the value itself is going to be in a request.

        Raises:
            SecretValueInvalid: it holds line breaks.
        """
        if _CONTROL.search(self._value) is not None:
            raise _not_one_line()

    def __repr__(self) -> str:
        return "<SecretValue>"

    def __reduce_ex__(self, protocol: object) -> Never:
        raise TypeError("a secret value is neither pickled nor copied")

    def __copy__(self) -> Never:
        raise TypeError("a secret value is not copied")

    def __deepcopy__(self, memo: object) -> Never:
        raise TypeError("a secret value is not copied")


def _not_one_line() -> SecretValueInvalid:
    return SecretValueInvalid(
        "the value holds a line break or another control character",
        hint="Only one-line values can be in a request; check for a trailing newline",
    )


def _estimated_bits(value: bytes) -> float:
    """A generous estimate: entropy per symbol, of bytes or of steps, times the part that does not repeat."""
    unit = value[: _period(value)]
    steps = [(after - before) & 0xFF for before, after in pairwise(unit)]
    return len(unit) * min(_entropy(unit), _entropy(steps))


def _period(value: bytes) -> int:
    """The length of the shortest unit whose repetition spells ``value``."""
    return (value + value).find(value, 1)


def _entropy(symbols: Sequence[int]) -> float:
    total = len(symbols)
    return -sum(n / total * math.log2(n / total) for n in Counter(symbols).values()) if total else 0.0
