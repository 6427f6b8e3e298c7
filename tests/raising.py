"""Expects an error by its code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from affiant.errors import AffiantError

__all__ = ["raises_code"]


@contextmanager
def raises_code(*codes: str, match: str | None = None) -> Iterator[pytest.ExceptionInfo[AffiantError]]:
    """As ``pytest.raises``, for an :class:`AffiantError` with one of ``codes``."""
    with pytest.raises(AffiantError, match=match) as raised:
        yield raised
    assert raised.value.code in codes
