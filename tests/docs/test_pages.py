"""The README leads to every page, links lead somewhere, and the table of decisions names what there is."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.docs.console import ROOT

DOCS = ROOT / "docs"
ARCHITECTURE = (DOCS / "architecture.md").read_text()
PACKAGES = ("attestation", "policy", "secrets", "sandbox", "gateway")
LINKED = (ROOT / "README.md", ROOT / "examples" / "README.md", DOCS / "README.md", DOCS / "architecture.md")


def rows() -> list[list[str]]:
    """The cells of the table `Where is it decided?`."""
    _, _, section = ARCHITECTURE.partition("## Where is it decided?")
    table = re.findall(r"^\| (<!-- where: .*) \|$", section.partition("\n## ")[0], re.MULTILINE)
    return [row.split(" | ") for row in table]


def targets(page: Path) -> list[Path]:
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    return [(page.parent / target).resolve() for target in found if "://" not in target]


@cache
def defined(module: Path) -> frozenset[str]:
    """Classes, functions, methods and constants of a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return frozenset(names)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    found = targets(page)
    assert found
    assert [str(target) for target in found if not target.exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_modules_that_a_packages_pages_name_exist(package: str) -> None:
    modules = {path.name for path in ROOT.rglob("*.py") if ".venv" not in path.parts}
    gone = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in sorted((ROOT / package).rglob("README.md"))
        for name in re.findall(r"`[^`\s*]*?([a-z0-9_]+\.py)`", page.read_text())
        if name not in modules
    ]
    assert gone == []


def test_the_list_of_pages_has_every_page() -> None:
    listed = {target for target in targets(DOCS / "README.md") if target.suffix == ".md"}
    there = {path.resolve() for path in DOCS.rglob("*.md") if path.parent.name != "adr"} - {
        DOCS / "README.md"
    }
    assert there - listed == set()


def test_where_a_tool_call_is_denied_is_found_in_three_hops() -> None:
    """README -> the table -> the README of the package, which names the module."""
    assert (
        "Where is a tool call denied?\n[Where is it decided?](docs/architecture.md#where-is-it-decided)"
        in (ROOT / "README.md").read_text()
    )
    (row,) = (cells for cells in rows() if cells[0].startswith("<!-- where: tool call denied -->"))
    packages = set(re.findall(r"\((\w+)\)", " ".join(row[1:])))
    assert packages == {"policy", "gateway"}
    assert {ROOT / package / "README.md" for package in PACKAGES} <= set(targets(DOCS / "architecture.md"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0].split("-->")[0][5:].strip())
def test_the_table_names_what_there_is(row: list[str]) -> None:
    found = []
    for cell in row[1:]:
        for name, target in re.findall(r"\[`([\w.]+)`\]\(([^)]+)\)", cell):
            module = (DOCS / target).resolve()
            assert set(name.split(".")) <= defined(module), f"{name} in {target}"
            found.append(name)
    assert found
    assert found == re.findall(r"`([\w.]+)`", " ".join(row[1:])), "a name without a link to its module"
