"""Reports: a page that cannot run or load anything; SARIF and JUnit that no machine takes for a pass."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result
from tests.attestation.story import NOW, Story, trust_bytes
from tests.attestation.verifier.test_verify_bundle import judge

from affiant.__main__ import cli
from affiant.attestation.verdict.outcome import Demand
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verifier.report.html import render_html
from affiant.attestation.verifier.report.machine import render_junit, render_sarif
from affiant.attestation.verifier.report.timeline_csv import COLUMNS, timeline_csv
from affiant.attestation.verifier.report.timeline_names import MAX_MOMENTS

HOSTILE = "</code><script>alert(1)</script>\"'&<img src=x onerror=1>"
UNSEEN = "\u202e\x1b[31m\x00\ufffe\ud800"
"""What no record may hold, and a file's name or a foreign bundle's error might."""
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Strict(HTMLParser):
    """Every element that is opened is closed in order; what could load or run is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        while self.open[-1] in {"li", "tr", "td", "th", "p"} and self.open[-1] != tag:
            raise AssertionError(f"{self.open[-1]} is not closed before {tag}")
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Strict:
    found = Strict()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def hostile() -> Verdict:
    """What an agent chose stands in the disclosed name of a command."""

    class Agent(Story):
        def by_supervisor(self, step, kind, members, hidden=None, **more):
            if step == "exec-intent":
                hidden = {"act": {"name": HOSTILE}}
            return super().by_supervisor(step, kind, members, hidden, **more)

    return judge(Agent().bytes())


# -- the page ----------------------------------------------------------------------------------------------------


def test_the_page_can_neither_load_nor_run_anything() -> None:
    for verdict in (judge(Story().bytes()), hostile(), judge(b"garbage")):
        page = read(render_html(verdict))
        assert not page.names & {"script", "iframe", "object", "embed", "img", "link", "form", "base", "svg"}
        policy = next(
            value
            for tag, name, value in page.attributes
            if tag == "meta" and value and "default-src" in value
        )
        assert policy is not None
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "unsafe" not in policy
        for tag, name, value in page.attributes:
            assert not name.startswith("on"), (tag, name)
            assert name not in {"href", "src", "style", "action"}, (tag, name, value)


def test_the_style_is_the_one_that_the_policy_names() -> None:
    import base64
    import hashlib

    page = render_html(judge(Story().bytes()))
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"sha256-{digest}" in page
    assert "http" not in style and "url(" not in style and "@import" not in style


def test_what_an_agent_wrote_stays_text() -> None:
    page = render_html(hostile())
    assert "<script" not in page
    assert "onerror=1&gt;" in page
    unseen = render_html(replace(hostile(), build=UNSEEN))
    assert "\u202e" not in unseen and "\x1b" not in unseen
    assert "\\u202e" in unseen


def test_a_simulated_page_says_so_first_and_never_verified() -> None:
    page = render_html(judge(Story().bytes()))
    text = "".join(read(page).text)
    assert "verified" not in text.lower()
    assert page.index("SIMULATED") < page.index("What is not proven") < page.index("Who did what")
    assert 'class="banner sim"' in page


def test_what_was_refused_stands_on_top_in_red() -> None:
    verdict = judge(Story().bytes()[:-20])
    page = render_html(verdict)
    assert 'class="banner bad"' in page
    assert "Do not rely on these receipts" in page
    assert "No record is authentic" in page


def test_every_row_of_the_verdict_stands_on_the_page() -> None:
    verdict = judge(Story().bytes())
    text = "".join(read(render_html(verdict)).text)
    for check in verdict.checks:
        assert check.code in text
    for moment in verdict.timeline:
        assert moment.jti in text


