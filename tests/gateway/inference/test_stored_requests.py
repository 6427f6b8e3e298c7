"""A request about a stored response: its id, its query, and no body."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.schema.agent_routes import AGENT_ROUTES, route_of
from affiant.gateway.dialects.responses.responses import Responses
from affiant.gateway.inference.stored_requests import (
    STORED,
    keeper_of,
    response_of,
    stored_request,
    written_query,
)
from affiant.gateway.sessions.stored_responses import StoredResponse, StoredResponses
from affiant.gateway.wire.errors import RequestMalformed

ONE = "/v1/responses/{response}"
KEPT = StoredResponse("up", "m")


@pytest.mark.parametrize(
    "route", [route for route in AGENT_ROUTES if STORED in route.template], ids=lambda route: route.name
)
def test_the_id_is_read_from_every_path(route) -> None:  # noqa: ANN001 - a parameter
    for name in ("resp_1", "cancel", "input_items", "a.b-c_d="):
        path = route.template.replace("{response}", name)
        assert route_of(route.method, path) is not None
        assert response_of(route, path) == name


@given(st.text(max_size=60))
@thorough(300)
def test_a_query_is_written_anew_or_refused(query: str) -> None:
    try:
        written = written_query("GET", ONE, query)
    except RequestMalformed:
        return
    assert written.isascii() and not set(written) & set(" #?/\r\n")
    assert written_query("GET", ONE, written) == written


def test_only_what_is_listed_for_the_route_passes() -> None:
    assert written_query("GET", ONE, "include%5B%5D=a.b&include[]=c&starting_after=1") == urlencode(
        [("include[]", "a.b"), ("include[]", "c"), ("starting_after", "1")]
    )
    assert written_query("DELETE", ONE, "") == ""
    for method, template, query in (
        ("DELETE", ONE, "stream=true"),
        ("POST", ONE + "/cancel", "limit=1"),
        ("GET", ONE + "/input_items", "stream=true"),
        ("GET", ONE, "stream=true" + "&include=a" * 110),
    ):
        with raises_code("request.malformed"):
            written_query(method, template, query)


def test_it_asks_for_the_model_of_the_response_and_costs_nothing() -> None:
    found = stored_request(KEPT, "stream=true", b"")
    assert (found.model, found.stream, found.stored, found.answer.tokens) == ("m", True, False, 0)
    assert not stored_request(KEPT, "stream=false", b"{}").stream
    with raises_code("request.malformed"):
        stored_request(KEPT, "", b"null")


def test_ids_are_kept_of_responses_and_their_items_wherever_they_are_named() -> None:
    stored = StoredResponses()
    keep = keeper_of(stored, KEPT, lambda value: Responses().usage_in(value, streamed=True))
    usage = {"input_tokens": 3, "output_tokens": 4}
    keep({"type": "response.created", "response": {"object": "response", "id": "resp_1", "output": []}})
    assert stored.find("resp_1").tokens == 0
    keep({"type": "response.output_item.done", "item": {"id": "msg_1"}})
    keep({"object": "response", "id": "resp_1", "output": [{"id": "fc_1"}, 7, {"id": None}], "usage": usage})
    assert stored.find("resp_1") == StoredResponse("up", "m", 7)
    assert stored.upstream_of("resp_1", ["msg_1", "fc_1"]) == "up"
    for other in (
        {"object": "response.compaction", "id": "resp_2"},
        {"object": "response.deleted", "id": "resp_3"},
        {"id": "resp_4"},
        {"object": "response", "id": ["resp_5"], "output": {"id": "msg_2"}},
    ):
        keep(other)
    for name in ("resp_2", "resp_3", "resp_4"):
        with raises_code("response.not_found"):
            stored.find(name)
