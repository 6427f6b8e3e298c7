"""Headers that pass between agents and model servers: data, and what it says of one request or response. Sans I/O.

A request's headers say which form of an API is meant; the gateway forwards known values of two of Anthropic's. Sources:
Anthropic's API reference; ``AnthropicBetaParam`` of its ``anthropic`` package, 2.12. Left out of that are the values
for APIs that the gateway does not serve (files, batches, agents, memory, administration), and those by which another
model answers. A response's headers say when to ask again, what is left of a rate, and which request it was: OpenAI's,
Anthropic's and vLLM's references name them.

>>> forwarded_headers("/v1/messages", {"anthropic-version": "2023-06-01", "anthropic-beta": "pdfs-2024-09-25, new-9"})
{'anthropic-beta': 'pdfs-2024-09-25', 'anthropic-version': '2023-06-01'}
>>> forwarded_headers("/v1/embeddings", {"anthropic-version": "2023-06-01"})
{}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from affiant.gateway.wire.errors import RequestMalformed

__all__ = ["BETAS", "VERSIONS", "forwarded_headers", "returned_headers"]

_ANTHROPIC: Final = "/v1/messages"
VERSIONS: Final = ("2023-06-01", "2026-10-21")
"""Values of ``anthropic-version``: the forms of the API that the gateway reads. The second has fewer parameters;
its requests and responses have the same forms (``anthropic`` 2.12 asks for it; Anthropic's API reference, "Versions").
"""
BETAS: Final = frozenset(
    {
        *(
            "cache-diagnosis-2026-04-07",
            "code-execution-2025-05-22",
            "compact-2026-01-12",
            "compact-2026-09-04",
        ),
        *("computer-use-2024-10-22", "computer-use-2025-01-24", "computer-use-2025-11-24"),
        *("context-1m-2025-08-07", "context-management-2025-06-27", "dev-full-thinking-2025-05-14"),
        *("extended-cache-ttl-2025-04-11", "fast-mode-2026-02-01", "fine-grained-tool-streaming-2025-05-14"),
        *("interleaved-thinking-2025-05-14", "mcp-client-2025-04-04", "mcp-client-2025-11-20"),
        *("mcp-client-2026-09-15", "mid-conversation-output-config-2026-07-01"),
        *("mid-conversation-system-clear-at-2026-08-21", "model-context-window-exceeded-2025-08-26"),
        *("output-128k-2025-02-19", "output-300k-2026-03-24", "pdfs-2024-09-25", "prompt-caching-2024-07-31"),
        *("structured-outputs-2025-11-13", "task-budgets-2026-03-13", "thinking-binding-controls-2026-08-01"),
        *(
            "thinking-display-updates-2026-08-18",
            "thinking-token-count-2026-05-13",
            "token-counting-2024-11-01",
        ),
        *("token-efficient-tools-2025-02-19", "web-fetch-2025-09-10"),
    }
)
"""Values of ``anthropic-beta`` that go on. One that lets the provider run a tool does nothing without the tool itself
in the request, which the profile judges."""

_OPENAI: Final = tuple(
    f"x-ratelimit-{what}-{of}"
    for what in ("limit", "remaining", "reset")
    for of in ("requests", "tokens", "project-tokens")
)
_RATES: Final = tuple(
    f"anthropic-ratelimit-{of}-{what}"
    for of in ("requests", "tokens", "input-tokens", "output-tokens")
    for what in ("limit", "remaining", "reset")
)
_RETURNED: Final = frozenset(
    name.encode("ascii")
    for name in ("retry-after", "retry-after-ms", "x-request-id", "request-id", *_OPENAI, *_RATES)
)
_VALUE: Final = re.compile(rb"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?\Z")


def forwarded_headers(template: str, found: Mapping[str, str]) -> Mapping[str, str]:
    """Of the headers of a request those that go to the model's server, each with the values that do.

    An unknown beta is left out: clients add new ones faster than any list, and without it the API is as it always was.

    Args:
        template: of the request's route.

    Raises:
        RequestMalformed: another version of the API is asked for.
    """
    if not template.startswith(_ANTHROPIC):
        return {}
    asked = (value.strip() for value in found.get("anthropic-beta", "").split(","))
    betas = ",".join(dict.fromkeys(value for value in asked if value in BETAS))
    version = found.get("anthropic-version")
    if version is not None and version not in VERSIONS:
        raise RequestMalformed(
            "not a version of the API that the gateway serves",
            expected=", ".join(VERSIONS),
            where="anthropic-version",
        )
    given = {"anthropic-beta": betas, "anthropic-version": version}
    return {name: value for name, value in given.items() if value}


def returned_headers(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """Of the headers of a model server's response those that go to the agent: listed, there once, at most 256 bytes.

    Args:
        headers: names in lower case.
    """
    found: dict[bytes, bytes] = {}
    twice: set[bytes] = set()
    for name, value in headers:
        if name in _RETURNED:
            if name in found:
                twice.add(name)
            found[name] = value.strip()
    if not found:
        return ()
    return tuple((name, value) for name, value in found.items() if name not in twice and _VALUE.match(value))
