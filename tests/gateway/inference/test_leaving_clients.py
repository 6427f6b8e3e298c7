"""A client that leaves is noticed at once, in each phase of its request: one record says so, and nothing goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.conftest import serving_gateway
from tests.gateway.inference.test_inference import records_of
from tests.gateway.leaving import NEXT, PHASES, Phase, Place, begin, body_of, place_of
from tests.gateway.session_client import SessionClient
from tests.gateway.test_stalled_clients import until
from tests.gateway.upstream_server import scripted_upstream

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.simulated.served.client import PlatformClient


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, platform: PlatformClient, platform_home: Path
) -> Iterator[Place]:
    with place_of(tmp_path_factory.mktemp("leaving"), platform, platform_home) as made:
        yield made


@pytest.mark.parametrize("name", PHASES)
def test_a_client_that_leaves_ends_its_request_at_once(
    place: Place, openings: X25519PrivateKey, name: str
) -> None:
    phase = PHASES[name]
    profile = "agent_configs: {tester: {" + place.profile.replace("\n", ", ") + "}}"
    session = SessionClient.start(
        place.running.gateway, place.platform, profile=profile.encode(), openings=openings
    )
    with place.during(phase):
        connection, read = begin(session, body_of(phase), part=phase.part), b""
        if phase.members.get("stream"):
            read = connection.getresponse().read1(65536)
        until(lambda: phase.is_reached(place, read))
        connection.close()
        until(lambda: bool(ended(session, openings)))
    (record,) = ended(session, openings)
    assert (record.kind, record.member("res", "end")) == (phase.kind, "client_abort")
    assert record.member("agt", "cseq") == (None if phase.part else 0)
    assert record.member("rsn") == ("request.abandoned" if phase.kind == "refusal" else None)
    assert record.disclosed.get("res.len") == len(read)
    assert session.say(NEXT).status == 200


def ended(session: SessionClient, openings: X25519PrivateKey) -> list[VerifiedReceipt]:
    """The records of requests."""
    return [each for each in records_of(session, openings) if each.member("res") is not None]


def test_a_client_that_leaves_with_the_last_byte_of_its_request_has_its_counter_in_the_record(
    place: Place, openings: X25519PrivateKey
) -> None:
    session = SessionClient.start(place.running.gateway, place.platform, openings=openings)
    for _ in range(10):
        begin(session, body_of(Phase())).close()
    until(lambda: len(ended(session, openings)) == 10)
    found = ended(session, openings)
    assert {each.member("res", "end") for each in found} == {"client_abort"}
    assert sorted(each.member("agt", "cseq") for each in found) == list(range(10))


def test_a_client_that_leaves_while_the_upstreams_list_their_models_waits_for_none_of_them(
    tmp_path: Path, platform: PlatformClient, platform_home: Path, openings: X25519PrivateKey
) -> None:
    with scripted_upstream(lambda _: ()) as silent:
        options = [option for _ in range(2) for option in ("--upstream", silent.url)]
        with serving_gateway(tmp_path, platform_home, *options) as running:
            session = SessionClient.start(running.gateway, platform, openings=openings)
            connection = begin(session, body_of(Phase()))
            until(lambda: len(silent.received) == 1)
            connection.close()
            assert silent.ended.acquire(timeout=20), "the upstream's connection goes on"
            until(lambda: bool(ended(session, openings)))
            (record,) = ended(session, openings)
    assert (record.member("rsn"), record.member("res", "end")) == ("request.abandoned", "client_abort")
    assert (record.member("agt", "cseq"), len(silent.received)) == (0, 1)
