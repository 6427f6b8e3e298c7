from __future__ import annotations

import json
import os

import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError, ConfigurationError
from affiant.policy.model.token_exchange import ClientAuth, GrantType, TokenExchange
from affiant.secrets.broker.client.messages import (
    BrokerStatus,
    Configuration,
    Grant,
    Limits,
    Resolution,
    ResponseHead,
    UpstreamOutcome,
    UpstreamRequest,
    VaultSettings,
)
from affiant.secrets.injection.body_surface import BodySurface
from affiant.secrets.injection.placeholder import Binding, Endpoint, mint_placeholder
from affiant.secrets.injection.signing_surface import SigningSurface, mint_signing_id
from affiant.secrets.injection.surface import Surface

PLACES = frozenset({Endpoint("a.example", 443), Endpoint("b.example", 8443)})
GRANTS = (
    Grant(Binding("A", mint_placeholder(os.urandom), PLACES), "local:A"),
    Grant(
        Binding("B", mint_placeholder(os.urandom), frozenset(), Surface.injected("X-Key", "k {}")),
        "vault:kv/b#c",
    ),
    Grant(Binding("C", mint_placeholder(os.urandom), PLACES, BodySurface(json="/a/b")), "local:C"),
    Grant(Binding("D", mint_placeholder(os.urandom), PLACES, BodySurface(form="key")), "local:D"),
    Grant(
        Binding("E", mint_placeholder(os.urandom), PLACES, Surface.injected("authorization", "Bearer {}")),
        "local:E",
        exchange=TokenExchange(
            GrantType.CLIENT_CREDENTIALS,
            "https://login.example.test:8443/token",
            client_id="a",
            client_auth=ClientAuth.POST,
            scope="b c",
        ),
    ),
    Grant(Binding("F", mint_signing_id(os.urandom), PLACES, SigningSurface("eu-central-1", "s3")), "local:F"),
)
REQUEST = UpstreamRequest(
    id="7",
    scheme="https",
    host="a.example",
    port=443,
    address="192.0.2.1",
    method="POST",
    target=b"/x",
    headers=((b"X", bytes(range(32, 256))),),
    uses=(("A", "header:authorization"),),
    has_body=True,
)
MESSAGES = [
    Configuration(
        GRANTS,
        roots=("r",),
        system_roots=True,
        local=True,
        vault=VaultSettings("https://v", ("r",), "a", "b"),
    ),
    Configuration(()),
    REQUEST,
    ResponseHead(200, ((b"x", b"\xff"),)),
    UpstreamOutcome(
        1, 2, "d", request_complete=True, spki_sha256="s", redactions=3, status=200, trailers=((b"a", b"b"),)
    ),
    UpstreamOutcome(),
    BrokerStatus(pid=1, uid=2, dumpable=False, memory_locked=True),
    Limits(1, 2, 3),
]


def over_the_wire(value: object) -> object:
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_crosses_unchanged(message) -> None:
    assert type(message).from_json(over_the_wire(message.to_json())) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_member_more_less_or_of_another_type_is_refused(message) -> None:
    kind, members = type(message), over_the_wire(message.to_json())
    with raises_code("broker.protocol"):
        kind.from_json(members | {"x": 1})
    for name in members:
        with raises_code("broker.protocol"):
            kind.from_json({other: members[other] for other in members if other != name})
        if name == "op":
            continue
        with pytest.raises(AffiantError):
            kind.from_json(members | {name: {"strange": 1.5}})
    for other in (None, [], "x", 1):
        with raises_code("broker.protocol"):
            kind.from_json(other)


def test_refusals_cross_as_themselves() -> None:
    status = BrokerStatus(pid=1, uid=2, dumpable=False, memory_locked=True)
    sent = Resolution(
        {"A": "1"}, {"B": ConfigurationError("none", found="B", code="secret.not_found")}, status
    )
    got = Resolution.from_json(over_the_wire(sent.to_json()))
    assert (got.resolved, got.status) == (sent.resolved, sent.status)
    refused = got.refused["B"]
    assert (type(refused), refused.code) == (ConfigurationError, "secret.not_found")
    failed = UpstreamOutcome(refusal=ConfigurationError("none", code="secret.not_found"))
    assert UpstreamOutcome.from_json(over_the_wire(failed.to_json())).error_code == "secret.not_found"


@pytest.mark.parametrize(
    "address", ["a.example", "127.1", "0x7f000001", "2130706433", "", "127.0.0.1:80", "[::1]", "fe80::1%lo"]
)
def test_an_address_is_a_literal(address: str) -> None:
    with raises_code("broker.protocol"):
        UpstreamRequest.from_json(over_the_wire(REQUEST.to_json()) | {"address": address})


@pytest.mark.parametrize(
    "change",
    [
        {"port": -1}, {"port": True}, {"port": "443"}, {"headers": [["a"]]}, {"headers": [["a", "\u0100"]]},
        {"uses": [["A"]]}, {"body": 1}, {"target": 1}, {"headers": [["a", "b"]] * 1001},
    ],
)  # fmt: skip
def test_a_request_of_another_shape_is_refused(change) -> None:
    with raises_code("broker.protocol"):
        UpstreamRequest.from_json(over_the_wire(REQUEST.to_json()) | change)


def test_a_limit_leaves_time() -> None:
    with raises_code("broker.protocol"):
        Limits.from_json({"connect_ms": 0, "head_ms": 1, "idle_ms": 1})
