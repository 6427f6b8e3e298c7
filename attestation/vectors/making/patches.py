"""The difference of two bundles as a JSON Patch (RFC 6902): ``add``, ``remove`` and ``replace`` only."""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from typing import Any

__all__ = ["difference"]


def difference(base: dict[str, Any], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Operations that make ``wanted`` of ``base``, in the order in which they are applied."""
    patch: list[dict[str, Any]] = []
    for name, value in base.items():
        if name not in wanted:
            patch.append({"op": "remove", "path": f"/{name}"})
        elif name == "receipts" and isinstance(wanted[name], list):
            patch += _array(value, wanted[name])
        elif isinstance(value, dict) and isinstance(wanted[name], dict):
            patch += _object(f"/{name}", value, wanted[name])
        elif value != wanted[name]:
            patch.append({"op": "replace", "path": f"/{name}", "value": wanted[name]})
    patch += [{"op": "add", "path": f"/{name}", "value": wanted[name]} for name in wanted if name not in base]
    return patch


def _object(path: str, base: dict[str, Any], wanted: dict[str, Any]) -> list[dict[str, Any]]:
    patch: list[dict[str, Any]] = []
    for name in sorted({*base, *wanted}):
        at = f"{path}/{name}"
        if name not in wanted:
            patch.append({"op": "remove", "path": at})
        elif name not in base:
            patch.append({"op": "add", "path": at, "value": wanted[name]})
        elif base[name] != wanted[name]:
            patch.append({"op": "replace", "path": at, "value": wanted[name]})
    return patch


def _array(base: list[Any], wanted: list[Any]) -> list[dict[str, Any]]:
    """From the end to the beginning, so that no operation moves what a later one names.

    Entries are paired by what was signed: of a longer log every proof is another.
    """
    one, two = ([_signed(item) for item in items] for items in (base, wanted))
    patch: list[dict[str, Any]] = []
    for tag, start, stop, first, last in reversed(
        SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    ):
        if tag == "equal":
            pairs = zip(base[start:stop], wanted[first:last], strict=True)
            for offset, (old, new) in enumerate(pairs):
                patch += _entry(f"/receipts/{start + offset}", old, new)
            continue
        both = min(stop - start, last - first)
        patch += [{"op": "remove", "path": f"/receipts/{at}"} for at in range(stop - 1, start + both - 1, -1)]
        patch += [
            {"op": "add", "path": f"/receipts/{start + both}", "value": wanted[at]}
            for at in range(last - 1, first + both - 1, -1)
        ]
        for offset in range(both):
            patch += _entry(f"/receipts/{start + offset}", base[start + offset], wanted[first + offset])
    return patch


def _signed(item: Any) -> str:
    return (
        item["sdjwt"] if isinstance(item, dict) and isinstance(item.get("sdjwt"), str) else json.dumps(item)
    )


def _entry(path: str, base: Any, wanted: Any) -> list[dict[str, Any]]:
    if isinstance(base, dict) and isinstance(wanted, dict):
        return _object(path, base, wanted)
    return [{"op": "replace", "path": path, "value": wanted}]
