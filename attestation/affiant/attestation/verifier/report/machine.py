"""The verdict for machines that show checks: SARIF 2.1.0 for code review pages, JUnit XML for CI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from affiant.attestation.verdict.lines import asked_text
from affiant.attestation.verdict.outcome import Outcome
from affiant.attestation.verdict.verdict import Check, State, Tier, Verdict
from affiant.attestation.verdict.words import words
from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.attestation.verifier.report.banner import banner_rows
from affiant.command_line import printable

__all__ = ["render_junit", "render_junit_several", "render_sarif", "render_sarif_several"]

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_XML: Final = '<?xml version="1.0" encoding="UTF-8"?>'
_MAX_TEXT: Final = 1000
_SIMULATED: Final = "platform.simulated"
_UNJUDGED: Final = "outcome.unjudged"
_UNMET: Final = "demand.unmet"
_FACTS: Final[Mapping[str, tuple[str, str]]] = {
    _SIMULATED: ("the evidence is of genuine hardware", words("checks")["tee.class"][1]),
    _UNJUDGED: ("the bundle can be judged", words("checks")["bundle.objects"][1]),
    _UNMET: (
        "the verdict reaches what its reader demands (--require, or `sessions` of the trust file)",
        "Ask for what the message says is not reached, or demand less.",
    ),
}
"""Rules beside those of checks: id -> what it asks, and what to do."""


def render_sarif(verdict: Verdict, *, bundle: str) -> str:
    """One run: a rule for each check, a result for each that did not simply hold, and one for each fact about the whole
    verdict: simulated, not to be judged, below what its reader demands.

    Args:
        bundle: the file's name, as results refer to it.
    """
    rules = [check.code for check in verdict.checks]
    results = [*_facts(verdict, len(rules), _at(bundle)), *_results(verdict.checks, rules, _at(bundle))]
    return _sarif(verdict.build, verdict.checks, results, {"bundle": verdict.bundle, **_summary(verdict)})


def render_sarif_several(verdict: CombinedVerdict) -> str:
    """One run (some readers refuse several): an artifact for each bundle, with what it comes to, and the results of
    all of them, each at its bundle; those across bundles have no place."""
    rules: dict[str, Check] = {}
    for check in (*(row for each in verdict.judged for row in each.verdict.checks), *verdict.across):
        rules.setdefault(check.code, check)
    codes = list(rules)
    results = [
        result
        for index, each in enumerate(verdict.judged)
        for result in (
            *_facts(each.verdict, len(codes), _at(each.file, index)),
            *_results(each.verdict.checks, codes, _at(each.file, index)),
        )
    ]
    results += _results(verdict.across, codes, None)
    artifacts = [
        {
            "location": {"uri": printable(each.file, limit=_MAX_TEXT)},
            "hashes": {"sha-256": each.verdict.bundle.removeprefix("sha256:")},
            "properties": _summary(each.verdict),
        }
        for each in verdict.judged
    ]
    return _sarif(verdict.build, list(rules.values()), results, _summary(verdict), artifacts=artifacts)


def _sarif(
    build: str,
    rules: Sequence[Check],
    results: Sequence[Mapping[str, object]],
    properties: Mapping[str, object],
    **more: object,
) -> str:
    listed = [
        *(
            _rule(check.code, {"level": check.level or ""}, *words("checks").get(check.code, ()))
            for check in rules
        ),
        *(_rule(code, {}, *texts) for code, texts in _FACTS.items()),
    ]
    run: Mapping[str, object] = {
        "tool": {"driver": {"name": "affiant verify", "version": build, "rules": listed}},
        **more,
        "results": results,
        "properties": properties,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(code: str, properties: Mapping[str, str], means: str = "", step: str = "") -> Mapping[str, object]:
    texts = {"shortDescription": {"text": f"Whether {means}."}, "help": {"text": step}} if means else {}
    return {"id": code, **texts, "properties": properties}


def _facts(verdict: Verdict, first: int, location: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The results that no reader of the others may overlook. ``first``: index of the first of :data:`_FACTS`."""
    said = []
    if verdict.simulated:
        said.append((_SIMULATED, "warning", "SIMULATED: nothing in this bundle is evidence of hardware"))
    banner = dict(banner_rows(verdict))
    if verdict.outcome is Outcome.UNJUDGED:
        said.append((_UNJUDGED, "error", banner["outcome"]))
    if verdict.unmet:
        said.append((_UNMET, "error", banner["demanded"]))
    for code, level, text in said:
        yield {
            "ruleId": code,
            "ruleIndex": first + list(_FACTS).index(code),
            "level": level,
            "message": {"text": printable(text, limit=_MAX_TEXT)},
            "locations": [location],
        }


