"""Which upstream gets a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tests.raising import raises_code

from affiant.errors import UnreachableError
from affiant.gateway.upstream.model_routing import Upstreams
from affiant.gateway.upstream.upstream import Upstream
from affiant.gateway.wire.errors import UpstreamNotConnected

pytestmark = pytest.mark.anyio
GONE = UpstreamNotConnected("gone")


@dataclass
class Listed:
    """An upstream that lists its models, and nothing else."""

    id: str
    names: Sequence[str] | None
    asked: int = 0
    bind: str = "none"
    concurrent: int = 1
    error: UnreachableError = field(
        default_factory=lambda: UnreachableError("down", code="upstream.unreachable")
    )

    async def models(self) -> Sequence[str]:
        self.asked += 1
        if self.names is None:
            raise self.error
        return self.names

    async def close(self) -> None:
        pass


def upstreams(*listed: Listed, seconds: list[float] | None = None) -> Upstreams:
    clock = seconds or [0.0]
    return Upstreams(listed, seconds=lambda: clock[0])  # type: ignore[arg-type]


async def test_a_single_upstream_gets_every_model_unasked() -> None:
    only = Listed("a", ["x"])
    chosen: Upstream = await upstreams(only).choose("anything")
    assert chosen is only and only.asked == 0  # type: ignore[comparison-overlap]


async def test_the_first_that_lists_it_gets_it() -> None:
    first, second = Listed("a", ["x", "y"]), Listed("b", ["y", "z"])
    found = upstreams(first, second)
    assert [(await found.choose(name)).id for name in "xyz"] == ["a", "a", "b"]
    assert await found.models() == ("x", "y", "z")
    assert (first.asked, second.asked) == (1, 1)
    with raises_code("model.not_found"):
        await found.choose("w")


async def test_one_that_is_down_lists_nothing_and_is_asked_again() -> None:
    down, up = Listed("a", None), Listed("b", ["x"])
    found = upstreams(down, up)
    for _ in range(2):
        assert (await found.choose("x")).id == "b"
    assert (down.asked, up.asked) == (2, 1)


async def test_one_that_cannot_be_reached_is_asked_again_after_five_seconds() -> None:
    """A connection may take ten seconds to fail."""
    clock = [0.0]
    down, up = Listed("a", None, error=GONE), Listed("b", ["x"])
    found = upstreams(down, up, seconds=clock)
    for _ in range(3):
        assert (await found.choose("x")).id == "b"
    assert (down.asked, up.asked) == (1, 1)
    clock[0], down.names = 5.0, ["x"]
    assert (await found.choose("x")).id == "a"
    assert (down.asked, up.asked) == (2, 1)


async def test_one_that_could_not_be_reached_serves_no_model_that_another_lists() -> None:
    clock = [0.0]
    first, second = Listed("a", ["x", "y"]), Listed("b", ["x"])
    found = upstreams(first, second, seconds=clock)
    chosen = await found.choose("x")
    assert (await found.instead_of([chosen], "x", GONE)).id == "b"
    assert (await found.choose("x")).id == "b"
    with raises_code("upstream.unreachable"):  # it may list it: the model is not unknown
        await found.choose("y")
    clock[0] = 5.0
    assert [(await found.choose(name)).id for name in "xy"] == ["a", "a"]


async def test_where_no_other_one_lists_the_model_the_error_stays() -> None:
    for listed in ([Listed("a", ["x"])], [Listed("a", ["x"]), Listed("b", ["y"])]):
        found = upstreams(*listed)
        with raises_code("upstream.unreachable"):
            await found.instead_of([await found.choose("x")], "x", GONE)
    found = upstreams(Listed("a", ["x"]), Listed("b", ["x"]))
    tried = [await found.choose("x")]
    tried.append(await found.instead_of(tried, "x", GONE))
    with raises_code("upstream.unreachable"):
        await found.instead_of(tried, "x", GONE)


async def test_all_of_them_down_is_told_as_a_request_would_be() -> None:
    for found in (upstreams(Listed("a", None)), upstreams(Listed("a", None), Listed("b", None))):
        with raises_code("upstream.unreachable"):
            await found.models()
    with raises_code("upstream.unreachable"):
        await found.choose("x")


async def test_one_that_is_down_is_left_out_of_the_list() -> None:
    assert await upstreams(Listed("a", None), Listed("b", ["x"])).models() == ("x",)
    assert await upstreams(Listed("a", None), Listed("b", [])).models() == ()


async def test_a_list_is_believed_for_a_minute() -> None:
    clock = [0.0]
    one, two = Listed("a", ["x"]), Listed("b", ["y"])
    found = upstreams(one, two, seconds=clock)
    await found.choose("y")
    clock[0] = 61.0
    await found.choose("y")
    assert one.asked == two.asked == 2


async def test_no_upstream_at_all_is_refused() -> None:
    with raises_code("gateway.settings"):
        upstreams()
