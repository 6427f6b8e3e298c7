"""The rows of receipts and chains: what the first pass found along the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.checks.chain_checks import gaps_text
from affiant.attestation.verifier.period.log.run import Many, Run

__all__ = ["make_chain_rows", "make_ruled"]


def make_chain_rows(run: Run) -> None:
    """``sig.receipts`` and ``chain.*`` but the coverage, in their order."""
    make_ruled(
        run,
        "sig.receipts",
        ("fmt.keysets",),
        lambda: f"{run.passed.receipts} signatures hold, each in its closed form",
    )
    make_ruled(run, "chain.ids", ("sig.receipts",), lambda: f"{run.passed.ids.count} ids, each once")
    along = ("sig.receipts",)
    make_ruled(run, "chain.time", along, lambda: "self-asserted times in order", log=True)
    make_ruled(
        run, "chain.boot", along, lambda: "each chain begins with the boot record of its keyset", log=True
    )
    make_ruled(run, "chain.contiguous", ("chain.boot",), lambda: _contiguous(run), log=True)
    make_ruled(run, "chain.end", ("chain.boot",), lambda: _ended(run), log=True)
    make_ruled(run, "chain.epochs", ("chain.contiguous",), lambda: "epoch records at their cadence", log=True)
    run.made("chain.gaps", lambda: _gaps(run))


def make_ruled(
    run: Run, code: str, needs: Sequence[str], good: Callable[[], str | Finding], *, log: bool = False
) -> None:
    """Make the row of a rule over many records: refused by its exceptions, else what ``good`` says.

    Args:
        log: it is judged along the log.
    """

    def examine() -> Finding:
        run.need(*needs)
        first = run.passed
        if log and run.view is None:
            raise NotMade("chains are judged along the log, which cannot be read")
        found = first.exceptions.get(code)
        if found is not None:
            raise Many(found)
        text = good()
        return Finding(text) if isinstance(text, str) else text

    run.made(code, examine)


def _contiguous(run: Run) -> Finding:
    first = run.passed
    text = f"{first.placed} records in {run.chains} chains, links unbroken along the log"
    if first.withheld:
        return Finding(f"{text}; {first.withheld} leaves beside them without a record here", Tier.WARNING)
    return Finding(text)


def _ended(run: Run) -> str:
    chains = [each for each in run.passed.chains.values() if each.records]
    return f"{sum(each.end.ended for each in chains)} of {len(chains)} chains ended, the others are open"


def _gaps(run: Run) -> Finding:
    run.need("sig.receipts")
    first = run.passed
    if not first.gap_ids:
        return Finding("no gap disclosed")
    last = {b64u(chn): chain.unbroken.last or 0 for chn, chain in first.chains.items()}
    unlogged = [
        (chn, last[chn] + 1, seq) for chn, seq in first.lost if seq is not None and seq > last.get(chn, seq)
    ]
    return Finding(gaps_text(len(first.gap_ids), unlogged), Tier.WARNING, tuple(first.gap_ids[:100]))
