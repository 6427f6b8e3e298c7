"""An authority's signature covers exactly what a record says, in one log, and nothing it could be moved to."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.erasure.errors import OrderUnauthorized
from affiant.attestation.erasure.orders import MAX_ORDER, sign_order, verify_order
from affiant.attestation.schema.records import KINDS

AUTHORITY = Signer(ec.derive_private_key(11, ec.SECP256R1()))
OTHER = Signer(ec.derive_private_key(12, ec.SECP256R1()))
ID, LINK = "A" * 22, "B" * 42 + "A"
ITEM = {"chn": ID, "seq": 7, "rh": LINK, "lvl": 2, "basis": "an order", "agt": {"ses": ID, "seq": 3}}
ERASURE = {"del": [ITEM]}
HOLD = {"tgt": ID, "basis": "a lawsuit"}
NOW = 1_795_262_400


def signed(
    kind: str, members: dict, *, signer: Signer = AUTHORITY, origin: str = "log.example", made: int = NOW
) -> dict:
    return {**members, "aut": sign_order(signer, kind, members, origin=origin, made=made)}


def check(kind: str, members: dict, *, origin: str = "log.example", latest: float = NOW) -> None:
    verify_order(
        members,
        kind=kind,
        origin=origin,
        authorities=[OTHER.public_key, AUTHORITY.public_key][1:],
        latest=latest,
    )


@pytest.mark.parametrize(
    "kind, members", [("erasure", ERASURE), ("hold", HOLD), ("hold", {**HOLD, "rel": LINK})]
)
def test_an_order_holds_for_what_it_was_signed_for_and_fits_the_table(kind: str, members: dict) -> None:
    record = signed(kind, members)
    order = verify_order(
        record, kind=kind, origin="log.example", authorities=[AUTHORITY.public_key], latest=NOW
    )
    assert (order.kid, order.made) == (AUTHORITY.kid, NOW)
    for name, shape in {**KINDS[kind].required, **KINDS[kind].optional}.items():
        if name in record:
            shape.check(record[name], name)
    assert len(record["aut"]) <= MAX_ORDER


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 8},
        {"chn": "C" * 21 + "A"},
        {"rh": "C" * 42 + "A"},
        {"lvl": 1},
        {"basis": "another order"},
        {"agt": {"ses": "C" * 21 + "A", "seq": 3}},
        {"agt": {"ses": ID, "seq": 4}},
        {"agt": {"ses": ID}},
    ],
)
def test_an_order_is_not_moved_to_another_item(change: dict) -> None:
    record = signed("erasure", ERASURE)
    record["del"] = [{**ITEM, **change}]
    with pytest.raises(OrderUnauthorized, match="something else"):
        check("erasure", record)


def test_items_are_neither_added_nor_left_out_nor_put_in_another_order() -> None:
    second = {**ITEM, "seq": 8}
    record = signed("erasure", {"del": [ITEM, second]})
    for items in ([ITEM], [second, ITEM], [ITEM, second, second]):
        with pytest.raises(OrderUnauthorized):
            check("erasure", {**record, "del": items})


@pytest.mark.parametrize("change", [{"tgt": LINK}, {"basis": "another"}, {"rel": LINK}])
def test_a_hold_is_not_moved(change: dict) -> None:
    with pytest.raises(OrderUnauthorized):
        check("hold", {**signed("hold", HOLD), **change})


def test_a_release_is_no_hold() -> None:
    record = signed("hold", {**HOLD, "rel": LINK})
    with pytest.raises(OrderUnauthorized):
        check("hold", {name: value for name, value in record.items() if name != "rel"})


def test_another_log_another_signer_another_type_and_tomorrow_are_refused() -> None:
    with pytest.raises(OrderUnauthorized):
        check("erasure", signed("erasure", ERASURE), origin="elsewhere.example")
    with pytest.raises(OrderUnauthorized, match="no accepted authority"):
        check("erasure", signed("erasure", ERASURE, signer=OTHER))
    with pytest.raises(OrderUnauthorized):
        check("erasure", {**ERASURE, "aut": signed("hold", HOLD)["aut"]})
    with pytest.raises(OrderUnauthorized, match="not yet"):
        check("erasure", signed("erasure", ERASURE, made=NOW + 1))
    with pytest.raises(OrderUnauthorized):
        verify_order(
            signed("erasure", ERASURE), kind="erasure", origin="log.example", authorities=[], latest=NOW
        )


@pytest.mark.parametrize("text", ["", "a.b.c", "x" * (MAX_ORDER + 1), "é", "..", 7])
def test_what_is_no_order_is_refused(text: object) -> None:
    with pytest.raises(OrderUnauthorized):
        check("erasure", {**ERASURE, "aut": text})


@given(st.data())
@thorough(60)
def test_any_flipped_character_is_refused(data: st.DataObject) -> None:
    record = signed("erasure", ERASURE)
    aut = record["aut"]
    at = data.draw(st.integers(0, len(aut) - 1))
    other = data.draw(st.sampled_from([c for c in b64u(bytes(range(256))) + "." if c != aut[at]]))
    with pytest.raises(OrderUnauthorized):
        check("erasure", {**record, "aut": aut[:at] + other + aut[at + 1 :]})
