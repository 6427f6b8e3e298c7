"""What the tests of the page share: a page from a few lines of YAML, read back strictly."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.policy_file import BaselineFile, PolicyFile
from affiant.policy.review.review import Review, review_of
from affiant.policy.review_page.page import render_review

VOID = {"meta", "input"}


class Page(HTMLParser):
    """Every element is opened and closed in order; attributes, ids and texts are kept."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = page
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((data, tuple(self.open)))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]

    @property
    def text(self) -> str:
        """What a reader sees."""
        return "".join(data for data, where in self.texts if not {"style", "script"} & set(where))

    def section(self, anchor: str) -> str:
        """The source of one section, by its heading's id."""
        start = self.source.index(f'id="{anchor}"')
        following = [at for mark in ("<h2", "<footer") if (at := self.source.find(mark, start)) > 0]
        return self.source[start : min(following)]


def policy_file(text: str, *, name: str = "p.yaml", floor: str | None = None) -> PolicyFile:
    data = text.encode()
    beside = None if floor is None else BaselineFile(Path("floor.yaml"), floor.encode())
    profiles = load_profiles(data, source=name, floor=None if floor is None else floor.encode())
    return PolicyFile(data, profiles, beside)


def made_review(text: str, old: str | None = None, **more: object) -> Review:
    before = None if old is None else policy_file(old, name="old.yaml")
    return review_of(policy_file(text), against=before, builder="affiant 0, build none", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def page_of() -> Callable[..., Page]:
    """The page about a file's text, perhaps against an older one."""

    def make(text: str, old: str | None = None, **more: object) -> Page:
        return Page(render_review(made_review(text, old, **more)))

    return make
