"""``node verify.mjs``: the exit codes and the first lines of ``affiant verify``; hostile strings; no surprises."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attestation.period_builder import rezipped
from tests.attestation.story import REQUEST, RESPONSE, Story, trust_bytes
from tests.attestation.verifier.checks.test_model_checks import told
from tests.attestation.verifier_js.conftest import HOME, ROOT, node
from tests.attestation.verifier_js.recorded import asked_of
from tests.attestation.verifier_js.test_agreement import LEFT_OUT, pinning_its_log
from tests.attestation.verifier_js.test_vectors import question_of, vectors

from affiant.attestation.cli.bundle.verify_command import verify
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.verdict.lines import quoted

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
        r"^(bundle|outcome|platform|sessions|judged at|time|verifier|trust file|requirements off|not made|not asked) ",
        text,
        re.MULTILINE,
    )


def facts(text: str) -> list[str]:
    """The first lines that do not depend on which verifier says them."""
    names = ("bundle ", "platform ", "sessions ", "judged at ", "time ", "trust file ")
    return [line for line in text.splitlines() if line.startswith(names)]


def test_the_first_lines_are_those_of_affiant_verify(run: Run) -> None:
    ours, theirs = CliRunner().invoke(verify, VECTOR), run(*VECTOR)
    assert (ours.exit_code, theirs.returncode) == (40, 40)
    assert labels(theirs.stdout) == labels(ours.stdout) != []
    assert facts(theirs.stdout) == facts(ours.stdout)
    assert "tee.appraisal" in theirs.stdout.partition("not asked")[0]
    assert "SIMULATED" in theirs.stdout.splitlines()[-1]
    assert max(map(len, theirs.stdout.splitlines())) <= 100
    assert "appraises no quote to its end" in theirs.stdout
    assert "verified" not in theirs.stdout.lower()


@pytest.mark.parametrize(
    "name",
    [
        "valid/lost-beside-a-neighbour",
        "valid/model-answered-other",
        "valid/lost",
        "valid/two-sessions",
        "valid/boot",
    ],
)
def test_the_first_paragraph_is_that_of_affiant_verify(run: Run, tmp_path: Path, name: str) -> None:
    question = question_of(vectors.CASES[name])
    ours, theirs = first_paragraphs(run, tmp_path, question.bundle, question.trust, vectors.CASES[name]["at"])
    assert theirs == ours != ""


@pytest.mark.parametrize(
    "answered",
    [
        "x' (1). Nothing was refused. The session ended in order. Used: model 'x",
        "x' and \"x\\",
        "x\\' \u202e (1)",
        "sha384:" + "ab" * 30,
    ],
)
def test_the_first_paragraph_is_that_of_affiant_verify_whatever_an_upstream_calls_its_model(
    run: Run, tmp_path: Path, answered: str
) -> None:
    """An upstream cannot write a sentence of the verdict."""
    bundle = told(answered).bytes()
    ours, theirs = first_paragraphs(run, tmp_path, bundle, trust_bytes(), "2026-11-21T13:00:00Z")
    assert theirs == ours
    assert f"answered by {quoted(answered)} (1)" in " ".join(theirs.split("\n"))


def first_paragraphs(run: Run, folder: Path, bundle: bytes, trust: bytes, at: str) -> tuple[str, str]:
    """Of both verifiers."""
    (folder / "bundle").write_bytes(bundle)
    (folder / "trust").write_bytes(trust)
    judged = [str(folder / "bundle"), "--trust", str(folder / "trust"), "--at", at]
    ours, theirs = (
        text.partition("\n\n")[2].partition("\n\n")[0]
        for text in (CliRunner().invoke(verify, judged).stdout, run(*judged).stdout)
    )
    return ours, theirs


def test_what_is_no_bundle_and_a_bundle_that_cannot_be_read_are_told_as_affiant_verify_does(
    run: Run, tmp_path: Path
) -> None:
    whole = json.loads(Path(VECTOR[0]).read_bytes())
    for name, document in {"other": {"a": "\u001b[2J"}, "empty": whole | {"receipts": []}}.items():
        (tmp_path / name).write_text(json.dumps(document))
        judged = [str(tmp_path / name), *VECTOR[1:]]
        ours, theirs = CliRunner().invoke(verify, judged), run(*judged)
        assert (ours.exit_code, theirs.returncode) == (20, 20)
        assert labels(theirs.stdout) == labels(ours.stdout)
        assert len(theirs.stdout.splitlines()) < 40 and "sig.receipts      " not in theirs.stdout
        refused = [
            [line for line in text.splitlines() if line.startswith("REFUSED")]
            for text in (ours.stdout, theirs.stdout)
        ]
        assert refused[0][0].split(":")[0] == refused[1][0].split(":")[0]
        assert ("no bundle" in theirs.stdout) == ("no bundle" in ours.stdout) == (name == "other")
    (tmp_path / "garbage").write_bytes(b"garbage")
    assert run(str(tmp_path / "garbage"), *VECTOR[1:]).stdout.startswith("REFUSED  no bundle: [fmt.json]")


def test_the_document_is_that_of_affiant_verify(run: Run) -> None:
    ours = json.loads(CliRunner().invoke(verify, [*VECTOR, "--json"]).stdout)
    theirs = json.loads(run(*VECTOR, "--json").stdout)
    assert ours.keys() - theirs.keys() == LEFT_OUT and theirs.keys() <= ours.keys()
    assert [row.keys() for row in theirs["checks"]] == [row.keys() for row in ours["checks"]]
    assert re.fullmatch("sha256:[0-9a-f]{64}", theirs["tool"]["build"])


def test_what_is_judged_now_is_judged_as_at_a_whole_second(run: Run, tmp_path: Path) -> None:
    """Without --at the time is this machine's, which has fractions of a second."""
    case = vectors.CASES["valid/witnessed"]
    question = pinning_its_log(question_of(case))
    (tmp_path / "bundle").write_bytes(question.bundle)
    (tmp_path / "trust").write_bytes(question.trust)
    judged = (str(tmp_path / "bundle"), "--trust", str(tmp_path / "trust"), "--json")
    now, then = (run(*judged, *at) for at in ((), ("--at", case["at"])))
    assert (now.returncode, then.returncode) == (40, 40)
    assert json.loads(now.stdout)["checks"] == json.loads(then.stdout)["checks"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", json.loads(now.stdout)["at"])


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
        (*VECTOR, "--from", "yesterday"),
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


PERIOD = ROOT / "attestation/vectors/receipts"
ARCHIVE = (
    str(PERIOD / "period/valid-session.affiant.zip"),
    "--trust",
    str(PERIOD / "trust.json"),
    "--at",
    "2026-11-21T12:30:00Z",
)
RANGE = ("--from", "2026-11-21T00:00:00Z", "--to", "2026-11-22T00:00:00Z")


def test_a_period_has_the_first_lines_and_the_document_of_affiant_verify(run: Run) -> None:
    ours, theirs = CliRunner().invoke(verify, [*ARCHIVE, *RANGE]), run(*ARCHIVE, *RANGE)
    assert (ours.exit_code, theirs.returncode) == (40, 40)
    assert labels(theirs.stdout) == labels(ours.stdout) != []
    assert facts(theirs.stdout) == facts(ours.stdout)
    assert max(map(len, theirs.stdout.splitlines())) <= 100
    documents = [
        json.loads(CliRunner().invoke(verify, [*ARCHIVE, "--json"]).stdout),
        json.loads(run(*ARCHIVE, "--json").stdout),
    ]
    assert documents[0].keys() - documents[1].keys() == LEFT_OUT
    assert documents[1]["not_made"].count("chain.coverage") == 1  # no range was asked for


def test_an_archive_that_is_too_large_is_not_made_and_says_who_reads_it(run: Run, tmp_path: Path) -> None:
    """No forgery, and no verdict: more receipts than are read here."""
    lines = b"".join(b'"a.b.%s"\n' % random.Random(n).randbytes(8).hex().encode() for n in range(50_001))
    shards = {f"receipts/00000{number}.ndjson": lines for number in (1, 2)}
    archive = rezipped(
        listing(Path(ARCHIVE[0]), tmp_path / "listed.zip", shards), tmp_path / "many.zip", shards
    )
    done = run(str(archive), *ARCHIVE[1:], "--json")
    verdict = json.loads(done.stdout)
    assert done.returncode == 30
    assert {row["state"] for row in verdict["checks"]} == {"not made"}
    assert "100010 receipts" in verdict["checks"][0]["detail"]
    assert "`affiant verify` reads more" in verdict["checks"][0]["detail"]


def listing(source: Path, place: Path, files: dict[str, bytes]) -> Path:
    """``source`` with a manifest that lists ``files`` too."""
    with zipfile.ZipFile(source) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    manifest["files"] |= {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()
    }
    return rezipped(source, place, {"manifest.json": canonical(manifest)})


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
