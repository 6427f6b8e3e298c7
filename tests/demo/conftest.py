"""Copies of the source tree to run the demo in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import prepared_runtime
from tests.demo.source_copy import ROOT, SourceCopy, copy_source

__all__ = ["MakeCopy"]

MakeCopy = Callable[..., SourceCopy]


@pytest.fixture
def make_copy(tmp_path: Path) -> MakeCopy:
    """Makes copies; each has the Python environment that the demo else makes first, but with ``prepared=False``."""
    runtime = ROOT / ".demo" / "runtime"
    kept = runtime if any(runtime.glob("made-for-*")) else None
    if kept is None and prepared_runtime.fits():
        kept = prepared_runtime.make_runtime(tmp_path / "runtime", "openai")
        (kept / f"made-for-{prepared_runtime.VERSION}").touch()
    made: list[SourceCopy] = []

    def make(*, prepared: bool = True) -> SourceCopy:
        made.append(copy_source(tmp_path / f"copy-{len(made)}", runtime=kept if prepared else None))
        return made[-1]

    return make
