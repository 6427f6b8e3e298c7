"""Reports what ``affiant policy lint`` found as JSON, Markdown and SARIF 2.1.0.

Of an error only its text is repeated, which holds no secret; the file's line is printed only on terminals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from affiant.command_line import printable
from affiant.errors import AffiantError
from affiant.policy.lint.codes import ADVICE, WARNINGS
from affiant.policy.lint.lint import Finding
from affiant.policy.rendering.markup import Code, markdown_page, markdown_table
from affiant.policy.rendering.review_formats import sarif_location, sarif_log

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
        rows = [
            (each.where or name, str(each).removeprefix(f"{each.where}: "), Code(each.code))
            for each in refusals
        ]
        return markdown_page(f"{name} is refused", markdown_table(("place", "why", "code"), rows))
    head = ("place", "agent", "warning", "what to do", "code")
    found = [(each.where, each.agent, each.text, ADVICE[each.code], Code(each.code)) for each in warnings]
    return markdown_page(f"{name}: {len(warnings)} warnings", markdown_table(head, found))


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
