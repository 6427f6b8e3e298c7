"""What a verifier must say of a case: its rows, what each needs, and what follows from the rows that are refused.

The rules are those of the specification, written down once more: a row whose need did not hold is *not made*; a
level holds if every row of it was made and held; the level is the highest one with all below it; any refusal makes the
verdict contraindicated (exit code 20). Every keyset here says simulated, which is worth ``none`` at best (40); where
objects are missing that the records name, nothing can be judged (30).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ROWS", "expectation"]

ROWS: Mapping[str, tuple[str | None, tuple[str, ...]]] = {
    "fmt.bundle": ("L0", ()),
    "fmt.keysets": ("L0", ("fmt.bundle",)),
    "sig.receipts": ("L0", ("fmt.keysets",)),
    "kinds.judged": ("L1", ("sig.receipts",)),
    "erasure.authority": ("L1", ("sig.receipts",)),
    "chain.ids": ("L1", ("sig.receipts",)),
    "chain.time": ("L1", ("sig.receipts",)),
    "chain.boot": ("L1", ("sig.receipts",)),
    "chain.contiguous": ("L1", ("chain.boot",)),
    "chain.end": ("L1", ("chain.boot",)),
    "chain.epochs": ("L1", ("chain.contiguous",)),
    "chain.gaps": ("L1", ("sig.receipts",)),
    "session.start": ("L1", ("sig.receipts",)),
    "session.order": ("L1", ("session.start",)),
    "session.counter": ("L1", ("session.start",)),
    "session.close": ("L1", ("session.order",)),
    "session.peer": ("L1", ("session.order",)),
    "session.intents": ("L1", ("session.start",)),
    "session.decisions": ("L1", ("session.start",)),
    "session.supervisor": ("L1", ("chain.contiguous", "session.start")),
    "bundle.objects": ("L4", ("sig.receipts",)),
    "key.evidence": ("L4", ("sig.receipts",)),
    "key.bound": ("L4", ("key.evidence",)),
    "key.not_after": ("L4", ("key.evidence",)),
    "conf.bound": ("L4", ("key.evidence",)),
    "pol.bound": ("L4", ("key.evidence", "session.start")),
    "session.sealed": ("L1", ("session.order", "pol.bound")),
    "model.answered": ("L1", ("sig.receipts",)),
    "apr.bound": ("L4", ("session.order", "pol.bound")),
    "tee.appraisal": ("L4", ("key.bound", "conf.bound", "pol.bound")),
    "tee.class": ("L4", ("tee.appraisal",)),
    "peer.bound": ("L4", ("key.evidence", "session.start")),
    "peer.ear": ("L4", ("peer.bound", "tee.appraisal")),
    "conf.accepted": ("L4", ("conf.bound",)),
    "pol.accepted": ("L4", ("pol.bound",)),
    "pol.private": ("L4", ("pol.bound",)),
    "iso.floor": ("L4", ("pol.bound",)),
    "rfs.accepted": ("L4", ("pol.bound",)),
    "log.inclusion": ("L2", ("sig.receipts",)),
    "log.consistency": ("L2", ("log.inclusion",)),
    "hold.respected": ("L2", ("erasure.authority",)),
    "body.request": ("L5", ("sig.receipts",)),
    "body.response": ("L5", ("sig.receipts",)),
    "wit.quorum": ("L3", ("log.inclusion",)),
    "time.bracket": ("L3", ("wit.quorum", "chain.contiguous")),
    "time.tsa": ("L3", ("log.inclusion", "log.consistency")),
    "time.sigstore": ("L3", ("log.inclusion", "log.consistency")),
}
"""Row -> its level, and the rows that must hold before it is made."""
_ATTESTED = ("key.bound", "conf.bound", "tee.appraisal")
"""What inclusion needs where the trust file says ``attested``: the key counts as far as the quote that binds it."""
_OF_WITNESSES = ("wit.quorum", "time.bracket")
"""Made only where the trust file names witnesses."""
_OF_AUTHORITIES = ("time.tsa",)
"""Asked only where the trust file names a timestamp authority."""
_BODIES = ("body.request", "body.response")


def expectation(
    refused: Mapping[str, str],
    *,
    not_made: Iterable[str] = (),
    asked: Iterable[str] = (),
    attested: bool = True,
    witnessed: bool = False,
    stamped: bool = False,
    warnings: Iterable[str] | None = None,
) -> dict[str, Any]:
    """The ``expect`` of a case.

    Args:
        refused: row -> reason code.
        not_made: rows that cannot be made for want of something in the bundle; what follows from them is added.
        asked: which of the bodies are given.
        attested: whether the trust file accepts the log as ``attested``.
        witnessed: whether it names witnesses.
        stamped: whether it names a timestamp authority.
        warnings: rows that hold with a warning; None: not said.
    """
    state: dict[str, str] = {}
    missing = {*not_made, *(() if witnessed else _OF_WITNESSES)}
    unasked = {*(set(_BODIES) - set(asked)), *(() if stamped else _OF_AUTHORITIES), "time.sigstore"}
    for row, (_, needs) in ROWS.items():
        wanted = needs + (_ATTESTED if attested and row == "log.inclusion" else ())
        if row in unasked and "fmt.bundle" not in refused:
            state[row] = "not asked"
        elif row in refused:
            state[row] = "refused"
        elif row in missing or any(state[need] != "held" for need in wanted):
            state[row] = "not made"
        else:
            state[row] = "held"
    document: dict[str, Any] = {
        "exit_code": 20 if refused else 30 if state["bundle.objects"] == "not made" else 40,
        "tier": "contraindicated" if refused else "none",
        "level": _level(state),
        "refused": dict(sorted(refused.items())),
        "not_made": sorted(row for row, found in state.items() if found == "not made"),
    }
    if warnings is not None:
        document["warnings"] = sorted(warnings)
    return document


def _level(state: Mapping[str, str]) -> str | None:
    reached = None
    for level in ("L0", "L1", "L2", "L3", "L4", "L5"):
        states = [state[row] for row, (own, _) in ROWS.items() if own == level]
        if not all(found in ("held", "not asked") for found in states) or "held" not in states:
            break
        reached = level
    return reached
