"""No spelling that some reader takes for a tool call gets past the filter, and no real upstream's answer is refused."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.gateway.dialects.answers import judged, judged_error
from tests.properties import thorough
from tests.raising import raises_code

from affiant.errors import AffiantError
from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.relay import Relay
from affiant.gateway.dialects.strict_json import fold
from affiant.policy.decision.decide import Decision, denied, granted

ALLOWED = {"read_file", "get_weather"}

RULES = ("tools/0",)


def allowed(name: str, _arguments: str | None = None) -> Decision:
    return granted(RULES, ask=False) if name in ALLOWED else denied("tool_not_listed")


DONE = b"data: [DONE]\n\n"
CALL = (
    '{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"x","type":"function",'
    '"function":{"name":"evil","arguments":"{}"}}]},"finish_reason":null}'
)
EVENT = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[' + CALL + "]}"
LISTED = EVENT.replace("evil", "read_file")
WHOLE = EVENT.replace('"delta"', '"message"').replace(".chunk", "").replace("null", '"tool_calls"')


def streamed(data: bytes) -> bytes:
    """What of a stream goes on to the agent."""
    relay, passed = Relay(Chat(), allowed), b""
    for step in (relay.feed(data), *(() if DONE in data else (relay.feed(DONE),))):
        passed += b"".join(step.events) + step.terminal
    return passed


def sse(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def said(*spellings: str) -> str:
    """An event with a forbidden call, where each member's name is spelled as told."""
    text = EVENT
    for spelling in spellings:
        exact, _, other = spelling.partition(">")
        text = text.replace(f'"{exact}"', json.dumps(other, ensure_ascii=False))
    return text


