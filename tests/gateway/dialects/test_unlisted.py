"""Closed lists: what could reach a tool and is not listed is found, with its path; what clients use is listed."""

from __future__ import annotations

import json

import pytest
from tests.gateway.dialects.answers import judged
from tests.raising import raises_code

from affiant.gateway.dialects.chat.chat import Chat
from affiant.gateway.dialects.chat.chat_members import CHAT_LISTS
from affiant.gateway.dialects.unlisted import read_members, require_listed_response
from affiant.policy.decision.decide import Decision, denied, granted

ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
LISTED_TOOL = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}

UNLISTED = {
    "plugins": ({"plugins": [{"id": "web"}]}, "plugins"),
    "mcp_servers": ({"mcp_servers": [{"type": "url", "url": "https://x", "name": "n"}]}, "mcp_servers"),
    "data_sources": ({"data_sources": [{"type": "azure_search", "parameters": {}}]}, "data_sources"),
    "tool_ids": ({"tool_ids": ["server:mcp:1"]}, "tool_ids"),
    "features": ({"features": {"web_search": True}}, "features"),
    "connectors": ({"connectors": [{"id": "web-search"}]}, "connectors"),
    "extra_body": ({"extra_body": {"plugins": []}}, "extra_body"),
    "another case": ({"Plugins": []}, "Plugins"),
    "tools of a message": (
        {"messages": [{"role": "user", "content": "x"}, {"role": "developer", "tools": [LISTED_TOOL]}]},
        "messages[1].tools",
    ),
    "a listed tool with a server": (
        {"tools": [{**LISTED_TOOL, "server_url": "https://x"}]},
        "tools[0].server_url",
    ),
    "a function with a server": (
        {"tools": [{"type": "function", "function": {"name": "read_file", "server_url": "https://x"}}]},
        "tools[0].function.server_url",
    ),
    "an older function with a server": (
        {"functions": [{"name": "a", "url": "https://x"}]},
        "functions[0].url",
    ),
    "a choice with more": (
        {"tool_choice": {"type": "function", "function": {"name": "read_file"}, "server_label": "x"}},
        "tool_choice.server_label",
    ),
    "a choice by word": ({"tool_choice": "web_search"}, "tool_choice"),
    "a function by word": ({"function_call": "web_search"}, "function_call"),
    "a tool of no kind": ({"tools": [{"type": 7}]}, "tools[0].type"),
    "a part of no kind": (
        {"messages": [{"role": "user", "content": [{"image": "http://x"}]}]},
        "messages[0].content[0].type",
    ),
    "a part of another kind": (
        {"messages": [{"role": "user", "content": [{"type": "web_page", "url": "http://x"}]}]},
        "messages[0].content[0].type",
    ),
    "a part with more": (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "url": "http://x"}]}]},
        "messages[0].content[0].url",
    ),
    "an object in the place of a text": (
        {"messages": [{"role": "user", "content": {"type": "web_page"}}]},
        "messages[0].content.type",
    ),
    "a call of another kind": (
        {"messages": [{"role": "assistant", "tool_calls": [{"type": "mcp", "server_url": "x"}]}]},
        "messages[0].tool_calls[0].type",
    ),
    "hosts that a server connects to": (
        {"kv_transfer_params": {"remote_host": "10.0.0.1"}},
        "kv_transfer_params",
    ),
    "hosts among a server's extras": (
        {"vllm_xargs": {"n": 1, "kv_transfer_params": {"remote_host": "10.0.0.1"}}},
        "vllm_xargs.kv_transfer_params",
    ),
    "hosts among them as text": (
        {"vllm_xargs": {"KV_transfer_params": "{}"}},
        "vllm_xargs.KV_transfer_params",
    ),
    "code among a server's extras": (
        {"vllm_xargs": {"logits_processors": ["os.system"]}},
        "vllm_xargs.logits_processors",
    ),
    "an object among a server's extras": ({"vllm_xargs": {"x": {"y": 1}}}, "vllm_xargs.x"),
    "an object in a list of them": ({"vllm_xargs": {"x": [1, {"y": 1}]}}, "vllm_xargs.x"),
    "a list of extras": ({"vllm_xargs": [{"x": {}}]}, "vllm_xargs[0].x"),
    "code that a server loads": ({"logits_processors": ["os.system"]}, "logits_processors"),
}


