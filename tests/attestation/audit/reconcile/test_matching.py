"""Items to receipts: one to one, never by guess, the same for every order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.audit.reconcile.conftest_reconcile import claim
from tests.properties import thorough

from affiant.attestation.audit.reconcile.claim_index import Anchor, ClaimIndex
from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.reconcile.item_store import open_item_store
from affiant.attestation.audit.reconcile.matching import Matching
from affiant.attestation.audit.reconcile.results import Group, Result, Rule, State
from affiant.attestation.audit.records_of_others.facts import Facts, parse_authority
from affiant.attestation.audit.records_of_others.item import Item
from affiant.attestation.audit.records_of_others.scope import Scope

TRACE = ("1" * 32, "2" * 16)


def item(
    at: int,
    host: str | None = "api.example",
    *,
    lasted: int = 0,
    receipt: str | None = None,
    maybe: str | None = None,
    tunnel: bool = False,
    query_unknown: bool = False,
    **facts: object,
) -> Item:
    """An item that ended at ``at`` seconds."""
    authority = None if host is None else parse_authority(host)
    begun = (at - lasted) * 1000
    return Item(begun, at * 1000, authority, Facts(**facts), receipt, maybe, tunnel, query_unknown)


def matched(
    items: Sequence[Item],
    claims: Sequence[Claim],
    *,
    tolerance: int = 2,
    scope: Scope | None = None,
) -> tuple[list[Result], Matching]:
    index = ClaimIndex(claims, anchor=Anchor.HOST, tolerance=tolerance * 1000)
    with open_item_store() as store:
        matching = Matching(store, index)
        assert matching.load([*enumerate(items)], scope or Scope()) == 0
        matching.run()
        return list(matching.results(lambda _: True)), matching


def only(items: Sequence[Item], claims: Sequence[Claim]) -> Result:
    results, _ = matched(items, claims)
    assert len(results) == 1
    return results[0]


def test_the_only_receipt_that_fits_explains_the_only_item() -> None:
    found = only([item(10, method="POST")], [claim("r", 10, method="POST")])
    assert (found.state, found.rule, found.receipts) == (State.MATCHED, Rule.REQUEST, ("r",))


@pytest.mark.parametrize(
    "different",
    [
        {"host": "other.example"},
        {"method": "GET"},
        {"path": "/v2"},
        {"status": 500},
        {"sent": 11},
        {"received": 11},
        {"trace": ("3" * 32, "2" * 16)},
        {"at": 20},
    ],
)
def test_one_fact_that_differs_is_enough_for_no_match(different: dict) -> None:
    facts = {"method": "POST", "path": "/v1", "status": 200, "sent": 10, "received": 10, "trace": TRACE}
    same = {"at": 10, "host": "api.example", **facts}
    assert only([item(**same)], [claim("r", **same)]).state is State.MATCHED
    assert only([item(**same | different)], [claim("r", **same)]).state is State.MISSING


def test_what_one_side_does_not_state_is_not_compared() -> None:
    facts = {"method": "POST", "status": 200, "received": 10}
    assert only([item(10, **facts)], [claim("r", 10)]).state is State.MATCHED
    assert only([item(10)], [claim("r", 10, **facts)]).state is State.MATCHED


def test_a_missing_item_says_what_the_nearest_receipt_says_otherwise() -> None:
    found = only([item(10, status=500)], [claim("r", 10, status=200)])
    assert found.reason == "no receipt fits; the nearest differ in status"


def test_ports_are_compared_where_both_are_known() -> None:
    assert only([item(10, "api.example:443")], [claim("r", 10, "api.example")]).state is State.MATCHED
    assert only([item(10, "api.example:443")], [claim("r", 10, "api.example:8443")]).state is State.MISSING


@pytest.mark.parametrize(
    ("at", "state"), [(12, State.MATCHED), (13, State.MISSING), (8, State.MATCHED), (6, State.MISSING)]
)
def test_the_tolerance_is_a_bound_on_both_sides(at: int, state: State) -> None:
    assert only([item(10)], [claim("r", at)]).state is state


def test_a_receipt_inside_of_a_long_request_fits() -> None:
    assert only([item(100, lasted=60)], [claim("r", 60)]).state is State.MATCHED


def test_two_alike_are_ambiguous_and_neither_is_guessed() -> None:
    results, matching = matched([item(10), item(11)], [claim("a", 10), claim("b", 11)])
    assert [each.state for each in results] == [State.AMBIGUOUS] * 2
    assert results[0].receipts == ("a", "b")
    assert results[0].group == Group(2, 2)
    assert matching.short() == 0


def test_one_item_and_two_receipts_are_ambiguous() -> None:
    found = only([item(10)], [claim("a", 10), claim("b", 11)])
    assert (found.state, found.group) == (State.AMBIGUOUS, Group(1, 2))


def test_more_items_than_receipts_certainly_lack_one() -> None:
    results, matching = matched([item(10), item(10), item(11)], [claim("a", 10), claim("b", 11)])
    assert {each.state for each in results} == {State.AMBIGUOUS}
    assert matching.short() == 1


def test_lengths_tell_alike_requests_apart() -> None:
    items = [item(10, received=5), item(10, received=6)]
    results, _ = matched(items, [claim("a", 10, received=6), claim("b", 11, received=5)])
    assert [(each.rule, each.receipts) for each in results] == [
        (Rule.LENGTHS, ("b",)),
        (Rule.LENGTHS, ("a",)),
    ]


def test_what_lengths_decided_leaves_the_rest_unambiguous() -> None:
    results, _ = matched([item(10, received=5), item(10)], [claim("a", 10, received=5), claim("b", 10)])
    assert [(each.state, each.receipts) for each in results] == [
        (State.MATCHED, ("a",)),
        (State.MATCHED, ("b",)),
    ]


def test_equal_lengths_are_still_ambiguous() -> None:
    items = [item(10, received=5), item(10, received=5)]
    results, _ = matched(items, [claim("a", 10, received=5), claim("b", 10, received=5)])
    assert {each.state for each in results} == {State.AMBIGUOUS}


# -- named receipts --------------------------------------------------------------------------------------------


def test_an_item_that_names_a_receipt_is_matched_whatever_host_path_and_time() -> None:
    found = only([item(500, "gateway.local", receipt="r", path="/x")], [claim("r", 10, path="/v1")])
    assert (found.state, found.rule, found.apart_ms) == (State.MATCHED, Rule.RECEIPT, 489_001)


def test_a_named_receipt_that_is_not_here_is_missing_though_another_fits() -> None:
    found = only([item(10, receipt="gone")], [claim("r", 10)])
    assert found.state is State.MISSING
    assert "names receipt gone, which is not here" in found.reason


def test_a_named_receipt_that_says_otherwise_explains_nothing() -> None:
    found = only([item(10, receipt="r", status=200)], [claim("r", 10, status=403)])
    assert (found.state, found.reason) == (State.MISSING, "it names receipt r, which says otherwise: status")


def test_an_id_that_stands_in_the_log_twice_hides_no_request() -> None:
    """Attack: a request without receipt is logged under the id of another one."""
    results, matching = matched([item(10, receipt="r"), item(10, receipt="r")], [claim("r", 10)])
    assert {each.state for each in results} == {State.AMBIGUOUS}
    assert matching.short() == 1


def test_a_receipt_that_was_named_explains_no_second_item_by_a_weaker_rule() -> None:
    results, _ = matched([item(10, receipt="r"), item(10)], [claim("r", 10)])
    assert [each.state for each in results] == [State.MATCHED, State.MISSING]
    results, matching = matched([item(10, receipt="r"), item(10, receipt="r"), item(10)], [claim("r", 10)])
    assert [each.state for each in results] == [State.AMBIGUOUS, State.AMBIGUOUS, State.MISSING]


def test_an_id_that_may_be_a_receipts_is_one_only_if_a_receipt_has_it() -> None:
    assert only([item(10, maybe="r")], [claim("r", 400)]).rule is Rule.RECEIPT
    assert only([item(10, maybe="chatcmpl-1")], [claim("r", 10)]).rule is Rule.REQUEST


def test_two_records_under_one_receipt_id_are_ambiguous() -> None:
    fork = [claim("r", 10), claim("r", 10)]
    object.__setattr__(fork[1], "rh", "other")
    assert only([item(10, receipt="r")], fork).state is State.AMBIGUOUS


def test_a_named_receipt_takes_all_its_attempts() -> None:
    attempts = [claim("r", 10, "one.example", expected=False), claim("r", 10, "two.example")]
    results, _ = matched([item(10, "gateway", receipt="r"), item(10, "one.example")], attempts)
    assert [each.state for each in results] == [State.MATCHED, State.MISSING]


def test_each_attempt_explains_an_item_of_its_own() -> None:
    attempts = [claim("r", 10, "one.example", expected=False), claim("r", 10, "two.example")]
    results, _ = matched([item(9, "one.example"), item(10, "two.example")], attempts)
    assert [(each.state, each.receipts) for each in results] == [(State.MATCHED, ("r",))] * 2


def test_a_trace_is_stronger_than_what_is_alike() -> None:
    results, _ = matched([item(10, trace=TRACE), item(10)], [claim("a", 10, trace=TRACE), claim("b", 10)])
    assert [(each.rule, each.receipts) for each in results] == [(Rule.TRACE, ("a",)), (Rule.REQUEST, ("b",))]


def test_lengths_tell_requests_of_one_trace_apart() -> None:
    items = [item(10, trace=TRACE, sent=1), item(10, trace=TRACE, sent=2)]
    results, _ = matched(items, [claim("a", 10, trace=TRACE, sent=2), claim("b", 10, trace=TRACE, sent=1)])
    assert [(each.rule, each.receipts) for each in results] == [(Rule.TRACE, ("b",)), (Rule.TRACE, ("a",))]


def test_one_trace_for_two_requests_is_ambiguous() -> None:
    """Attack: an agent that sends one ``traceparent`` everywhere."""
    results, matching = matched([item(10, trace=TRACE), item(10, trace=TRACE)], [claim("a", 10, trace=TRACE)])
    assert {each.state for each in results} == {State.AMBIGUOUS}
    assert matching.short() == 1


OTHER_SPAN = (TRACE[0], "9" * 16)


def test_another_span_of_the_same_trace_contradicts_nothing_and_is_no_match_by_trace() -> None:
    """Instrumentation of the HTTP client sends its own span, a child of the one that asks a model."""
    claims = [claim("a", 10, trace=TRACE), claim("b", 10, trace=("8" * 32, "2" * 16))]
    found = only([item(10, trace=OTHER_SPAN)], claims)
    assert (found.state, found.rule, found.receipts) == (State.MATCHED, Rule.REQUEST, ("a",))
    named = only([item(10, trace=OTHER_SPAN, receipt="a")], claims)
    assert (named.state, named.rule) == (State.MATCHED, Rule.RECEIPT)


def test_a_receipt_of_another_trace_is_not_the_one_that_an_item_names() -> None:
    found = only([item(10, trace=("8" * 32, "2" * 16), receipt="a")], [claim("a", 10, trace=TRACE)])
    assert (found.state, found.reason) == (State.MISSING, "it names receipt a, which says otherwise: trace")


def test_a_trace_at_another_host_or_time_is_no_match() -> None:
    claims = [claim("a", 10, trace=TRACE)]
    assert only([item(10, "other.example", trace=TRACE)], claims).state is State.MISSING
    assert only([item(60, trace=TRACE)], claims).state is State.MISSING


def test_a_trace_with_another_status_is_no_match() -> None:
    assert (
        only([item(10, trace=TRACE, status=500)], [claim("a", 10, trace=TRACE, status=200)]).state
        is State.MISSING
    )


# -- connections -----------------------------------------------------------------------------------------------


def test_a_connection_holds_every_request_inside_of_it() -> None:
    claims = [claim("a", 20, method="POST"), claim("b", 40, method="POST")]
    found = only([item(60, lasted=60, tunnel=True, method="CONNECT")], claims)
    assert (found.state, found.receipts) == (State.MATCHED, ("a", "b"))


def test_two_connections_at_once_are_ambiguous() -> None:
    claims = [claim("a", 20), claim("b", 40)]
    results, _ = matched([item(60, lasted=60, tunnel=True), item(61, lasted=60, tunnel=True)], claims)
    assert {each.state for each in results} == {State.AMBIGUOUS}


def test_a_connection_takes_no_receipt_from_the_requests_inside_that_have_lines() -> None:
    """A proxy that opens TLS logs the connection and each request; another request in it would have a line too."""
    lines = [
        item(60, lasted=60, tunnel=True, method="CONNECT"),
        item(20, method="POST"),
        item(40, method="POST"),
    ]
    claims = [claim("a", 20, method="POST"), claim("b", 40, method="POST")]
    results, matching = matched(lines, claims)
    assert [each.state for each in results] == [State.AMBIGUOUS, State.MATCHED, State.MATCHED]
    assert results[0].reason == "a connection whose requests explain other lines"
    assert matching.short() == 0
    results, _ = matched(lines, [*claims, claim("c", 50, method="POST")])
    assert [each.receipts for each in results] == [("c",), ("a",), ("b",)]


def test_a_connection_that_was_passed_through_has_one_receipt() -> None:
    claims = [claim("a", 20, tunnel=True, method="CONNECT"), claim("b", 40, tunnel=True, method="CONNECT")]
    assert only([item(21, tunnel=True, method="CONNECT")], claims).receipts == ("a",)
    assert only([item(60, lasted=60, tunnel=True, method="CONNECT")], claims).state is State.AMBIGUOUS


def test_a_cut_query_is_compared_without() -> None:
    claims = [claim("a", 10, path="/x?key=1")]
    assert only([item(10, path="/x", query_unknown=True)], claims).state is State.MATCHED
    assert only([item(10, path="/x")], claims).state is State.MISSING
    assert only([item(10, path="/y", query_unknown=True)], claims).state is State.MISSING


# -- the range -------------------------------------------------------------------------------------------------


def test_a_receipt_of_an_item_outside_of_the_range_explains_none_inside() -> None:
    results, matching = matched([item(10), item(11)], [claim("r", 10)], scope=Scope(begin=11_000))
    assert [each.state for each in results] == [State.OUT_OF_RANGE, State.AMBIGUOUS]
    assert matching.short() == 0


# -- properties ------------------------------------------------------------------------------------------------

few = st.integers(0, 3)
named = st.sampled_from([None, None, None, "r0", "r1", "r2", "gone"])
items_of = st.lists(
    st.builds(
        lambda at, length, receipt, host, lasted, tunnel: item(
            at, host, lasted=lasted, receipt=receipt, received=length, tunnel=tunnel
        ),
        st.integers(0, 12),
        st.one_of(st.none(), few),
        named,
        st.sampled_from(["a.example", "b.example"]),
        few,
        st.sampled_from([False, False, False, True]),
    ),
    max_size=9,
)
claims_of = st.lists(
    st.tuples(st.integers(0, 12), st.one_of(st.none(), few), st.sampled_from(["a.example", "b.example"])),
    max_size=9,
).map(lambda each: [claim(f"r{n}", at, host, received=length) for n, (at, length, host) in enumerate(each)])


def ends(items: Sequence[Item], results: Sequence[Result]) -> Counter:
    return Counter(
        (items[each.line], each.state, each.rule, each.receipts, each.group, each.reason) for each in results
    )


@given(items_of, claims_of, st.randoms(use_true_random=False))
@thorough(60)
def test_neither_order_of_items_nor_of_receipts_changes_anything(items, claims, chance) -> None:
    before, one = matched(items, claims)
    shuffled, others = list(items), list(claims)
    chance.shuffle(shuffled)
    chance.shuffle(others)
    after, other = matched(shuffled, others)
    assert ends(items, before) == ends(shuffled, after)
    assert one.short() == other.short()


@given(items_of, claims_of)
@thorough(60)
def test_every_item_ends_once_and_a_receipt_explains_one_item(items, claims) -> None:
    results, matching = matched(items, claims)
    assert [each.line for each in results] == list(range(len(items)))
    used = [name for each in results if each.state is State.MATCHED for name in each.receipts]
    assert len(used) == len(set(used))
    requests = [each for each in results if each.state is State.MATCHED and not items[each.line].tunnel]
    assert all(len(each.receipts) == 1 for each in requests)
    without = matching.short() + sum(each.state is State.MISSING for each in results)
    followed = [each for each in items if not each.tunnel]
    assert without >= len(items) - len(claims) or len(followed) < len(items)


@given(items_of, claims_of)
@thorough(60)
def test_taking_a_receipt_away_never_ends_better(items, claims) -> None:
    """An operator who withholds a receipt gains nothing: what was matched by it is missing or ambiguous."""
    results, _ = matched(items, claims)
    for each in results:
        if each.state is State.MATCHED and each.rule is not Rule.LENGTHS and not items[each.line].tunnel:
            left = [one for one in claims if one.receipt != each.receipts[0]]
            after, _ = matched(items, left)
            assert after[each.line].state is State.MISSING
