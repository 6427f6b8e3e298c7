"""One version of a profile file on the page: what its agents may do, and its lines, to which places link.

A line has an element id of its own (``n12``: line 12 of the new file; ``m`` is the new file's floor, ``o`` and ``p``
are those of the old version), so that each place in the page is a link into the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from affiant.policy.authority.authority import Authority, authority_of
from affiant.policy.loading.policy_file import PolicyFile
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.review.page_text import Link, shortened

__all__ = ["MAX_LINES", "Document", "Edition", "edition_of"]

MAX_LINES: Final = 20_000
"""Lines of one document that a page shows; it says how many it leaves out."""
_PLACES: Final = 4
_NAME: Final = 26
"""Characters of a file's name beside a line; it is in full above the source."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it was read: its name, what its lines' ids begin with, its bytes."""

    name: str
    prefix: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Edition:
    """One version of a file, with the baseline policy that it names.

    ``agents`` are those that the page is about, in the order of the file.
    """

    profiles: ProfileSet
    agents: tuple[Authority, ...]
    documents: tuple[Document, ...]

    def agent(self, name: str) -> Authority | None:
        """The authority of that agent; None if it has no profile here."""
        return next((each for each in self.agents if each.agent == name), None)

    def target(self, where: str) -> str | None:
        """The link's target for ``source:line:column``; None if the page does not hold that line."""
        source, *numbers = where.rsplit(":", 2)
        prefix = next((document.prefix for document in self.documents if document.name == source), None)
        if prefix is None or len(numbers) != 2 or not numbers[0].isdecimal() or int(numbers[0]) > MAX_LINES:
            return None
        return f"#{prefix}{int(numbers[0])}"

    def place(self, where: str) -> Link:
        """``source:line:column`` as a link to that line, shown without the column; of a long name both ends."""
        target = self.target(where)
        source, *numbers = where.rsplit(":", 2)
        return Link(":".join([shortened(source, _NAME), *numbers[:1]]), target)

    def places(self, wheres: Iterable[str]) -> Sequence[Link]:
        """Up to four different lines, and how many more there are."""
        found = list(dict.fromkeys(self.place(where) for where in wheres))
        more = len(found) - _PLACES
        return [*found[:_PLACES], *([Link(f"and {more} more")] if more > 0 else [])]

    def rules(self, authority: Authority, rules: Iterable[str]) -> Sequence[Link]:
        """The places of an authority's rules."""
        return self.places(authority.where(rule) for rule in rules)


def edition_of(file: PolicyFile, *, agents: Sequence[str] = (), prefixes: str) -> Edition:
    """The version that ``file`` is.

    Args:
        agents: those that the page is about; empty: all.
        prefixes: two letters, for the file's lines and for its floor's.
    """
    profiles = file.profiles
    chosen = [each for each in profiles.profiles.values() if not agents or each.name in agents]
    documents = [Document(profiles.source, prefixes[0], file.data)]
    if file.floor is not None:
        documents.append(Document(file.floor.path.name, prefixes[1], file.floor.data))
    return Edition(profiles, tuple(map(authority_of, chosen)), tuple(documents))
