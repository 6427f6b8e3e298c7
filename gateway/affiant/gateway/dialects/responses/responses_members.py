"""The members, items, parts and events of the Responses API that pass where a profile restricts tools: data alone.

Sources: the types of OpenAI's ``openai`` package (``openai.types.responses``), 3.54; vLLM's ``ResponsesRequest``;
``transformers serve``.

Left out although OpenAI documents them. ``prompt`` names a template at the provider, and a template can hold tools.
``tool_search_output`` and ``additional_tools`` of a request's ``input`` would offer tools that no rule has judged.
``prompt_cache_options.comparison_response_id`` names a response of any session. Of events, those of a shell's commands
are left out: a client could run a command before the whole call was judged. ``request_id`` of vLLM chooses the id of
the response, which could then be another session's. A profile alone allows tools that a provider runs by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.member_lists import CALLED, FREE, MemberLists, Table
from affiant.gateway.dialects.member_lists import free as _free
from affiant.gateway.dialects.strict_json import GIVEN

__all__ = ["AGENT_RUN", "ENDING", "PROVIDED", "RESPONSES_LISTS", "WITH_RESPONSE"]

_OPENAI: Final = """
    access_programs background background_options context_management image include instructions max_output_tokens
    max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt_cache_key
    prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text
    top_logprobs top_p truncation user verbosity
"""
_VLLM: Final = """
    cache_salt chat_template chat_template_kwargs frequency_penalty ignore_eos include_stop_str_in_output logit_bias
    min_p mm_processor_kwargs presence_penalty priority repetition_penalty seed skip_special_tokens stop
    structured_outputs top_k
"""
_TRANSFORMERS: Final = "generation_config"
_CALL: Final = "async call_id caller id namespace status type"

_WEB_SEARCH: Final = (
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
_COMPUTER: Final = ("computer", "computer_use_preview", "computer_use")

AGENT_RUN: Final[Mapping[str, tuple[str, ...]]] = {
    "apply_patch_call": ("apply_patch",),
    "computer_call": _COMPUTER,
    "local_shell_call": ("local_shell",),
    "shell_call": ("shell",),
    "tool_search_call": ("tool_search",),
}
"""Type of an output item -> the names of a tool that the provider defines and the agent may run; the first one is what
the call is judged as."""
PROVIDED: Final[Mapping[str, tuple[str, ...]]] = {
    **AGENT_RUN,
    "additional_tools": ("tool_search",),
    "code_interpreter_call": ("code_interpreter",),
    "file_search_call": ("file_search",),
    "image_generation_call": ("image_generation",),
    "mcp_approval_request": ("mcp",),
    "mcp_approval_response": ("mcp",),
    "mcp_call": ("mcp",),
    "mcp_list_tools": ("mcp",),
    "program": ("programmatic_tool_calling",),
    "program_output": ("programmatic_tool_calling",),
    "shell_call_output": ("shell",),
    "tool_search_output": ("tool_search",),
    "web_search_call": _WEB_SEARCH,
}
"""Type of an output item -> the names, in a request, of the tool of the provider's that it is of."""

_REQUEST: Final = Table(
    root="request",
    members={
        "request": {
            **_free(_OPENAI + _VLLM + _TRANSFORMERS),
            "input": "item",
            "prompt_cache_options": "cache options",
            "tools": "tool",
            "tool_choice": "tool_choice",
        },
        "cache options": _free("mode prewarm ttl"),
        "message": {**_free("id phase role status type"), "content": "part"},
        "text part": _free("annotations logprobs prompt_cache_breakpoint text type"),
        "refusal part": _free("refusal type"),
        "image part": _free("detail file_id image_url prompt_cache_breakpoint type"),
        "file part": _free("detail file_data file_id file_url filename prompt_cache_breakpoint type"),
        "audio part": _free("input_audio prompt_cache_breakpoint type"),
        "call": _free(f"{_CALL} arguments input name"),
        "output": {**_free(f"{_CALL} name"), "output": "part"},
        "reasoning": _free("content encrypted_content id status summary type"),
        "reference": _free("id type"),
        "compaction": _free("encrypted_content id type"),
        "update": _free("id reasoning text type"),
        "provider's call": _free(
            f"{_CALL} action actions approval_request_id arguments code container_id environment error name operation"
            " output outputs pending_safety_checks queries result results revised_prompt server_label"
            " background execution output_format quality size svg_usage"
        ),
        "provider's result": _free(
            f"{_CALL} acknowledged_safety_checks code created_by error fingerprint max_output_length output result"
            " server_label tools"
        ),
        "approval": _free("approval_request_id approve id reason type"),
        "function tool": _free(
            "allowed_callers async defer_loading description name output_schema parameters strict type"
        ),
        "custom tool": _free("allowed_callers async defer_loading description format name type"),
        "choice": _free("name type"),
        "allowed tools": {**_free("mode type"), "tools": "listed tool"},
    },
    kinds={
        "item": {
            "message": "message",
            "function_call": "call",
            "custom_tool_call": "call",
            "function_call_output": "output",
            "custom_tool_call_output": "output",
            "reasoning": "reasoning",
            "item_reference": "reference",
            "compaction": "compaction",
            "compaction_trigger": "compaction",
            "configuration_update": "update",
            "mcp_approval_response": "approval",
            **dict.fromkeys(
                (
                    *("apply_patch_call", "code_interpreter_call", "computer_call", "file_search_call"),
                    *("image_generation_call", "local_shell_call", "mcp_approval_request", "mcp_call"),
                    *("shell_call", "web_search_call"),
                ),
                "provider's call",
            ),
            **dict.fromkeys(
                (
                    *("apply_patch_call_output", "computer_call_output", "local_shell_call_output"),
                    *("mcp_list_tools", "program", "program_output", "shell_call_output"),
                ),
                "provider's result",
            ),
        },
        "part": {
            **dict.fromkeys(("input_text", "output_text", "text"), "text part"),
            "refusal": "refusal part",
            "input_image": "image part",
            "input_file": "file part",
            "input_audio": "audio part",
        },
        "tool": {"function": "function tool", "custom": "custom tool"},
        "listed tool": {"function": "choice", "custom": "choice"},
        "tool_choice": {"function": "choice", "custom": "choice", "allowed_tools": "allowed tools"},
    },
    untyped={"item": "message"},
    words={"tool_choice": ("auto", "none", "required")},
    provider_places=frozenset({"tool", "listed tool", "tool_choice"}),
    extensible=("request", "item", "part"),
)

