"""The demo's own web API, for sessions that use a secret."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_SOURCE = Path(__file__).resolve().parents[2] / "examples" / "demo" / "stand_in.py"


@contextmanager
def stand_in(name: str) -> Iterator[Any]:
    """A TLS host of that name on a free port of 127.0.0.1, with a certificate authority of its own."""
    spec = importlib.util.spec_from_file_location("session_stand_in", _SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    with module.StandIn((name,), "127.0.0.1", (0,)) as host:
        host.port = host.bound_ports[0]
        yield host
