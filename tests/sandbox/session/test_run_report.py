"""What ``affiant run`` says of its session, by how much was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from affiant.sandbox.session.run_report import Detail, RunReport
from affiant.sandbox.workspace.tree import Changes, Skipped

STEPS = [
    ("planned", {"session": "A" * 22, "isolation": "gvisor"}),
    ("services-ready", {"platform": "SIMULATED platform", "gateway": "https://127.0.0.1:1", "started": []}),
    ("input", {"entries": 3}),
    ("attested", {}),
    ("ready", {}),
    ("narrowed", {"epoch": 1, "digest": "sha384:x"}),
]
DENIED = {
    "denied": [
        {"kind": "host", "name": "a.test", "reason": "host_not_listed", "count": 12},
        {"kind": "tool offer", "name": "rm", "reason": "tool_not_listed", "count": 2},
        {"kind": "tool", "name": "\x1b[2J", "reason": "tool_not_listed", "count": 1},
    ],
    "denied_more": 4,
}
ALWAYS = ["affiant: the profile was restricted (change 1): sha384:x"]
SUMMARY = [
    f"affiant: session {'A' * 22}, isolation gvisor",
    "affiant: SIMULATED platform; gateway at https://127.0.0.1:1",
    *ALWAYS,
    "affiant: denied 12 times: host a.test (host_not_listed)",
    "affiant: removed from 2 requests: tool rm (tool_not_listed)",
    "affiant: denied 1 time: tool \\u001b[2J (tool_not_listed)",
    "affiant: denied 4 times more: see the receipts",
    "affiant: receipts in /home/b",
]


def said(capsys: pytest.CaptureFixture[str], detail: Detail, copied_to: Path | None = None) -> list[str]:
    report = RunReport(detail, copied_to=copied_to)
    for step, members in [*STEPS, ("denied", DENIED), ("bundled", {"path": "/home/b"})]:
        report.step(step, members)
    assert report.bundle == Path("/home/b")
    assert len(report.denied) == 3
    out, error = capsys.readouterr()
    assert out == ""
    return error.splitlines()


def test_what_matters_is_said_where_no_terminal_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, Detail.SUMMARY) == SUMMARY


def test_a_start_that_fails_is_no_more_than_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport(Detail.SUMMARY)
    for step, members in STEPS[:4]:
        report.step(step, members)
    assert capsys.readouterr().err == ""


WEAKER = ("sandbox-prepared", {"isolation": "bwrap-landlock", "memory": "watchdog", "paths": "shown"})
WHOLE = ("sandbox-prepared", {"isolation": "bwrap-landlock", "memory": "cgroup", "paths": "hidden"})


@pytest.mark.parametrize(
    ("detail", "prepared", "lines"),
    [
        (Detail.SUMMARY, WEAKER, 2),
        (Detail.STEPS, WEAKER, 2),
        (Detail.QUIET, WEAKER, 0),
        (Detail.SUMMARY, WHOLE, 0),
        (Detail.STEPS, WHOLE, 0),
    ],
)
def test_a_limit_that_this_machine_keeps_less_well_is_said_once_the_session_is_ready(
    capsys: pytest.CaptureFixture[str], detail: Detail, prepared: tuple[str, dict[str, object]], lines: int
) -> None:
    def said_with(*steps: tuple[str, dict[str, object]]) -> list[str]:
        report = RunReport(detail)
        for step, members in steps:
            report.step(step, members)
        return capsys.readouterr().err.splitlines()

    more = [line for line in said_with(prepared, ("ready", {})) if "admitted" not in line]
    assert len(more) == lines
    if lines:
        assert "no memory cgroup" in more[0] and "/proc/self/mountinfo" in more[1]
    if detail is Detail.SUMMARY:
        assert said_with(prepared) == []


def test_quiet_says_what_changes_the_session_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, Detail.QUIET) == ALWAYS


def test_a_terminal_is_told_each_step_that_has_words_and_verbose_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = said(capsys, Detail.STEPS)
    more = ["affiant: copied 3 files and folders in", "affiant: admitted; the agent may start"]
    assert [line for line in steps if line not in SUMMARY] == more
    assert "affiant: step: attested" in said(capsys, Detail.ALL)


def test_receipts_that_are_copied_are_named_where_they_were_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert said(capsys, Detail.SUMMARY, Path("out.json")) == SUMMARY[:-1]


def test_what_the_gateway_did_not_say_is_said_to_be_missing(capsys: pytest.CaptureFixture[str]) -> None:
    report = RunReport(Detail.SUMMARY)
    report.step("denied", {"denied": [], "denied_more": 0, "denied_unknown": True})
    assert capsys.readouterr().err == "affiant: the gateway did not report what it denied; see the receipts\n"
    assert report.denied_unknown
    report.step("denied", {"denied": [], "denied_more": 0, "denied_unknown": False})
    assert (capsys.readouterr().err, report.denied_unknown) == ("", False)


def test_many_denials_are_a_bounded_number_of_lines(capsys: pytest.CaptureFixture[str]) -> None:
    entries = [{"kind": "host", "name": f"h{n}", "reason": "r", "count": 2} for n in range(30)]
    RunReport(Detail.SUMMARY).step("denied", {"denied": entries, "denied_more": 0})
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "affiant: denied 20 times more: see the receipts"


def test_what_is_missing_from_an_output_is_said_whatever_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = Changes((), (), (), skipped=(Skipped("pipe", "workspace.special"),))
    RunReport(Detail.QUIET).step("output", {"path": "out", "changes": changes})
    (line,) = capsys.readouterr().err.splitlines()
    assert "pipe" in line


def test_receipts_that_are_an_archive_are_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    for detail, lines in ((Detail.SUMMARY, 2), (Detail.QUIET, 0)):
        report = RunReport(detail)
        report.step("bundled", {"path": "/home/bundle.affiant.zip", "archive": True})
        assert report.archive
        said = capsys.readouterr().err.splitlines()
        assert len(said) == lines and (lines == 0 or "period archive" in said[0])


def test_sessions_that_the_agent_starts_are_part_of_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    told = [
        {"session": "c" * 22, "agent": "helper", "state": "open"},
        {"session": "c" * 22, "agent": "helper", "state": "closed"},
        {"session": "d" * 22, "agent": "helper", "state": "failed", "why": "no {such} folder\x1b[2J"},
    ]
    for detail in (Detail.QUIET, Detail.SUMMARY):
        report = RunReport(detail)
        for each in told:
            report.step("child", each)
    assert capsys.readouterr().err.splitlines() == [
        f"affiant: the agent's session {'c' * 22} of helper started",
        f"affiant: the agent's session {'c' * 22} of helper ended",
        f"affiant: the agent's session {'d' * 22} of helper did not start: no {{such}} folder\\u001b[2J",
    ]
