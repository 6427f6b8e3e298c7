"""What the workspace refuses, each with its stable code.

::

    NotAllowedError
    +-- SpecialFile      workspace.special_file   a device, pipe or socket in a tree to be copied
    +-- TreeTooLarge     workspace.too_large      more files, bytes or levels than the limits allow
    +-- NameRefused      workspace.name           a name that is no printable Unicode
    +-- OutputConflict   workspace.output         the output's own files stand in the way
    MalformedError
    +-- ImageRefused     workspace.image          an archive or OCI layout that is not what it claims to be
    UnreachableError
    +-- TreeUnreadable   workspace.unreadable     the machine did not let us read or copy the tree
    +-- OutputUnwritable workspace.unwritable     the machine did not let us write the output: a full disk, say
"""

from __future__ import annotations

from affiant.errors import MalformedError, NotAllowedError, UnreachableError

__all__ = [
    "ImageRefused",
    "NameRefused",
    "OutputConflict",
    "OutputUnwritable",
    "SpecialFile",
    "TreeTooLarge",
    "TreeUnreadable",
]


class SpecialFile(NotAllowedError):
    """A device, pipe or socket in a tree to be copied."""

    code = "workspace.special_file"


class TreeTooLarge(NotAllowedError):
    """More files, bytes or levels than the limits allow."""

    code = "workspace.too_large"


class NameRefused(NotAllowedError):
    """A name that is no printable Unicode."""

    code = "workspace.name"


class OutputConflict(NotAllowedError):
    """The output's own files stand in the way: a link or a file where a directory is needed."""

    code = "workspace.output"


class TreeUnreadable(UnreachableError):
    """The machine did not let us read or copy the tree."""

    code = "workspace.unreadable"


class OutputUnwritable(UnreachableError):
    """The machine did not let us write the output: its disk is full, or it is read-only."""

    code = "workspace.unwritable"


class ImageRefused(MalformedError):
    """An archive or OCI layout that is not what it claims to be."""

    code = "workspace.image"
