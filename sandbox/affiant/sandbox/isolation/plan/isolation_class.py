"""The backends and the class of isolation that each gives, by the names that receipts and options use."""

from __future__ import annotations

import enum

__all__ = ["BackendName", "IsolationClass"]


class IsolationClass(enum.Enum):
    """How far the agent is from the machine's kernel; in rising order."""

    NAMESPACE = "namespace"
    USERSPACE_KERNEL = "userspace-kernel"

    def reaches(self, minimum: IsolationClass) -> bool:
        """Whether this class is at or above ``minimum``."""
        order = tuple(IsolationClass)
        return order.index(self) >= order.index(minimum)


class BackendName(enum.Enum):
    """The backends; the values are the receipt's ``iso``."""

    GVISOR = "gvisor"
    BUBBLEWRAP = "bwrap-landlock"

    @property
    def isolation(self) -> IsolationClass:
        """The class that the backend gives."""
        match self:
            case BackendName.GVISOR:
                return IsolationClass.USERSPACE_KERNEL
            case BackendName.BUBBLEWRAP:
                return IsolationClass.NAMESPACE
