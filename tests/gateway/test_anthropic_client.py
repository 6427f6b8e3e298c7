"""The unmodified Anthropic client, through a forwarder that adds proofs as a supervisor's proxy does."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest
from anthropic import beta_tool
from tests.gateway.session_client import SessionClient
from tests.gateway.test_openai_client import forwarding

MODEL = "affiant-dev-echo"


@pytest.fixture
def client(session: SessionClient) -> Iterator[anthropic.Anthropic]:
    with forwarding(session) as url, anthropic.Anthropic(base_url=url, api_key="affiant-session") as made:
        yield made


def said(text: str) -> dict:
    return {"model": MODEL, "max_tokens": 64, "messages": [{"role": "user", "content": text}]}


def test_a_message(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(**said("hello"))
    assert (answer.content[0].text, answer.stop_reason) == ("echo: hello", "end_turn")
    assert answer.usage.input_tokens > 0


def test_a_stream_as_events_and_by_the_helper(client: anthropic.Anthropic) -> None:
    kinds = [event.type for event in client.messages.create(**said("hello there"), stream=True)]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    with client.messages.stream(**said("hello there")) as stream:
        assert "".join(stream.text_stream) == "echo: hello there"
        assert stream.get_final_message().usage.output_tokens == 3


def test_a_stream_with_an_inline_receipt_is_read_the_same(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**said("hi"), extra_headers={"Affiant-Receipt": "inline"}) as stream:
        assert stream.get_final_text() == "echo: hi"


@pytest.mark.parametrize("stream", [False, True])
def test_a_loop_of_calls(client: anthropic.Anthropic, *, stream: bool) -> None:
    @beta_tool
    def read_file(path: str) -> str:
        """Read a file."""
        return f"content of {path}"

    asked = said('call_tool:read_file {"path": "a.txt"}')
    runner = client.beta.messages.tool_runner(**asked, tools=[read_file], stream=stream)
    if stream:
        texts = [turn.get_final_message().content[-1] for turn in runner]
    else:
        texts = [turn.content[-1] for turn in runner]
    assert [block.type for block in texts] == ["tool_use", "text"]
    assert texts[-1].text == "the tool said: content of a.txt"


def test_a_count(client: anthropic.Anthropic) -> None:
    counted = client.messages.count_tokens(model=MODEL, messages=said("hello")["messages"])
    assert counted.input_tokens > 0


def test_models(client: anthropic.Anthropic) -> None:
    assert [each.id for each in client.models.list()] == [MODEL]


def test_betas_and_thinking_go_through(client: anthropic.Anthropic) -> None:
    answer = client.beta.messages.create(
        **said("hi"), betas=["pdfs-2024-09-25", "unknown-2030-01-01"], thinking={"type": "disabled"}
    )
    assert answer.content[0].text == "echo: hi"


def test_a_forbidden_tool_is_an_error_of_the_clients_own_kind(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.PermissionDeniedError) as refused:
        client.messages.create(**said("call_tool:rm {}"))
    assert refused.value.body["error"]["code"] == "tool.not_allowed"  # type: ignore[index]


def test_a_forbidden_tool_ends_a_stream_with_an_error(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.APIStatusError, match="tool"):
        list(client.messages.create(**said("call_tool:rm {}"), stream=True))


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"model": "a b"}, anthropic.BadRequestError),
        ({"extra_body": {"thread": {"type": "create"}}}, anthropic.PermissionDeniedError),
        ({"extra_headers": {"anthropic-version": "2024-01-01"}}, anthropic.BadRequestError),
    ],
)
def test_a_refusal_is_of_the_clients_kind_and_is_not_repeated(
    client: anthropic.Anthropic, session: SessionClient, changes: dict, kind: type[Exception]
) -> None:
    before = session.cseq
    with pytest.raises(kind):
        client.messages.create(**{**said("hi"), **changes})
    assert session.cseq == before + 1


def test_what_is_not_served_is_an_error_of_the_clients_own_kind(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError, match="POST /v1/messages/count_tokens") as refused:
        client.messages.batches.list()
    assert refused.value.type == "not_found_error"


@pytest.mark.anyio
async def test_the_asynchronous_client(session: SessionClient) -> None:
    with forwarding(session) as url:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="affiant-session") as client:
            answer = await client.messages.create(**said("hello"))
            assert answer.content[0].text == "echo: hello"
            async with client.messages.stream(**said("hello there")) as stream:
                assert [text async for text in stream.text_stream][0] == "echo:"
                assert (await stream.get_final_message()).stop_reason == "end_turn"
