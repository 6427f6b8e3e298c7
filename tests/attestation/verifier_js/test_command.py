"""``node verify.mjs``: the exit codes and the first lines of ``affiant verify``; hostile strings; no surprises."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from story import REQUEST, RESPONSE, Story, trust_bytes

from affiant.attestation.verify_command import verify

from .conftest import HOME, ROOT, node
from .recorded import asked_of
from .test_agreement import LEFT_OUT

AT = ("--at", "2026-11-21T12:00:00Z")
VECTORS = ROOT / "docs/formats/vectors"
VECTOR = (str(VECTORS / "session.affiant.json"), "--trust", str(VECTORS / "trust.json"), *AT)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def run() -> Run:
    path = node()

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [path, str(HOME / "verify.mjs"), *arguments],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return command


def labels(text: str) -> list[str]:
    """The names of the facts that stand first."""
    return re.findall(
        r"^(bundle|judged at|time|verifier|trust file|requirements off|not made|not asked) ",
        text,
        re.MULTILINE,
    )


def test_the_first_lines_are_those_of_affiant_verify(run: Run) -> None:
    ours, theirs = CliRunner().invoke(verify, VECTOR), run(*VECTOR)
    assert (ours.exit_code, theirs.returncode) == (40, 40)
    assert labels(theirs.stdout) == labels(ours.stdout) != []
    for line in (0, 1, 2, 4):  # all but the verifier that says so
        assert theirs.stdout.splitlines()[line] == ours.stdout.splitlines()[line]
    assert "tee.appraisal" in theirs.stdout.partition("not asked")[0]
    assert "SIMULATED" in theirs.stdout.splitlines()[-1]
    assert max(map(len, theirs.stdout.splitlines())) <= 100
    assert "appraises no quote to its end" in theirs.stdout
    assert "verified" not in theirs.stdout.lower()


def test_the_document_is_that_of_affiant_verify(run: Run) -> None:
    ours = json.loads(CliRunner().invoke(verify, [*VECTOR, "--json"]).stdout)
    theirs = json.loads(run(*VECTOR, "--json").stdout)
    assert ours.keys() - theirs.keys() == LEFT_OUT and theirs.keys() <= ours.keys()
    assert [row.keys() for row in theirs["checks"]] == [row.keys() for row in ours["checks"]]
    assert re.fullmatch("sha256:[0-9a-f]{64}", theirs["tool"]["build"])


def test_bodies_are_held_against_the_receipts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "request").write_bytes(REQUEST)
    (tmp_path / "response").write_bytes(RESPONSE + b" ")
    bodies = ("--request", str(tmp_path / "request"), "--response", str(tmp_path / "response"))
    done = run(*VECTOR, *bodies, "--json")
    rows = {row["code"]: row for row in json.loads(done.stdout)["checks"]}
    assert rows["body.request"]["state"] == "held"
    assert rows["body.response"]["reason"] == "body.mismatch"
    assert done.returncode == 20


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (VECTOR[0],),
        ("no-such-file", *VECTOR[1:]),
        (VECTOR[0], "--trust", "no-such-file"),
        (VECTOR[0], "--trust", VECTOR[0]),
        (*VECTOR[:3], "--at", "yesterday"),
        (*VECTOR, "--surprise"),
        (VECTOR[0], *VECTOR),
        (str(ROOT), *VECTOR[1:]),
    ],
)
def test_usage_errors_are_two_and_say_why_in_one_line(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Error: ") and done.stderr.endswith("Try --help.\n")
    assert "at file:" not in done.stderr


def test_help_has_examples_and_says_what_is_never_reached(run: Run) -> None:
    done = run("--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout and "never affirms" in done.stdout


def test_hostile_strings_reach_the_terminal_escaped(run: Run, tmp_path: Path) -> None:
    hostile = "\u202egnp.exe\u00a0\u2028"
    story = Story(
        hosts={"api.example.com": ["10.0.0.7"]},
        alter=asked_of("test_verify_bundle").at("inference", mdl__id=hostile),
    )
    (tmp_path / "bundle").write_bytes(story.bytes())
    (tmp_path / "trust").write_bytes(trust_bytes())
    broken = json.loads(Story().bytes())
    broken["receipts"][0]["sdjwt"] = "\u001b[31m\u202e~"
    broken["evil\u001b[2J\u202e"] = 1
    (tmp_path / "broken").write_text(json.dumps(broken))
    del broken["evil\u001b[2J\u202e"]
    (tmp_path / "receipt").write_text(json.dumps(broken))
    for name, more in (("bundle", ()), ("broken", ()), ("broken", ("--json",)), ("receipt", ())):
        done = run(str(tmp_path / name), "--trust", str(tmp_path / "trust"), *AT, *more)
        assert done.returncode in (20, 40)
        assert all(mark == "\n" or (mark.isascii() and mark.isprintable()) for mark in done.stdout)


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{node()} {HOME}/verify.mjs {' '.join(VECTOR)} --json | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.startswith("{") and done.stderr == ""


def test_nothing_decides_but_what_the_build_digest_covers() -> None:
    """The modules that judge import each other and nothing else: no Node module, no network, no clock."""
    for path in sorted((HOME / "lib").glob("*.mjs")):
        text = path.read_text()
        for name in re.findall(r'from "([^"]+)"', text):
            assert re.fullmatch(r"\./[a-z0-9_]+\.mjs", name), f"{path.name} imports {name}"
        code = re.sub(r"//.*|/\*\*?.*?\*/", "", text)
        for word in (
            "Date.now",
            "new Date()",
            "Math.random",
            "fetch(",
            "process.",
            "eval(",
            "Function(",
            "innerHTML",
        ):
            assert word not in code, f"{path.name} has {word}"
