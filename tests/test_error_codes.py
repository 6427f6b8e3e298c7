"""The codes of errors are an interface: none appears, disappears or moves to another package unnoticed."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("attestation", "policy", "secrets", "sandbox", "gateway")
CODES: dict[str, list[str]] = json.loads((ROOT / "tests" / "error_codes.json").read_text())
"""Package -> its codes, sorted. A new code is added here; a code that users have seen stays."""
_CODE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*\Z")


def codes_of(tree: ast.AST) -> Iterator[str]:
    """The codes that a module gives: of its classes, of its tables, and as an argument."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                for statement in node.body:
                    yield from _assigned(statement, "code")
            case ast.Assign() | ast.AnnAssign():
                yield from _table(node)
            case ast.Call(keywords=keywords):
                for keyword in keywords:
                    if keyword.arg == "code":
                        yield from _literals(keyword.value)


def _assigned(statement: ast.stmt, name: str) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
            yield from _literals(value)
        case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
            yield from _literals(value)


def _table(node: ast.Assign | ast.AnnAssign) -> Iterator[str]:
    """The keys of a dictionary whose name ends in ``ERROR_CODES``."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    named = any(isinstance(target, ast.Name) and target.id.endswith("ERROR_CODES") for target in targets)
    if named and isinstance(node.value, ast.Dict):
        for key in node.value.keys:
            if key is not None:
                yield from _literals(key)


def _literals(node: ast.expr) -> Iterator[str]:
    """A literal, or each branch of a choice between literals."""
    if isinstance(node, ast.IfExp):
        yield from _literals(node.body)
        yield from _literals(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.match(node.value):
        yield node.value


def package_codes(package: str) -> list[str]:
    found: set[str] = set()
    for path in sorted((ROOT / package / "affiant").rglob("*.py")):
        found |= set(codes_of(ast.parse(path.read_text(encoding="utf-8"))))
    return sorted(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_has_exactly_the_codes_that_are_listed(package: str) -> None:
    assert package_codes(package) == CODES[package]


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ('class A(E):\n    code = "a.b"', ["a.b"]),
        ('class A(E):\n    code: ClassVar[str] = "a.b"', ["a.b"]),
        ('class A(E):\n    other = "a.b"', []),
        ('raise E("text", code="a.b")', ["a.b"]),
        ('raise E("text", code="a.b" if x else "a.c")', ["a.b", "a.c"]),
        ('_ERROR_CODES: Final = {"a.b": "why", **MORE}', ["a.b"]),
        ('CHECKS = {"a.b": "why"}', []),
        ('raise E("text", code=found)', []),
    ],
)
def test_a_code_is_found_where_it_is_given(source: str, codes: list[str]) -> None:
    assert sorted(codes_of(ast.parse(source))) == codes