def test_a_long_session_is_cut_on_the_page_and_the_page_says_so() -> None:
    verdict = judge(Story().bytes())
    long = replace(verdict, timeline=verdict.timeline[:1] * (MAX_MOMENTS + 7))
    assert "7 records more are not shown" in render_html(long)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_a_browser_shows_the_page_without_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(render_html(hostile()), encoding="utf-8")
    done = subprocess.run(
        [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "report.html").as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    assert "Who did what, under which rule" in done.stdout
    assert not re.search(r"Content.Security.Policy|Refused to|CONSOLE", done.stderr), done.stderr[-500:]


# -- the timeline ------------------------------------------------------------------------------------------------


def test_the_timeline_tells_authentic_records_in_their_order() -> None:
    verdict = judge(Story().bytes())
    assert len(verdict.timeline) == verdict.population.receipts
    assert [moment.at for moment in verdict.timeline] == sorted(moment.at for moment in verdict.timeline)
    secret = next(moment for moment in verdict.timeline if moment.kind == "secret")
    assert dict(secret.facts)["sec[0].ref"] == "TOKEN"
    denied = next(m for m in verdict.timeline if m.kind == "refusal" and m.role == "gateway")
    assert (denied.decision, dict(denied.facts)["rsn"]) == ("deny", "policy.model")


def test_the_page_says_what_happened_and_what_to_do_before_anything_else() -> None:
    verdict = judge(Story().bytes())
    text = " ".join("".join(read(render_html(verdict)).text).split())
    places = [
        text.index(part)
        for part in ("User known by 'uid' ran agent", "The session ended in order.", "Run on TDX hardware.")
    ]
    assert places == sorted(places) and places[-1] < text.index("What was judged")


def test_thousands_of_records_of_a_session_are_folded() -> None:
    verdict = judge(Story().bytes())
    session = [each for each in verdict.timeline if each.session]
    short, long = (render_html(replace(verdict, timeline=tuple(session * times))) for times in (1, 100))
    assert short.count('<details class="session" open>') == 1
    assert long.count('<details class="session">') == 1 and 'class="session" open' not in long
    assert f"{len(session) * 100} records," in long


def test_the_csv_has_a_row_for_each_record_and_no_formula() -> None:
    verdict = hostile()
    rows = list(csv.reader(io.StringIO(timeline_csv([("=1+1.affiant.json", verdict)]))))
    assert tuple(rows[0]) == COLUMNS and len(rows) == 1 + verdict.population.receipts
    assert {row[0] for row in rows[1:]} == {"'=1+1.affiant.json"}
    assert any(HOSTILE in row[-1] for row in rows)
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    cut = timeline_csv([("a", replace(verdict, timeline=verdict.timeline[:2]))])
    left = verdict.population.receipts - 2
    assert cut.splitlines()[-1].endswith(f"{left} records more are not listed")


def test_records_that_are_not_authentic_are_not_told() -> None:
    data = Story().bytes()
    at = data.index(b'"sdjwt"') + 400
    broken = data[:at] + (b"A" if data[at : at + 1] != b"A" else b"B") + data[at + 1 :]
    assert judge(broken).timeline == ()


# -- machines ----------------------------------------------------------------------------------------------------


def test_sarif_has_a_rule_for_each_check_and_a_result_for_what_did_not_simply_hold() -> None:
    verdict = judge(Story().bytes()[:-20])
    document = json.loads(render_sarif(verdict, bundle="b.json"))
    run = document["runs"][0]
    assert document["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    facts = ["platform.simulated", "outcome.unjudged", "demand.unmet"]
    assert [rule["id"] for rule in rules] == [*(check.code for check in verdict.checks), *facts]
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)
    assert {result["level"] for result in run["results"]} >= {"error"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b.json"


def test_sarif_says_simulated_in_a_result_of_its_own() -> None:
    (run,) = json.loads(render_sarif(judge(Story().bytes()), bundle="b.json"))["runs"]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("platform.simulated", "warning")
    assert first["message"]["text"].startswith("SIMULATED")


def test_sarif_has_results_for_what_cannot_be_judged_and_for_what_is_demanded() -> None:
    bare = judge(replace(Story().bundle(), evidence={}).to_bytes(), demand=Demand("L4", complete=True))
    (run,) = json.loads(render_sarif(bare, bundle="b.json"))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    found = {result["ruleId"]: result for result in run["results"]}
    unjudged, unmet = found["outcome.unjudged"], found["demand.unmet"]
    assert unjudged["level"] == unmet["level"] == "error"
    assert unjudged["message"]["text"].startswith("CANNOT BE JUDGED: objects that the records name")
    assert "level L4 is not reached" in unmet["message"]["text"]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in (unjudged, unmet))
    (run,) = json.loads(render_sarif(judge(Story().bytes()), bundle="b.json"))["runs"]
    assert not {result["ruleId"] for result in run["results"]} & {"outcome.unjudged", "demand.unmet"}


def test_junit_passes_only_where_the_verdict_affirms() -> None:
    for verdict in (judge(Story().bytes()), judge(Story().bytes()[:-20])):
        suite = ET.fromstring(render_junit(verdict))
        cases = suite.findall("testcase")
        assert len(cases) == len(verdict.checks) + 1
        assert int(suite.get("failures", "0")) == len(suite.findall("testcase/failure")) >= 1
        assert cases[-1].find("failure") is not None
    affirming = replace(
        judge(Story().bytes()),
        evidence_class="hardware",
        checks=[
            Check("sig.receipts", level, State.HELD, Tier.AFFIRMING, "")
            for level in ("L0", "L1", "L2", "L3", "L4")
        ],
    )
    assert affirming.exit_code == 0
    assert ET.fromstring(render_junit(affirming)).get("failures") == "0"


def test_hostile_text_breaks_neither() -> None:
    verdict = hostile()
    text = HOSTILE + UNSEEN
    wrong = Check("sig.receipts", "L0", State.REFUSED, Tier.CONTRAINDICATED, text, reason=text)
    bad = replace(verdict, checks=[*verdict.checks, wrong])
    ET.fromstring(render_junit(bad).encode("utf-8"))
    json.loads(render_sarif(bad, bundle=text))
    read(render_html(bad))


# -- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "bundle.json").write_bytes(Story().bytes())
    (tmp_path / "trust.json").write_bytes(trust_bytes())
    return tmp_path


def run(folder: Path, *more: str) -> Result:
    at = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
    arguments = ["verify", str(folder / "bundle.json"), "--trust", str(folder / "trust.json"), "--at", at]
    return CliRunner().invoke(cli, [*arguments, *more])


def test_reports_are_written_beside_the_table_whatever_the_verdict(files: Path) -> None:
    names = {"--html": "r.html", "--sarif": "r.sarif", "--junit": "r.xml"}
    options = [part for option, name in names.items() for part in (option, str(files / name))]
    result = run(files, *options)
    assert result.exit_code == 40
    assert "SIMULATED" in result.output
    assert all((files / name).stat().st_size > 1000 for name in names.values())
    (files / "bundle.json").write_bytes(b"garbage")
    assert run(files, *options).exit_code == 20
    assert "Do not rely" in (files / "r.html").read_text()
    assert sorted(path.name for path in files.iterdir()) == [
        "bundle.json",
        "r.html",
        "r.sarif",
        "r.xml",
        "trust.json",
    ]


def test_what_is_no_bundle_is_refused_in_one_sentence(files: Path) -> None:
    (files / "bundle.json").write_text('{"a": "\\u001b[2J"}')
    done = run(files)
    lines = done.stdout.splitlines()
    assert done.exit_code == 20 and lines[0].startswith("REFUSED  no bundle: [") and len(lines) <= 3
    assert all(line.isprintable() for line in lines)


def test_a_bundle_of_ours_that_cannot_be_read_keeps_the_first_lines(files: Path) -> None:
    """Which bundle, judged when, by whom and for whom; a table in which every row says the same is left out."""
    document = json.loads((files / "bundle.json").read_bytes())
    (files / "bundle.json").write_text(json.dumps(document | {"receipts": []}))
    lines = run(files).stdout.splitlines()
    assert lines[0].startswith("bundle           sha256:") and lines[1].startswith(
        "outcome          REJECTED"
    )
    assert {"judged at", "verifier", "trust file"} <= {line[:17].strip() for line in lines}
    assert any(line.startswith("REFUSED  bundle.malformed: ") for line in lines)
    assert not any("no bundle" in line or line.startswith("sig.receipts") for line in lines)
    assert len(lines) < 40


def test_the_timeline_is_written_as_csv(files: Path) -> None:
    run(files, "--csv", str(files / "rows.csv"))
    assert len((files / "rows.csv").read_text().splitlines()) == 1 + len(
        json.loads(Story().bytes())["receipts"]
    )


def test_a_report_that_cannot_be_written_is_said_and_leaves_nothing(files: Path) -> None:
    result = run(files, "--html", str(files / "nowhere" / "r.html"))
    assert result.exit_code == 2
    assert "cannot be written" in result.output
