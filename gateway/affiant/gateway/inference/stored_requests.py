"""Requests about a response that an upstream keeps: which one, what is asked of it, and what its answer makes known.

Such a request names the response in its path, has no body, and of a query only what is listed here (OpenAI's API
reference and the types of its ``openai`` package: ``response_retrieve_params``, ``input_item_list_params``). The model
is the one that the response was asked of: the profile decides about it again.

>>> written_query("GET", "/v1/responses/{response}", "stream=true&starting_after=4")
'stream=true&starting_after=4'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, urlencode

from affiant.attestation.schema.agent_routes import AgentRoute
from affiant.gateway.dialects.dialect import ModelRequest
from affiant.gateway.dialects.response_bound import ResponseBound
from affiant.gateway.dialects.unlisted import RequestMembers
from affiant.gateway.dialects.usage import Usage
from affiant.gateway.sessions.stored_responses import StoredResponse, StoredResponses
from affiant.gateway.wire.errors import RequestMalformed

__all__ = ["STORED", "keeper_of", "response_of", "stored_request", "written_query"]

STORED: Final = "{response}"
"""Where the template of a route has the id of a stored response."""
_TRUTH: Final = "true|false"
_INCLUDE: Final = dict.fromkeys(("include", "include[]"), "[a-z_.]{1,64}")
_QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    f"GET /v1/responses/{STORED}": {
        **_INCLUDE,
        "include_obfuscation": _TRUTH,
        "starting_after": "[0-9]{1,9}",
        "stream": _TRUTH,
    },
    f"GET /v1/responses/{STORED}/input_items": {
        **_INCLUDE,
        "after": "[A-Za-z0-9_.=-]{1,256}",
        "limit": "[0-9]{1,3}",
        "order": "asc|desc",
    },
}
"""Route -> name in a query -> its values."""
_LONGEST: Final = 1024
"""Characters of a query."""


def response_of(route: AgentRoute, path: str) -> str:
    """The id in the path of a request of ``route``."""
    before, _, after = route.template.partition(STORED)
    return path.removeprefix(before).removesuffix(after)


def written_query(method: str, template: str, query: str) -> str:
    """``query``, if all of it is listed for this route, as it is sent on.

    Raises:
        RequestMalformed: something is not listed, or is there twice.
    """
    listed = _QUERIES.get(f"{method} {template}", {})
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        pairs = [("?", "")]
    names = [name for name, _ in pairs if name not in _INCLUDE]
    if (
        len(query) > _LONGEST
        or len(set(names)) != len(names)
        or not all(re.fullmatch(listed[name], value) if name in listed else False for name, value in pairs)
    ):
        raise RequestMalformed(
            "not a query of this route", expected=", ".join(sorted(listed)) or "none", where="query"
        )
    return urlencode(pairs)


def stored_request(kept: StoredResponse, query: str, body: bytes) -> ModelRequest:
    """What a request about ``kept`` asks; its response has cost what it cost when it was made.

    Args:
        query: as :func:`written_query` returns it.

    Raises:
        RequestMalformed: there is a body.
    """
    if body not in (b"", b"{}"):
        raise RequestMalformed("a body", expected="no body", where="body")
    return ModelRequest(
        model=kept.model,
        stream=("stream", "true") in parse_qsl(query),
        tools=(),
        parameters={},
        answer=ResponseBound(0),
        members=RequestMembers(None, ()),
    )


def keeper_of(
    stored: StoredResponses, kept: StoredResponse, usage_in: Callable[[object], Usage]
) -> Callable[[Mapping[str, object]], None]:
    """What takes in a response, or an event of one, and keeps the ids that it names.

    Args:
        usage_in: what it says of its tokens.
    """

    def keep(value: Mapping[str, object]) -> None:
        held = value.get("response")
        response = held if isinstance(held, dict) else value
        if response.get("object") == "response":
            stored.keep(response.get("id"), replace(kept, tokens=usage_in(value).tokens(answers=1) or 0))
        output = response.get("output")
        items = [value.get("item"), *(output if isinstance(output, list) else ())]
        stored.keep_items((item.get("id") for item in items if isinstance(item, dict)), kept)

    return keep
