"""Every bundle that the tests of ``affiant verify`` judge, and the verdict that it got: to ask the other verifier."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.attestation.verifier_js.conftest import Question

from affiant.attestation.verdict.trust_file import TrustFile, parse_trust_file
from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.case.statement_verifiers import StatementVerifiers
from affiant.attestation.verifier.verify_bundle import verify_bundle


@dataclass
class Recorded:
    """A question, Python's answer, and the test that asked."""

    name: str
    question: Question
    verdict: Verdict


_ROOT = Path(__file__).resolve().parents[3]
_VERIFIER_TESTS = _ROOT / "tests" / "attestation" / "verifier"


def recorded(
    module: ModuleType,
    *,
    judging: ModuleType,
    asking: Callable[[Question], Question],
    without: frozenset[str] = frozenset(),
) -> list[Recorded]:
    """What the tests of ``module`` judge through ``judging.verify_bundle``, each asked as ``asking`` makes it.

    Their own assertions are made too, so that nothing is recorded that is not what they are about. Property tests and
    those that need a fixture are left out, and those named in ``without``.
    """
    found: list[Recorded] = []
    name = ""

    def record(
        data: bytes, trust: TrustFile, *, verifiers: StatementVerifiers, at: Any, build: str, **more: Any
    ) -> Verdict:
        question = asking(Question(data, trust.raw, at, **more))
        asked = parse_trust_file(question.trust)
        verdict = verify_bundle(data, asked, verifiers=verifiers, at=at, build=build, **more)
        found.append(Recorded(name, question, verdict))
        return verdict

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "verify_bundle", record)
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("test_") or test.__module__ != module.__name__ or name in without:
                continue
            if hasattr(test, "hypothesis"):
                continue
            for arguments in arguments_of(test):
                test(**arguments)
    return found


def arguments_of(test: Any) -> Iterator[dict[str, object]]:
    """The rows of the test's one ``parametrize``; one empty row without; none if it needs a fixture."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    names, rows = marks[0].args if marks else ((), [()])
    names = (names,) if isinstance(names, str) else names
    if set(names) != set(inspect.signature(test).parameters):
        return
    for row in rows:
        yield dict(zip(names, row if len(names) != 1 else (row,), strict=True))


def asked_of(name: str) -> ModuleType:
    """The one test module ``<name>.py`` below ``tests/attestation/verifier``."""
    (path,) = _VERIFIER_TESTS.rglob(f"{name}.py")
    return importlib.import_module(".".join(path.relative_to(_ROOT).with_suffix("").parts))