WITH_RESPONSE: Final = tuple(
    f"response.{word}" for word in ("created", "queued", "in_progress", "completed", "failed", "incomplete")
)
"""Types of the events that hold the whole response."""
ENDING: Final = WITH_RESPONSE[3:]
"""Those of them that end a stream."""


def _events(place: str, *names: str) -> dict[str, str]:
    return dict.fromkeys((f"response.{name}" for name in names), place)


def _phases(name: str, *words: str) -> tuple[str, ...]:
    return tuple(f"{name}.{word}" for word in words)


_RESPONSE: Final = Table(
    root="event",
    members={
        "response": {
            **_free(
                "access_programs billing content_filters conversation error image incomplete_details instructions"
            ),
            **_free(
                "input_transformations metadata moderation prompt prompt_cache_diagnostics prompt_cache_options"
            ),
            **_free("reasoning tool_choice tool_usage usage"),
            "data": "output_item",
            "output": "output_item",
            "text": GIVEN,
            "tools": GIVEN,
        },
        "response event": {"response": "response"},
        "item event": {"item": "output_item"},
        "part event": {"part": "response_part"},
        "annotation event": {"annotation": "annotation"},
        "message": {"content": "response_part"},
        "reasoning": {"content": "response_part", "summary": "response_part"},
        "definitions": {"tools": GIVEN},
        "output": {**_free("caller"), "output": "response_part"},
        "text part": {**_free("logprobs prompt_cache_breakpoint"), "annotations": "annotation"},
        CALLED: _free(
            "action actions arguments caller content_filters delta environment error input logprobs operation output"
            " outputs pending_safety_checks queries results"
        ),
    },
    kinds={
        "event": {
            "response": "response",
            **dict.fromkeys(WITH_RESPONSE, "response event"),
            **_events("item event", "output_item.added", "output_item.done"),
            **_events(
                "part event",
                *_phases("content_part", "added", "done"),
                *_phases("reasoning_part", "added", "done"),
                *_phases("reasoning_summary_part", "added", "done"),
            ),
            **_events("annotation event", "output_text.annotation.added"),
            **_events(
                CALLED,
                *_phases("function_call_arguments", "delta", "done"),
                *_phases("custom_tool_call_input", "delta", "done"),
                *_phases("mcp_call_arguments", "delta", "done"),
            ),
            **_events(
                FREE,
                *_phases("output_text", "delta", "done"),
                *_phases("refusal", "delta", "done"),
                *_phases("reasoning_text", "delta", "done"),
                *_phases("reasoning_summary_text", "delta", "done"),
                *_phases("audio", "delta", "done"),
                *_phases("audio.transcript", "delta", "done"),
                *_phases("compaction", "compacting"),
                *_phases("code_interpreter_call", "in_progress", "interpreting", "completed"),
                *_phases("code_interpreter_call_code", "delta", "done"),
                *_phases("file_search_call", "in_progress", "searching", "completed"),
                *_phases("web_search_call", "in_progress", "searching", "completed"),
                *_phases("image_generation_call", "in_progress", "generating", "partial_image", "completed"),
                *_phases("mcp_call", "in_progress", "completed", "failed"),
                *_phases("mcp_list_tools", "in_progress", "completed", "failed"),
            ),
            "error": FREE,
            "keepalive": FREE,
        },
        "output_item": {
            "message": "message",
            "reasoning": "reasoning",
            "function_call_output": "output",
            "custom_tool_call_output": "output",
            **dict.fromkeys(("additional_tools", "mcp_list_tools", "tool_search_output"), "definitions"),
            **dict.fromkeys(
                (
                    *(
                        "apply_patch_call_output",
                        "compaction",
                        "computer_call_output",
                        "configuration_update",
                    ),
                    *("item_reference", "local_shell_call_output", "mcp_approval_response"),
                    *("program", "program_output", "shell_call_output"),
                ),
                FREE,
            ),
            **dict.fromkeys(
                (
                    *("apply_patch_call", "code_interpreter_call", "computer_call", "custom_tool_call"),
                    *("file_search_call", "function_call", "image_generation_call", "local_shell_call"),
                    *(
                        "mcp_approval_request",
                        "mcp_call",
                        "shell_call",
                        "tool_search_call",
                        "web_search_call",
                    ),
                ),
                CALLED,
            ),
        },
        "response_part": {
            **dict.fromkeys(("output_text", "text", "input_text"), "text part"),
            **dict.fromkeys(
                ("input_audio", "input_file", "input_image", "reasoning_text", "refusal", "summary_text"),
                FREE,
            ),
        },
        "annotation": dict.fromkeys(
            ("container_file_citation", "file_citation", "file_path", "url_citation"), FREE
        ),
    },
    untyped={"event": "response", "output_item": "message"},
    extensible=("response", "event", "output_item", "response_part", "annotation"),
)
"""As of chat completions: members are listed that hold objects. A whole response is an event without a type."""

RESPONSES_LISTS: Final = MemberLists(_REQUEST, _RESPONSE)
