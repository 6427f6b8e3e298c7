"""The errors of copying that programs catch by name."""

from __future__ import annotations

from affiant.errors import NotAllowedError, UnreachableError

__all__ = ["FileNameError", "SpecialFile", "TreeTooLarge", "TreeUnreadable"]


class SpecialFile(NotAllowedError):
    """A device, pipe or socket in a tree to be copied."""

    code = "workspace.special_file"


class TreeTooLarge(NotAllowedError):
    """More files, bytes or levels than the limits allow."""

    code = "workspace.too_large"


class FileNameError(NotAllowedError):
    """A name that is no printable Unicode."""

    code = "workspace.name"


class TreeUnreadable(UnreachableError):
    """The machine did not let us read or copy the tree."""

    code = "workspace.unreadable"
