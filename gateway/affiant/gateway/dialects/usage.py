"""Token counts as an upstream states them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Usage", "count_in", "openai_usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the upstream states them; None where it does not.

    ``beside_choices``: stated in an event of a stream that holds a choice, and so perhaps of that choice alone.
    """

    prompt: int | None = None
    completion: int | None = None
    total: int | None = None
    beside_choices: bool = False

    def tokens(self, *, answers: int) -> int | None:
        """All of them: the sum, or the stated total where that is more; None where they are not stated.

        No request has a prompt of no tokens: servers that do not count say 0. Of several answers, what is stated
        beside one says nothing of the others (``continuous_usage_stats``, which an agent can ask for).

        Args:
            answers: how many the request asked for.
        """
        if not self.prompt or self.completion is None or (self.beside_choices and answers > 1):
            return None
        return max(self.prompt + self.completion, self.total or 0)

    def followed_by(self, later: Usage) -> Usage:
        """Both parts of what a stream states in its first and in its last event; what is stated twice is the last."""
        return Usage(
            self.prompt if later.prompt is None else later.prompt,
            self.completion if later.completion is None else later.completion,
            self.total if later.total is None else later.total,
            beside_choices=later.beside_choices,
        )


def openai_usage(value: object, *, streamed: bool) -> Usage:
    """``usage`` of a response, or of an event of a stream, as OpenAI's API has it."""
    if not isinstance(value, dict) or not isinstance(usage := value.get("usage"), dict):
        return Usage()
    return Usage(
        count_in(usage.get("prompt_tokens")),
        count_in(usage.get("completion_tokens")),
        count_in(usage.get("total_tokens")),
        beside_choices=streamed and bool(value.get("choices")),
    )


def count_in(value: object) -> int | None:
    """A stated count; None where it is not stated as a whole number below 2**53."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None
