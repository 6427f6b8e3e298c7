"""What no file call shows an agent, or writes over for it: affiant's own places, by path and by inode.

A path is compared with all links resolved. A bind mount or a second name (link(2)) of such a place has another path
and the same inode: every entry is compared by device and inode while a folder is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.errors import ConfigurationError, MalformedError
from affiant.sandbox.workspace.walk import Inodes, escaped

__all__ = ["PrivatePlaces", "overlap"]


def overlap(folder: Path, private: Path) -> str | None:
    """How ``folder`` and a private place overlap, as a verb; None: they do not. Links are resolved."""
    ours, theirs = folder.resolve(), private.resolve()
    if ours == theirs:
        return "is"
    if theirs.is_relative_to(ours):
        return "holds"
    return "lies in" if ours.is_relative_to(theirs) else None


@dataclass(frozen=True, slots=True)
class PrivatePlaces:
    """The private places of one session.

    Args:
        inodes: device and inode of each that exists, and of files with keys in them.
        named: each path, and what it is called.
    """

    inodes: Inodes = field(default=frozenset(), repr=False)
    named: tuple[tuple[Path, str], ...] = ()

    def require_apart(self, local: Path) -> None:
        """Return if ``local`` is none of the places, holds none and lies in none.

        Raises:
            ``session.input_private``: it does.
        """
        for place, what in self.named:
            if (how := overlap(local, place)) is not None:
                raise ConfigurationError(
                    f"the local path {how} {what}, and no agent may reach that",
                    where=escaped(str(local)),
                    found=escaped(str(place)),
                    hint="Use another path",
                    code="session.input_private",
                )

    def to_json(self) -> Mapping[str, object]:
        """As a session host sends it to its clients."""
        return {
            "inodes": [f"{device}:{inode}" for device, inode in sorted(self.inodes)],
            "named": [[b64u(os.fsencode(place)), what] for place, what in self.named],
        }

    @classmethod
    def from_json(cls, value: object) -> PrivatePlaces:
        """What :meth:`to_json` wrote.

        Raises:
            ``session.control``: another form. EncodingError: not base64url.
        """
        match value:
            case {"inodes": list(inodes), "named": list(named), **rest} if not rest:
                pairs = [str(each).partition(":") for each in inodes]
                return cls(
                    frozenset((int(device), int(inode)) for device, _, inode in pairs),
                    tuple((Path(os.fsdecode(from_b64u(str(place)))), str(what)) for place, what in named),
                )
        raise MalformedError("not a list of private places", where="private", code="session.control")
