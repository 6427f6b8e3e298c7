"""Runs the second verifier: one Node process judges many bundles."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / "attestation/verifier-js"
AT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass
class Question:
    """One bundle and how it is judged."""

    bundle: bytes
    trust: bytes
    at: datetime
    request: bytes | None = None
    response: bytes | None = None
    session: str | None = None
    flip: list[tuple[int, int]] = field(default_factory=list)


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


@pytest.fixture(scope="session")
def judge_all(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[Question]], Verdicts]:
    """Every question answered by the second verifier, in order."""
    path, folder = node(), tmp_path_factory.mktemp("questions")
    written: dict[bytes, str] = {}

    def file_of(data: bytes | None) -> str | None:
        if data is None:
            return None
        if data not in written:
            name = folder / str(len(written))
            name.write_bytes(data)
            written[data] = str(name)
        return written[data]

    def ask(questions: Sequence[Question]) -> Verdicts:
        lines = [
            json.dumps(
                {
                    "bundle": file_of(each.bundle),
                    "trust": file_of(each.trust),
                    "at": each.at.astimezone(UTC).strftime(AT),
                    "flip": each.flip,
                    "request": file_of(each.request),
                    "response": file_of(each.response),
                    "session": each.session,
                }
            )
            for each in questions
        ]
        done = subprocess.run(
            [path, str(HOME / "batch.mjs")],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(questions)
        return answers

    return ask
