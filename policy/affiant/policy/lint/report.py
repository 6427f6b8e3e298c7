"""What ``affiant policy lint`` found, as programs and code review pages read it: JSON, Markdown, SARIF 2.1.0.

Of a refusal nothing is repeated but its own text, in which no secret stands; the file's line is for terminals alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from affiant.command_line import printable
from affiant.errors import AffiantError
from affiant.policy.diff.markup import markdown_text
from affiant.policy.diff.report_forms import sarif_location, sarif_log
from affiant.policy.lint.codes import ADVICE, WARNINGS
from affiant.policy.lint.lint import Finding

__all__ = ["lint_document", "lint_markdown", "lint_sarif"]


def lint_document(
    refusals: Sequence[AffiantError], warnings: Sequence[Finding], *, agents: Sequence[str]
) -> Mapping[str, object]:
    """One document: ``refused`` is the first of ``refusals``."""
    if refusals:
        every = [refusal.to_json() for refusal in refusals]
        return {"ok": False, "refused": every[0], "refusals": every, "warnings": []}
    return {"ok": True, "agents": list(agents), "warnings": [_warning(found) for found in warnings]}


def _warning(found: Finding) -> Mapping[str, str]:
    return {
        "code": found.code,
        "agent": found.agent,
        "text": found.text,
        "where": found.where,
        "advice": ADVICE[found.code],
    }


def lint_markdown(name: str, refusals: Sequence[AffiantError], warnings: Sequence[Finding]) -> str:
    """A table, to be put into a review's comment."""
    if refusals:
        lines = [f"### {markdown_text(name)} is refused", "", "| place | why | code |", "|---|---|---|"]
        for refusal in refusals:
            place, text = refusal.where or name, str(refusal).removeprefix(f"{refusal.where}: ")
            lines.append(f"| {markdown_text(place)} | {markdown_text(text)} | `{refusal.code}` |")
        return "\n".join(lines) + "\n"
    lines = [f"### {markdown_text(name)}: {len(warnings)} warnings"]
    if warnings:
        lines += ["", "| place | agent | warning | what to do | code |", "|---|---|---|---|---|"]
    for found in warnings:
        cells = [markdown_text(text) for text in (found.agent, found.text, ADVICE[found.code])]
        lines.append(f"| {markdown_text(found.where)} | {' | '.join(cells)} | `{found.code}` |")
    return "\n".join(lines) + "\n"


def lint_sarif(file: Path, refusals: Sequence[AffiantError], warnings: Sequence[Finding]) -> str:
    """One result for each refusal (error) and each warning; the rules say what to do."""
    results = [
        _result(file, refusal.code, "error", str(refusal), refusal.where or file.name) for refusal in refusals
    ]
    results += [
        _result(file, f"policy.lint.{found.code}", "warning", f"{found.agent}: {found.text}", found.where)
        for found in warnings
    ]
    rules: list[Mapping[str, object]] = [
        {"id": code} for code in sorted({refusal.code for refusal in refusals})
    ]
    rules += [
        {
            "id": f"policy.lint.{code}",
            "shortDescription": {"text": WARNINGS[code]},
            "help": {"text": ADVICE[code]},
        }
        for code in sorted({found.code for found in warnings})
    ]
    return sarif_log(tool="affiant policy lint", rules=rules, results=results, properties={})


def _result(file: Path, rule: str, level: str, text: str, where: str) -> Mapping[str, object]:
    source = where.rsplit(":", 2)[0]
    uri = file if source == file.name else file.parent / source
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": printable(text)},
        "locations": [sarif_location(uri.as_posix(), where)],
    }