def _summary(verdict: Verdict | CombinedVerdict) -> Mapping[str, object]:
    return {
        "trust": verdict.trust,
        "at": verdict.at,
        "outcome": str(verdict.outcome),
        "platform_class": str(verdict.platform),
        "unmet": list(verdict.unmet.values()),
        "tier": str(verdict.tier),
        "level": verdict.level or "",
        "simulated": verdict.simulated,
        "exit_code": verdict.exit_code,
        **({"asked": dict(verdict.asked)} if verdict.asked else {}),
    }


def _at(file: str, index: int | None = None) -> Mapping[str, object]:
    artifact: dict[str, object] = {"uri": printable(file, limit=_MAX_TEXT)}
    if index is not None:
        artifact["index"] = index
    return {"physicalLocation": {"artifactLocation": artifact}}


def _results(
    checks: Sequence[Check], rules: Sequence[str], location: Mapping[str, object] | None
) -> Iterator[Mapping[str, object]]:
    for check in checks:
        if (level := _sarif_level(check)) is not None:
            yield {
                "ruleId": check.code,
                "ruleIndex": rules.index(check.code),
                "level": level,
                "message": {"text": _message(check)},
                "locations": [] if location is None else [location],
                "properties": {
                    "state": str(check.state),
                    "reason": check.reason or "",
                    "receipts": _where(check),
                },
            }


def render_junit(verdict: Verdict) -> str:
    """One test case for each check: refused ones are failures, those that were not made or asked are skipped.

    A verdict that does not affirm although nothing was refused is one failure more, so that no CI takes it for a pass.
    """
    cases = [*_cases(verdict.checks), _conclusion(verdict)]
    return "\n".join((_XML, *_suite("affiant verify", verdict, cases, at=verdict.at), ""))


def render_junit_several(verdict: CombinedVerdict) -> str:
    """A suite for each bundle, as :func:`render_junit` makes it, and a last one for what they say of each other."""
    suites: list[str] = []
    for each in verdict.judged:
        cases = [*_cases(each.verdict.checks), _conclusion(each.verdict)]
        suites += _suite(f"affiant verify {each.file}", each.verdict, cases, at=verdict.at)
    last = [*_cases(verdict.across), _conclusion(verdict)]
    suites += _suite("affiant verify: across", verdict, last, at=verdict.at)
    return "\n".join((_XML, "<testsuites>", *suites, "</testsuites>", ""))


def _suite(name: str, verdict: Verdict | CombinedVerdict, cases: Sequence[str], *, at: str) -> Iterator[str]:
    failures = sum("<failure" in case for case in cases)
    skipped = sum("<skipped" in case for case in cases)
    yield (
        f'<testsuite name={_attribute(name)} tests="{len(cases)}" failures="{failures}" skipped="{skipped}" '
        f'errors="0" timestamp={quoteattr(at.removesuffix("Z"))}>'
    )
    yield "<properties>"
    facts = {"outcome": str(verdict.outcome), "platform_class": str(verdict.platform)}
    if verdict.asked:
        facts["asked"] = asked_text(verdict.asked)
    for fact, value in facts.items():
        yield f'<property name="{fact}" value={_attribute(value)}/>'
    yield "</properties>"
    yield from cases
    yield "</testsuite>"


def _cases(checks: Sequence[Check]) -> Iterator[str]:
    for check in checks:
        inner = ""
        if check.state is State.REFUSED:
            inner = f"<failure type={_attribute(check.reason or '')} message={_attribute(check.detail)}/>"
        elif check.state in (State.NOT_MADE, State.NOT_ASKED):
            inner = f"<skipped message={_attribute(f'{check.state}: {check.detail}')}/>"
        named = f"classname={_attribute(check.level or 'other')} name={_attribute(check.code)}"
        yield f"<testcase {named}>{inner}</testcase>"


def _conclusion(verdict: Verdict | CombinedVerdict) -> str:
    summary = f"{verdict.outcome}, tier {verdict.tier}, level {verdict.level or 'none'}"
    summary = "; ".join((f"{summary}, exit code {verdict.exit_code}", *verdict.unmet.values()))
    summary = f"SIMULATED: {summary}" if verdict.simulated else f"{summary}, platform {verdict.platform}"
    inner = "" if verdict.exit_code == 0 else f'<failure type="verdict" message={_attribute(summary)}/>'
    said = f"<system-out>{escape(summary)}</system-out>"
    return f'<testcase classname="verdict" name="affirming">{inner}{said}</testcase>'


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