def ignored(_: object) -> None:
    """Nothing is done with an event's value."""


@pytest.mark.parametrize("name", UNLISTED)
def test_what_a_request_has_beyond_the_lists_is_found_with_its_path(name: str) -> None:
    more, where = UNLISTED[name]
    assert read_members({**ASKED, **more}, CHAT_LISTS.request).unlisted == where


PROVIDED = {
    "a tool": ({"tools": [LISTED_TOOL, {"type": "web_search_preview"}]}, "web_search_preview", "tools[1]"),
    "a server": (
        {"tools": [{"type": "mcp", "server_label": "a", "server_url": "https://x"}]},
        "mcp",
        "tools[0]",
    ),
    "a choice": ({"tool_choice": {"type": "web_search"}}, "web_search", "tool_choice"),
    "a choice of several": (
        {
            "tool_choice": {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]},
            }
        },
        "mcp",
        "tool_choice.allowed_tools.tools[0]",
    ),
    "OpenAI's member": ({"web_search_options": {}}, "web_search", "web_search_options"),
    "xAI's member": ({"search_parameters": {"mode": "on"}}, "web_search", "search_parameters"),
    "Qwen's member": ({"enable_search": True}, "web_search", "enable_search"),
}


@pytest.mark.parametrize("name", PROVIDED)
def test_a_tool_that_the_provider_runs_is_found_by_its_name(name: str) -> None:
    more, called, where = PROVIDED[name]
    found = read_members({**ASKED, **more}, CHAT_LISTS.request)
    assert found.unlisted is None
    assert [(each.name, each.where) for each in found.provider_tools] == [(called, where)]


def test_a_member_that_switches_a_tool_off_asks_for_none() -> None:
    asked = {**ASKED, "enable_search": False, "web_search_options": None}
    assert read_members(asked, CHAT_LISTS.request) == (None, ())


OPENAI = """
    audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages
    metadata modalities model n parallel_tool_calls prediction presence_penalty prompt_cache_key reasoning_effort
    response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools
    top_logprobs top_p user verbosity
""".split()


@pytest.mark.parametrize("name", OPENAI)
def test_what_the_openai_client_documents_is_listed(name: str) -> None:
    assert read_members({**ASKED, name: None}, CHAT_LISTS.request) == (None, ())


def test_the_openai_client_sends_no_member_that_is_not_listed_or_a_providers_tool() -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming as Parameters

    for name in Parameters.__annotations__:
        found = read_members({name: {}}, CHAT_LISTS.request)
        assert found.unlisted is None and (name == "web_search_options") == bool(found.provider_tools), name


SAMPLING = """
    temperature top_p top_k min_p typical_p top_n_sigma seed stop stop_token_ids n best_of use_beam_search
    length_penalty frequency_penalty presence_penalty repetition_penalty repeat_penalty repeat_last_n mirostat
    mirostat_tau mirostat_eta dry_multiplier dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers
    xtc_probability xtc_threshold dynatemp_range dynatemp_exponent logit_bias min_tokens max_tokens n_predict
    ignore_eos samplers grammar json_schema guided_json guided_regex guided_choice guided_grammar structured_outputs
    bad_words allowed_token_ids generation_config chat_template_kwargs speculative.n_max
""".split()


@pytest.mark.parametrize("name", SAMPLING)
def test_every_sampling_member_of_vllm_llama_cpp_and_transformers_is_listed(name: str) -> None:
    assert read_members({**ASKED, name: 1}, CHAT_LISTS.request).unlisted is None


def test_what_vllm_documents_of_its_extras_is_listed() -> None:
    extras = {"repetition": 1.5, "name": "x", "stops": ["a", 2, 0.5], "off": None}
    assert read_members({**ASKED, "vllm_xargs": extras}, CHAT_LISTS.request).unlisted is None
    assert read_members({**ASKED, "vllm_xargs": None}, CHAT_LISTS.request).unlisted is None


