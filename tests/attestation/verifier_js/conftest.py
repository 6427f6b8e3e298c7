"""Runs the second verifier: one Node process judges what all tests of a process ask."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "attestation/verifier-js"
AT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass
class Question:
    """One bundle and how it is judged; ``period``: as an archive, over a range."""

    bundle: bytes
    trust: bytes
    at: datetime
    request: bytes | None = None
    response: bytes | None = None
    session: str | None = None
    require: str | None = None
    flip: list[tuple[int, int]] = field(default_factory=list)
    period: bool = False
    since: datetime | None = None
    until: datetime | None = None


Verdicts = Sequence[Mapping[str, Any]]


def node() -> str:
    """The path of Node 20 or later; skips without one."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("needs Node, which is not installed")
    version = subprocess.run(
        [found, "--version"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"needs Node 20, found {version.strip()}")
    return found


Answers = Callable[[Sequence[str]], list[Any]]
"""Lines of JSON, each answered with a line, in order."""


@contextmanager
def answering(program: Path) -> Iterator[Answers]:
    """``program`` in Node, from here to the end."""
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(
            [node(), str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        )

        def complaints() -> str:
            errors.seek(0)
            return errors.read().decode()

        def answers(lines: Sequence[str]) -> list[Any]:
            assert child.stdin is not None and child.stdout is not None
            found = []
            for line in lines:
                child.stdin.write(f"{line}\n")
                child.stdin.flush()
                answer = child.stdout.readline()
                assert answer, complaints()
                found.append(json.loads(answer))
            assert not complaints()
            return found

        with child:
            yield answers
            rest, _ = child.communicate(timeout=30)
            assert (child.returncode, rest) == (0, ""), complaints()


def judged(questions: Sequence[Question], folder: Path, answers: Answers) -> Verdicts:
    """Every question answered by the second verifier, in order; ``folder`` holds what they ask about."""
    written: dict[bytes, str] = {}

    def file_of(data: bytes | None) -> str | None:
        if data is None:
            return None
        if data not in written:
            name = folder / hashlib.sha256(data).hexdigest()
            name.write_bytes(data)
            written[data] = str(name)
        return written[data]

    lines = [
        json.dumps(
            {
                "bundle": file_of(each.bundle),
                "trust": file_of(each.trust),
                "at": spelled(each.at),
                "flip": each.flip,
                "request": file_of(each.request),
                "response": file_of(each.response),
                "session": each.session,
                "require": each.require,
                "period": each.period,
                "from": spelled(each.since),
                "to": spelled(each.until),
            }
        )
        for each in questions
    ]
    return answers(lines)


def ask(questions: Sequence[Question], folder: Path) -> Verdicts:
    """The same, answered by a process of its own."""
    with answering(HOME / "batch.mjs") as answers:
        return judged(questions, folder, answers)


def spelled(instant: datetime | None) -> str | None:
    """As both verifiers read it."""
    return None if instant is None else instant.astimezone(UTC).strftime(AT)


@pytest.fixture(scope="session")
def judge_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Sequence[Question]], Verdicts]]:
    """Every question answered by the second verifier, in order."""
    with answering(HOME / "batch.mjs") as answers:
        yield partial(judged, folder=tmp_path_factory.mktemp("questions"), answers=answers)


@pytest.fixture(scope="session")
def probing() -> Iterator[Answers]:
    """Single functions of the second verifier, each called for a line."""
    with answering(Path(__file__).with_name("probe.mjs")) as answers:
        yield answers
