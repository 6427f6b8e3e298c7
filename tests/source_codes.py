"""Finds the error codes in source: of classes, of tables, and of errors that are raised as their family."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["codes_of", "codes_raised_in", "raised", "retryable_of"]

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


def retryable_of(tree: ast.AST) -> Iterator[tuple[str, bool | None]]:
    """Code and ``retryable`` of each class that says itself whether the same call may succeed later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            codes = [code for statement in node.body for code in _assigned(statement, "code")]
            for statement in node.body:
                match statement:
                    case (
                        ast.Assign(targets=[ast.Name(id="retryable")], value=ast.Constant(value=value))
                        | ast.AnnAssign(target=ast.Name(id="retryable"), value=ast.Constant(value=value))
                    ):
                        yield from ((code, value) for code in codes or [node.name])


def raised(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Family and code of each error that is made as its family, with ``code=``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for keyword in node.keywords:
                if keyword.arg == "code" and node.func.id.endswith(("Error", "Refused")):
                    yield from ((node.func.id, code) for code in _literals(keyword.value))


def codes_raised_in(folder: Path) -> set[str]:
    """The codes of errors that the modules of ``folder`` raise as their family."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py"))
    return {code for tree in trees for _, code in raised(tree)}
