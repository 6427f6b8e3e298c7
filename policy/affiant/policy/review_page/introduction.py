"""The head of the page: what it is about, by digest; how much there is of it; where everything stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from affiant.policy.review.edition import Edition
from affiant.policy.review.elements import NOTHING, Html, element, heading, joined, name, text
from affiant.policy.review.review import Review

__all__ = ["contents", "opening"]


@dataclass(frozen=True, slots=True)
class _Tile:
    """A number and what it counts, as a link to where that stands. ``look`` is a class of the style."""

    number: int
    one: str
    many: str
    to: str
    look: str = "plain"
    sign: str = ""

    def html(self) -> Html:
        said = self.one if self.number == 1 else self.many
        shown = element("b", text(f"{self.sign}{self.number}" if self.number else "0"))
        return element("li", element("a", shown, text(f" {said}"), href=f"#{self.to}"), cls=self.look)


def opening(review: Review) -> Html:
    """Title, counts, and the facts by which somebody else finds the same file."""
    about = [text("Review of "), name(review.new.profiles.source)]
    if review.old is not None:
        about += [text(", compared with "), name(review.old.profiles.source)]
    some = f"{review.left_out} more agents of the file are not on this page: it was asked about some only."
    notice = element("p", element("strong", text(some)), cls="notice")
    return element(
        "header",
        heading(1, text("What these agents may do")),
        element("p", *about, cls="lead"),
        notice if review.left_out else NOTHING,
        element("ul", *(tile.html() for tile in _tiles(review)), cls="tiles", aria_label="In numbers"),
        _facts(review),
    )


def _tiles(review: Review) -> Iterator[_Tile]:
    agents, findings = review.new.agents, review.findings
    yield _Tile(len(agents), "agent", "agents", "short")
    yield _Tile(sum(len(each.profile.places) for each in agents), "rule", "rules", "rules")
    if review.old is not None:
        wider = sum(told.first.direction.is_wider for told in review.told)
        more, less = "in which more is allowed", "in which less is allowed"
        yield _Tile(wider, f"way {more}", f"ways {more}", "changes", "bad" if wider else "plain", sign="+")
        yield _Tile(len(review.told) - wider, f"way {less}", f"ways {less}", "changes", sign="\u2212")
    yield _Tile(len(findings), "warning", "warnings", "warnings", "warn" if findings else "plain")
    unlimited = sum(any(reach.unrestricted for reach in each.hosts) for each in agents)
    yield _Tile(unlimited, "agent with an unlimited host", "agents with an unlimited host", "matrix")
    steered = len({found.agent for found in findings if found.code == "outsiders_can_steer"})
    look = "bad" if steered else "plain"
    yield _Tile(
        steered, "agent that outsiders can steer", "agents that outsiders can steer", "warnings", look
    )
    secrets = {secret.grant.name for each in agents for secret in each.secrets}
    yield _Tile(len(secrets), "secret named", "secrets named", "secrets")


def _facts(review: Review) -> Html:
    rows = list(_fact_rows(review))
    return element(
        "section",
        heading(2, text("What this is"), anchor="what"),
        element("dl", *(each for row in rows for each in row), cls="facts"),
        aria_labelledby="what",
    )


def _fact_rows(review: Review) -> Iterator[tuple[Html, Html]]:
    new = review.new.profiles
    yield _fact("File", name(new.source))
    yield _fact("Policy digest (SHA-384)", _digest(new.digest), "of the meaning: all profiles of the file")
    yield _fact("File's bytes (SHA-256)", _digest(new.source_digest), "as sha256sum prints it")
    yield from _floor(review.new, "Floor", "Floor's digest (SHA-384)")
    if review.old is not None:
        old = review.old.profiles
        yield _fact("Compared with", name(old.source))
        yield _fact("Its policy digest", _digest(old.digest))
        yield _fact("Its bytes", _digest(old.source_digest))
        yield from _floor(review.old, "Its floor", "Its floor's digest")
    if review.at is not None:
        yield _fact("Reviewed at", text(review.at), "as given by whoever made this page")
    yield _fact("Made by", text(review.builder))


def _floor(edition: Edition, title: str, digest: str) -> Iterator[tuple[Html, Html]]:
    named = edition.documents[1:]
    if not named:
        yield _fact(title, text("none: the file names no denials of an organisation"))
        return
    yield _fact(title, name(named[0].name), "denials that are merged into every profile")
    found = dict.fromkeys(each.compiled.policy.floor for each in edition.agents)
    yield from (_fact(digest, _digest(each)) for each in found if each is not None)


def _fact(term: str, value: Html, note: str = "") -> tuple[Html, Html]:
    more = element("span", text(f" {note}"), cls="dim") if note else NOTHING
    return element("dt", text(term)), element("dd", value, more)


def _digest(digest: str) -> Html:
    return element("code", text(digest), cls="digest")


def contents(review: Review) -> Html:
    """Links to the sections."""
    found = [
        ("changes", "What changed") if review.old is not None else ("", ""),
        ("short", "In short"),
        ("warnings", "Warnings"),
        ("matrix", "Who may do what"),
        ("secrets", "Where secrets can flow"),
        ("graph", "Picture"),
        ("rules", "Rules"),
        ("source", "Source"),
        ("reading", "How to read this"),
    ]
    links = (element("a", text(title), href=f"#{anchor}") for anchor, title in found if anchor)
    return element("nav", joined(links, " "), aria_label="Sections")
