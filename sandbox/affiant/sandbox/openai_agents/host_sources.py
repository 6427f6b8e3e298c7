"""What of a manifest comes from this machine: files and folders that are copied in, and path grants.

A caller keeps the state. A program that can change it there could name any file of this machine. So
a state that is read loses these parts; the client that resumes it puts back those that it trusts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from agents.sandbox.entries import BaseEntry, Dir, File, GitRepo, LocalDir
from agents.sandbox.manifest import Manifest
from agents.sandbox.workspace_paths import SandboxPathGrant

__all__ = ["host_sources", "place_text", "with_host_sources", "without_host_sources"]

_FROM_ELSEWHERE: Final = (File, GitRepo)
"""Entries whose content is in the manifest, or is fetched inside the sandbox."""
_GRANT: Final = None
"""Stands before the path of a path grant."""

Entries = Mapping[str | Path, BaseEntry]


def host_sources(manifest: Manifest) -> Mapping[str, str]:
    """Place -> canonical JSON of each entry that reads this machine, and of each path grant without ``host_path``."""
    found = {json.dumps(keys): _text(entry) for keys, entry in _entries(manifest.entries, [])}
    grants = {json.dumps([_GRANT, each.path]): _text(each) for each in _plain(manifest)}
    return {**found, **grants}


def without_host_sources(manifest: Manifest) -> Manifest:
    """``manifest`` without what :func:`host_sources` finds."""
    kept = [each for each in manifest.extra_path_grants if each.host_path is not None]
    return manifest.model_copy(
        update={"entries": _without(manifest.entries), "extra_path_grants": tuple(kept)}
    )


def with_host_sources(manifest: Manifest, sources: Mapping[str, str]) -> Manifest:
    """``manifest`` with ``sources`` of :func:`host_sources` at their places, as far as their folders are there."""
    grants, entries = list(manifest.extra_path_grants), manifest.entries
    for place, text in sources.items():
        first, *further = json.loads(place)
        if first == _GRANT:
            grants.append(SandboxPathGrant.model_validate_json(text))
        else:
            entries = _with(entries, [first, *further], BaseEntry.parse(json.loads(text)))
    return manifest.model_copy(update={"entries": entries, "extra_path_grants": tuple(grants)})


def place_text(place: str) -> str:
    """A place as a message names it."""
    first, *further = json.loads(place)
    return f"path grant {further[0]}" if first == _GRANT else "/".join([first, *further])


def _plain(manifest: Manifest) -> Iterator[SandboxPathGrant]:
    return (each for each in manifest.extra_path_grants if each.host_path is None)


def _text(model: BaseEntry | SandboxPathGrant) -> str:
    return json.dumps(model.model_dump(mode="json"), sort_keys=True)


def _entries(entries: Entries, above: Sequence[str]) -> Iterator[tuple[list[str], BaseEntry]]:
    for name, entry in entries.items():
        keys = [*above, _key(name)]
        if type(entry) is Dir:
            yield from _entries(entry.children, keys)
        elif not _is_from_elsewhere(entry):
            yield keys, entry


def _without(entries: Entries) -> dict[str | Path, BaseEntry]:
    kept: dict[str | Path, BaseEntry] = {}
    for name, entry in entries.items():
        if type(entry) is Dir:
            kept[name] = entry.model_copy(update={"children": _without(entry.children)})
        elif _is_from_elsewhere(entry):
            kept[name] = entry
    return kept


def _is_from_elsewhere(entry: BaseEntry) -> bool:
    """Whether it reads nothing of this machine; a kind that is not known might."""
    return type(entry) in _FROM_ELSEWHERE or (type(entry) is LocalDir and entry.src is None)


def _with(entries: Entries, keys: Sequence[str], added: BaseEntry) -> dict[str | Path, BaseEntry]:
    first, further = keys[0], keys[1:]
    changed = dict(entries)
    if not further:
        return {**changed, first: added}
    for name, entry in entries.items():
        if _key(name) == first and isinstance(entry, Dir):
            changed[name] = entry.model_copy(update={"children": _with(entry.children, further, added)})
    return changed


def _key(name: str | Path) -> str:
    return name.as_posix() if isinstance(name, Path) else name
