"""Copies of the source tree to run the demo in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.demo.source_copy import ROOT, SourceCopy, copy_source

__all__ = ["MakeCopy"]

MakeCopy = Callable[[], SourceCopy]


@pytest.fixture
def make_copy(tmp_path: Path) -> MakeCopy:
    """Makes copies; they use the Python environment that ``make demo`` made in this checkout, if it did."""
    runtime = ROOT / ".demo" / "runtime"
    kept = runtime if any(runtime.glob("made-for-*")) else None
    made: list[SourceCopy] = []

    def make() -> SourceCopy:
        made.append(copy_source(tmp_path / f"copy-{len(made)}", runtime=kept))
        return made[-1]

    return make
