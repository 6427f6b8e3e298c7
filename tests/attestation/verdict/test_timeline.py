"""The timeline: sessions apart, and within a session every record after its causes, whatever the clocks say."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from affiant.attestation.verdict.timeline import Moment, ordered


def moment(
    chain: str, seq: int, *, at: int = 0, peer: tuple[str, int] | None = None, session: str = "s"
) -> Moment:
    return Moment(
        at=at,
        role="gateway" if chain == "g" else "session",
        session=session,
        chain=chain,
        seq=seq,
        peer=peer,
        kind="egress",
        title="",
        jti=f"{chain}{seq}",
        decision="",
        rules=(),
        facts=(),
        more=0,
    )


def names(moments: list[Moment]) -> list[str]:
    return [each.jti for each in ordered(moments)]


def test_a_close_comes_after_the_refusals_that_it_knew_of_in_the_same_second() -> None:
    refusals = [moment("z", seq, peer=("a", 0)) for seq in range(1, 8)]
    close = moment("a", 1, peer=("z", 7))
    assert names([close, moment("a", 0), moment("z", 0), *refusals])[-1] == "a1"


def test_links_outweigh_a_clock_that_is_behind() -> None:
    assert names([moment("s", 0, at=50), moment("g", 1, at=10, peer=("s", 0)), moment("g", 0, at=9)]) == [
        "g0",
        "s0",
        "g1",
    ]


def test_sessions_stay_apart_in_the_order_in_which_they_began() -> None:
    found = names(
        [
            moment("b", 0, at=2, session="2"),
            moment("a", 0, at=1, session="1"),
            moment("a", 1, at=3, session="1"),
        ]
    )
    assert found == ["a0", "a1", "b0"]


def test_links_in_a_circle_lose_nothing() -> None:
    circle = [
        moment("a", 0, peer=("b", 0)),
        moment("b", 0, peer=("a", 0)),
        moment("a", 0),
        moment("c", 5, peer=("c", 5)),
    ]
    assert sorted(names(circle)) == ["a0", "a0", "b0", "c5"]


@given(st.data())
def test_every_record_is_there_once_and_after_its_causes(data: st.DataObject) -> None:
    """Records are made one after the other, each of one signer, naming any record that the other had made before."""
    made: dict[str, list[Moment]] = {"g": [], "s": []}
    for signer in data.draw(st.lists(st.sampled_from("gs"), max_size=30)):
        known = made["s" if signer == "g" else "g"]
        peer = data.draw(st.sampled_from([None, *[(each.chain, each.seq) for each in known]]))
        made[signer].append(moment(signer, len(made[signer]), at=data.draw(st.integers(0, 3)), peer=peer))
    given_order = data.draw(st.permutations([*made["g"], *made["s"]]))
    found = ordered(given_order)
    places = {(each.chain, each.seq): number for number, each in enumerate(found)}
    assert len(places) == len(given_order)
    assert all(each.peer is None or places[each.peer] < places[each.chain, each.seq] for each in found)
    for those in made.values():
        assert all(places[a.chain, a.seq] < places[b.chain, b.seq] for a, b in pairwise(those))
