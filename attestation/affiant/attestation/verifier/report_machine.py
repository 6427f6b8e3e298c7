"""The verdict for machines that show checks: SARIF 2.1.0 for code review pages, JUnit XML for CI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from affiant.attestation.verifier.verdict import Check, State, Tier, Verdict
from affiant.command_line import printable

__all__ = ["render_junit", "render_sarif"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_MAX_TEXT: Final = 1000


def render_sarif(verdict: Verdict, *, bundle: str) -> str:
    """One run: a rule for each check, a result for each that did not simply hold.

    Args:
        bundle: the file's name, as results refer to it.
    """
    rules = [{"id": check.code, "properties": {"level": check.level or ""}} for check in verdict.checks]
    results = [
        {
            "ruleId": check.code,
            "ruleIndex": index,
            "level": level,
            "message": {"text": _message(check)},
            "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": printable(bundle, limit=_MAX_TEXT)}}}
            ],
            "properties": {
                "state": str(check.state),
                "reason": check.reason or "",
                "receipts": _where(check),
            },
        }
        for index, check in enumerate(verdict.checks)
        if (level := _sarif_level(check)) is not None
    ]
    run: Mapping[str, object] = {
        "tool": {"driver": {"name": "affiant verify", "version": verdict.build, "rules": rules}},
        "results": results,
        "properties": {
            "bundle": verdict.bundle,
            "trust": verdict.trust,
            "at": verdict.at,
            "tier": str(verdict.tier),
            "level": verdict.level or "",
            "simulated": verdict.simulated,
            "exit_code": verdict.exit_code,
        },
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def render_junit(verdict: Verdict) -> str:
    """One test case for each check: refused ones are failures, those that were not made or asked are skipped.

    A verdict that does not affirm although nothing was refused is one failure more, so that no CI takes it for a pass.
    """
    cases = list(_cases(verdict))
    failures = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    head = (
        f'<testsuite name="affiant verify" tests="{len(cases)}" failures="{failures}" skipped="{skipped}" '
        f'errors="0" timestamp={quoteattr(verdict.at.removesuffix("Z"))}>'
    )
    return "\n".join(('<?xml version="1.0" encoding="UTF-8"?>', head, *cases, "</testsuite>", ""))


def _cases(verdict: Verdict) -> Iterator[str]:
    for check in verdict.checks:
        inner = ""
        if check.state is State.REFUSED:
            inner = f"<failure type={_attribute(check.reason or '')} message={_attribute(check.detail)}/>"
        elif check.state in (State.NOT_MADE, State.NOT_ASKED):
            inner = f"<skipped message={_attribute(f'{check.state}: {check.detail}')}/>"
        named = f"classname={_attribute(check.level or 'other')} name={_attribute(check.code)}"
        yield f"<testcase {named}>{inner}</testcase>"
    summary = f"tier {verdict.tier}, level {verdict.level or 'none'}, exit code {verdict.exit_code}"
    summary = f"SIMULATED: {summary}" if verdict.simulated else summary
    inner = "" if verdict.exit_code == 0 else f'<failure type="verdict" message={_attribute(summary)}/>'
    yield f'<testcase classname="verdict" name="affirming">{inner}<system-out>{escape(summary)}</system-out></testcase>'


def _sarif_level(check: Check) -> str | None:
    if check.state is State.REFUSED:
        return "error"
    if check.state is State.NOT_MADE:
        return "warning" if check.required else "note"
    return "warning" if check.state is State.HELD and check.tier is Tier.WARNING else None


def _message(check: Check) -> str:
    reason = "" if check.reason is None else f"[{check.reason}] "
    return printable(f"{check.state}: {reason}{check.detail}", limit=_MAX_TEXT)


def _where(check: Check) -> list[str]:
    return [printable(jti, limit=100) for jti in check.where[:100]]


def _attribute(text: str) -> str:
    return quoteattr(printable(text, limit=_MAX_TEXT))
