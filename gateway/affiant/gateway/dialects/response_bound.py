"""How long the answers are that a request asks for, as every upstream would read it.

Upstreams differ in which member bounds an answer, and some take one that others overlook. So where the profile bounds
tokens, a request must say it in the API's own members, as whole numbers, and in no other member that some server takes
for the same. Sans I/O.

>>> response_bound({"max_tokens": 100, "n": 2}, bounds=("max_tokens",), answers="n")
ResponseBound(tokens=100, answers=2, why='')
>>> response_bound({"max_tokens": 100, "n_predict": 100000}, bounds=("max_tokens",)).why
": 'n_predict' may say something else"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.gateway.dialects.strict_json import fold

__all__ = ["ResponseBound", "response_bound"]

_OTHER: Final = frozenset(
    fold(name)
    for name in (
        "best_of",
        "candidate_count",
        "extra_body",
        "generation_config",
        "max_completion_tokens",
        "max_gen_len",
        "max_length",
        "max_new_tokens",
        "max_output_tokens",
        "max_tokens",
        "max_tokens_to_sample",
        "maximum_tokens",
        "min_length",
        "min_new_tokens",
        "min_tokens",
        "n",
        "n_cmpl",
        "n_predict",
        "num_generations",
        "num_predict",
        "num_return_sequences",
        "options",
        "parameters",
        "prompt_embeds",
        "sampling_params",
        "use_beam_search",
    )
)
"""Members by which some server bounds an answer, lets it be longer, or makes more of them, or in which such members
are; no list of these is ever complete."""

_MOST: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class ResponseBound:
    """The most tokens of each answer, and how many answers there are. ``tokens`` is None where it is not said.

    ``why``: the reason, as the end of a sentence.
    """

    tokens: int | None
    answers: int = 1
    why: str = ""


def response_bound(
    request: Mapping[str, object], *, bounds: Sequence[str], answers: str | None = None
) -> ResponseBound:
    """What a request asks for; of two bounds, the larger one counts.

    Args:
        bounds: the dialect's own members for the tokens of an answer. answers: its member for how many there are.
    """
    own = (*bounds, answers)
    found: dict[str, int] = {}
    for name, value in request.items():
        if name not in own:
            if fold(name) in _OTHER:
                return ResponseBound(None, why=f": {name[:40]!r} may say something else")
        elif value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < _MOST:
                return ResponseBound(None, why=f": {name!r} is no whole number of 1 or more")
            found[name] = value
    number = 1 if answers is None else found.pop(answers, 1)
    return ResponseBound(max(found.values(), default=None), number)
