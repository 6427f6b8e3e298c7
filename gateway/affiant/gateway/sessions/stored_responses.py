"""The responses that upstreams keep for one session: their ids, each bound to where it is kept. Sans I/O.

An upstream gives a stored response to every client with its key, and all sessions of a gateway share that key. So a
session can name only responses that its own requests made, and the gateway asks the upstream that keeps them. The
newest 1,024 responses are known, and the newest 1,024 items of them; what is older is as unknown as what is another
session's.

>>> kept = StoredResponses()
>>> kept.keep("resp_1", StoredResponse("up", "m"))
>>> kept.find("resp_1").upstream
'up'
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from affiant.errors import StateError

__all__ = ["StoredResponse", "StoredResponses"]

_NEWEST: Final = 1024
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,255}\Z")
"""What a route takes for an id; one of another form cannot be asked for."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """Where one is kept.

    Args:
        upstream: its id in the configuration. model: the one that was asked for.
        tokens: those that it came to; a request that goes on from it has them in its prompt. 0: not stated.
    """

    upstream: str
    model: str
    tokens: int = 0


class StoredResponses:
    """Those of one session."""

    __slots__ = ("_items", "_responses")

    def __init__(self) -> None:
        self._responses: OrderedDict[str, StoredResponse] = OrderedDict()
        self._items: OrderedDict[str, StoredResponse] = OrderedDict()

    def keep(self, response: object, kept: StoredResponse) -> None:
        """From now on the session knows the response of this id, or more of it; what is no id is not kept."""
        if isinstance(response, str) and response in self._responses:
            self._responses[response] = kept
        else:
            _add(self._responses, response, kept)

    def keep_items(self, items: Iterable[object], kept: StoredResponse) -> None:
        """The same for items of a response."""
        for item in items:
            _add(self._items, item, kept)

    def find(self, response: str) -> StoredResponse:
        """The response of this id.

        Raises:
            ``response.not_found``: the session does not know it.
        """
        return _found(self._responses, response, "response")

    def upstream_of(self, response: str | None, items: Iterable[str]) -> str | None:
        """The upstream that keeps a response and items, all of them; None where nothing is named.

        Raises:
            ``response.not_found``: the session does not know one, or they are not at one upstream.
        """
        named = [_found(self._items, item, "item") for item in items]
        if response is not None:
            named.append(self.find(response))
        upstreams = {each.upstream for each in named}
        if len(upstreams) > 1:
            raise StateError("what the request names is not at one upstream", code="response.not_found")
        return next(iter(upstreams), None)

    def clear(self) -> None:
        """Forget all of them."""
        self._responses.clear()
        self._items.clear()


def _add(kept: OrderedDict[str, StoredResponse], name: object, stored: StoredResponse) -> None:
    if isinstance(name, str) and _ID.match(name) is not None and name not in kept:
        kept[name] = stored
        if len(kept) > _NEWEST:
            kept.popitem(last=False)


def _found(kept: OrderedDict[str, StoredResponse], name: str, kind: str) -> StoredResponse:
    found = kept.get(name)
    if found is None:
        raise StateError(
            f"this session has no stored {kind} of this id",
            found=ascii(name[:80]),
            hint=f"The newest {_NEWEST} of a session are known",
            code="response.not_found",
        )
    return found
