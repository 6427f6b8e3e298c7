"""``affiant gateway drain``: empty a gateway before it is stopped, and follow that."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from affiant.command_line import print_json

__all__ = ["EXIT_LOST", "Asker", "drained"]

EXIT_LOST: Final = 3
"""Exit code: the gateway is drained, but sessions were lost or could not be closed."""

_STEP_S: Final = 0.25

Asker = Callable[..., bytes]
"""Asks the gateway of a folder: the folder, the target, and ``body``."""


def drained(folder: Path, within_s: int, ask: Asker, *, as_json: bool) -> int:
    """Drain the gateway that serves from ``folder``, and report on standard error until it is; the exit code.

    Raises:
        ``gateway.unreachable``: none serves, or it stopped meanwhile.
    """
    body = json.dumps({"within": within_s}).encode("ascii")
    report, last = json.loads(ask(folder, "/v1/drain", body=body)), ""
    try:
        while report["state"] != "drained":
            if (line := _line(report)) != last:
                click.echo(f"affiant gateway: {line}", err=True)
            last = line
            time.sleep(_STEP_S)
            report = json.loads(ask(folder, "/v1/drain"))
    except KeyboardInterrupt:
        click.echo(
            "affiant gateway: the gateway continues to drain. Follow it or set another bound: affiant gateway drain",
            err=True,
        )
        raise
    if as_json:
        print_json(report)
    else:
        _show(report)
    return EXIT_LOST if report["lost"] or report["unclosed"] else 0


def _line(report: Mapping[str, Any]) -> str:
    sessions = _sessions(report["open"])
    if report["state"] == "closing":
        return f"closing {sessions}"
    return f"takes no new sessions; {sessions} open"


def _show(report: Mapping[str, Any]) -> None:
    ended = f"{report['finished']} finished, {report['closed']} closed in order, {len(report['lost'])} lost"
    unclosed = f", {len(report['unclosed'])} not closed" if report["unclosed"] else ""
    click.echo(f"drained: {ended}{unclosed}")
    for name in report["lost"]:
        click.echo(f"lost: {name}  (affiant gateway bundle {name})")
    for name in report["unclosed"]:
        click.echo(f"not closed: {name}  (the journal did not take its close: affiant gateway status)")


def _sessions(count: int) -> str:
    return f"{count} session" if count == 1 else f"{count} sessions"
