"""A session of many acts: commands, files in, out and removed, ports, under a task label that its starter salted."""

from __future__ import annotations

from typing import Any

from vectors.making.encoding import link, sha256_name
from vectors.making.faults import Fault, put
from vectors.making.keys import seeded
from vectors.making.records import Members, Record, Session, disclosure
from vectors.making.scripts import boot, execute, finish, ids, inference, start
from vectors.making.story import Story

__all__ = [
    "acts",
    "closed",
    "command",
    "labelled",
    "moved",
    "opened",
    "other_label",
    "outcome",
    "stopped",
    "task_label",
]

TREE = sha256_name(b"affiant vectors: a tree")
LABEL: Members = {"workflow": "nightly", "task": "summarise", "attempt": 2, "parent": "plan-7"}


def task_label(salts: str = "a task label") -> tuple[list[str], list[str]]:
    """The digests of the label, sorted, and its disclosures."""
    texts = [disclosure(f"{salts} {name}", name, value) for name, value in LABEL.items()]
    return sorted(link(text.encode("ascii")) for text in texts), texts


def labelled(*, shown: int = 4) -> dict[str, Fault]:
    """The activation carries the label, and so does the start record, with the first ``shown`` disclosures."""
    digests, texts = task_label()
    return {
        "document:session-activation": put(task={"_sd": digests}),
        "disclosed:start": lambda disclosures: [*disclosures, *texts[:shown]],
    }


def command(story: Story, told: Session, step: str) -> Record | None:
    """A command begins."""
    members: Members = {"act": {"typ": "exec"}, "iso": told.activation["iso"], "ph": "intent"}
    return story.supervisor_says(told, step, "exec", members, {"act": _program(step)})


def outcome(story: Story, told: Session, step: str, *of: Record | None) -> Record | None:
    """What became of a command."""
    members: Members = {
        "act": {"end": "complete", "typ": "exec"},
        "iso": told.activation["iso"],
        "ph": "outcome",
    }
    return story.supervisor_says(told, step, "exec", members | _par(*of), {"act": {"out": sha256_name(b"")}})


def _program(step: str) -> Members:
    return {"name": "make", "arg": sha256_name(step.encode("ascii"))}


def moved(story: Story, told: Session, step: str, way: str, **what: Any) -> Record | None:
    """One call moves files."""
    hidden = {"path": "/workspace/a", "dig": TREE, "n": 3, "len": 1200} | what
    return story.supervisor_says(told, step, "file", {"mov": {"dir": way}}, {"mov": hidden})


def stopped(story: Story, told: Session, step: str, *of: Record | None, **what: Any) -> Record | None:
    """It did not come to its end."""
    hidden = {"path": "/workspace/a", "n": 1, "len": 400} | what
    members: Members = {"mov": {"dir": "in"}, "ph": "failed"}
    return story.supervisor_says(told, step, "file", members | _par(*of), {"mov": hidden})


def opened(story: Story, told: Session, step: str, number: int = 8080) -> Record | None:
    """A port of the agent's is opened."""
    members: Members = {"prt": {}, "ph": "opened"}
    return story.supervisor_says(told, step, "port", members, {"prt": {"num": number}})


def closed(story: Story, told: Session, step: str, *of: Record | None, number: int = 8080) -> Record | None:
    """And closed."""
    members: Members = {"prt": {}, "ph": "closed"}
    hidden = {"num": number, "in": 310, "out": 2048}
    return story.supervisor_says(told, step, "port", members | _par(*of), {"prt": hidden})


def _par(*of: Record | None) -> Members:
    return {"par": ids(*of)} if any(of) else {}


def acts(story: Story) -> None:
    """Three commands, two of them at once; files in, out and removed, one call that failed; a port, twice."""
    boot(story)
    told = start(story)
    execute(story, told)
    inference(story, told)
    moved(story, told, "file-in", "in")
    port = opened(story, told, "port-opened")
    one, other = command(story, told, "one-intent"), command(story, told, "other-intent")
    moved(story, told, "file-out", "out", path="/workspace/out", n=1, len=17)
    outcome(story, told, "other-outcome", other)
    outcome(story, told, "one-outcome", one)
    closed(story, told, "port-closed", port)
    moved(story, told, "file-removed", "removed", n=0, len=0)
    again = opened(story, told, "port-again")
    failing = moved(story, told, "file-failing", "in")
    stopped(story, told, "file-failed", failing)
    closed(story, told, "port-again-closed", again)
    story.before("acts-done")
    finish(story, told)


def other_label() -> list[str]:
    """Digests of another label than the activation's."""
    return sorted(link(seeded(f"another label {number}", 32)) for number in range(4))
