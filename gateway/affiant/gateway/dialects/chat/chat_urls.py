"""Where a chat completion request has texts, parts, schemas and data, and so what of it may name a URL: data alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.named_urls import DATA, MEDIA, MEDIA_MEMBERS, OTHER, SCHEMA, TEXT, URLPlaces

__all__ = ["CHAT_URLS"]

_TEXT_PART: Final[Mapping[str, str]] = dict.fromkeys(("refusal", "signature", "text", "thinking"), TEXT)
_TEXT_PARTS: Final[Mapping[str, str]] = dict.fromkeys(
    ("text", "input_text", "output_text", "refusal", "thinking"), "text part"
)
_TOOLS: Final[Mapping[str, str]] = dict.fromkeys(("function", "custom"), "caller's tool")

CHAT_URLS: Final = URLPlaces(
    members={
        "request": {
            "documents": "document",
            "messages": "message",
            "prediction": "message",
            "tools": "tool",
            **dict.fromkeys(
                (
                    *(
                        "bad_words",
                        "chat_template",
                        "grammar",
                        "guided_choice",
                        "guided_grammar",
                        "guided_regex",
                    ),
                    *("model", "prompt_cache_key", "safety_identifier", "stop", "user"),
                ),
                TEXT,
            ),
            **dict.fromkeys(
                (
                    *("functions", "guided_json", "json_schema", "response_format", "structural_tag"),
                    "structured_outputs",
                ),
                SCHEMA,
            ),
            "metadata": DATA,
        },
        "message": {
            "annotations": DATA,
            "content": "content",
            "function_call": "call",
            "tool_calls": "call",
            **dict.fromkeys(("name", "reasoning", "reasoning_content", "refusal", "tool_call_id"), TEXT),
        },
        "text part": _TEXT_PART,
        "untyped part": {**MEDIA_MEMBERS, **_TEXT_PART},
        "document": {"text": TEXT, "title": TEXT},
        "caller's tool": {"function": SCHEMA, "custom": SCHEMA},
        "call": {
            "arguments": DATA,
            "custom": "call",
            "function": "call",
            "id": TEXT,
            "input": DATA,
            "name": TEXT,
        },
    },
    others={"untyped part": MEDIA},
    entries={"content": "part"},
    kinds={"content": _TEXT_PARTS, "part": _TEXT_PARTS, "tool": _TOOLS},
    untyped={"content": "untyped part", "part": "untyped part", "tool": "caller's tool"},
    unknown={"content": MEDIA, "part": MEDIA, "tool": OTHER},
    texts=frozenset({"content", "part"}),
)
