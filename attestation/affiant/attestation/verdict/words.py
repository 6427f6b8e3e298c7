"""The words that a verdict has for records, uses, ends and checks, as data: the second verifier has the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

__all__ = ["words"]

_FILE: Final = Path(__file__).with_suffix(".json")


def words(of: str) -> Mapping[str, Any]:
    """Of ``titles`` (kind of record -> what happened), ``uses``, ``ends`` (of sessions), or ``checks``.

    A check has two texts: what it proves, and what the reader can do where it does not.
    """
    return _words()[of]


@cache
def _words() -> Mapping[str, Mapping[str, Any]]:
    return cast("Mapping[str, Mapping[str, Any]]", json.loads(_FILE.read_text("utf-8")))
