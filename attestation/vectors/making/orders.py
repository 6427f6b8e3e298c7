"""Orders of an erasure authority, as ``erasure`` and ``hold`` records carry them."""

from __future__ import annotations

from typing import Any

from vectors.making.documents import ORIGIN
from vectors.making.encoding import canonical, link
from vectors.making.keys import p256_key, thumbprint
from vectors.making.records import Record, Session, compact, fixed_header
from vectors.making.story import Story

__all__ = ["AUTHORITY", "chain", "erase", "hold", "item", "release"]

AUTHORITY = "erasure authority"
"""Label of the key that the trust files accept."""


def item(record: Record, level: int, of: Session) -> dict[str, Any]:
    """One element of ``del``."""
    agt = {"ses": of.id}
    if record.party.role == "gateway":
        agt |= {"seq": record.payload["agt"]["seq"]}
    return {**record.head, "agt": agt, "basis": "an order of 2026-11-21", "lvl": level}


def chain(last: Record, of: Session) -> dict[str, Any]:
    """One element of ``del`` that names a whole chain, by its last record."""
    agt = {} if last.party.role == "gateway" else {"agt": {"ses": of.id}}
    return {**last.head, **agt, "basis": "a plan of retention", "lvl": 3}


def _give(story: Story, step: str, kind: str, members: dict[str, Any], covered: dict[str, Any]) -> Record:
    covered = {"typ": f"affiant-{kind}/1", "origin": ORIGIN, "made": story.now, **covered}
    covered = story.faults.through(f"order:{step}", covered)
    key = story.faults.through(f"order-key:{step}", p256_key(AUTHORITY))
    header = fixed_header(f"affiant-{kind}+jwt", thumbprint(key))
    aut = story.faults.through(f"aut:{step}", compact(key, header, canonical(covered)))
    given = story.gateway_says(step, kind, members | {"aut": aut})
    assert given is not None
    return given


def erase(story: Story, step: str, items: list[dict[str, Any]]) -> Record:
    """An ``erasure`` record; a case may change what is named before it is signed."""
    items = story.faults.through(f"del:{step}", items)
    return _give(story, step, "erasure", {"del": items}, {"del": link(canonical(items))})


def hold(story: Story, step: str, target: str) -> Record:
    """A ``hold`` record."""
    what = {"basis": "a lawsuit", "tgt": target}
    return _give(story, step, "hold", what, what)


def release(story: Story, step: str, held: Record) -> Record:
    """The end of a hold."""
    what = {"basis": "it is settled", "rel": held.rh, "tgt": held.payload["tgt"]}
    what = story.faults.through(f"release:{step}", what)
    return _give(story, step, "hold", what, what)
