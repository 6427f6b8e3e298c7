"""Class *witness*: who else saw the tree, and when; and so, when a record existed.

The trust file wants two of three witnesses. A quorum that is missed is *not made*, since nothing contradicts anything;
a line of a known witness that does not hold, and a date outside of what witnesses saw, is refused.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any

from vectors.making.case import Case, told
from vectors.making.documents import START
from vectors.making.faults import Fault, put
from vectors.making.trust import OPERATORS_OWN, OPERATORS_OWN_AND_ANOTHER, WITNESSED
from vectors.making.witnesses import EARLY, LATE, cosigned, line, stated, witnessed_boot, witnessed_session

__all__ = ["CASES"]

_BASE = "valid/witnessed"
_SIGNATURE = {"wit.quorum": "note.signature"}
_OUTSIDE = {"time.bracket": "time.outside"}
_BEFORE: Mapping[str, int] = {"a": -3, "b": -2, "c": -1}
_NOTES: Mapping[str, Fault] = {"epoch-note": cosigned(EARLY), "note": cosigned(LATE)}


def _made(faults: Mapping[str, Fault] | None = None) -> Any:
    return told({**_NOTES, **(faults or {})}, witnessed_session)


def _booted(stated_at: Mapping[str, int], kept_at: Mapping[str, int] | None = None) -> Any:
    """The statement names a checkpoint of before the boot; ``kept_at``: the bundle holds that of other times."""
    faults = {**_NOTES, "document:gateway-statement": stated(stated_at)}
    return told(faults, witnessed_boot(stated_at if kept_at is None else kept_at))


def _later(seconds: int, times: Mapping[str, int]) -> Mapping[str, int]:
    return {name: time + seconds for name, time in times.items()}


def _and(*more: str, only: str = "ab") -> Callable[[str], str]:
    """The true lines of some witnesses, and other lines."""

    def fault(note: str) -> str:
        return cosigned({name: LATE[name] for name in only})(note) + "".join(more)

    return fault


def _forged(note: str) -> str:
    """Two true lines are a quorum; the third is signed by somebody else under the third's name."""
    text = note.partition("\n\n")[0] + "\n"
    return _and(line(text, "c", LATE["c"], key="somebody"))(note)


def _of_another_tree(note: str) -> str:
    """The third line is a true one, over a checkpoint of another size."""
    origin, size, root, *_ = note.split("\n")
    return _and(line(f"{origin}\n{int(size) + 1}\n{root}\n", "c", LATE["c"]))(note)


def _with_time(change: int | None) -> Fault:
    """The third line names another time than was signed; None: no time at all."""

    def fault(note: str) -> str:
        text = note.partition("\n\n")[0] + "\n"
        head, _, data = line(text, "c", LATE["c"]).rstrip("\n").rpartition(" ")
        raw = base64.b64decode(data)
        time = 0 if change is None else START + LATE["c"] + change
        moved = base64.b64encode(raw[:4] + struct.pack(">Q", time) + raw[12:]).decode()
        return _and(f"{head} {moved}\n")(note)

    return fault


def _twice(note: str) -> str:
    """One witness, two lines of two times."""
    text = note.partition("\n\n")[0] + "\n"
    return _and(line(text, "a", LATE["a"] + 1), only="a")(note)


def _unnamed(note: str) -> str:
    """A true line of a named witness, and one of a witness whom the trust file does not name."""
    text = note.partition("\n\n")[0] + "\n"
    return _and(line(text, "d", LATE["a"]), only="a")(note)


_ROLLBACK = Case(
    "log/rollback",
    "An epoch at the second leaf names a checkpoint of 500 leaves: the log was set back since, or is another.",
    _made({"members:epoch": put(cps=500)}),
    _BASE,
    refused={"log.consistency": "log.split_view", **_OUTSIDE},
    trust=WITNESSED,
)

