"""Class *act*: commands, movements of files and ports are whole and contradict nothing; and the task label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vectors.cases.edits import WITHOUT, one
from vectors.making.acts import (
    acts,
    closed,
    command,
    labelled,
    moved,
    opened,
    other_label,
    outcome,
    stopped,
    task_label,
)
from vectors.making.case import Case, told
from vectors.making.documents import identifier
from vectors.making.faults import put, take
from vectors.making.records import Record, Session
from vectors.making.story import Story

__all__ = ["CASES", "VALID"]

_INTENT = {"session.intents": "session.intent"}
_NO_LOG = ("log.inclusion",)
_ACTS: dict[str, Any] = {"base": "valid/acts", "script": acts, "logged": False, "not_made": _NO_LOG}
_STORED: dict[str, Any] = {"stored_from": "valid/acts", "not_made": _NO_LOG}


def _acts(name: str, about: str, faults: dict[str, Any], refused: dict[str, str] | None = None) -> Case:
    return one(f"act/{name}", about, labelled() | faults, _INTENT if refused is None else refused, **_ACTS)


def _done(do: Callable[[Story, Session], object]) -> dict[str, Any]:
    """The same, and ``do`` before the supervisor's end."""
    return {"before:acts-done": lambda story: do(story, story.sessions["session"])}


def _late(do: Callable[[Story, Session], object]) -> dict[str, Any]:
    """The same, and ``do`` after the supervisor's end; the close knows of it."""
    return {"before:close": lambda story: do(story, story.sessions["session"])}


def _step(told: Session, name: str) -> Record:
    return next(record for record in told.supervisor.records if record.step == name)


def _id_of(step: str) -> str:
    return identifier(f"session {step} jti")


def _open_ones(story: Story, told: Session) -> None:
    command(story, told, "left-alone")
    opened(story, told, "left-open", 9090)


def _opened_twice(story: Story, told: Session) -> None:
    first, second = opened(story, told, "first", 9090), opened(story, told, "second", 9090)
    closed(story, told, "first-closed", first, number=9090)
    closed(story, told, "second-closed", second, number=9090)


def _outcome_of(intent: str) -> Callable[[Story, Session], object]:
    def do(story: Story, told: Session) -> None:
        members = {"act": {"end": "complete", "typ": "exec"}, "iso": told.activation["iso"], "ph": "outcome"}
        story.supervisor_says(told, "early", "exec", members | {"par": [intent]})

    return do


def _outcome_first(story: Story, told: Session) -> None:
    _outcome_of(_id_of("late-intent"))(story, told)
    command(story, told, "late-intent")


VALID = (
    Case(
        "valid/acts",
        "Commands, two of them at once; files in, out, removed, and a call that failed; one port twice; a task label.",
        told(labelled(), acts, logged=False),
        not_made=_NO_LOG,
        warnings=("rfs.accepted",),
    ),
    Case(
        "valid/acts-undisclosed",
        "The same without a disclosure: numbers of ports, paths and sizes are not compared.",
        told(labelled(shown=0), acts, logged=False, disclosed=False),
        warnings=("rfs.accepted",),
        **_STORED,
    ),
    Case(
        "valid/acts-left-open",
        "A command without outcome and a port that was not closed: a warning.",
        told(labelled() | _done(_open_ones), acts, logged=False),
        warnings=("rfs.accepted", "session.intents"),
        **_STORED,
    ),
    Case(
        "valid/task-shown-in-part",
        "Of the task label the workflow alone is disclosed.",
        told(labelled(shown=1), acts, logged=False),
        warnings=("rfs.accepted",),
        **_STORED,
    ),
)
CASES = (
    _acts(
        "outcome-twice",
        "A second outcome of one command.",
        _done(lambda story, told: outcome(story, told, "again", _step(told, "one-intent"))),
    ),
    _acts(
        "outcome-missing-intent",
        "The outcome of a command names an intent that was never made.",
        _done(_outcome_of(_id_of("no intent"))),
    ),
    _acts(
        "outcome-of-two",
        "One outcome of two commands.",
        _done(
            lambda story, told: outcome(story, told, "both", *(command(story, told, name) for name in "ab"))
        ),
    ),
    _acts(
        "outcome-of-another-kind",
        "The outcome of a command names files as what began it.",
        _done(lambda story, told: outcome(story, told, "strange", _step(told, "file-in"))),
    ),
    _acts(
        "outcome-of-another-command",
        "The outcome names another command than its intent.",
        _done(lambda story, told: outcome(story, told, "strange", command(story, told, "last")))
        | {"hidden:strange": put(act__name="sh")},
    ),
    _acts(
        "outcome-before-its-intent",
        "The outcome of a command stands before its intent.",
        _done(_outcome_first),
    ),
    _acts("port-opened-twice", "A port is opened while it is open.", _done(_opened_twice)),
    _acts(
        "port-never-opened",
        "A port is closed that was not opened.",
        {"members:port-again-closed": take("par")},
    ),
    _acts(
        "port-closed-twice",
        "A port is closed twice.",
        _done(lambda story, told: closed(story, told, "once-more", _step(told, "port-again"))),
    ),
    _acts(
        "port-of-another-number",
        "Another port is closed than was opened.",
        {"hidden:port-again-closed": put(prt__num=8081)},
    ),
    _acts(
        "file-bytes-of-no-file",
        "Bytes of no file.",
        _done(lambda story, told: moved(story, told, "empty", "in", n=0, len=12)),
    ),
    _acts("file-more-files", "More files moved than the call had.", {"hidden:file-failed": put(mov__n=4)}),
    _acts(
        "file-more-bytes", "More bytes moved than the call had.", {"hidden:file-failed": put(mov__len=1201)}
    ),
    _acts(
        "file-elsewhere",
        "What failed was another path.",
        {"hidden:file-failed": put(mov__path="/workspace/b")},
    ),
    _acts(
        "file-another-way",
        "What failed went the other way.",
        {"members:file-failed": put(mov__dir="out")},
    ),
    _acts(
        "file-failed-twice",
        "One call failed twice.",
        _done(lambda story, told: stopped(story, told, "once-more", _step(told, "file-failing"))),
    ),
    _acts("file-failed-without-call", "A failure that names no call.", {"members:file-failed": take("par")}),
    _acts(
        "file-of-a-second-phase",
        "A call that failed, and says that it is complete.",
        {"members:file-failed": put(ph="complete")},
        {"sig.receipts": "fmt.profile"},
    ),
    _acts(
        "port-beyond-the-last",
        "A port of a number that there is not.",
        _done(lambda story, told: opened(story, told, "beyond", 65536)),
        {"sig.receipts": "fmt.profile"},
    ),
    _acts(
        "after-the-end",
        "Files move after the end of the supervisor's chain.",
        _late(lambda story, told: moved(story, told, "late", "in")),
        {"chain.end": "chain.after_end"},
    ),
    _acts(
        "left-out",
        "A call that moved files is left out of the bundle.",
        {"withhold:file-out": WITHOUT},
        {"chain.contiguous": "chain.gap"},
    ),
    _acts(
        "task-of-another-session",
        "The start record has another task label than the activation.",
        {
            "members:start": put(tsk={"_sd": other_label()}),
            "disclosed:start": lambda disclosures: disclosures,
        },
        {"peer.bound": "peer.unbound"},
    ),
    _acts(
        "task-value-altered",
        "A disclosed value of the task label is another.",
        {"disclosed:start": lambda disclosures: [*disclosures, *task_label("other salts")[1]]},
        {"sig.receipts": "sd.invalid"},
    ),
)
