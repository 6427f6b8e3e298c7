"""Reports the losses of an export as text and JSON: each rule with its line, and what the target does not express."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from affiant.command_line import printable
from affiant.policy.exports.model import Export, Loss, Outcome

__all__ = ["export_document", "loss_lines"]


def loss_lines(exports: Sequence[Export]) -> Iterator[str]:
    """One line for each loss, and one for each profile."""
    for export in exports:
        for loss in export.losses:
            yield printable(f"{export.where(loss.rule)}: {loss.outcome.value}: {_text(loss)}")
        yield printable(_summary(export))


def export_document(exports: Sequence[Export]) -> Mapping[str, object]:
    """All of it, documents included, for programs."""
    return {
        "target": exports[0].target if exports else None,
        "profiles": [
            {
                "agent": export.profile.name,
                "policy_digest": export.profile.digest,
                "documents": [{"name": name, "text": text} for name, text in export.files],
                "exact": export.exact,
                "losses": [_loss(export, loss) for loss in export.losses],
            }
            for export in exports
        ],
    }


def _loss(export: Export, loss: Loss) -> Mapping[str, object]:
    return {**asdict(loss), "where": export.where(loss.rule), "direction": _direction(loss.outcome)}


def _direction(outcome: Outcome) -> str:
    return "wider" if outcome.is_wider else "narrower"


def _text(loss: Loss) -> str:
    choice = f"; --allow-wider {loss.kind}" if loss.allow_wider and loss.outcome is Outcome.OMITTED else ""
    return f"{loss.rule}: {loss.text} [{loss.kind}, {_direction(loss.outcome)}{choice}]"


def _summary(export: Export) -> str:
    rules = {outcome: set[str]() for outcome in Outcome}
    for loss in export.losses:
        rules[loss.outcome].add(loss.rule)
    counted = Counter({outcome: len(found) for outcome, found in rules.items()})
    counts = ", ".join(f"{counted[outcome]} {outcome.value}" for outcome in Outcome)
    exact = f"{len(export.exact)} of {len(export.profile.places)} rules exact"
    return f"{export.profile.name} for {export.target}: {exact}; {counts}"
