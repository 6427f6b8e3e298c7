"""A redactor that comes to know values while streams are under way: tokens that were not there when it was made.

Its holders hold it as it is now: a value that is added is replaced from the next piece of every stream on.
What a stream gave out before is out, so a value is added before it is put anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.redaction import Redactor

__all__ = ["REMEMBERED", "GrowingRedactor"]

REMEMBERED: Final = 16
"""Added values of one placeholder that are known at a time, whatever else is asked: each makes the search longer."""


class GrowingRedactor(Redactor):
    """Knows what it was made with, and the values that were added for each placeholder, as long as they count.

    Args:
        secrets: pairs of a value and the placeholder that replaces it.
        added: the values of each placeholder that were added, oldest first.
    """

    __slots__ = ("_added", "_known")

    def __init__(
        self,
        secrets: Iterable[tuple[SecretValue, str]],
        added: Mapping[str, tuple[SecretValue, ...]] = MappingProxyType({}),
    ) -> None:
        self._known = tuple(secrets)
        self._added = added
        super().__init__((*self._known, *((each, name) for name, values in added.items() for each in values)))

    def with_added(
        self, value: SecretValue, placeholder: str, *, over: Collection[SecretValue] = ()
    ) -> GrowingRedactor:
        """One that knows ``value`` too, and of those that were added before not any more those that are ``over``.

        It takes a tenth of a second and more for long values: call it from a thread.
        """
        left = {
            name: tuple(each for each in values if each not in over) for name, values in self._added.items()
        }
        values = (*left.get(placeholder, ()), value)[-REMEMBERED:]
        return GrowingRedactor(self._known, {**left, placeholder: values})

    def become(self, grown: GrowingRedactor) -> None:
        """Know what ``grown``, made of this one, knows: in all streams, from their next piece on."""
        self._added = grown._added
        self._replacements, self._searcher = grown._replacements, grown._searcher
