"""The models that one response names: each is judged before anything that names it goes on. Sans I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from affiant.errors import MalformedError
from affiant.gateway.dialects.dialect import Dialect
from affiant.gateway.dialects.sse import event_data, require_fields
from affiant.gateway.dialects.strict_json import folded, inexact, read_response

__all__ = ["AnsweredModels", "model_in"]

_MODEL: Final = folded("model")
_LONGEST_NAME: Final = 256
"""Characters of a model's name that a record holds; no request names one as long."""
_UNREADABLE: Final = "\ufffd"


def model_in(value: Mapping[str, object], *, exact: bool) -> object:
    """The member ``model`` of an object; None where it has none.

    Args:
        exact: whether a member that is almost named so is an error.

    Raises:
        ``upstream.answer``: ``exact``, and some reader could take another member for it.
    """
    if exact and inexact(value, _MODEL) is not None:
        raise MalformedError(
            "a member's name differs from a known one only in case or separators",
            expected="model",
            where="model",
            hint="Readers would differ",
            code="upstream.answer",
        )
    return value.get("model")


class AnsweredModels:
    """Which models one answer says it is from, a whole one or a stream.

    Args:
        dialect: says where a model's name is.
        require: called with each name once, before anything that names it goes on; raises of one that may not answer.
        seen: called with each value that is read, after its model was judged; a stream without a judge is read up to
            its first name.
        listed: whether the profile lists models. Every event is then read, strictly; else those up to the first name.
    """

    __slots__ = ("_dialect", "_listed", "_names", "_require", "_seen")

    def __init__(
        self,
        dialect: Dialect,
        require: Callable[[str], None],
        *,
        listed: bool,
        seen: Callable[[Mapping[str, object]], None] | None = None,
    ) -> None:
        self._seen = seen
        self._dialect = dialect
        self._require = require
        self._listed = listed
        self._names: set[str] = set()

    def take(self, value: object) -> None:
        """Take in a whole answer, or an event's value.

        Raises:
            ``upstream.answer``: models are listed, and a member is almost named ``model``.
            AffiantError: as ``require``.
        """
        if not isinstance(value, dict):
            return
        found = self._dialect.answered_model(value, exact=self._listed)
        name = "" if found is None or found == "" else _as_recorded(found)
        if name and name not in self._names and (self._listed or not self._names):
            self._names.add(name)
            self._require(name)
        if self._seen is not None:
            self._seen(value)

    def take_event(self, event: bytes) -> None:
        """Take in an event of a stream that nothing else reads.

        Raises:
            As :meth:`take`. ``upstream.answer``: models are listed, and readers could read the event differently.
        """
        if not self._listed and self._names:
            return
        if self._listed:
            require_fields(event)
        data = event_data(event)
        if data is None or not data.strip():
            return
        try:
            self.take(read_response(data))
        except MalformedError:
            if self._listed:
                raise


def _as_recorded(name: object) -> str:
    """A model's name of an answer as text that a record can hold; what was changed in it is like no name asked for."""
    if not isinstance(name, str):
        return _UNREADABLE
    if len(name) <= _LONGEST_NAME and name.isprintable():
        return name
    return "".join(char if char.isprintable() else _UNREADABLE for char in name[:_LONGEST_NAME])
