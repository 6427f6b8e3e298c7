"""What the demo says, each computed from receipts, the stand-in's log and the host's state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.statement import parse_statement


@dataclass
class Telling:
    """Prints one line for each fact and remembers whether all were so."""

    out: TextIO = field(default_factory=lambda: sys.stdout)
    failed: list[str] = field(default_factory=list)
    count: int = 0

    def heading(self, text: str) -> None:
        print(f"\n{text}", file=self.out, flush=True)

    def note(self, text: str) -> None:
        print(f"      {text}", file=self.out, flush=True)

    def fact(self, text: str, holds: bool, source: str) -> None:
        """One line: what is claimed, whether it is so, and where that was read."""
        self.count += 1
        if not holds:
            self.failed.append(text)
        print(f"  {'ok' if holds else 'NO'}  {text:<76} [{source}]", file=self.out, flush=True)

    def attempt(self, text: str, source: str, compute: Callable[[], bool]) -> None:
        """As :meth:`fact`; a computation that fails is a fact that does not hold, with its reason."""
        try:
            holds = compute()
        except Exception as error:
            self.fact(text, holds=False, source=f"{source}: {type(error).__name__}: {error}")
            return
        self.fact(text, holds, source)


def records_of(bundle: Bundle) -> list[VerifiedReceipt]:
    """Every receipt of the bundle, its signature checked under the keyset that names its key."""
    statements = [parse_statement(raw) for raw in bundle.keysets.values()]
    by_kid = {statement.receipt_kid: statement for statement in statements}
    texts = [parse_receipt(text) for text in bundle.receipts]
    return [verify_receipt(text, by_kid[text.split.kid]) for text in texts]


def refusals(records: Sequence[VerifiedReceipt], reason: str, target: str = "") -> list[VerifiedReceipt]:
    """The refusals with this reason (a prefix) whose hidden target contains ``target``."""
    return [
        record
        for record in records
        if record.kind == "refusal"
        and str(record.member("rsn")).startswith(reason)
        and target in (record.disclosed.text("act.tgt") or "")
    ]
