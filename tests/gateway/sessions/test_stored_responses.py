"""A session knows the newest responses that were made for it, and where each is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.gateway.sessions.stored_responses import StoredResponse, StoredResponses

UP = StoredResponse("up", "m")
OTHER = StoredResponse("other", "m")


def test_the_newest_1024_are_known() -> None:
    kept = StoredResponses()
    for number in range(1025):
        kept.keep(f"resp_{number}", UP)
        kept.keep_items([f"msg_{number}"], UP)
    assert kept.find("resp_1") is UP and kept.upstream_of("resp_1024", ["msg_1"]) == "up"
    for name, item in (("resp_0", ()), (None, ("msg_0",))):
        with raises_code("response.not_found"):
            kept.upstream_of(name, item)
    kept.keep("resp_1", UP)  # what is known already is no newer
    kept.keep("resp_new", UP)
    with raises_code("response.not_found"):
        kept.find("resp_1")


def test_what_is_at_two_upstreams_cannot_be_used_together() -> None:
    kept = StoredResponses()
    kept.keep("resp_1", UP)
    kept.keep_items(["msg_1"], OTHER)
    assert (kept.upstream_of("resp_1", ()), kept.upstream_of(None, ["msg_1"])) == ("up", "other")
    assert kept.upstream_of(None, ()) is None
    with raises_code("response.not_found"):
        kept.upstream_of("resp_1", ["msg_1"])


def test_a_response_is_no_item_and_an_item_no_response() -> None:
    kept = StoredResponses()
    kept.keep("resp_1", UP)
    kept.keep_items(["msg_1"], UP)
    with raises_code("response.not_found"):
        kept.find("msg_1")
    with raises_code("response.not_found"):
        kept.upstream_of(None, ["resp_1"])


@pytest.mark.parametrize("name", [None, 7, "", "..", "a/b", "a b", "é", "a" * 257, "a?x=1", "a\n", "-a"])
def test_what_no_path_can_hold_is_not_kept(name: object) -> None:
    kept = StoredResponses()
    kept.keep(name, UP)
    kept.keep_items([name], UP)
    with raises_code("response.not_found"):
        kept.find(str(name))


def test_nothing_is_known_once_it_was_forgotten() -> None:
    kept = StoredResponses()
    kept.keep("resp_1", UP)
    kept.clear()
    with raises_code("response.not_found"):
        kept.find("resp_1")


@given(st.text(max_size=300))
@thorough(200)
def test_an_error_about_any_id_is_short_and_ascii(name: str) -> None:
    with raises_code("response.not_found") as refused:
        StoredResponses().find(name)
    assert str(refused.value).isascii() and len(str(refused.value)) < 1200
