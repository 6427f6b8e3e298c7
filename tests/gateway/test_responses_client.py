"""The unmodified OpenAI client over the Responses API: against the echo, and against a server that keeps responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from pydantic import BaseModel
from tests.gateway.conftest import serving_gateway
from tests.gateway.responses_upstream import responses_upstream
from tests.gateway.session_client import Gateway, SessionClient
from tests.gateway.test_openai_client import client_of

from affiant.attestation.simulated.served.client import PlatformClient

TOOL = {
    "type": "function",
    "name": "read_file",
    "description": "Read.",
    "parameters": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Said(BaseModel):
    """What a model is to say."""

    word: str


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory, platform_home: Path) -> Iterator[Gateway]:
    """A gateway in front of a server that keeps responses."""
    with (
        responses_upstream() as (upstream, _),
        serving_gateway(
            tmp_path_factory.mktemp("keeping"), platform_home, "--upstream", upstream.url
        ) as running,
    ):
        yield running.gateway


@pytest.fixture
def client(keeping: Gateway, platform: PlatformClient) -> Iterator[openai.OpenAI]:
    with client_of(SessionClient.start(keeping, platform)) as made:
        yield made


@pytest.fixture
def echo(session: SessionClient) -> Iterator[openai.OpenAI]:
    with client_of(session) as made:
        yield made


def test_a_first_script_needs_nothing_configured(echo: openai.OpenAI) -> None:
    made = echo.responses.create(model="affiant-dev-echo", input="hello")
    assert made.output_text == "echo: hello" and made.status == "completed"
    with echo.responses.stream(model="affiant-dev-echo", input="hello there") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(deltas) == stream.get_final_response().output_text == "echo: hello there"


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_is_called_and_its_output_returned(client: openai.OpenAI, *, stream: bool) -> None:
    asked = {"model": "m", "tools": [TOOL], "input": 'call_tool:read_file {"path": "notes.txt"}'}
    if stream:
        with client.responses.stream(**asked) as events:  # type: ignore[arg-type]
            kinds = [event.type for event in events]
            made = events.get_final_response()
        assert "response.function_call_arguments.delta" in kinds and kinds[-1] == "response.completed"
    else:
        made = client.responses.create(**asked)  # type: ignore[call-overload]
    (call,) = made.output
    assert (call.type, call.name, call.arguments) == ("function_call", "read_file", '{"path": "notes.txt"}')
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "42"}
    told = client.responses.create(model="m", previous_response_id=made.id, input=[output])  # type: ignore[list-item]
    assert told.output_text == "the tool said: 42"
    stateless = [{"role": "user", "content": "go"}, call, output]
    assert client.responses.create(model="m", input=stateless, store=False).output_text == told.output_text  # type: ignore[arg-type]


def test_a_structured_answer_is_parsed(client: openai.OpenAI) -> None:
    parsed = client.responses.parse(model="m", input="say it", text_format=Said)
    assert parsed.output_parsed == Said(word="said")


def test_what_the_server_keeps_is_asked_for_and_deleted(client: openai.OpenAI) -> None:
    made = client.responses.create(model="m", input="keep this", metadata={"a": "b"})
    assert client.responses.retrieve(made.id).output_text == made.output_text
    with client.responses.retrieve(made.id, stream=True) as stream:
        assert [event.type for event in stream][-1] == "response.completed"
    (item,) = client.responses.input_items.list(made.id, limit=20, order="desc")
    assert item.type == "message" and item.content[0].text == "keep this"  # type: ignore[union-attr]
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_a_response_in_the_background_is_polled_and_cancelled(client: openai.OpenAI) -> None:
    made = client.responses.create(model="m", input="slowly", background=True)
    assert made.status == "queued"
    assert [client.responses.retrieve(made.id).status for _ in range(2)] == ["queued", "completed"]
    other = client.responses.create(model="m", input="never", background=True)
    assert client.responses.cancel(other.id).status == "cancelled"


def test_a_conversation_is_compacted(client: openai.OpenAI) -> None:
    made = client.responses.compact(model="m", input="a long story")
    assert made.object == "response.compaction" and made.output[0].type == "compaction"


def test_another_sessions_response_is_an_error_of_the_clients_own_kind(
    client: openai.OpenAI, keeping: Gateway, platform: PlatformClient
) -> None:
    made = client.responses.create(model="m", input="mine")
    with client_of(SessionClient.start(keeping, platform)) as other:
        for ask in (
            lambda: other.responses.retrieve(made.id),
            lambda: other.responses.delete(made.id),
            lambda: other.responses.create(model="m", input="go on", previous_response_id=made.id),
        ):
            with pytest.raises(openai.NotFoundError) as refused:
                ask()
            assert refused.value.code == "response.not_found"
    assert client.responses.retrieve(made.id).id == made.id


def test_a_forbidden_tool_is_an_error_of_the_clients_own_kind(client: openai.OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError) as refused:
        client.responses.create(model="m", input="call_tool:rm {}")
    assert refused.value.code == "tool.not_allowed"
    with (
        pytest.raises(openai.APIError, match="tool"),
        client.responses.stream(model="m", input="call_tool:rm {}") as events,
    ):
        list(events)
