"""JSON that other programs write: floats and any layout are theirs to choose; two meanings are not.

As ``parse_strict``, it rejects a member that occurs twice, nesting without end,
integers that readers disagree about. Floats become :class:`~decimal.Decimal`, and are compared with nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import NoReturn

__all__ = ["ForeignJSONError", "decimal_number", "parse_foreign_object"]

_MAX_DIGITS = 19


class ForeignJSONError(ValueError):
    """Text is not JSON with one meaning; its message says why."""


def parse_foreign_object(text: str) -> dict[str, object]:
    """The object that ``text`` is.

    Raises:
        ForeignJSONError: it is none, or has two meanings.
    """
    try:
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=_refused,
        )
    except json.JSONDecodeError as error:
        raise ForeignJSONError(f"not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ForeignJSONError("nested too deep") from error
    if not isinstance(value, dict):
        raise ForeignJSONError("not a JSON object")
    return value


def decimal_number(value: object) -> int | None:
    """A count: an integer, or the same in decimal digits; None: anything else, and what is negative."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ForeignJSONError("a member occurs twice")
    return members


def _decimal(text: str) -> Decimal:
    if len(text) > 64:
        raise ForeignJSONError("a number of many digits")
    return Decimal(text)


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS + 1:
        raise ForeignJSONError("a number of many digits")
    return int(text)


def _refused(text: str) -> NoReturn:
    raise ForeignJSONError(f"{text} is no JSON number")
