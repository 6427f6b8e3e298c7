"""What may be in requests and responses of Anthropic's Messages API where a profile restricts tools: data alone.

Sources: the types of Anthropic's ``anthropic`` package, 2.12, those of its beta API too; Anthropic's API reference.

Left out although the API has them, because nothing judges what they reach: tools that messages add or remove
(``tool_addition``); conversations that the upstream keeps (``thread``); other models (``fallbacks``); and files and
folders of containers that the upstream keeps for everyone with its key (``file`` sources, ``container_upload``). An
operator can list the last two. A profile alone allows tools that a provider runs by itself: every entry of ``tools``
whose ``type`` is not listed here, ``mcp_servers`` (as ``mcp``) and ``container``. Toolsets are among them
(``computer_toolset_20260801``): their calls have names that a request does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.member_lists import CALLED, MemberLists, Table, free
from affiant.gateway.dialects.named_urls import (
    DATA,
    MEDIA,
    MEDIA_MEMBERS,
    OTHER,
    POSTED,
    SCHEMA,
    TEXT,
    URLPlaces,
)
from affiant.gateway.dialects.strict_json import GIVEN

__all__ = ["CLIENT_TOOLS", "MESSAGES_LISTS", "MESSAGES_URLS", "PROVIDER_RESULTS", "PROVIDER_TOOLS"]

CLIENT_TOOLS: Final = {
    **dict.fromkeys(("bash_20241022", "bash_20250124"), "bash"),
    **dict.fromkeys(("computer_20241022", "computer_20250124", "computer_20251124"), "computer"),
    "memory_20250818": "memory",
    **dict.fromkeys(("text_editor_20241022", "text_editor_20250124"), "str_replace_editor"),
    **dict.fromkeys(("text_editor_20250429", "text_editor_20250728"), "str_replace_based_edit_tool"),
}
"""Tools that Anthropic defines and the agent runs: ``type`` -> the one name that such a tool has."""

_SEARCHES: Final = ("web_search_20250305", "web_search_20260209", "web_search_20260318")
_FETCHES: Final = (*("web_fetch_20250910", "web_fetch_20260209", "web_fetch_20260309", "web_fetch_20260318"),)
_EXECUTIONS: Final = (
    *("code_execution_20250522", "code_execution_20250825", "code_execution_20260120"),
    "code_execution_20260521",
    *_SEARCHES[1:],
    *_FETCHES[1:],
)
"""The later searches and fetches filter what they find by code."""
PROVIDER_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "advisor": ("advisor_20260301",),
    **dict.fromkeys(("bash_code_execution", "code_execution", "text_editor_code_execution"), _EXECUTIONS),
    "mcp": ("mcp", "mcp_toolset"),
    "tool_search_tool_bm25": ("tool_search_tool_bm25", "tool_search_tool_bm25_20251119"),
    "tool_search_tool_regex": ("tool_search_tool_regex", "tool_search_tool_regex_20251119"),
    "web_fetch": _FETCHES,
    "web_search": _SEARCHES,
}
"""What a provider's call names -> the tools of a request that it may be of, as profiles list them."""
PROVIDER_RESULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "advisor_tool_result": PROVIDER_TOOLS["advisor"],
    **dict.fromkeys(
        (
            "bash_code_execution_tool_result",
            "code_execution_tool_result",
            "container_upload",
            "text_editor_code_execution_tool_result",
        ),
        _EXECUTIONS,
    ),
    **dict.fromkeys(("mcp_tool_listing", "mcp_tool_result"), PROVIDER_TOOLS["mcp"]),
    "tool_search_tool_result": (
        *PROVIDER_TOOLS["tool_search_tool_bm25"],
        *PROVIDER_TOOLS["tool_search_tool_regex"],
    ),
    "web_fetch_tool_result": _FETCHES,
    "web_search_tool_result": _SEARCHES,
}
"""``type`` of a block that a provider's tool made -> the same."""

_BLOCK: Final = {
    "compaction": "compaction",
    "document": "document",
    "image": "image",
    "mcp_tool_use": "tool_use",
    "redacted_thinking": "redacted_thinking",
    "search_result": "search_result",
    "server_tool_use": "tool_use",
    "text": "text",
    "thinking": "thinking",
    "tool_reference": "tool_reference",
    "tool_result": "tool_result",
    "tool_use": "tool_use",
    **{kind: "provider_tool_result" for kind in PROVIDER_RESULTS if kind.endswith("_tool_result")},
    "mcp_tool_result": "tool_result",
    "mcp_tool_listing": "mcp_tool_listing",
}
_TOOL: Final = "allowed_callers cache_control defer_loading input_examples name strict type"

