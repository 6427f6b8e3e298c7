"""The errors of reached limits: one class, and so one code, for each limit.

::

    NotAllowedError
    +-- LimitReached
        +-- ToolCallsSpent          limit_tool_calls
        +-- ToolRateReached         limit_tool_rate
        +-- ModelRequestsSpent      limit_requests
        +-- TokensSpent             limit_tokens
        +-- ResponseTooLong           limit_max_tokens        more was asked for than a request may
        +-- ResponseUnbounded         limit_answer_unbounded  the request does not say how much it asks for
        +-- EgressRequestsSpent     limit_egress_requests
        +-- BytesSpent              limit_bytes_out
        +-- WallSpent               limit_wall
        +-- StartsSpent             limit_starts
"""

from __future__ import annotations

from collections.abc import Sequence

from affiant.errors import NotAllowedError
from affiant.policy.decision.limit_words import most_words
from affiant.policy.decision.meters import NANOSECONDS
from affiant.policy.model.limits import Bounds

__all__ = [
    "BytesSpent",
    "EgressRequestsSpent",
    "LimitReached",
    "ModelRequestsSpent",
    "ResponseTooLong",
    "ResponseUnbounded",
    "StartsSpent",
    "TokensSpent",
    "ToolCallsSpent",
    "ToolRateReached",
    "WallSpent",
    "limit_reached",
]


class LimitReached(NotAllowedError):
    """A limit of the profile is reached; the request is not let through.

    Args:
        rules: ids of the limit, or of the rules whose limit it is.
        retry_after_s: seconds until there is room again if nothing else is used; None: waiting does not help.
    """

    code = "limit"

    def __init__(
        self,
        message: str,
        *,
        rules: Sequence[str],
        retry_after_s: int | None = None,
        expected: str | None = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, expected=expected, found=found, hint=hint)
        self.rules = tuple(rules)
        self.retry_after_s = retry_after_s

    @property
    def reason(self) -> str:
        """The stable code, as a policy's other reasons are called."""
        return self.code


class ToolCallsSpent(LimitReached):
    """The session's models have called as many tools as the profile lets them."""

    code = "limit_tool_calls"


class ToolRateReached(LimitReached):
    """A tool has been called as often as its rule lets it be."""

    code = "limit_tool_rate"


class ModelRequestsSpent(LimitReached):
    """The session has made as many requests to models as the profile lets it."""

    code = "limit_requests"


class TokensSpent(LimitReached):
    """The session's budget has no room for what the request could cost."""

    code = "limit_tokens"


class ResponseTooLong(LimitReached):
    """The request asks for longer answers than the profile lets this model give."""

    code = "limit_max_tokens"


class ResponseUnbounded(LimitReached):
    """The profile bounds tokens, and the request does not say how many it asks for, or not in one way."""

    code = "limit_answer_unbounded"


class EgressRequestsSpent(LimitReached):
    """As many requests have been let through by a rule as its limit lets."""

    code = "limit_egress_requests"


class BytesSpent(LimitReached):
    """As many bytes have gone out as the profile, or a rule, lets out."""

    code = "limit_bytes_out"


class StartsSpent(LimitReached):
    """The session has started as many sessions of an agent as its profile lets it."""

    code = "limit_starts"


class WallSpent(LimitReached):
    """The session has lasted as long as the profile lets it."""

    code = "limit_wall"


def limit_reached(
    kind: type[LimitReached],
    message: str,
    *,
    name: str,
    bounds: Bounds,
    wait: int | None,
    rules: Sequence[str] = (),
) -> LimitReached:
    """The error about what a meter has no room for.

    Args:
        name: the limit, as ``most_words`` knows it.
        wait: nanoseconds until there is room; None: never.
        rules: whose limit it is; none: the profile's own.
    """
    return kind(
        message,
        rules=rules or (f"limits/{name}",),
        retry_after_s=None if wait is None else max(-(-wait // NANOSECONDS), 1),
        expected=most_words(name, bounds),
    )
