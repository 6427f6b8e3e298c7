"""L1, the models: whether each answer names the model that was asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Party
from affiant.attestation.verifier.checks.evidence_checks import config_of

__all__ = ["check_answered"]

_SHOWN: Final = 3
"""Pairs of models that the row names; it counts the others."""


def check_answered(case: Case) -> Finding:
    """``model.answered``: each answer names the model that was asked for, or an alias of it in the gateway's measured
    configuration; any other name is a warning.

    Aliases count only where ``conf.bound`` held: without it nothing says that the configuration is the measured one.
    """
    case.need("sig.receipts")
    others: Counter[tuple[str, str]] = Counter()
    where: list[str] = []
    named = unnamed = 0
    for party in case.gateways:
        aliases = _aliases(case, party)
        for record in party.records:
            if record.kind != "inference":
                continue
            asked, answered = str(record.member("mdl", "id")), record.member("mdl", "ans")
            if not isinstance(answered, str):
                unnamed += _is_answer(record)
                continue
            named += 1
            if answered != asked and answered not in aliases.get(asked, ()):
                others[asked, answered] += 1
                where.append(record.jti)
    rest = f"; answers that name no model: {unnamed}" if unnamed else ""
    if not others:
        return Finding(f"answers that name the model that was asked for: {named}{rest}")
    text = f"answers that name another model than was asked for: {len(where)} of {named} ({_pairs(others)}){rest}"
    return Finding(text, Tier.WARNING, tuple(where))


def _aliases(case: Case, party: Party) -> Mapping[str, Sequence[str]]:
    return config_of(case, party).model_aliases if "conf.bound" in case.established else {}


def _is_answer(record: VerifiedReceipt) -> bool:
    """Whether a whole answer of a model was passed on: an error of the upstream names none."""
    status = record.member("res", "st")
    return record.member("res", "end") == "complete" and isinstance(status, int) and 200 <= status < 300


def _pairs(others: Mapping[tuple[str, str], int]) -> str:
    """What was asked for and what answered, sorted by code units, as another verifier sorts them."""
    pairs = sorted(others, key=lambda pair: [part.encode("utf-16-be") for part in pair])
    shown = [
        f"asked {asked[:80]}, answered {answered[:80]}: {others[asked, answered]}"
        for asked, answered in pairs[:_SHOWN]
    ]
    more = len(pairs) - _SHOWN
    return "; ".join(shown) + (f"; more pairs: {more}" if more > 0 else "")
