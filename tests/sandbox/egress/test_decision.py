"""The decision about one request: what comes out is what is sent, and what cannot be decided is denied."""

from __future__ import annotations

import os

import pytest

from affiant.policy.loading.load import load_profiles
from affiant.policy.model.profile import TLSMode
from affiant.sandbox.egress.decision import as_approved, judge_connection, judge_request, reference_of
from affiant.sandbox.egress.http.errors import EgressDenied
from affiant.sandbox.egress.http.origin import Origin
from affiant.sandbox.egress.http.request_head import RequestHead, parse_head
from affiant.secrets.injection.placeholder import Binding, Endpoint, PlaceholderTable, mint_placeholder

ORIGIN = Origin("https", "api.example.com", 443)
POLICY = (
    load_profiles(
        b"""
agent_configs:
  dev:
    network_egress:
      - {host: api.example.com, methods: [GET], paths: ["/v1/**"]}
      - {host: raw.example.com, tls: passthrough}
    secrets_access: [TOKEN]
"""
    )
    .profile("dev")
    .compiled
)
NONE = PlaceholderTable(())


def head(method: str = "GET", *fields: str) -> RequestHead:
    return parse_head("\r\n".join([f"{method} /v1/a HTTP/1.1", "Host: API.example.com", *fields]).encode())


def judged(given: RequestHead, target: str = "/v1/a"):
    return judge_request(POLICY, NONE, origin=ORIGIN, head=given, target=target)


def test_headers_of_this_hop_and_about_the_agent_are_left_out() -> None:
    fields = ("Proxy-Authorization: x", "Proxy-Connection: keep-alive", "Via: 1.1 x", "X-Forwarded-For: 10.0.0.1",
              "TE: trailers", "X-Own: kept", "Forwarded: for=x", "Connection: keep-alive")  # fmt: skip
    assert judged(head("GET", *fields)).headers == ((b"Host", b"api.example.com"), (b"X-Own", b"kept"))


def test_what_asks_for_a_part_is_not_shown_after_a_restriction_has_taken_the_last_secret_either() -> None:
    """The broker holds its value still, and leaves the header out."""
    binding = Binding("TOKEN", mint_placeholder(os.urandom), frozenset({Endpoint("api.example.com", 443)}))
    table = PlaceholderTable([binding])
    asked = judged(head("GET", "Range: bytes=0-9", "X-Own: kept"))
    for held in (table, table.narrowed_to({})):
        assert as_approved(asked, held).headers[1:] == ((b"X-Own", b"kept"),)
    assert as_approved(asked, NONE).headers[1:] == ((b"Range", b"bytes=0-9"), (b"X-Own", b"kept"))


def test_the_framing_is_written_anew() -> None:
    assert judged(head("GET", "Content-Length: 0")).headers[1] == (b"Content-Length", b"0")
    chunked = judged(head("GET", "transfer-encoding: Chunked"))
    assert chunked.headers[1] == (b"Transfer-Encoding", b"chunked")
    assert chunked.length is None


@pytest.mark.parametrize(
    ("method", "target", "reason"),
    [
        ("POST", "/v1/a", "method_not_listed"),
        ("GET", "/v2", "target_not_listed"),
        ("GET", "/v1", "target_not_listed"),
    ],
)
def test_a_denial_says_its_reason(method: str, target: str, reason: str) -> None:
    with pytest.raises(EgressDenied) as denied:
        judged(head(method), target)
    assert denied.value.reason == reason


def test_a_connection_is_read_unless_every_rule_says_otherwise() -> None:
    assert judge_connection(POLICY, ORIGIN)[1] is TLSMode.INSPECT
    assert judge_connection(POLICY, Origin("https", "raw.example.com", 443))[1] is TLSMode.PASSTHROUGH
    with pytest.raises(EgressDenied):
        judge_connection(POLICY, Origin("https", "other.example.com", 443))


def test_L4_a_decision_that_fails_denies() -> None:
    class Broken:
        def decide_egress(self, **facts):
            raise RuntimeError("a defect")

    for ask in (
        lambda: judge_connection(Broken(), ORIGIN),
        lambda: judge_request(Broken(), NONE, origin=ORIGIN, head=head(), target="/v1/a"),
    ):
        with pytest.raises(EgressDenied) as denied:
            ask()
        assert denied.value.reason == "policy_failed"


def test_a_secret_without_a_place_of_its_own_is_kept_under_its_name() -> None:
    (grant,) = POLICY.secret_grants()
    assert reference_of(grant) == "local:TOKEN"
