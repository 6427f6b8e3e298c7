"""Which upstream serves a model, the only one or the first that lists it, and the slots there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from affiant.errors import AffiantError, ConfigurationError, StateError
from affiant.gateway.upstream.fair_queue import FairQueue
from affiant.gateway.upstream.priority_band import QueueBounds
from affiant.gateway.upstream.slots import UpstreamSlots
from affiant.gateway.upstream.upstream import Upstream
from affiant.gateway.wire.errors import UpstreamNotConnected

__all__ = ["Upstreams"]

_LISTED_FOR_S: Final = 60.0
_DOWN_FOR_S: Final = 5.0
"""How long an upstream that could not be reached is not asked for its list: each request would wait for it."""
_BOUNDS: Final = QueueBounds()


class Upstreams:
    """The upstreams of the configuration, in its order.

    Args:
        seconds: a clock that never goes back, for how long a list of models is believed.
        bounds: of the queue in front of each.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        *,
        seconds: Callable[[], float],
        bounds: QueueBounds = _BOUNDS,
    ) -> None:
        if not upstreams:
            raise ConfigurationError("no upstream", expected="at least one", code="gateway.settings")
        self._upstreams = tuple(upstreams)
        self._seconds = seconds
        self._slots = {
            each.id: UpstreamSlots(FairQueue(each.concurrent, bounds), seconds=seconds) for each in upstreams
        }
        self._listed: dict[str, tuple[float, frozenset[str]]] = {}
        self._down: dict[str, tuple[float, AffiantError]] = {}

    async def choose(self, model: str) -> Upstream:
        """The upstream for ``model``; a single one gets every model, and judges by itself.

        Raises:
            ``model.not_found``: several upstreams, and none lists it.
            AffiantError: none that answers lists it, and one does not answer.
        """
        if len(self._upstreams) == 1:
            return self._upstreams[0]
        down: list[AffiantError] = []
        for upstream in self._paused_last():
            if model in await self._models_of(upstream, down):
                return upstream
        if down:  # it may list the model
            raise down[0]
        raise StateError("no upstream lists this model", found=model[:64], code="model.not_found")

    def by_id(self, name: str) -> Upstream:
        """The upstream of this id of the configuration."""
        return next(each for each in self._upstreams if each.id == name)

    async def instead_of(self, tried: Sequence[Upstream], model: str, error: AffiantError) -> Upstream:
        """Another upstream for ``model``, because the last one of ``tried`` could not be reached.

        The next requests do not go to that one either, until it lists its models again.

        Raises:
            ``error``: no other upstream lists the model.
            AffiantError: as :meth:`choose`.
        """
        self._listed.pop(tried[-1].id, None)
        self._down[tried[-1].id] = (self._seconds(), error)
        found = await self.choose(model)
        if found in tried:
            raise error
        return found

    def slots_at(self, upstream: Upstream) -> UpstreamSlots:
        """The slots at one of them."""
        return self._slots[upstream.id]

    def report(self) -> Mapping[str, Mapping[str, int]]:
        """Of each by its id: how many requests it is asked at once, and how many wait, for the operator."""
        return {name: slots.report() for name, slots in self._slots.items()}

    async def models(self) -> tuple[str, ...]:
        """The ids of all models that are listed, each once, in order; an upstream that is down is left out.

        Raises:
            AffiantError: all of them are.
        """
        names: dict[str, None] = {}
        down: list[AffiantError] = []
        for upstream in self._upstreams:
            names.update(dict.fromkeys(sorted(await self._models_of(upstream, down))))
        self._require_one_up(down)
        return tuple(names)

    async def close(self) -> None:
        """Close all connections."""
        for upstream in self._upstreams:
            await upstream.close()

    def _paused_last(self) -> Sequence[Upstream]:
        """All of them; one that asked for a pause is chosen only where no other lists the model."""
        return sorted(self._upstreams, key=lambda each: self._slots[each.id].cooldown.left_s > 0)

    def _require_one_up(self, down: Sequence[AffiantError]) -> None:
        if len(down) == len(self._upstreams):
            raise down[0]

    async def _models_of(self, upstream: Upstream, down: list[AffiantError]) -> frozenset[str]:
        """What ``upstream`` lists; nothing, and one more in ``down``, if it cannot be asked."""
        now = self._seconds()
        known = self._listed.get(upstream.id)
        if known is not None and now - known[0] < _LISTED_FOR_S:
            return known[1]
        failed = self._down.get(upstream.id)
        if failed is None or now - failed[0] >= _DOWN_FOR_S:
            try:
                listed = frozenset(await upstream.models())
            except AffiantError as error:  # it lists nothing now
                failed = (self._seconds(), error)
                if isinstance(error, UpstreamNotConnected):
                    self._down[upstream.id] = failed
            else:
                self._listed[upstream.id] = (now, listed)
                return listed
        down.append(failed[1])
        return frozenset()
