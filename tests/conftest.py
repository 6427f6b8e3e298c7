"""What every test run does first: what waits most comes first, and the cyclic collector leaves alone what stays.

Some thousand modules and fourteen thousand tests are made before the first test runs, and none of it is garbage. By
default the collector looks through all of it again and again, while it is made and then in every test.
"""

from __future__ import annotations

import gc
import signal
from pathlib import Path
from typing import Final

import pytest
from tests import properties  # noqa: F401 - makes the profiles

FIRST: Final = ("demo", "test_readme.py", "docs", "session", "sandbox", "gateway", "test_layout.py")
"""Sessions wait more than they compute, and no long file is left for one process alone at the end. The order of
pytest's own arguments does not count where one holds another."""

_HERE: Final = Path(__file__).parent
_USUAL: Final = gc.get_threshold()
gc.set_threshold(100_000, 50, 50)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell starts background jobs with SIGINT ignored, and what tests start would inherit that."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folders of :data:`FIRST`, then the others; within a folder nothing changes."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    top = item.path.relative_to(_HERE).parts[0] if item.path.is_relative_to(_HERE) else ""
    return FIRST.index(top) if top in FIRST else len(FIRST)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """From here on the collector works as it always does, on what the tests make."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)
