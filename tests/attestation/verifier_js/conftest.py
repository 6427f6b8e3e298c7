"""Runs the second verifier: one Node process judges many bundles."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
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


def ask(questions: Sequence[Question], folder: Path) -> Verdicts:
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
                "period": each.period,
                "from": spelled(each.since),
                "to": spelled(each.until),
            }
        )
        for each in questions
    ]
    done = subprocess.run(
        [node(), str(HOME / "batch.mjs")],
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


def spelled(instant: datetime | None) -> str | None:
    """As both verifiers read it."""
    return None if instant is None else instant.astimezone(UTC).strftime(AT)


@pytest.fixture(scope="session")
def judge_all(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[Question]], Verdicts]:
    """Every question answered by the second verifier, in order."""
    return partial(ask, folder=tmp_path_factory.mktemp("questions"))
