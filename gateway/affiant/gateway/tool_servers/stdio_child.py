"""The last moments before a tool server's own program: ``... stdio_child --connection-fd N --plan-fd N``.

Run by the service stage, so the user, the view of closed folders and the way to new privileges are gone already. The
connection becomes standard input and output; nothing else is inherited but standard error, and the environment is the
plan's alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Final

__all__ = ["main"]

_MAX_PLAN: Final = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the program; the exit code where that cannot be."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--connection-fd", type=int, required=True)
    parser.add_argument("--plan-fd", type=int, required=True)
    options = parser.parse_args(arguments)
    with open(options.plan_fd, "rb") as file:
        plan = json.loads(file.read(_MAX_PLAN))
    command, environment = list(plan["command"]), dict(plan["environment"])
    os.dup2(options.connection_fd, 0)
    os.dup2(options.connection_fd, 1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - the operator's command, bound in the configuration
    except OSError as error:
        sys.stderr.write(f"cannot be run: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main())
