"""Members of a request by which some upstream answers with another model than the one that ``model`` names. Sans I/O.

A profile that lists models judges ``model``. Routers in front of many models take a list to fall back to, a name of a
group, or a whole other request in a member of their own; so under such a profile a request with one of them is refused.

>>> names_other_models({"model": "small", "fallbacks": ["large"]})
'fallbacks'
>>> names_other_models({"model": "small", "messages": []}) is None
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from affiant.gateway.dialects.strict_json import fold

__all__ = ["names_other_models"]

_OTHERS: Final = frozenset(
    fold(name)
    for name in (
        "adapter_id",
        "adapter_source",
        "base_model",
        "content_policy_fallbacks",
        "context_window_fallbacks",
        "custom_llm_provider",
        "default_fallbacks",
        "deployment",
        "deployment_id",
        "draft_model",
        "engine",
        "extra_body",
        "fallback",
        "fallback_models",
        "fallbacks",
        "litellm_params",
        "lora",
        "lora_adapter",
        "lora_name",
        "lora_request",
        "model_group",
        "model_id",
        "model_list",
        "model_name",
        "models",
        "options",
        "parameters",
        "plugins",
        "preset",
        "provider",
        "route",
        "router",
        "routing",
        "speculative_model",
    )
)
"""No list of these is ever complete: an upstream that routes by others needs a name of its own for each model."""


def names_other_models(request: Mapping[str, object]) -> str | None:
    """The first member of a request by which another model may answer; null counts, too."""
    for name in request:
        if fold(name) in _OTHERS:
            return name
    return None
