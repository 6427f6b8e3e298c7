"""A log of 700 leaves, a store in memory, and one that fails when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from tests.attestation.log_builder import LogBuilder, chain

from affiant.attestation.log.publish.anchor_source import AnchorSource
from affiant.attestation.log.publish.publishing import Publisher
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.object_store import Found, Objects, ObjectStore


class Died(BaseException):
    """As if the process had been killed."""


class Store:
    """A store whose calls can be counted, and be the last ones."""

    def __init__(self, inner: Objects) -> None:
        self.inner = inner
        self.calls: list[tuple[str, str]] = []
        self.live = 1 << 30
        self.refusal: BaseException = Died()
        self.name = inner.name

    def _count(self, what: str, path: str) -> None:
        self.calls.append((what, path))
        self.live -= 1
        if self.live < 0:
            raise self.refusal

    def get(self, path: str, *, limit: int) -> Found | None:
        self._count("get", path)
        return self.inner.get(path, limit=limit)

    def sizes(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        self._count("sizes", prefix)
        return self.inner.sizes(prefix)

    def create(self, path: str, content: bytes) -> bool:
        self._count("create", path)
        return self.inner.create(path, content)

    def replace(self, path: str, content: bytes, old: Found) -> bool:
        self._count("replace", path)
        return self.inner.replace(path, content, old)

    def change(self, path: str, content: bytes) -> None:
        """What whoever owns the bucket can do."""
        assert isinstance(self.inner, ObjectStore)
        self.inner._store.put(path, content)

    def lose(self, path: str) -> None:
        assert isinstance(self.inner, ObjectStore)
        self.inner._store.delete(path)

    def written(self) -> list[str]:
        return [path for what, path in self.calls if what in ("create", "replace")]


@pytest.fixture
def store() -> Store:
    return Store(ObjectStore("memory", MemoryStore()))


@pytest.fixture
def built(tmp_path: Path) -> LogBuilder:
    """300 leaves of one chain and 400 of another; only the first are signed."""
    builder = LogBuilder(tmp_path / "log", chain("one", 300))
    builder.sign()
    builder.add(chain("two", 400, end=True))
    return builder


def publisher(builder: LogBuilder, store: Objects) -> Publisher:
    return Publisher(FolderLog(builder.folder), AnchorSource(builder.folder / "anchors"), store)
