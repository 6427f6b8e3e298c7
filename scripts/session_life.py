"""Writes the diagram and the table of ``docs/session-life.md`` from the life cycle's table in the code.

python scripts/session_life.py            # writes the part between the page's two marks
python scripts/session_life.py --check    # exits with 1 if the page is not current
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from affiant.sandbox.supervisor.launch.lifecycle import TRANSITIONS, Event, State

PAGE = Path(__file__).resolve().parents[1] / "docs" / "session-life.md"
BEGIN, END = "<!-- written by scripts/session_life.py -->", "<!-- end -->"
_AGAIN = (Event.ABANDONED, Event.REJECTED, Event.KILLED)
"""Last in the diagram: they lead from nearly every state to an end."""


def diagram() -> Iterator[str]:
    """The transitions as a mermaid state diagram."""
    yield from ("```mermaid", "stateDiagram-v2", f"    [*] --> {State.PENDING.value}")
    steps = [
        (event in _AGAIN, f"    {before.value} --> {target.state.value}: {event.value}")
        for before, targets in TRANSITIONS.items()
        for event, target in targets.items()
    ]
    yield from (line for _, line in sorted(steps, key=lambda step: step[0]))
    yield from (f"    {state.value} --> [*]" for state, targets in TRANSITIONS.items() if not targets)
    yield "```"


def table() -> Iterator[str]:
    """One row for each transition."""
    yield from ("| state | event | next state | signed records |", "|---|---|---|---|")
    for before, targets in TRANSITIONS.items():
        for event, target in targets.items():
            yield f"| {before.value} | {event.value} | {target.state.value} | {target.records or 'none'} |"


def written(page: str) -> str:
    """``page`` with what the code's table says between the marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return "\n".join((f"{head}{BEGIN}", *diagram(), "", *table(), f"{END}{tail}"))


if __name__ == "__main__":
    now = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        sys.exit(
            0 if written(now) == now else f"{PAGE.name} is not current: run python scripts/session_life.py"
        )
    PAGE.write_text(written(now), encoding="utf-8")
