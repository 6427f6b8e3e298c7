"""How often each secret may still be used in this session: counted where the value is, before it is put anywhere.

A use is a request into which the value was put, whether or not the request then arrived. All of it happens in one turn
of the event loop, so of requests at the same time exactly as many pass as there are uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from affiant.errors import ConfigurationError, NotAllowedError
from affiant.policy.decision.meters import Meter
from affiant.policy.model.limits import Bound, Bounds

__all__ = ["Uses"]


class Uses:
    """The uses that are left of each secret.

    Args:
        most: by name; None, or no entry: any number.
    """

    __slots__ = ("_meters", "_most")

    def __init__(self, most: Mapping[str, int | None]) -> None:
        self._most = dict(most)
        self._meters = {name: Meter(_bounds(count), remembers=True) for name, count in most.items()}

    def restricted(self, most: Mapping[str, int | None]) -> Uses:
        """The uses that are left of fewer secrets, or fewer uses of them; what was used stays used.

        Raises:
            ``secret.grants``: more of them than before, or of a secret that was not granted.
        """
        for name, count in most.items():
            before = self._most.get(name, 0)
            if before is not None and (count is None or count > before):
                raise ConfigurationError(
                    "more uses than were granted before", where=name, code="secret.grants"
                )
        made = Uses(most)
        made._meters = {name: self._meters[name].narrowed(_bounds(count)) for name, count in most.items()}
        return made

    def take(self, names: Iterable[str]) -> None:
        """Take one use of each of ``names``, or of none.

        Raises:
            ``limit_secret_uses``: one has none left.
        """
        for meter in self.require(names):
            meter.charge(1, now=0)

    def require(self, names: Iterable[str]) -> tuple[Meter, ...]:
        """Take nothing, and find that each of ``names`` has a use left.

        Raises:
            ``limit_secret_uses``: one has none.
        """
        found = [(name, self._meters[name]) for name in sorted(set(names)) if name in self._meters]
        for name, meter in found:
            if meter.wait(1, now=0) != 0:
                raise NotAllowedError(
                    "the profile lets this session use the secret in no more requests",
                    where=name,
                    code="limit_secret_uses",
                )
        return tuple(meter for _, meter in found)


def _bounds(count: int | None) -> Bounds:
    return () if count is None else (Bound(count),)
