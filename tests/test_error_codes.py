"""The codes of errors are an interface: none appears, disappears or moves to another package unnoticed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_codes import codes_of, raised, retryable_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("attestation", "policy", "secrets", "sandbox", "gateway")
CODES: dict[str, list[str]] = json.loads((ROOT / "tests" / "error_codes.json").read_text())
"""Package -> its codes, sorted. A new code is added here; a code that users have seen stays."""


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


@pytest.mark.parametrize("package", PACKAGES)
def test_an_error_without_a_class_is_raised_as_the_family_that_its_table_says(package: str) -> None:
    found: set[tuple[str, str]] = set()
    for path in sorted((ROOT / package / "affiant").rglob("*.py")):
        found |= set(raised(ast.parse(path.read_text(encoding="utf-8"))))
    if importlib.util.find_spec(f"affiant.{package}.error_codes") is None:
        assert not found
        return
    table = importlib.import_module(f"affiant.{package}.error_codes").ERROR_CODES
    assert found == {(family, code) for code, (family, _) in table.items()}
    assert all(meaning.endswith(".") for _, meaning in table.values())
    assert list(table) == sorted(table)


RETRYABLE: dict[str, bool | None] = {
    "ToolCallWaits": True,
    "broker.gone": False,
    "broker.internal": False,
    "bundle.unreadable": False,
    "collateral.busy": True,
    "collateral.not_cached": False,
    "collateral.unknown": False,
    "error": False,
    "export.store": False,
    "gateway.lost": False,
    "isolation.runner_lost": False,
    "journal.unavailable": False,
    "log.absent": False,
    "monitor.busy": True,
    "platform.full": True,
    "publish.ahead": True,
    "publish.raced": True,
    "publish.uncosigned": True,
    "receipt_store.busy": True,
    "secret.exchange_refused": False,
    "session.broker_lost": False,
    "session.busy": True,
    "session.sandbox_lost": False,
    "source.absent": False,
    "store.locked": True,
    "tool.timeout": None,
    "unreachable": True,
    "upstream.truncated": False,
    "witness.clock": True,
    "witness.state_unavailable": True,
}
"""Code -> whether the same call may succeed later, of each class that says so itself (by its name without a code)."""


def test_an_error_says_whether_to_try_again_as_the_table_does() -> None:
    found: dict[str, bool | None] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package / "affiant").rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "retryable" in text:
                found |= dict(retryable_of(ast.parse(text)))
    assert found == RETRYABLE


def test_the_error_reference_is_made_from_the_source() -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "scripts" / "error_reference.py", "--print"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    hint = "write it again: python scripts/error_reference.py"
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == made.stdout, hint
