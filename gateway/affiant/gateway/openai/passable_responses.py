"""How long the answers are that a request asks for, as every upstream would read it.

Upstreams differ in which member bounds an answer, and some take one that others overlook. So where the profile bounds
tokens, a request must say it in the API's own members, as whole numbers, and in no other member that some server takes
for the same. Sans I/O.

>>> response_bound({"max_tokens": 100, "max_completion_tokens": 200, "n": 2})
ResponseBound(tokens=200, answers=2, why='')
>>> response_bound({"max_tokens": 100, "n_predict": 100000}).why
": 'n_predict' may say something else"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from affiant.gateway.openai.strict_json import fold

__all__ = ["ResponseBound", "response_bound"]

_BOUNDS: Final = ("max_completion_tokens", "max_tokens")
_OTHER: Final = frozenset(
    fold(name)
    for name in (
        "best_of",
        "candidate_count",
        "extra_body",
        "generation_config",
        "max_gen_len",
        "max_length",
        "max_new_tokens",
        "max_output_tokens",
        "max_tokens_to_sample",
        "maximum_tokens",
        "min_length",
        "min_new_tokens",
        "min_tokens",
        "n_cmpl",
        "n_predict",
        "num_generations",
        "num_predict",
        "num_return_sequences",
        "options",
        "parameters",
        "sampling_params",
        "use_beam_search",
    )
)
"""Members by which some server lets an answer be longer, or makes more of them, or in which such members are; no
list of these is ever complete."""

_MOST: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class ResponseBound:
    """The most tokens of each answer, and how many answers there are. ``tokens`` is None where it is not said.

    ``why``: the reason, as the end of a sentence.
    """

    tokens: int | None
    answers: int = 1
    why: str = ""


def response_bound(request: Mapping[str, object]) -> ResponseBound:
    """What a chat completion request asks for; of two bounds, the larger one counts."""
    for name in request:
        if fold(name) in _OTHER:
            return ResponseBound(None, why=f": {name[:40]!r} may say something else")
    found: list[int] = []
    for name in (*_BOUNDS, "n"):
        value = request.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _MOST:
            return ResponseBound(None, why=f": {name!r} is no whole number of 1 or more")
        found.append(value)
    answers = request.get("n")
    tokens = found if answers is None else found[:-1]
    return ResponseBound(max(tokens, default=None), answers if isinstance(answers, int) else 1)
