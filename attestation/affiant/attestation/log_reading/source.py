"""Defines what a place that holds a log must provide: the bytes of one path. A reader verifies them."""

from __future__ import annotations

from typing import Protocol

__all__ = ["LogSource"]


class LogSource(Protocol):
    """The resources of one log, by the paths of C2SP tlog-tiles."""

    @property
    def name(self) -> str:
        """How a reader calls it: the folder or the address."""
        ...

    def read(self, path: str, *, limit: int) -> bytes | None:
        """The content at ``path``, at most ``limit`` bytes; None where there is none.

        Args:
            path: ``checkpoint``, or the path of a tile or entry bundle.

        Raises:
            ResourceTooLarge: there is more.
            PathRefused, RedirectRefused, ServerNotAuthentic: what answers is not what was asked.
            LogUnreachable, LogUnavailable: nothing can be said now.
        """
        ...
