"""Says what an interrupted session may lack, and why that is a warning and not a contradiction.

A gateway closes a session as ``lost`` when its supervisor is gone (trust rules, 1). Its close then names the last
record that it had acknowledged, while the supervisor may have signed more: those are authentic, in their chain, and
say more than the close does, not less. And a supervisor that was killed may have signed requests that reached nobody:
without its ``end`` its chain's tail is open, and a refusal that it did not come to write cannot be told from one that
is withheld. Every other close speaks for both sides, so there both are refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verifier.case.case import Session

__all__ = ["covered_by_close", "tail_is_open"]


def covered_by_close(session: Session, close: VerifiedReceipt) -> Sequence[VerifiedReceipt]:
    """The supervisor's records that ``close`` speaks for: all of them, or what a ``lost`` one had acknowledged."""
    records = session.supervisor.records
    if close.member("why") != "lost":
        return records
    last = close.member("sup", "seq")
    if close.member("sup", "rh") == session.supervisor.statement.keyset_digest or not isinstance(last, int):
        return ()
    return tuple(record for record in records if record.seq <= last)


def tail_is_open(session: Session) -> bool:
    """Whether neither side ended it in order: no ``end`` of the supervisor's, and no close, or a ``lost`` one."""
    close = session.the("session-close")
    ended = any(record.kind == "end" for record in session.supervisor.records)
    return not ended and (close is None or close.member("why") == "lost")
