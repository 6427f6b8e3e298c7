"""Two upstreams of one gateway that list the same model, and one of them dies."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.inference.test_inference import record_of
from tests.gateway.responses_upstream import responses_upstream
from tests.gateway.session_client import SessionClient
from tests.gateway.upstream_server import Received, Step, completion, scripted_upstream, whole

from affiant.attestation.simulated.served.client import PlatformClient

BODY = b'{"model":"m","messages":[]}'


def serve(received: Received) -> Iterable[Step]:
    if received.head.startswith(b"GET"):
        return whole({"object": "list", "data": [{"id": "m", "object": "model"}]})
    return whole(completion())


def test_requests_for_a_dead_upstreams_model_go_to_the_other_one(
    tmp_path: Path, platform: PlatformClient, platform_home: Path, openings: X25519PrivateKey
) -> None:
    with scripted_upstream(serve) as second, ExitStack() as alive:
        first = alive.enter_context(scripted_upstream(serve))
        asked = ("--upstream", first.url, "--upstream", second.url)
        with serving_gateway(tmp_path, platform_home, *asked) as running:
            session = SessionClient.start(running.gateway, platform, openings=openings)
            assert attempts(session) == ["ok"]
            alive.close()
            assert attempts(session) in (
                ["upstream.unreachable", "ok"],
                ["upstream.cut", "upstream.unreachable", "ok"],
            )
            assert [attempts(session) for _ in range(3)] == [["ok"]] * 3
    assert len(second.received) == 5  # its list, and four requests


def test_what_an_upstream_keeps_is_asked_of_it_alone(
    tmp_path: Path, platform: PlatformClient, platform_home: Path
) -> None:
    with responses_upstream() as (first, _), responses_upstream() as (second, other), ExitStack() as alive:
        other.model = "n"
        asked = ("--upstream", first.url, "--upstream", second.url)
        running = alive.enter_context(serving_gateway(tmp_path, platform_home, *asked))
        session = SessionClient.start(running.gateway, platform)
        made = [
            session.post("/v1/responses", {"model": model, "input": "hi"}).json() for model in ("m", "n", "n")
        ]
        before = len(first.received)
        target = f"/v1/responses/{made[2]['id']}"
        assert session.ask("GET", target, counted=True).json()["id"] == made[2]["id"]
        follows = {"model": "m", "input": "go on", "previous_response_id": made[2]["id"]}
        assert session.post("/v1/responses", follows).status == 200
        assert len(first.received) == before, "the first one lists the model, and does not keep the response"
        item = {"type": "item_reference", "id": made[0]["output"][0]["id"]}
        assert session.post("/v1/responses", {**follows, "input": [item]}).code == "response.not_found"


def attempts(session: SessionClient) -> list[str]:
    """What became of each attempt at an upstream for one request, which is answered."""
    answer = session.chat(BODY)
    assert answer.status == 200
    record = record_of(session, answer)
    assert record.member("res", "end") == "complete"
    return [entry["res"] for entry in record.payload["up"]]
