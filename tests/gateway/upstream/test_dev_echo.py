"""The embedded upstream answers from the prompt alone, in the API's own forms."""

from __future__ import annotations

import json
import re

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from affiant.attestation.statements.gateway_config import DEV_ECHO
from affiant.gateway.upstream.dev_echo import MODEL, answer_to, complete, message, message_stream, stream
from affiant.gateway.upstream.dev_echo_responses import respond, respond_stream
from affiant.gateway.upstream.http1 import Timeouts
from affiant.gateway.upstream.openai_upstream import Credentials, make_upstream, read_whole

RAW_EVENT = TypeAdapter(RawMessageStreamEvent)


def request(text: str, role: str = "user", **more: object) -> dict:
    return {"model": MODEL, "messages": [{"role": role, "content": text}], **more}


def test_the_same_request_gives_the_same_bytes() -> None:
    assert complete(request("hi")) == complete(request("hi")) != complete(request("ho"))
    assert list(stream(request("hi"))) == list(stream(request("hi")))


@pytest.mark.parametrize(
    "text", ["hi", "", "call_tool:read_file", 'x call_tool:a {"b": [1]}', "é\n\n data: x"]
)
def test_answers_have_the_apis_form(text: str) -> None:
    ChatCompletion.model_validate_json(complete(request(text)), strict=False)
    events = list(stream(request(text, stream_options={"include_usage": True})))
    assert events[-1] == b"data: [DONE]\n\n"
    for event in events[:-1]:
        ChatCompletionChunk.model_validate_json(event.removeprefix(b"data: "))


def test_a_stream_says_what_the_whole_answer_says() -> None:
    text = "several words\n and lines é"
    deltas = [json.loads(e[6:])["choices"][0]["delta"] for e in list(stream(request(text)))[:-1]]
    assert "".join(d.get("content") or "" for d in deltas) == f"echo: {text}"


@pytest.mark.parametrize(
    "text", ["hi", "", "call_tool:read_file", 'x call_tool:a {"b": [1]}', "é\n\n data: x"]
)
def test_messages_have_the_apis_form_and_their_streams_say_the_same(text: str) -> None:
    whole = Message.model_validate_json(message(request(text)), strict=False)
    snapshot, buffers = None, {}
    for event in message_stream(request(text)):
        name, data = re.fullmatch(rb"event: (\w+)\ndata: (.*)\n\n", event, re.DOTALL).groups()
        value = RAW_EVENT.validate_json(data)
        assert value.type == name.decode()
        snapshot = accumulate_event(event=value, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    assert snapshot.to_dict(exclude_none=True) == whole.to_dict(exclude_none=True)


def test_a_result_of_a_tool_is_answered_in_messages_too() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "42"}]}
    (block,) = json.loads(message({"messages": [{"role": "user", "content": [result]}]}))["content"]
    assert block["text"] == "the tool said: 42"


def test_a_prompt_can_ask_for_a_tool_call_and_for_its_result() -> None:
    call = json.loads(complete(request('call_tool:read_file {"path": "x"}')))["choices"][0]
    assert call["finish_reason"] == "tool_calls"
    assert call["message"]["tool_calls"][0]["function"] == {"name": "read_file", "arguments": '{"path": "x"}'}
    said = json.loads(complete(request("42", role="tool")))["choices"][0]["message"]["content"]
    assert said == "the tool said: 42"


def test_parts_of_a_message_are_read() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    value = json.loads(complete({"model": MODEL, "messages": [{"role": "user", "content": parts}]}))
    assert value["choices"][0]["message"]["content"] == "echo: ab"


@pytest.mark.anyio
@pytest.mark.parametrize(("body", "status"), [(b"nonsense", 400), (b"[]", 400), (b"{}", 200)])
async def test_it_is_reached_without_a_port(body: bytes, status: int) -> None:
    upstream = make_upstream(DEV_ECHO, Credentials(), timeouts=Timeouts())
    assert await upstream.models() == (MODEL,)
    attempts: list = []
    answer = await upstream.request("POST", "/chat/completions", body, attempts=attempts, accept=b"x/y")
    assert answer.status == status
    assert json.loads(await read_whole(answer))
    assert [(a.id, a.bind, a.result) for a in attempts] == [("affiant-dev-echo", "none", "ok")]
    await upstream.close()


@pytest.mark.parametrize(
    "text", ["hi", "", "call_tool:read_file", 'x call_tool:a {"b": [1]}', "é\n\n data: x"]
)
def test_responses_have_the_apis_form(text: str) -> None:
    asked = {"model": MODEL, "input": [{"role": "user", "content": text}]}
    whole = respond(asked, answer_to, MODEL)
    assert whole == respond(asked, answer_to, MODEL)
    Response.model_validate_json(whole)
    events = list(respond_stream(asked, answer_to, MODEL))
    values = [json.loads(event.partition(b"data: ")[2]) for event in events]
    for number, value in enumerate(values):
        TypeAdapter(ResponseStreamEvent).validate_python(value)
        assert value["sequence_number"] == number
    assert values[-1]["response"] == json.loads(whole)
    deltas = "".join(value["delta"] for value in values if "delta" in value)
    (item,) = values[-1]["response"]["output"]
    assert deltas == (item.get("arguments") or item["content"][0]["text"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hi", "echo: hi"),
        (
            [{"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]}],
            "echo: a",
        ),
        ([{"type": "function_call_output", "call_id": "c", "output": "42"}], "the tool said: 42"),
        ([], "echo: "),
        (None, "echo: "),
        ([7], "echo: "),
    ],
)
def test_a_response_is_to_what_was_said_last(given: object, said: str) -> None:
    whole = json.loads(respond({"model": MODEL, "input": given}, answer_to, MODEL))
    assert whole["output"][0]["content"][0]["text"] == said
