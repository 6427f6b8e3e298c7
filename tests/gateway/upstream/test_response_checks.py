"""An upstream that gives the gateway's key back: no spelling of it reaches the agent, in body, event or header."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.inference.test_inference import DONE, event, record_of
from tests.gateway.session_client import SessionClient
from tests.gateway.upstream_server import (
    ScriptedUpstream,
    Step,
    completion,
    scripted_upstream,
    streamed,
    whole,
)
from tests.raising import raises_code

from affiant.attestation.simulated.served.client import PlatformClient
from affiant.gateway.process.launch import UpstreamChoice, upstream_configs
from affiant.gateway.upstream.openai_upstream import Credentials
from affiant.gateway.upstream.response_checks import UpstreamKeyRedaction
from affiant.secrets.names.value import SecretValue

KEY = b"sk-gateway-5f2c9a77e1b04d"
BASIC = base64.b64encode(b"user:" + KEY)


@pytest.fixture(scope="module")
def keyed(
    platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[InProcess, ScriptedUpstream]]:
    with scripted_upstream(lambda _: ()) as upstream:
        upstream.keep = False
        configs = upstream_configs([UpstreamChoice(upstream.url)])
        credentials = {configs[0].id: Credentials(SecretValue(KEY))}
        store = tmp_path_factory.mktemp("keyed") / "store"
        with in_process(platform, store, upstreams=configs, credentials=credentials, drain_s=1) as gateway:
            yield gateway, upstream


@pytest.fixture
def session(
    keyed: tuple[InProcess, ScriptedUpstream], platform: PlatformClient, openings: X25519PrivateKey
) -> SessionClient:
    return SessionClient.start(keyed[0], platform, openings=openings)


ECHOES: dict[str, Sequence[Step]] = {
    "an answer": whole(completion(KEY.decode())),
    "an error of its own": whole({"error": {"message": f"bad {KEY.decode()}"}}, status="429 Slow"),
    "base64": whole(completion(BASIC.decode())),
    "a media type": whole(b"{}", content_type=f"text/{KEY.decode()}"),
    "a content encoding": whole(b"{}", content_encoding=KEY.decode()),
}


@pytest.mark.parametrize("name", ECHOES)
def test_an_answer_with_the_gateways_key_is_refused(
    keyed: tuple[InProcess, ScriptedUpstream], session: SessionClient, name: str
) -> None:
    keyed[1].script = lambda _: ECHOES[name]
    answer = session.chat({"model": "m", "messages": []})
    assert (answer.status, answer.code) == (502, "upstream.answer")
    assert KEY not in answer.body and BASIC not in answer.body
    assert record_of(session, answer).member("res", "end") == "upstream_abort"


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_stream_ends_before_the_event_with_the_gateways_key(
    keyed: tuple[InProcess, ScriptedUpstream], session: SessionClient, cut: int
) -> None:
    bad = event(KEY.decode())
    keyed[1].script = lambda _: streamed(event("one"), bad[:cut], 0.02, bad[cut:], event("two"), DONE)
    answer = session.chat({"model": "m", "messages": [], "stream": True})
    assert answer.body.startswith(event("one")) and KEY not in answer.body and DONE not in answer.body
    last = json.loads(answer.body.removeprefix(event("one")).removeprefix(b"data: "))
    assert last["error"]["code"] == "upstream.answer"
    assert record_of(session, answer).member("res", "end") == "upstream_abort"


def test_honest_answers_pass_byte_for_byte(
    keyed: tuple[InProcess, ScriptedUpstream], session: SessionClient
) -> None:
    keyed[1].script = lambda _: whole(completion(KEY[:-1].decode()))
    assert session.chat({"model": "m", "messages": []}).json() == completion(KEY[:-1].decode())
    keyed[1].script = lambda _: streamed(event("one"), event(KEY[:-1].decode()), DONE)
    answer = session.chat({"model": "m", "messages": [], "stream": True})
    assert answer.body == event("one") + event(KEY[:-1].decode()) + DONE
    assert keyed[1].received[-1].headers["authorization"] == "Bearer " + KEY.decode()


def test_a_list_of_models_with_the_gateways_key_is_refused(
    keyed: tuple[InProcess, ScriptedUpstream], session: SessionClient
) -> None:
    keyed[1].script = lambda _: whole({"data": [{"id": KEY.decode()}]})
    answer = session.ask("GET", "/v1/models")
    assert (answer.status, answer.code) == (502, "upstream.answer") and KEY not in answer.body


def test_every_part_is_looked_at() -> None:
    guard = UpstreamKeyRedaction(SecretValue(KEY))
    guard.require_absent(b"", b"x" * 100)
    with raises_code("upstream.answer") as refused:
        guard.require_absent(b"x", b"." + KEY + b".")
    assert KEY.decode() not in str(refused.value)
    UpstreamKeyRedaction(None).require_absent(KEY)