SPELLINGS = [
    said(one)
    for one in (
        "choices>Choices", "choices>CHOICES", "choices>cho\u0131ces", "choices>choice\u017f", "choices>choices\0",
        "choices>choices ", "choices>\ufeffchoices", "choices>\uff43hoices", "delta>Delta", "delta>DELTA",
        "tool_calls>Tool_Calls", "tool_calls>toolCalls", "tool_calls>ToolCalls", "tool_calls>tool-calls",
        "tool_calls>tool_calls\0x", "tool_calls>tool_\u200bcalls", "function>Function", "name>Name", "name>NAME",
        "type>Type", "index>Index", "id>ID", "arguments>Arguments",
    )
] + [  # a member twice, in two spellings: some readers take the last, some the first
    EVENT.replace('"name":"evil"', '"Name":"evil","name":"read_file"'),
    EVENT.replace('"name":"evil"', '"name":"read_file","NAME":"evil"'),
    LISTED.replace('"function":{', '"Function":{"name":"evil"},"function":{'),
    LISTED.replace('"choices"', '"Choices":[' + CALL + '],"choices"'),
]  # fmt: skip
PLACES = [
    '{"choices":[' + EVENT + "]}",
    '{"choices":[],"x":' + EVENT + "}",
    '{"choices":[],"x":{"y":[{"toolCalls":[{"function":{"name":"evil"}}]}]}}',
    '{"choices":[{"index":0,"tool_calls":[{"function":{"name":"evil"}}]}]}',
    '{"message":{"role":"assistant","tool_calls":[{"function":{"name":"evil","arguments":{}}}]},"done":true}',
    '{"choices":[],"output":[{"type":"function_call","name":"evil","arguments":"{}","call_id":"c"}]}',
    '{"choices":[],"output":[{"type":"custom_tool_call","name":"evil","input":"x"}]}',
    '{"choices":[],"content":[{"type":"tool_use","id":"t","name":"evil","input":{}}]}',
    '{"choices":[],"content":[{"Type":"Tool_Use","id":"t","name":"evil","input":{}}]}',
    '{"choices":[{"index":0,"delta":{"content":[{"type":"tool_use","name":"evil","input":{}}]}}]}',
    '{"output":{"message":{"content":[{"toolUse":{"name":"evil","input":{}}}]}}}',
    '{"candidates":[{"content":{"parts":[{"functionCall":{"name":"evil","args":{}}}]}}]}',
    '{"choices":[{"index":0,"delta":{"audio":{"tool_calls":[{"function":{"name":"evil"}}]}}}]}',
    '{"choices":{"0":' + CALL + "}}",
    '{"choices":[[' + CALL + "]]}",
    '{"choices":[{"index":0,"delta":[{"tool_calls":[{"function":{"name":"evil"}}]}]}]}',
    '{"choices":[{"index":0,"delta":{"tool_calls":{"0":{"function":{"name":"evil"}}}}}]}',
    '{"choices":[{"index":0,"delta":{"tool_calls":[[{"function":{"name":"evil"}}]]}}]}',
    LISTED.replace('"function":{"name":"read_file","arguments":"{}"}', '"function":[{"name":"evil"}]'),
    LISTED.replace('"name":"read_file"', '"name":["evil"]'),
    LISTED.replace('"name":"read_file"', '"name":{"0":"evil"}'),
    LISTED.replace('"arguments":"{}"', '"arguments":{"a":1}'),
    LISTED.replace('"function":{', '"name":"evil","function":{'),
    LISTED.replace('"function":{', '"name":"get_weather","function":{'),
    LISTED.replace('"function":{', '"custom":{"name":"evil","input":""},"function":{'),
    LISTED.replace('"type":"function"', '"type":"custom"'),
    LISTED.replace('"tool_calls":[{"index":0', '"tool_calls":[{"index":"0"'),
    LISTED.replace('"tool_calls":[{"index":0', '"tool_calls":[{"index":-1'),
    LISTED.replace('"tool_calls":[{"index":0', '"tool_calls":[{"index":0.5'),
    LISTED.replace('"tool_calls":[{"index":0', '"tool_calls":[{"index":' + "9" * 30),
    LISTED.replace('"tool_calls":[{"index":0', '"tool_calls":[{"index":true'),
    '{"choices":[{"index":0,"delta":{"function_call":"evil"}}]}',
    '{"choices":[{"index":0,"delta":{"Function_Call":{"name":"evil","arguments":"{}"}}}]}',
]
UNREADABLE = [
    "not json",
    EVENT[:-1],
    EVENT + EVENT,
    "[" + EVENT + "]",
    "." + EVENT,
    "\x0c" + EVENT,
    "\u00a0" + EVENT,
    "\ufeff" + EVENT,
    '"' + "x" * 8 + '"',
    EVENT.replace('"id"', '"z":NaN,"id"'),
    EVENT.replace('"id"', '"z":' + "9" * 5000 + ',"id"'),
    EVENT.replace('"id"', '"z":1,"z":2,"id"'),
    EVENT.replace('"id"', '"choices":[],"id"'),
    EVENT.replace('"id"', '"z":"a\tb","id"'),
    EVENT.replace('"id"', '"z":' + "[" * 20000 + "]" * 20000 + ',"id"'),
]
LINES = [
    EVENT.encode() + b"\n\n",
    b"Data: " + EVENT.encode() + b"\n\n",
    b"DATA:" + EVENT.encode() + b"\n\n",
    b" data: " + EVENT.encode() + b"\n\n",
    b"data : " + EVENT.encode() + b"\n\n",
    b"\tdata: " + EVENT.encode() + b"\n\n",
    b"\0data: " + EVENT.encode() + b"\n\n",
    b"\xef\xbb\xbfdata: " + EVENT.encode() + b"\n\n",
    b"event: " + EVENT.encode() + b"\n\n",
    b"id: " + EVENT.encode() + b"\ndata: {}\n\n",
    b"retry: " + EVENT.encode() + b"\n\n",
    b"x-data: " + EVENT.encode() + b"\n\n",
    b": hi\x0cdata: " + EVENT.encode() + b"\n\n",
    b": hi\x1edata: " + EVENT.encode() + b"\n\n",
    b": hi\xc2\x85data: " + EVENT.encode() + b"\n\n",
    b": hi\x85data: " + EVENT.encode() + b"\n\n",
    b": hi\xe2\x80\xa8data: " + EVENT.encode() + b"\n\n",
    b"data: [DONE]\ndata: " + EVENT.encode() + b"\n\n",
    b"data: [DONE] " + EVENT.encode() + b"\n\n",
    EVENT.encode() + b"\ndata: [DONE]\n\n",
    b"Data: " + EVENT.encode() + b"\ndata: [DONE]\n\n",
    b'data: {"x":[\ndata: ' + EVENT.encode() + b"\ndata: ]}\n\n",
]


@pytest.mark.parametrize("data", [*map(sse, SPELLINGS + PLACES + UNREADABLE), *LINES])
def test_no_other_reading_of_a_stream_goes_on(data: bytes) -> None:
    with raises_code("upstream.answer", "upstream.unlisted", "tool.not_allowed"):
        streamed(data)


@pytest.mark.parametrize("text", SPELLINGS + PLACES + UNREADABLE + [EVENT, WHOLE])
def test_no_other_reading_of_a_whole_answer_goes_on(text: str) -> None:
    for body in (
        text.encode(),
        text.replace('"delta"', '"message"').encode(),
        b"\xef\xbb\xbf" + text.encode(),
    ):
        with raises_code("upstream.answer", "upstream.unlisted", "tool.not_allowed"):
            judged(body, allowed)


