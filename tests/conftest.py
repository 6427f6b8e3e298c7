"""What every test run does first: the cyclic collector leaves alone what stays until the end.

Some thousand modules and fourteen thousand tests are made before the first test runs, and none of it is garbage. By
default the collector looks through all of it again and again, while it is made and then in every test.
"""

from __future__ import annotations

import gc

import pytest

_USUAL = gc.get_threshold()
gc.set_threshold(100_000, 50, 50)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """From here on the collector works as it always does, on what the tests make."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_USUAL)
