"""Reports over several bundles: one page with a way to each, one run of results, one suite of cases for each."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.attestation.shared_gateway import two_sessions
from tests.attestation.story import Story
from tests.attestation.verifier.test_reports import HOSTILE, UNSEEN, read
from tests.attestation.verifier.test_several import judge

from affiant.attestation.verdict.verdict import State
from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.attestation.verifier.report.html import render_html_several
from affiant.attestation.verifier.report.machine import render_junit_several, render_sarif_several
from affiant.attestation.verifier.report.text_several import render_several
from affiant.attestation.verifier.report.timeline_csv import timeline_csv


@pytest.fixture(scope="module")
def verdict() -> CombinedVerdict:
    return judge(*two_sessions(), b"garbage", moments=100)


def named(verdict: CombinedVerdict, name: str) -> CombinedVerdict:
    return replace(verdict, judged=[replace(each, file=name) for each in verdict.judged])


def test_the_text_begins_with_all_and_ends_with_what_it_comes_to(verdict: CombinedVerdict) -> None:
    lines = render_several(verdict).splitlines()
    assert lines[0] == "bundles          3"
    assert max(map(len, lines)) <= 105, "the longest are our own sentences on what is not claimed"
    assert lines[-1].startswith(
        "SIMULATED  3 bundles: rejected, tier contraindicated, lowest level none reached"
    )
    text = "\n".join(lines)
    for each in verdict.judged:
        assert text.count(each.verdict.bundle) == 1
        assert text.count(repr(each.file)) == 2
    for check in verdict.across:
        assert check.code in text
    assert "verified" not in text.lower()


def test_the_page_has_a_way_to_each_verdict_and_none_out(verdict: CombinedVerdict) -> None:
    page = read(render_html_several(verdict))
    assert not page.names & {"script", "iframe", "object", "embed", "img", "link", "form", "base", "svg"}
    links = [value for _, name, value in page.attributes if name == "href"]
    places = [value for _, name, value in page.attributes if name == "id"]
    assert links == ["#bundle-1", "#bundle-2", "#bundle-3"]
    assert links == [f"#{place}" for place in places]
    text = "".join(page.text)
    for each in verdict.judged:
        assert each.verdict.bundle in text
    for check in verdict.across:
        assert check.code in text
    for tag, name, value in page.attributes:
        assert not name.startswith("on") and name not in {"src", "style", "action"}, (tag, name, value)


def test_sarif_is_one_run_with_each_bundle_as_an_artifact(verdict: CombinedVerdict) -> None:
    (run,) = json.loads(render_sarif_several(verdict))["runs"]
    assert [each["location"]["uri"] for each in run["artifacts"]] == [each.file for each in verdict.judged]
    assert [each["properties"]["exit_code"] for each in run["artifacts"]] == [40, 40, 20]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        for location in result["locations"]:
            place = location["physicalLocation"]["artifactLocation"]
            assert run["artifacts"][place["index"]]["location"]["uri"] == place["uri"]
    across = [result for result in run["results"] if result["ruleId"].startswith("across.")]
    assert across and all(result["locations"] == [] for result in across)


def test_sarif_says_at_its_bundle_what_cannot_be_judged() -> None:
    bare = replace(Story().bundle(), evidence={}).to_bytes()
    (run,) = json.loads(render_sarif_several(judge(Story().bytes(), bare)))["runs"]
    (result,) = (each for each in run["results"] if each["ruleId"] == "outcome.unjudged")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "2.affiant.json"


def test_the_csv_says_of_every_bundle_how_many_of_its_records_it_leaves_out() -> None:
    """The room of the table ends within the first bundle."""
    verdict = judge(*two_sessions(), moments=3)
    lines = timeline_csv((each.file, each.verdict) for each in verdict.judged).splitlines()
    left = [
        each.verdict.population.receipts - count for each, count in zip(verdict.judged, (3, 0), strict=True)
    ]
    assert len(lines) == 1 + 3 + 2
    assert lines[4].startswith("1.affiant.json,") and lines[4].endswith(
        f"{left[0]} records more are not listed"
    )
    assert lines[5].startswith("2.affiant.json,") and lines[5].endswith(
        f"{left[1]} records more are not listed"
    )


def test_the_csv_has_one_limit_for_all_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("affiant.attestation.verifier.report.timeline_csv.MAX_ROWS", 5)
    verdict = judge(*two_sessions(), moments=100)
    lines = timeline_csv((each.file, each.verdict) for each in verdict.judged).splitlines()
    assert len(lines) == 1 + 5 + 2


def test_the_page_has_a_limit_of_its_own_and_counts_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More is kept for the table than a page shows."""
    monkeypatch.setattr("affiant.attestation.verifier.report.html.MAX_MOMENTS", 5)
    verdict = judge(*two_sessions(), moments=100)
    page = render_html_several(verdict)
    shown = [5, 0]
    for each, count in zip(verdict.judged, shown, strict=True):
        assert f"{each.verdict.population.receipts - count} records more are not shown" in page


def test_junit_has_a_suite_for_each_bundle_and_one_across(verdict: CombinedVerdict) -> None:
    root = ET.fromstring(render_junit_several(verdict))
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in root] == [
        *(f"affiant verify {each.file}" for each in verdict.judged),
        "affiant verify: across",
    ]
    for suite in root:
        assert int(suite.get("failures", "0")) == len(suite.findall("testcase/failure")) >= 1
        assert int(suite.get("tests", "0")) == len(suite.findall("testcase"))


def test_hostile_names_break_none_of_them(verdict: CombinedVerdict) -> None:
    bad = named(verdict, HOSTILE + UNSEEN)
    wrong = replace(verdict.across[0], state=State.REFUSED, detail=HOSTILE + UNSEEN, reason=HOSTILE)
    bad = replace(bad, across=[wrong, *bad.across])
    for shown in (render_several(bad), render_html_several(bad)):
        assert "\u202e" not in shown and "\x1b" not in shown and "\x00" not in shown
    assert "<script" not in render_html_several(bad)
    read(render_html_several(bad))
    ET.fromstring(render_junit_several(bad).encode("utf-8"))
    json.loads(render_sarif_several(bad))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_a_browser_prints_the_page_without_a_complaint(tmp_path: Path, verdict: CombinedVerdict) -> None:
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(render_html_several(verdict), encoding="utf-8")
    done = subprocess.run(
        [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
            f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={printed}", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    assert "Content Security Policy" not in done.stderr
    assert printed.read_bytes().startswith(b"%PDF-")
