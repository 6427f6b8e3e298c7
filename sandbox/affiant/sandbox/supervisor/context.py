"""What every step of opening a session needs: the surroundings, what was provided, and where to put what it opens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime

from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.sandbox.egress.record_budget import RecordLimits
from affiant.sandbox.supervisor.launch.lifecycle import Lifecycle
from affiant.sandbox.supervisor.launch.provision import Provision

__all__ = ["Opening", "Progress", "Surroundings"]

Progress = Callable[[str, Mapping[str, object]], Awaitable[None]]
"""Receives each step that was taken, and what is known about it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the I/O boundary reads once and passes down.

    Args:
        td: the TD that we run in.
        build: ``sha256:`` of this installation's release manifest.
        clock: the present time, UTC.
        random_bytes: the operating system's generator.
        limits: of the records that the agent may cause.
        nanoseconds: a clock that never goes back.
    """

    td: QuoteSource
    build: str
    clock: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]
    limits: RecordLimits = field(default_factory=RecordLimits)
    nanoseconds: Callable[[], int] = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class Opening:
    """One session that is being opened. ``stack`` undoes what was opened, in reverse, whatever happens."""

    provision: Provision
    around: Surroundings
    lifecycle: Lifecycle
    stack: AsyncExitStack
    progress: Progress
