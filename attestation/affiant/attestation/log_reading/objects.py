"""Reads a log whose resources are objects, as ``affiant log publish`` and a gateway's mirror write them."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.attestation.log_reading.object_store import Objects
from affiant.attestation.tlog.tiles import CHECKPOINT_PATH, parse_path

__all__ = ["ObjectLog"]


class ObjectLog:
    """See ``LogSource``; unlike an address of HTTP it can be listed."""

    __slots__ = ("_objects",)

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    @property
    def name(self) -> str:
        """The store's address."""
        return self._objects.name

    def read(self, path: str, *, limit: int) -> bytes | None:
        """As ``LogSource.read``.

        Raises:
            TileMalformed: ``path`` names no resource of a log.
        """
        if path != CHECKPOINT_PATH:
            parse_path(path)
        found = self._objects.get(path, limit=limit)
        return None if found is None else found.content

    def paths(self) -> Iterator[tuple[str, bool]]:
        """Every object's path; an object is always a regular file."""
        for path, _ in self._objects.sizes():
            yield path, True
