"""The head of the page: what it is about, by digest; how much there is of it; where everything stands."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.policy.authority import Authority
from affiant.policy.report.elements import NOTHING, Html, element, heading, joined, name, text
from affiant.policy.report.review import Review

__all__ = ["contents", "opening"]


def opening(review: Review) -> Html:
    """Title, counts, and the facts by which somebody else finds the same file."""
    title = heading(1, text("What these agents may do"))
    about = [element("p", text("Review of "), name(review.new.profiles.source), cls="lead")]
    if review.old is not None:
        about = [
            element(
                "p",
                text("Review of "),
                name(review.new.profiles.source),
                text(", compared with "),
                name(review.old.profiles.source),
                cls="lead",
            )
        ]
    if review.left_out:
        more = (
            f"{review.left_out} more agents of the file are not on this page: it was asked about some only."
        )
        about.append(element("p", element("strong", text(more)), cls="notice"))
    return element("header", title, *about, _tiles(review), _facts(review))


def _tiles(review: Review) -> Html:
    agents = review.new.agents
    rules = sum(len(each.profile.places) for each in agents)
    steered = len({found.agent for found in review.findings if found.code == "outsiders_can_steer"})
    secrets = {secret.grant.name for each in agents for secret in each.secrets}
    tiles = [
        ("agents", "#short", str(len(agents)), "agent" if len(agents) == 1 else "agents", "plain"),
        ("rules", "#rules", str(rules), "rule" if rules == 1 else "rules", "plain"),
        *_difference_tiles(review),
        (
            "warnings",
            "#warnings",
            str(len(review.findings)),
            "warning" if len(review.findings) == 1 else "warnings",
            "warn" if review.findings else "plain",
        ),
        ("unlimited", "#secrets", str(_unlimited(agents)), "reach a host without limits", "plain"),
        (
            "steered",
            "#warnings",
            str(steered),
            "open to steering by outsiders",
            "bad" if steered else "plain",
        ),
        (
            "secrets",
            "#secrets",
            str(len(secrets)),
            "secret named" if len(secrets) == 1 else "secrets named",
            "plain",
        ),
    ]
    items = (
        element("li", element("a", element("b", text(number)), text(f" {what}"), href=to), cls=look)
        for _, to, number, what, look in tiles
    )
    return element("ul", *items, cls="tiles", aria_label="In numbers")


def _unlimited(agents: tuple[Authority, ...]) -> int:
    return sum(any(reach.unrestricted for reach in each.hosts) for each in agents)


def _difference_tiles(review: Review) -> list[tuple[str, str, str, str, str]]:
    if review.old is None:
        return []
    wider = sum(told.first.direction.is_wider for told in review.told)
    look = "bad" if wider else "plain"
    return [
        ("wider", "#changes", f"+{wider}" if wider else "0", "ways in which more is allowed", look),
        ("narrower", "#changes", str(len(review.told) - wider), "ways in which less is allowed", "plain"),
    ]


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
    yield from _floor(review)
    if review.old is not None:
        old = review.old.profiles
        yield _fact("Compared with", name(old.source))
        yield _fact("Its policy digest", _digest(old.digest))
        yield _fact("Its bytes", _digest(old.source_digest))
    if review.at is not None:
        yield _fact("Reviewed at", text(review.at), "as given by whoever made this page")
    yield _fact("Made by", text(review.builder))


def _floor(review: Review) -> Iterator[tuple[Html, Html]]:
    floors = dict.fromkeys(each.compiled.policy.floor for each in review.new.agents)
    named = review.new.documents[1:]
    for digest in floors:
        if digest is not None and named:
            yield _fact("Floor", name(named[0].name), "denials that are merged into every profile")
            yield _fact("Floor's digest (SHA-384)", _digest(digest))
    if not named:
        yield _fact("Floor", text("none: the file names no denials of an organisation"))


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
