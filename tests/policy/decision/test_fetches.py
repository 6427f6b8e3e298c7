"""What a model server may fetch for an agent is what the agent could have fetched itself."""

from __future__ import annotations

import pytest

from affiant.policy.canonical.errors import HostRefused
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.fetches import decide_fetch
from affiant.policy.loading.load import load_profiles

PROFILE = b"""
agent_configs:
  closed: {tools: []}
  open:
    tools: []
    network_egress:
      - {host: pictures.example.com, methods: [GET], paths: [/public/**]}
      - {host: tunnel.example.com, tls: passthrough}
      - {host: closed.example.com, tls: passthrough}
      - {deny: closed.example.com, paths: [/private/**]}
      - {host: plain.example.com, scheme: http}
      - {host: counted.example.com, limits: {requests: 3}}
      - {host: both.example.com, limits: {requests: 3}}
      - {host: both.example.com, methods: [GET]}
      - {deny: pictures.example.com, paths: [/public/private/**]}
"""


@pytest.fixture(scope="module")
def policies() -> dict[str, CompiledPolicy]:
    profiles = load_profiles(PROFILE)
    return {name: profiles.profile(name).compiled for name in ("closed", "open")}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://pictures.example.com/public/a.png?size=1", "allowed"),
        ("https://PICTURES.example.com/public/a.png", "allowed"),
        ("http://plain.example.com/", "allowed"),
        ("https://pictures.example.com/other.png", "target_not_listed"),
        ("https://pictures.example.com/public/private/a.png", "egress_denied"),
        ("https://pictures.example.com:8443/public/a.png", "port_not_listed"),
        ("https://plain.example.com/", "port_not_listed"),
        ("https://example.com/public/a.png", "host_not_listed"),
        ("https://pictures.example.com.evil.org/public/a.png", "host_not_listed"),
        ("https://both.example.com/", "allowed"),
        ("https://counted.example.com/", "fetch_not_counted"),
    ],
)
def test_the_egress_rules_decide(policies: dict[str, CompiledPolicy], url: str, reason: str) -> None:
    _, decision = decide_fetch(policies["open"], url)
    assert decision.reason == reason and decision.allowed == (reason == "allowed") and decision.text
    assert decide_fetch(policies["closed"], url)[1].reason == "host_not_listed"


def test_where_the_profile_limits_what_goes_out_nothing_is_fetched() -> None:
    """A fetch carries bytes out as the agent's own requests do, and no session counts it."""
    file = (
        b"agent_configs: {a: {tools: [], network_egress: 'allowed:a.example.com', limits: {bytes_out: 1MiB}}}"
    )
    limited = load_profiles(file).profile("a").compiled
    decision = decide_fetch(limited, "https://a.example.com/?data=1")[1]
    assert (decision.effect, decision.reason) == (Effect.DENY, "fetch_not_counted")
    assert decision.rules == ("egress/0",)
    assert decide_fetch(limited, "https://b.example.com/")[1].reason == "host_not_listed"
    model_calls = load_profiles(file.replace(b"bytes_out: 1MiB", b"requests: 5")).profile("a").compiled
    assert decide_fetch(model_calls, "https://a.example.com/")[1].allowed


def test_the_method_counts(policies: dict[str, CompiledPolicy]) -> None:
    url = "https://pictures.example.com/public/a.png"
    assert decide_fetch(policies["open"], url, "POST")[1].effect is Effect.DENY


def test_what_no_proxy_could_read_is_judged_as_a_connection(policies: dict[str, CompiledPolicy]) -> None:
    """As for the agent itself: of a tunnel that is not inspected, any denial of its host denies all."""
    for method in ("GET", "POST"):
        assert decide_fetch(policies["open"], "https://tunnel.example.com/any", method)[1].allowed
        decision = decide_fetch(policies["open"], "https://closed.example.com/public", method)[1]
        assert decision.reason == "egress_denied"


def test_an_address_is_rejected_whatever_the_profile_says(policies: dict[str, CompiledPolicy]) -> None:
    with pytest.raises(HostRefused):
        decide_fetch(policies["open"], "http://169.254.169.254/latest/meta-data/")