def test_a_conversation_with_calls_and_parts_is_listed() -> None:
    asked = {
        **ASKED,
        "messages": [
            {"role": "system", "content": "s", "name": "n"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "t", "cache_control": {"type": "x"}},
                    {
                        "type": "image_url",
                        "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"},
                    },
                    {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
                    {
                        "type": "file",
                        "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "f"},
                    },
                    "text",
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "annotations": [],
                "reasoning_content": "hm",
                "function_call": None,
                "tool_calls": [
                    {
                        "id": "1",
                        "type": "function",
                        "index": 0,
                        "function": {"name": "read_file", "arguments": "{}"},
                    },
                    {"id": "2", "type": "custom", "custom": {"name": "run", "input": "x"}},
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "x"}]},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "a", "description": "d", "parameters": {"mcp": 1}, "strict": True},
            },
            {"type": "custom", "custom": {"name": "run", "format": {"type": "text"}}},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [LISTED_TOOL_CHOICE]},
        },
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"plugins": {}}}},
        "prediction": {"type": "content", "content": [{"type": "text", "text": "x"}]},
    }
    assert read_members(asked, CHAT_LISTS.request) == (None, ())


LISTED_TOOL_CHOICE = {"type": "function", "function": {"name": "a"}}


# -- responses ---------------------------------------------------------------------------------------------------------

ITEMS = """
    mcp_call server_tool_use shell_call local_shell_call computer_call web_search_call file_search_call
    code_interpreter_call image_generation_call apply_patch_call custom_tool_call mcp_approval_request mcp_list_tools
    tool_search_call tool_result web_search_tool_result executable_code
""".split()


def said(part: dict[str, object], *, streamed: bool) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta" if streamed else "message": part}]}


def places(item: str) -> dict[str, dict[str, object]]:
    entry = {"type": item, "name": "fetch", "id": "1", "arguments": "{}", "server_label": "x"}
    return {
        "a part": {"content": [{"type": "text", "text": "x"}, entry]},
        "a member": {item: entry},
        "a member with a text": {item: "fetch"} if item.endswith(("call", "use")) else {item: [entry]},
        "an output item": {"output": [entry]},
        "a call": {"tool_calls": [entry]},
        "an annotation": {"annotations": [entry]},
        "a step of reasoning": {"reasoning_details": [entry]},
    }


def allowed(name: str, _arguments: str | None = None) -> Decision:
    return granted(("tools/0",), ask=False) if name == "fetch" else denied("tool_not_listed")


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("place", places("x"))
def test_an_item_that_is_not_listed_never_goes_on(item: str, place: str) -> None:
    part = places(item)[place]
    with raises_code("upstream.unlisted", "upstream.answer"):
        judged(json.dumps(said(part, streamed=False)).encode(), allowed)
    with raises_code("upstream.unlisted", "upstream.answer"):
        Chat().stream_filter(allowed, ignored).feed(
            b"data: " + json.dumps(said(part, streamed=True)).encode() + b"\n\n"
        )


@pytest.mark.parametrize("item", ITEMS)
def test_an_event_that_is_such_an_item_never_goes_on(item: str) -> None:
    entry = {"type": item, "name": "fetch", "arguments": "{}"}
    for value in ({"type": "response.output_item.done", "item": entry}, {"item": entry}, {"output": [entry]}):
        with raises_code("upstream.unlisted", "upstream.answer"):
            Chat().stream_filter(allowed, ignored).feed(b"data: " + json.dumps(value).encode() + b"\n\n")


