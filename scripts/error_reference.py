"""Writes ``docs/errors.md``: every error code with its family and its meaning, from the source of all packages.

python scripts/error_reference.py            # writes the page
python scripts/error_reference.py --print    # prints it
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("attestation", "policy", "secrets", "sandbox", "gateway")
PAGE = ROOT / "docs" / "errors.md"
_FAMILIES = {
    "MalformedError": "malformed",
    "NotAuthenticError": "not authentic",
    "NotFreshError": "not fresh",
    "NotAllowedError": "not allowed",
    "UnreachableError": "unreachable",
    "ConfigurationError": "configuration",
    "StateError": "state",
}
_HEAD = """# Error codes

A rejected command prints one line that ends with a code in brackets, such as `[receipt.signature]`. JSON output and the
gateway's HTTP errors have the same code. A code never changes its meaning. Its family says what kind of error it is:

| family | meaning |
|---|---|
| malformed | The bytes are not what they claim to be. |
| not authentic | A signature, a digest or a chain is wrong. |
| not fresh | Authentic, but outside its time, or seen before. |
| not allowed | Authentic and fresh, but a policy rejects it. |
| unreachable | Something that is needed did not answer. Often the same call succeeds later. |
| configuration | What the operator gave does not fit together. |
| state | The step does not fit the present state. |

`python scripts/error_reference.py` writes this page from the source.
"""


class Row(NamedTuple):
    """One line of the page."""

    code: str
    family: str
    meaning: str


class _Class(NamedTuple):
    bases: tuple[str, ...]
    code: str | None
    meaning: str


def page() -> str:
    """The whole page."""
    classes: dict[str, list[_Class]] = {}
    for _, tree in _modules(PACKAGES):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(_class(node))
    parts = [_HEAD]
    for package in PACKAGES:
        rows = {row.code: row for row in reversed(list(_rows(package, classes)))}
        parts.append(f"## {package}\n\n| code | family | meaning |\n|---|---|---|\n")
        parts[-1] += "".join(
            f"| `{row.code}` | {row.family} | {row.meaning} |\n" for row in sorted(rows.values())
        )
    return "\n".join(parts)


def _modules(packages: tuple[str, ...]) -> Iterator[tuple[Path, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package / "affiant").rglob("*.py")):
            if path != ROOT / "attestation" / "affiant" / "errors.py":
                yield path, ast.parse(path.read_text(encoding="utf-8"))


def _class(node: ast.ClassDef) -> _Class:
    code = None
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str() as found)):
                code = found
            case ast.AnnAssign(target=ast.Name(id="code"), value=ast.Constant(value=str() as found)):
                code = found
    return _Class(tuple(ast.unparse(base) for base in node.bases), code, _line(ast.get_docstring(node) or ""))


def _rows(package: str, classes: dict[str, list[_Class]]) -> Iterator[Row]:
    for _, tree in _modules((package,)):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found = _class(node)
                family = _family(found.bases, classes)
                if found.code is not None and family is not None:
                    yield Row(found.code, _FAMILIES[family], found.meaning)
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ERROR_CODES":
                assert node.value is not None
                for code, (base, meaning) in ast.literal_eval(node.value).items():
                    named = _family((base,), classes)
                    assert named is not None, code
                    yield Row(code, _FAMILIES[named], _line(meaning))


def _family(bases: tuple[str, ...], classes: dict[str, list[_Class]]) -> str | None:
    for base in bases:
        if base in _FAMILIES:
            return base
        for above in classes.get(base, ()):
            found = _family(above.bases, classes)
            if found is not None:
                return found
    return None


def _line(text: str) -> str:
    """The first paragraph as one cell: roles as code, no column mark."""
    first = " ".join(text.partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", first).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page, or print it."""
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
