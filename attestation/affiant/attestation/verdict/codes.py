"""The codes of the checks, apart from the checks: what a trust file's ``require`` may name."""

from __future__ import annotations

from typing import Final

__all__ = ["CODES"]

_BY_AREA: Final = {
    "fmt": "bundle keysets",
    "bundle": "objects",
    "sig": "receipts",
    "kinds": "judged",
    "erasure": "authority",
    "hold": "respected",
    "chain": "ids time boot contiguous end epochs gaps coverage",
    "session": "start order counter close peer intents decisions supervisor sealed",
    "key": "evidence bound not_after",
    "conf": "bound accepted",
    "pol": "bound accepted private",
    "apr": "bound",
    "model": "answered",
    "tee": "appraisal class",
    "peer": "bound ear",
    "iso": "floor",
    "rfs": "accepted",
    "body": "request response",
    "log": "inclusion consistency",
    "wit": "quorum",
    "time": "bracket tsa sigstore",
}

CODES: Final = frozenset(f"{area}.{name}" for area, names in _BY_AREA.items() for name in names.split())
"""Every code that ``affiant verify`` can print as a row."""
