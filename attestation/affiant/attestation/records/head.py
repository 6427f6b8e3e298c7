"""The last record of a chain, as other records name it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Head"]


@dataclass(frozen=True, slots=True)
class Head:
    """The last record of a chain: what ``peer``, ``head`` and ``lst`` hold."""

    chn: str
    seq: int
    rh: str

    def to_json(self) -> Mapping[str, object]:
        """``{chn, seq, rh}``."""
        return {"chn": self.chn, "seq": self.seq, "rh": self.rh}
