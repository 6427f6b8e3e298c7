"""A redactor that comes to know values while streams are under way: tokens that were not there when it was made.

Whoever holds one, holds it as it is now: a value that is added is replaced from the next piece of every stream on.
What a stream gave out before is out, so a value is added before it is put anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from affiant.secrets.redaction import Redactor
from affiant.secrets.value import SecretValue

__all__ = ["REMEMBERED", "GrowingRedactor"]

REMEMBERED: Final = 8
"""Added values of one placeholder that are known at a time: each makes every stream's search longer."""


class GrowingRedactor(Redactor):
    """Knows what it was made with, and the last values that were added for each placeholder.

    Args:
        secrets: pairs of a value and the placeholder that replaces it.
    """

    __slots__ = ("_added", "_known")

    def __init__(self, secrets: Iterable[tuple[SecretValue, str]]) -> None:
        self._known = tuple(secrets)
        self._added: dict[str, deque[SecretValue]] = {}
        super().__init__(self._known)

    def add(self, value: SecretValue, placeholder: str) -> None:
        """Know ``value`` too; of those that were added for ``placeholder`` before, the oldest may be forgotten."""
        self._added.setdefault(placeholder, deque(maxlen=REMEMBERED)).append(value)
        added = ((each, name) for name, values in self._added.items() for each in values)
        super().__init__((*self._known, *added))