CASES: tuple[Case, ...] = (
    Case(
        _BASE,
        "Three witnesses cosigned the log: every record has its bracket, but the boot, which follows no tree.",
        _made(),
        trust=WITNESSED,
        warnings=("rfs.accepted", "time.bracket"),
    ),
    Case(
        "valid/witnessed-by-two",
        "Two of three are the quorum.",
        _made({"note": cosigned({"b": 61, "c": 62})}),
        trust=WITNESSED,
        warnings=("rfs.accepted", "time.bracket"),
        stored_from=_BASE,
    ),
    Case(
        "valid/one-witness-lies",
        "One witness's clock is years ahead in both checkpoints: with two of three it moves no end of any bracket.",
        _made({"epoch-note": cosigned({**EARLY, "a": 10**9}), "note": cosigned({**LATE, "a": 10**9})}),
        trust=WITNESSED,
        warnings=("rfs.accepted", "time.bracket"),
        stored_from=_BASE,
    ),
    Case(
        "valid/witnessed-by-self",
        "The quorum is the operator's own witness: it holds, as a warning.",
        _made(),
        trust=OPERATORS_OWN,
        warnings=("rfs.accepted", "time.bracket", "wit.quorum"),
        stored_from=_BASE,
    ),
    Case(
        "valid/witnessed-by-self-and-another",
        "The operator's own witness and another, either of whom is a quorum: it stands without the operator's.",
        _made(),
        trust=OPERATORS_OWN_AND_ANOTHER,
        warnings=("rfs.accepted", "time.bracket"),
        stored_from=_BASE,
    ),
    Case(
        "valid/witnessed-by-self-where-another-could",
        "The other one has not cosigned the last checkpoint: what is left is the operator's own.",
        _made({"note": cosigned({"a": 60})}),
        trust=OPERATORS_OWN_AND_ANOTHER,
        warnings=("rfs.accepted", "time.bracket", "wit.quorum"),
        stored_from=_BASE,
    ),
    Case(
        "valid/witnessed-before-the-boot",
        "The keyset statement names a checkpoint that witnesses had cosigned: the boot too has its not-before.",
        _booted(_BEFORE),
        trust=WITNESSED,
        warnings=("rfs.accepted",),
        stored_from=_BASE,
    ),
    *(
        Case(f"witness/{name}", about, make, _BASE, refused=refused, not_made=not_made, trust=WITNESSED)
        for name, about, make, refused, not_made in (
            (
                "below-quorum",
                "One of three witnesses: nobody contradicts, and L3 is not reached.",
                _made({"note": cosigned({"a": 60})}),
                {},
                ("wit.quorum",),
            ),
            (
                "nobody",
                "The log's own signature alone.",
                _made({"note": lambda note: note}),
                {},
                ("wit.quorum",),
            ),
            (
                "not-named",
                "A second witness that the trust file does not name counts for nothing.",
                _made({"note": _unnamed}),
                {},
                ("wit.quorum",),
            ),
            (
                "one-twice",
                "One witness gives two lines: it counts once, and no note has two lines of one key.",
                _made({"note": _twice}),
                {"log.inclusion": "note.malformed"},
                (),
            ),
            (
                "forged",
                "A third line under a witness's key id, signed by another: refused although two are a quorum.",
                _made({"note": _forged}),
                _SIGNATURE,
                (),
            ),
            (
                "of-another-tree",
                "A witness's true line, taken from a checkpoint of another size.",
                _made({"note": _of_another_tree}),
                _SIGNATURE,
                (),
            ),
            (
                "time-changed",
                "A cosignature whose time was set back by a minute.",
                _made({"note": _with_time(-60)}),
                _SIGNATURE,
                (),
            ),
            (
                "time-missing",
                "A cosignature with the time zero.",
                _made({"note": _with_time(None)}),
                _SIGNATURE,
                (),
            ),
            (
                "epoch-below-quorum",
                "The checkpoint that the epoch names has one witness: no bracket.",
                _made({"epoch-note": cosigned({"a": 1})}),
                {},
                ("time.bracket",),
            ),
            (
                "epoch-checkpoint-missing",
                "The checkpoint that the epoch names is not in the bundle.",
                _made({"bundle": put(checkpoints={})}),
                {},
                ("time.bracket",),
            ),
            (
                "epoch-of-another-size",
                "The epoch says that the checkpoint which it names has no leaves; it has one.",
                _made({"members:epoch": put(cps=0)}),
                _OUTSIDE,
                (),
            ),
            (
                "future-time",
                "The last checkpoint was cosigned ten hours after the instant judged at: nobody had seen it then.",
                _made({"note": cosigned(_later(36_000, LATE))}),
                {},
                ("wit.quorum",),
            ),
            (
                "boot-dated-before",
                "The statement names a tree that witnesses saw ten minutes after the boot is dated.",
                _booted(_later(600, _BEFORE)),
                _OUTSIDE,
                (),
            ),
            (
                "boot-checkpoint-missing",
                "The bundle holds another note than the statement names: the same tree, seen at other times.",
                _booted(_BEFORE, _later(1, _BEFORE)),
                {},
                ("time.bracket",),
            ),
            (
                "boot-below-quorum",
                "The checkpoint that the statement names has one witness.",
                _booted({"a": -3}),
                {},
                ("time.bracket",),
            ),
            (
                "dated-before",
                "Witnesses saw the tree that the epoch names ten minutes after the records say that they followed it.",
                _made({"epoch-note": cosigned(_later(600, EARLY)), "note": cosigned(_later(700, LATE))}),
                _OUTSIDE,
                (),
            ),
            (
                "dated-after",
                "Witnesses saw the whole tree ten minutes before its records are dated.",
                _made({"epoch-note": cosigned(_later(-700, EARLY)), "note": cosigned(_later(-700, LATE))}),
                _OUTSIDE,
                (),
            ),
            (
                "empty-bracket",
                "Witnesses saw what the records follow after they saw the records.",
                _made({"epoch-note": cosigned(_later(600, EARLY))}),
                _OUTSIDE,
                (),
            ),
        )
    ),
    _ROLLBACK,
)
