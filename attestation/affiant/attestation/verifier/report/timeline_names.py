"""What a page calls the members and times of a record in its timeline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

__all__ = ["MAX_MOMENTS", "clock", "label"]

MAX_MOMENTS: Final = 5_000
"""Records that a page shows; it says how many it leaves out. A browser still opens such a page."""
_INDEX: Final = re.compile(r"\[[0-9]+\]")
_LABELS: Final[Mapping[str, str]] = {
    "act.arg": "arguments, by digest",
    "act.end": "ended",
    "act.name": "name",
    "act.out": "output, by digest",
    "act.tgt": "to",
    "agt.id": "agent",
    "agt.user": "on behalf of",
    "ini.method": "started by a user known by",
    "fet.tgt": "fetched by the model's host",
    "inp": "input files, by digest",
    "iso": "isolation",
    "limit": "limit",
    "mov.dig": "files, by digest",
    "mov.dir": "direction",
    "mov.len": "bytes",
    "mov.n": "files",
    "mov.path": "path",
    "mdl.ans": "model that answered",
    "mdl.id": "model asked for",
    "out": "counts",
    "prt.in": "bytes in",
    "prt.num": "port",
    "prt.out": "bytes out",
    "res.end": "ended",
    "res.st": "HTTP status",
    "rfs": "root file system",
    "rsn": "reason",
    "sec.ref": "secret",
    "tsk.attempt": "attempt",
    "tsk.parent": "parent task",
    "tsk.task": "task",
    "tsk.workflow": "workflow",
    "up.bind": "how the model's host is known",
    "up.host": "model's host",
    "use.in": "tokens in",
    "use.out": "tokens out",
    "why": "why",
}


def label(name: str) -> str | None:
    """What a member is called for a reader; None where only a specialist asks for it."""
    return _LABELS.get(_INDEX.sub("", name))


def clock(seconds: int) -> str:
    """UTC, for people; a record may hold any number."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "not a time"
