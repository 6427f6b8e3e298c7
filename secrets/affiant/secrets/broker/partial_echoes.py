"""Counts the answers in which a part of a secret came back, and withdraws the secret at the third.

A part is looked for only in answers of hosts that were sent the secret. An answer that ends at a part says that the
part was right: an agent could guess one byte with each request to a host that echoes. So from the third on the secret
is sent nowhere. A host that has it is sent nothing more, and none of its answers is handed on, in open requests too.
Restricting the session's profile changes none of that. A value that is granted under two names is one secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from threading import Lock
from typing import Final

from affiant.secrets.names.errors import SecretPartialEcho, SecretWithdrawn
from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.incremental import REMEMBERED
from affiant.secrets.redaction.parts import Parts

__all__ = ["MOST_PARTIAL_ECHOES", "PartialEchoes"]

MOST_PARTIAL_ECHOES: Final = 3
"""So many answers end at a part of one secret; with the last of them it is withdrawn."""


class PartialEchoes:
    """Which host was sent which values in this session, and how often a part of each secret came back."""

    __slots__ = ("_came_back", "_changing", "_parts", "_sent")

    def __init__(self) -> None:
        self._changing = Lock()
        self._sent: dict[str, dict[bytes, tuple[SecretValue, str]]] = {}  # each value with its owner
        self._parts: dict[str, Parts] = {}
        self._came_back: Counter[str] = Counter()

    def sent(self, host: str, values: Iterable[tuple[SecretValue, str]]) -> None:
        """``host`` is about to be sent ``values``, each with the name of its secret.

        Where one is new to the host it takes some milliseconds, and more for long values: call it from a thread.
        """
        with self._changing:
            before = self._sent.get(host, {})
            of_host = dict(before)
            for value, name in values:
                owner = self._owner(value, name)
                of_host.pop(value.reveal(), None)
                of_host[value.reveal()] = value, owner  # the newest last
                for over in [each for each, (_, its) in of_host.items() if its == owner][:-REMEMBERED]:
                    del of_host[over]  # a token that has ended
            self._sent[host] = of_host  # at once: other threads read it
            if set(of_host) != set(before):
                self.parts(host).know(of_host.values())

    def parts(self, host: str) -> Parts:
        """What must not be in an answer of ``host``: it grows with what the host is sent."""
        return self._parts.setdefault(host, Parts())

    def counted(self, echo: SecretPartialEcho) -> SecretPartialEcho:
        """Count ``echo``, in the same turn of the event loop in which it was found; what is reported of it."""
        assert echo.where is not None
        self._came_back[echo.where] += 1
        if self._withdrawn(echo.where):
            echo.hint = (
                "The secret is withdrawn from this session, and the hosts that were sent it get nothing more"
            )
        return echo

    def require(self, host: str, values: Iterable[tuple[SecretValue, str]] = ()) -> None:
        """Refuse a withdrawn secret among ``values``, which are as in :meth:`sent`, and a host that was sent one.

        Raises:
            SecretWithdrawn: so.
        """
        sent = ((owner, owner) for _, owner in self._sent.get(host, {}).values())
        for owner, name in (*((self._owner(value, name), name) for value, name in values), *sent):
            if self._withdrawn(owner) or self._withdrawn(name):
                raise SecretWithdrawn(
                    f"parts of the secret came back {MOST_PARTIAL_ECHOES} times: it is withdrawn, and its hosts get "
                    "nothing more in this session",
                    where=name,
                )

    def _owner(self, value: SecretValue, name: str) -> str:
        """The name under which ``value`` was sent first, to any host; ``name``, if it never was."""
        for of_host in tuple(self._sent.values()):
            if (known := of_host.get(value.reveal())) is not None:
                return known[1]
        return name

    def _withdrawn(self, name: str) -> bool:
        return self._came_back[name] >= MOST_PARTIAL_ECHOES
