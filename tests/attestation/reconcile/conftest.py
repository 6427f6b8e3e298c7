"""Makes ``conftest_reconcile`` importable by the tests of this folder, and its fixture theirs."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest_reconcile import reconciled  # noqa: E402

__all__ = ["reconciled"]