LIKE_CALLS = {
    "the caller's notes": {"metadata": {"output": [{"type": "shell", "action": {}}]}},
    "a sound": said({"audio": {"x": {"type": "shell", "commands": ["ls"]}}}, streamed=False),
    "a provider's fields": said(
        {"provider_specific_fields": {"x": {"Name": "shell", "Input": "ls"}}}, streamed=True
    ),
    "a text": said(
        {"content": [{"type": "text", "text": "x", "name": "f", "arguments": "{}"}]}, streamed=False
    ),
    "a citation": said(
        {"annotations": [{"type": "file", "file": {"name": "f", "input": ""}}]}, streamed=False
    ),
    "a step of reasoning": said({"reasoning_details": [{"type": "thinking", "action": {}}]}, streamed=True),
    "a message": said({"name": "f", "arguments": "{}"}, streamed=False),
    "counts": {"usage": {"x": [[{"type": "shell", "actions": []}]]}},
    "a model's own notation": said(
        {"provider_specific_fields": {"x": {"name": "f", "parameters": {}}}}, streamed=True
    ),
    "a tool and its arguments": {"metadata": {"x": {"tool": "f", "arguments": "{}"}}},
    "logarithms": {"choices": [{"logprobs": {"content": [{"type": "shell", "action": {}}]}}]},
}


@pytest.mark.parametrize("name", LIKE_CALLS)
def test_an_object_that_is_like_a_call_passes_nowhere(name: str) -> None:
    with raises_code("upstream.unlisted"):
        require_listed_response(LIKE_CALLS[name], CHAT_LISTS.response)


def test_what_servers_hold_where_members_are_free_passes() -> None:
    message = {
        "content": [{"type": "text", "text": "x", "annotations": []}],
        "audio": {"id": "a", "data": "AA==", "expires_at": 1, "transcript": "x"},
        "provider_specific_fields": {
            "thinking_blocks": [{"type": "thinking", "thinking": "x", "signature": "y"}]
        },
        "annotations": [
            {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}},
            {"type": "file", "file": {"hash": "h", "name": "n", "content": [{"type": "text", "text": "x"}]}},
        ],
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        "function_call": {"name": "f", "arguments": "{}"},
    }
    more = {
        "usage": {"prompt_tokens_details": {"cached_tokens": 1}, "type": "tokens", "input_tokens": 1},
        "metadata": {"type": "x", "note": "y"},
        "error": {"type": "server_error", "message": "m", "code": None, "input": None},
        "timings": {"name": "n", "predicted_ms": 1.5},
        "moderation": {
            part: {"type": "moderation_results", "model": "m", "results": [{"type": "moderation_result"}]}
            for part in ("input", "output")
        },
    }
    require_listed_response({**said(message, streamed=False), **more}, CHAT_LISTS.response)


def test_numbers_and_texts_that_no_list_has_pass_in_a_response() -> None:
    answer = {
        "choices": [],
        "provider": "P",
        "native_finish_reason": None,
        "cost": 0.1,
        "queue": [],
        "cached": True,
    }
    require_listed_response(answer, CHAT_LISTS.response)


# -- what an operator lists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [*CHAT_LISTS.request.extensible, *CHAT_LISTS.response.extensible])
def test_an_operator_adds_a_name_at_every_place_that_takes_one(place: str) -> None:
    members = CHAT_LISTS.with_names([f"{place}.new.thing"])
    tables = (members.request, members.response)
    assert any("new.thing" in (table.members.get(place) or table.kinds.get(place) or ()) for table in tables)


def test_what_an_operator_lists_passes_and_nothing_else() -> None:
    members = CHAT_LISTS.with_names(
        ["request.thinking", "part.web_page", "response.search_results", "response_part.tool_result"]
    )
    asked = {**ASKED, "thinking": {"type": "enabled"}}
    asked["messages"] = [{"role": "user", "content": [{"type": "web_page", "url": "http://x"}]}]
    assert read_members(asked, members.request).unlisted is None
    assert read_members({**asked, "plugins": []}, members.request).unlisted == "plugins"
    answer = {
        "search_results": [{"url": "u"}],
        **said({"content": [{"type": "tool_result"}]}, streamed=False),
    }
    require_listed_response(answer, members.response)
    with raises_code("upstream.unlisted") as refused:
        require_listed_response(answer, CHAT_LISTS.response)
    assert refused.value.where in ("search_results", "choices[0].message.content[0].type")