_REQUEST: Final = Table(
    root="request",
    members={
        "request": {
            **free(
                "cache_control compaction context_management diagnostics inference_geo max_tokens metadata"
            ),
            **free("model output_config output_format service_tier speed stop_sequences stream temperature"),
            **free("thinking top_k top_p"),
            "messages": "message",
            "system": "system",
            "tools": "tool",
            "tool_choice": "tool_choice",
        },
        "message": {**free("clear_at output_config role"), "content": "block"},
        "custom": free(f"{_TOOL} description eager_input_streaming input_schema"),
        "client tool": free(
            f"{_TOOL} display_height_px display_number display_width_px enable_zoom max_characters"
        ),
        "choice": free("disable_parallel_tool_use name type"),
        "text": free("cache_control citations text type"),
        "image": {**free("cache_control transformations type"), "source": "source"},
        "document": {**free("cache_control citations context title type"), "source": "source"},
        "held": free("data media_type type"),
        "linked": free("type url"),
        "blocks": {**free("type"), "content": "block"},
        "search_result": {**free("cache_control citations source title type"), "content": "block"},
        "thinking": free("signature thinking type"),
        "redacted_thinking": free("data type"),
        "tool_reference": free("cache_control tool_name type"),
        "tool_use": free("cache_control caller id input name server_name toolset_name type"),
        "tool_result": {
            **free("cache_control is_error tool_use_id toolset_name type"),
            "content": "block",
        },
        "mcp_tool_listing": free("mcp_server_name tools type"),
        "provider_tool_result": free("cache_control caller content tool_use_id type"),
        "compaction": {
            **free("cache_control content encrypted_content signature type"),
            "tool_changes": "tool change",
        },
        "tool change": {},
    },
    kinds={
        "block": _BLOCK,
        "system": {"text": "text"},
        "source": {"base64": "held", "text": "held", "url": "linked", "content": "blocks"},
        "tool": {"custom": "custom", **dict.fromkeys(CLIENT_TOOLS, "client tool")},
        "tool_choice": dict.fromkeys(("any", "auto", "none", "tool"), "choice"),
    },
    untyped={"tool": "custom"},
    providers={"container": "container", "mcp_servers": "mcp"},
    provider_places=frozenset({"tool"}),
    extensible=("request", "message", "block", "source", "custom"),
)

_CITATION: Final = (
    "char_location",
    "content_block_location",
    "page_location",
    "search_result_location",
    "web_search_result_location",
)
_MESSAGE: Final = {
    **free("container context_management diagnostics input_transformations stop_details usage"),
    "content": "response_block",
}

_RESPONSE: Final = Table(
    root="response",
    members={
        "response": {
            **_MESSAGE,
            **free("error"),
            "content_block": "response_block",
            "delta": "response_delta",
            "message": "response_message",
        },
        "response_message": _MESSAGE,
        "message_delta": free("container stop_details"),
        "item": {"citations": "citation"},
        "citations_delta": {"citation": "citation"},
        "plain": {},
        CALLED: {**free("caller"), "input": GIVEN},
        "provider_result": free("caller content tools"),
    },
    kinds={
        "response_block": {
            **dict.fromkeys(("compaction", "redacted_thinking", "text", "thinking"), "item"),
            **dict.fromkeys(("mcp_tool_use", "server_tool_use", "tool_use"), CALLED),
            **dict.fromkeys(PROVIDER_RESULTS, "provider_result"),
        },
        "response_delta": {
            **dict.fromkeys(
                ("compaction_delta", "input_json_delta", "signature_delta", "text_delta", "thinking_delta"),
                "plain",
            ),
            "citations_delta": "citations_delta",
            "message_delta": "message_delta",
        },
        "citation": dict.fromkeys(_CITATION, "plain"),
    },
    untyped={"response_delta": "message_delta"},
    extensible=("response", "response_message", "response_block", "response_delta", "citation"),
)
"""Of responses, members are listed that hold objects: a call is one. An event is read by the same table."""

MESSAGES_LISTS: Final = MemberLists(_REQUEST, _RESPONSE)

_PARTS: Final = {
    **dict.fromkeys(("document", "image"), "media part"),
    **dict.fromkeys(("mcp_tool_use", "server_tool_use", "tool_use"), "call"),
    **dict.fromkeys(("mcp_tool_result", "search_result", "tool_result"), "result"),
    **dict.fromkeys((kind for kind, form in _BLOCK.items() if form == "provider_tool_result"), "cited"),
    "mcp_tool_listing": "cited",
    **dict.fromkeys(("compaction", "redacted_thinking", "text", "thinking", "tool_reference"), "text part"),
}
MESSAGES_URLS: Final = URLPlaces(
    members={
        "request": {
            **dict.fromkeys(("model", "stop_sequences"), TEXT),
            **dict.fromkeys(("output_config", "output_format"), SCHEMA),
            "mcp_servers": "server",
            "messages": "message",
            **dict.fromkeys(("compaction", "metadata"), DATA),
            "system": "content",
            "tools": "tool",
        },
        "message": {"content": "content"},
        "server": {"authorization_token": TEXT, "name": TEXT, "url": POSTED},
        "caller's tool": {
            **dict.fromkeys(("description", "name"), TEXT),
            "input_examples": DATA,
            "input_schema": SCHEMA,
        },
        "text part": {
            **dict.fromkeys(("content", "data", "encrypted_content", "signature", "text", "thinking"), TEXT),
            "citations": DATA,
            "tool_name": TEXT,
        },
        "media part": {
            **MEDIA_MEMBERS,
            **dict.fromkeys(("context", "title"), TEXT),
            "citations": DATA,
            "source": "source",
            "transformations": OTHER,
        },
        "text source": {**MEDIA_MEMBERS, "data": TEXT},
        "block source": {"content": "content"},
        "call": {**dict.fromkeys(("id", "name", "server_name"), TEXT), "input": DATA},
        "result": {
            **dict.fromkeys(("source", "title", "tool_use_id"), TEXT),
            "citations": DATA,
            "content": "content",
        },
        "cited": {**dict.fromkeys(("content", "tools"), DATA), "tool_use_id": TEXT},
    },
    others={"media part": MEDIA, "text source": MEDIA},
    entries={"content": "part"},
    kinds={
        "content": _PARTS,
        "part": _PARTS,
        "source": {"text": "text source", "content": "block source"},
        "tool": dict.fromkeys(("custom", *CLIENT_TOOLS), "caller's tool"),
    },
    untyped={"content": MEDIA, "part": MEDIA, "source": MEDIA, "tool": "caller's tool"},
    unknown={"content": MEDIA, "part": MEDIA, "source": MEDIA, "tool": OTHER},
    texts=frozenset({"content", "part"}),
)
"""Where a request has texts, blocks, schemas and data, and so what of it may name a URL."""
