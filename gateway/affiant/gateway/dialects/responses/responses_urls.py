"""Where a request of the Responses API has texts, parts, schemas and data, and so what of it may name a URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.named_urls import DATA, MEDIA, MEDIA_MEMBERS, OTHER, SCHEMA, TEXT, URLPlaces

__all__ = ["RESPONSES_URLS"]

_TEXT_PART: Final[Mapping[str, str]] = {"annotations": DATA, **dict.fromkeys(("refusal", "text"), TEXT)}
_TEXT_PARTS: Final[Mapping[str, str]] = dict.fromkeys(
    ("input_text", "output_text", "refusal", "text"), "text part"
)
_NAMES: Final[Mapping[str, str]] = dict.fromkeys(
    ("call_id", "id", "name", "namespace", "phase", "role", "status"), TEXT
)

RESPONSES_URLS: Final = URLPlaces(
    members={
        "request": {
            "input": "input",
            "metadata": DATA,
            "text": SCHEMA,
            "structured_outputs": SCHEMA,
            "tools": "tool",
            **dict.fromkeys(
                (
                    *("chat_template", "instructions", "model", "previous_response_id", "prompt_cache_key"),
                    *("safety_identifier", "stop", "user"),
                ),
                TEXT,
            ),
        },
        "message": {**_NAMES, "content": "content"},
        "call": {**_NAMES, "arguments": DATA, "input": DATA},
        "output": {**_NAMES, "output": "content"},
        "earlier": dict.fromkeys(
            (
                *(
                    "action",
                    "actions",
                    "arguments",
                    "code",
                    "content",
                    "encrypted_content",
                    "operation",
                    "output",
                ),
                *("outputs", "queries", "result", "results", "summary", "tools"),
            ),
            DATA,
        ),
        "text part": _TEXT_PART,
        "untyped part": {**MEDIA_MEMBERS, **_TEXT_PART},
    },
    others={"untyped part": MEDIA},
    entries={"content": "part", "input": "item"},
    kinds={
        "content": _TEXT_PARTS,
        "part": _TEXT_PARTS,
        "item": {
            "message": "message",
            **dict.fromkeys(("custom_tool_call", "function_call"), "call"),
            **dict.fromkeys(("custom_tool_call_output", "function_call_output"), "output"),
            **dict.fromkeys(
                (
                    *("apply_patch_call", "apply_patch_call_output", "code_interpreter_call", "compaction"),
                    *("computer_call", "file_search_call", "image_generation_call", "local_shell_call"),
                    *(
                        "local_shell_call_output",
                        "mcp_approval_request",
                        "mcp_call",
                        "mcp_list_tools",
                        "program",
                    ),
                    *("program_output", "reasoning", "shell_call", "shell_call_output", "web_search_call"),
                ),
                "earlier",
            ),
        },
        "tool": dict.fromkeys(("function", "custom"), SCHEMA),
    },
    untyped={"content": "untyped part", "part": "untyped part", "item": "message", "tool": OTHER},
    unknown={"content": MEDIA, "part": MEDIA, "item": OTHER, "tool": OTHER},
    texts=frozenset({"content", "part", "input"}),
)
