"""One table says which routes an agent has; what is not in it has an error of the API that its path belongs to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.schema.agent_routes import AGENT_ROUTES, not_served_body, route_of

RECEIPT = "A" * 22


@pytest.mark.parametrize("route", AGENT_ROUTES, ids=lambda route: route.name)
def test_a_route_is_found_by_its_own_path(route) -> None:
    path = (
        route.template.replace("{model}", "org/model-1.2:free")
        .replace("{receipt}", RECEIPT)
        .replace("{response}", "resp_1")
    )
    assert route_of(route.method, path) is route
    assert route_of("TRACE", path) is None


def test_every_route_to_an_upstream_is_counted() -> None:
    assert all(route.counted for route in AGENT_ROUTES if route.dialect is not None)
    assert len({route.name for route in AGENT_ROUTES}) == len(AGENT_ROUTES)


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/models/", "/v1/models//a", "/v1/models/a//b", "/v1/models/a%2Fb", "/v1/models/a/b/c/d/e"),
        *(f"/v1/models/{'m' * 129}", "/v1/models/a\n", "/v1/receipts/short", f"/v1/receipts/{RECEIPT}/x"),
        *("/v1/chat/completions/", "/V1/models", "v1/models", "", "/"),
        *(
            "/v1/responses/",
            "/v1/responses/..",
            "/v1/responses/a/b",
            "/v1/responses/a%2Fcancel",
            "/v1/responses//cancel",
        ),
    ],
)
def test_a_path_that_is_almost_a_route_is_none(path: str) -> None:
    assert route_of("GET", path) is None and route_of("POST", path) is None


@thorough(300)
@given(method=st.text(max_size=20), path=st.text(max_size=400))
def test_an_error_about_any_path_is_ascii_json_of_bounded_length(method: str, path: str) -> None:
    body = not_served_body(method, path, code="gateway_path")
    assert json.loads(body)["error"]["type"] == "not_found_error"
    assert body.isascii() and len(body) < 4096


@pytest.mark.parametrize(
    ("path", "anthropic"), [("/v1/messages/x", True), ("/v1/complete", True), ("/v1/files", False)]
)
def test_an_error_has_the_form_of_the_api_that_the_path_belongs_to(path: str, *, anthropic: bool) -> None:
    document = json.loads(not_served_body("POST", path, code="gateway_path", record="r"))
    assert document["record"] == "r"
    assert ("type" in document) is anthropic
    assert ("code" in document["error"]) is not anthropic
    assert "POST /v1/chat/completions" in document["error"]["message"]
