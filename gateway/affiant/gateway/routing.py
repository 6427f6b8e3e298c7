"""Which upstream serves a model: the only one, or the first that lists it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from affiant.errors import AffiantError
from affiant.gateway.errors import ModelNotFound, SettingsRefused
from affiant.gateway.upstream import Upstream

__all__ = ["Upstreams"]

_LISTED_FOR_S: Final = 60.0


class Upstreams:
    """The upstreams of the configuration, in its order.

    Args:
        seconds: a clock that never goes back, for how long a list of models is believed.
    """

    def __init__(self, upstreams: Sequence[Upstream], *, seconds: Callable[[], float]) -> None:
        if not upstreams:
            raise SettingsRefused("no upstream", expected="at least one")
        self._upstreams = tuple(upstreams)
        self._seconds = seconds
        self._listed: dict[str, tuple[float, frozenset[str]]] = {}

    async def choose(self, model: str) -> Upstream:
        """The upstream for ``model``; a single one gets every model, and judges by itself.

        Raises:
            ModelNotFound: several upstreams, and none lists it.
        """
        if len(self._upstreams) == 1:
            return self._upstreams[0]
        for upstream in self._upstreams:
            if model in await self._models_of(upstream):
                return upstream
        raise ModelNotFound("no upstream lists this model", found=model[:64])

    async def models(self) -> tuple[str, ...]:
        """The ids of all models that are listed, each once, in order."""
        names: dict[str, None] = {}
        for upstream in self._upstreams:
            names.update(dict.fromkeys(sorted(await self._models_of(upstream))))
        return tuple(names)

    async def close(self) -> None:
        """Close all connections."""
        for upstream in self._upstreams:
            await upstream.close()

    async def _models_of(self, upstream: Upstream) -> frozenset[str]:
        now = self._seconds()
        known = self._listed.get(upstream.id)
        if known is None or now - known[0] >= _LISTED_FOR_S:
            try:
                known = (now, frozenset(await upstream.models()))
            except AffiantError:  # it does not answer: it lists nothing now, and is asked again next time
                return frozenset()
            self._listed[upstream.id] = known
        return known[1]