@pytest.mark.parametrize(
    "text", [EVENT, WHOLE, LISTED, *SPELLINGS, "[" + WHOLE + "]", "[[" + WHOLE + "]]", "no"]
)
def test_an_error_holds_no_call_at_all(text: str) -> None:
    with raises_code("upstream.answer"):
        judged_error(text.encode())


def test_an_error_is_passed_in_the_forms_that_upstreams_have() -> None:
    judged_error(b'{"error":{"message":"no","type":"invalid_request_error","code":null,"param":"tools"}}')
    judged_error(b'[{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}]')


def test_a_name_that_only_looks_alike_is_no_judged_member() -> None:
    for name in (
        "reasoning_content",
        "native_finish_reason",
        "tool_call_id",
        "message_id",
    ):
        assert streamed(sse(json.dumps({name: "Name", "choices": []})))
        assert streamed(sse(json.dumps({"usage": {name: {"Name": [1]}}, "choices": []})))


# -- what real upstreams answer -----------------------------------------------------------------------------------


def chunk(delta: dict | None = None, *, finish: str | None = None, **more: object) -> dict:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1731000000, "model": "m"}
    choices = (
        [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    )
    return {**head, "choices": choices, **more}


def called(name: str | None, arguments: str, **more: object) -> dict:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": 0, **more, "function": function}]}


USAGE = {
    "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0, "accepted_prediction_tokens": 0},
}  # fmt: skip
LOGPROBS = {
    "content": [{"token": "Name", "logprob": -0.1, "bytes": [78], "top_logprobs": []}],
    "refusal": None,
}
STREAMS = {
    "OpenAI": [
        chunk({"role": "assistant", "content": "", "refusal": None}, service_tier="default",
              system_fingerprint="fp_1", usage=None, obfuscation="a8Z"),
        chunk({"content": "hi \u2028 data: {}"}, usage=None),
        chunk({"annotations": [{"type": "url_citation", "url_citation": {"title": "T", "url": "u"}}]}),
        chunk(called("get_weather", "", id="call_1", type="function")),
        chunk(called(None, '{"city"')),
        chunk(called(None, ':"Oslo"}')),
        chunk({}, finish="tool_calls", usage=None),
        chunk(None, usage=USAGE),
    ],
    "vLLM": [
        chunk({"role": "assistant", "content": "", "reasoning_content": None}, prompt_token_ids=None),
        chunk({"reasoning_content": "hm", "reasoning": "hm", "tool_calls": []}),
        chunk(called("read_file", "", id="chatcmpl-tool-1", type="function")),
        chunk(called(None, '{"p": 1}', id=None, type=None)),
        {"choices": [{"index": 0, "delta": {"content": "", "tool_calls": None, "function_call": None},
                      "logprobs": LOGPROBS, "finish_reason": "stop", "stop_reason": None, "token_ids": None}]},
        chunk(None, usage=USAGE),
    ],
    "Ollama": [
        chunk({"role": "assistant", "content": ""}, system_fingerprint="fp_ollama"),
        chunk({"role": "assistant", "content": "", "reasoning": "x",
               **called("read_file", "{}", id="c", type="function")}),
        chunk({"role": "assistant", "content": ""}, finish="tool_calls", system_fingerprint="fp_ollama"),
    ],
    "OpenRouter": [
        chunk({"role": "assistant", "content": "", "reasoning": None,
               "reasoning_details": [{"type": "reasoning.text", "text": "x", "format": "f", "index": 0}]},
              provider="P", native_finish_reason=None),
        {**chunk(), "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop",
                                 "native_finish_reason": "STOP", "logprobs": None}]},
        chunk(None, usage={**USAGE, "cost": 0.1, "is_byok": False, "cost_details": {"upstream_inference_cost": None},
                           "server_tool_use": {"web_search_requests": 0}}),
        {"id": "g", "error": {"code": "server_error", "message": "Provider disconnected", "metadata": {"Type": "x"}},
         "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]},
    ],
    "Azure": [
        {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": [
            {"prompt_index": 0, "content_filter_results": {"hate": {"filtered": False, "severity": "safe"}}}]},
        {**chunk(), "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None,
                                 "content_filter_results": {"jailbreak": {"filtered": False, "detected": False}},
                                 "content_filter_offsets": {"check_offset": 1, "start_offset": 1}}]},
        chunk({}, finish="stop"),
    ],
    "others": [
        chunk({"role": "assistant", "content": "x"}, finish=""),
        chunk({"function_call": {"name": "read_file", "arguments": "{}"}}),
        chunk({"tool_calls": [{"id": "1", "function": {"name": "get_weather", "arguments": "{}"}, "type": "function",
                               "extra_content": {"google": {"thought_signature": "s"}}}]}, x_groq={"id": "r"}),
        chunk({"content": None, "audio": {"id": "a", "data": "AA==", "transcript": "t", "expires_at": 1}}),
        chunk({}, finish="tool_calls", metadata={"Name": "n", "Type": "t", "ID": "i"}, citations=["u"],
              timings={"prompt_n": 1, "tool_calls": 0, "function_call": None}, executed=True),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_of_a_real_upstream_goes_on_byte_for_byte(name: str) -> None:
    events = [sse(json.dumps(one, ensure_ascii=False)) for one in STREAMS[name]]
    between = [
        b": OPENROUTER PROCESSING\n\n",
        b":\n\n",
        b": ping - 2024-11-07 10:00:00.000000\r\n\r\n",
        b"\n",
        b"id: 1\nevent: result\n:HTTP_STATUS/200\ndata: {}\n\n",
        b"retry: 3000\n\n",
        b"data:\n\n",
    ]
    mixed = [one + between[at % len(between)] for at, one in enumerate(events)]
    data = b"".join([*mixed, *between, DONE])
    assert streamed(data) == data


@pytest.mark.parametrize("name", STREAMS)
def test_a_whole_answer_of_a_real_upstream_goes_on(name: str) -> None:
    for one in STREAMS[name]:
        text = json.dumps(one, indent=2).replace('"delta"', '"message"')
        if '"arguments"' in text and '"name": "' not in text:
            continue  # a piece of a call is none
        names = {found.name for found in judged(text.encode(), allowed)}
        assert names == set(re.findall('"name": "([a-z_]+)"', text))


def test_calls_in_parallel_of_a_whole_answer_are_told_apart_by_their_place() -> None:
    entry = {"id": "c", "index": 0, "type": "function"}
    calls = [{**entry, "function": {"name": name, "arguments": "{}"}} for name in sorted(ALLOWED)]
    body = json.dumps({"choices": [{"index": 0, "message": {"tool_calls": calls}}]}).encode()
    assert [one.name for one in judged(body, allowed)] == sorted(ALLOWED)


# -- against a reader that overlooks whatever it can ----------------------------------------------------------------


class Pairs(list):
    """The members of an object, each as often as it stands there."""


def same(name: str, exact: str) -> bool:
    plain = (
        unicodedata.normalize("NFKC", name.split("\0")[0]).upper().replace("_", "").replace("-", "").strip()
    )
    return plain.casefold() == exact.replace("_", "").casefold()


def names_below(value: object) -> Iterator[str]:
    if isinstance(value, Pairs):
        for name, member in value:
            if same(name, "name") and isinstance(member, str):
                yield member
            elif isinstance(member, list):
                yield from names_below(member)
    elif isinstance(value, list):
        for entry in value:
            yield from names_below(entry)


def lenient_calls(value: object) -> Iterator[str]:
    """Every name of a call that can be found anywhere, in any spelling."""
    if isinstance(value, Pairs):
        for name, member in value:
            if any(same(name, one) for one in ("tool_calls", "function_call", "tool_use")):
                yield from names_below(member)
            elif isinstance(member, list):
                yield from lenient_calls(member)
        if any(same(n, "type") and isinstance(m, str) and same(m, "tool_use") for n, m in value):
            yield from (m for n, m in value if same(n, "name") and isinstance(m, str))
    elif isinstance(value, list):
        for entry in value:
            yield from lenient_calls(entry)


def lenient_json(text: str) -> Iterator[str]:
    decoder = json.JSONDecoder(object_pairs_hook=Pairs, strict=False)
    while (at := text.find("{")) >= 0:  # whatever precedes a value, and however many stand there
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            text = text[at + 1 :]
            continue
        yield from lenient_calls(value)
        text = text[end:]


def lenient_stream(data: bytes) -> Iterator[str]:
    """Lines by any line end in any encoding; each by itself, and those of an event together."""
    for encoding in ("utf-8", "latin-1"):
        lines = []
        for line in data.decode(encoding, "replace").splitlines():
            if re.match(r"\s*:", line):
                continue
            value = (
                re.sub(r"^[\s\0\ufeff]*[\w-]+\s*:", "", line) if not line.lstrip().startswith("{") else line
            )
            yield from lenient_json(value)
            lines.append(value)
            if not line.strip():
                yield from lenient_json("\n".join(lines))
                lines = []


@st.composite
def respelled(draw: st.DrawFn, name: str) -> str:
    ways = [
        name, name, name, name, name.upper(), name.title(), name.replace("_", ""), name.title().replace("_", ""),
        name + "\0", " " + name, name.replace("i", "\u0131"), name.replace("s", "\u017f"), name + "\u200b", "x",
    ]  # fmt: skip
    return draw(st.sampled_from(ways))


@st.composite
def calls(draw: st.DrawFn) -> str:
    """An object in which a call may stand, as text, since a member may stand twice."""
    spell = {one: json.dumps(draw(respelled(one))) for one in ("choices", "delta", "message", "tool_calls", "function",
                                                               "name", "function_call", "type")}  # fmt: skip
    name = json.dumps(draw(st.sampled_from(["read_file", "read_file", "get_weather", "evil"])))
    second = draw(
        st.sampled_from(["", "", f',{spell["name"]}:"evil"', ',"Name":"evil"', ',"x":{"name":"evil"}'])
    )
    body = "{" + f'{spell["name"]}:{name},"arguments":"{{}}"{second}' + "}"
    entry = "{" + f'{spell["type"]}:"function",{spell["function"]}:{body}' + "}"
    held = draw(st.sampled_from([f"[{entry}]", entry, f"[[{entry}]]", f'{{"0":{entry}}}', "[]", "null"]))
    part = draw(st.sampled_from([f"{spell['tool_calls']}:{held}", f"{spell['function_call']}:{body}", '"content":"x"',
                                 f'"content":[{{"type":"tool_use","name":{name}}}]']))  # fmt: skip
    choice = "{" + f'"index":0,{spell[draw(st.sampled_from(["delta", "message"]))]}:{{{part}}}' + "}"
    return draw(st.sampled_from([
        "{" + f"{spell['choices']}:[{choice}]" + "}",
        "{" + f"{spell['choices']}:{choice}" + "}",
        "{" + f'"choices":[],{spell["message"]}:{{{part}}}' + "}",
        "{" + f'"choices":[{{"index":0}}],"x":[{choice}]' + "}",
        "[{" + f"{spell['choices']}:[{choice}]" + "}]",
    ]))  # fmt: skip


BEFORE = ["data: ", "data: ", "data: ", "data:", "Data: ", " data: ", "", ": ", "event: ", "id: ", "data: x",
          ": \u2028data: ", ": \x85data: ", ": \x1cdata: ", "data: [DONE]\ndata: ", "data: {}\ndata: "]  # fmt: skip
AFTER = ["\n\n", "\n\n", "\r\n\r\n", "\r\r", "\ndata: [DONE]\n\n", "\n: c\n\n", "\nevent: x\n\n"]
events = st.tuples(st.sampled_from(BEFORE), calls(), st.sampled_from(AFTER)).map("".join)


@given(st.lists(events, min_size=1, max_size=3))
@thorough(200)
def test_what_a_lenient_reader_finds_in_a_stream_that_goes_on_is_listed(parts: list[str]) -> None:
    relay, passed = Relay(Chat(), allowed), b""
    try:
        for part in [*parts, DONE.decode()]:
            step = relay.feed(part.encode())
            passed += b"".join(step.events) + step.terminal
            if step.terminal:
                break
    except AffiantError:
        pass
    assert set(lenient_stream(passed)) <= ALLOWED


@given(st.lists(calls(), min_size=1, max_size=2).map("".join), st.sampled_from(["", "\ufeff", " ", "\0"]))
@thorough(200)
def test_what_a_lenient_reader_finds_in_an_answer_that_goes_on_is_listed(text: str, before: str) -> None:
    try:
        told = judged((before + text).encode(), allowed)
    except AffiantError:
        return
    assert set(lenient_json(text)) <= {one.name for one in told} <= ALLOWED


def test_the_lenient_reader_sees_what_the_cases_hide() -> None:
    """The comparison is worth something: the reader finds a call in nearly all of the cases above."""
    assert sum("evil" in set(lenient_json(text)) for text in SPELLINGS) >= len(SPELLINGS) * 0.6
    assert sum("evil" in set(lenient_stream(data)) for data in LINES) == len(LINES)


@given(st.sampled_from(["tool_calls", "choices", "name", "function_call"]).flatmap(respelled))
def test_folding_is_no_finer_than_the_lenient_reader(name: str) -> None:
    for exact in ("tool_calls", "choices", "name", "function_call"):
        assert not same(name, exact) or fold(name) == fold(exact)
