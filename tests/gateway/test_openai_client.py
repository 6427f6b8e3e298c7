"""The unmodified OpenAI client, through a forwarder that adds proofs as a supervisor's proxy does."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import openai
import pytest
from tests.gateway.session_client import SessionClient

from affiant.attestation.records.proof import FORWARDED_HEADERS, PROOF_HEADER
from affiant.attestation.schema.agent_routes import route_of


class Forwarder(http.server.BaseHTTPRequestHandler):
    """Adds the proof, strips the agent's credential, passes bytes as they come."""

    session: SessionClient
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        route = route_of(self.command, self.path.partition("?")[0])
        counted = route is not None and route.counted
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        content_type = self.headers.get("Content-Type") if body else None
        forwarded = {name: self.headers[name] for name in FORWARDED_HEADERS if name in self.headers}
        proof = self.session.proof(
            self.command, self.path, body, content_type=content_type, forwarded=forwarded, counted=counted
        )
        headers = {
            PROOF_HEADER: proof,
            **forwarded,
            **({"Content-Type": content_type} if content_type else {}),
        }
        connection = self.session.gateway.connect()
        try:
            connection.request(self.command, self.path, body or None, headers)
            with connection.getresponse() as response:
                self.send_response_only(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.end_headers()
                while data := response.read1(65536):
                    self.wfile.write(data)
                    self.wfile.flush()
        finally:
            connection.close()
        self.close_connection = True

    do_POST = do_DELETE = do_GET


@contextmanager
def forwarding(session: SessionClient) -> Iterator[str]:
    """The address at which an agent in ``session`` has the gateway."""
    handler = type("OfSession", (Forwarder,), {"session": session})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(5)


@contextmanager
def client_of(session: SessionClient) -> Iterator[openai.OpenAI]:
    """The client of an agent in ``session``."""
    with (
        forwarding(session) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="affiant-session") as made,
    ):
        yield made


@pytest.fixture
def client(session: SessionClient) -> Iterator[openai.OpenAI]:
    with client_of(session) as made:
        yield made


def ask(client: openai.OpenAI, text: str, **more: object) -> object:
    message = {"role": "user", "content": text}
    return client.chat.completions.create(model="affiant-dev-echo", messages=[message], **more)  # type: ignore[call-overload]


def test_a_completion(client: openai.OpenAI) -> None:
    answer = ask(client, "hello")
    assert answer.choices[0].message.content == "echo: hello"  # type: ignore[attr-defined]


def test_a_stream(client: openai.OpenAI) -> None:
    parts = [chunk.choices[0].delta.content or "" for chunk in ask(client, "hello there", stream=True)]  # type: ignore[attr-defined]
    assert "".join(parts) == "echo: hello there" and len(parts) > 3


def test_a_stream_with_an_inline_receipt_is_read_the_same(client: openai.OpenAI) -> None:
    stream = ask(client, "hi", stream=True, extra_headers={"Affiant-Receipt": "inline"})
    assert "".join(c.choices[0].delta.content or "" for c in stream) == "echo: hi"  # type: ignore[attr-defined]


def test_models(client: openai.OpenAI) -> None:
    (listed,) = client.models.list()
    assert listed.id == "affiant-dev-echo" and client.models.retrieve(listed.id) == listed
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("other")
    assert refused.value.code == "model.not_found"


def test_what_is_not_served_is_an_error_of_the_clients_own_kind(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="the gateway serves POST /v1/chat/completions"):
        client.files.list()


def test_a_forbidden_tool_is_an_error_of_the_clients_own_kind(client: openai.OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError) as refused:
        ask(client, "call_tool:rm {}")
    assert refused.value.code == "tool.not_allowed"


def test_a_forbidden_tool_ends_a_stream_with_an_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIError, match="tool"):
        list(ask(client, "call_tool:rm {}", stream=True))  # type: ignore[call-overload]


def test_a_refusal_is_not_repeated_by_the_client(client: openai.OpenAI, session: SessionClient) -> None:
    before = session.cseq
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="a b", messages=[])
    assert session.cseq == before + 1
