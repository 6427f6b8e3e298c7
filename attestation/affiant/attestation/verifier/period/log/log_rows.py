"""The rows of the log: accepted by the trust file, consistent, nothing missing from it, witnessed, anchored."""

from __future__ import annotations

from functools import partial

from affiant.attestation.verdict.errors import NoPin, NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.checks.anchor_checks import demand_asked
from affiant.attestation.verifier.checks.log_checks import accepted_log
from affiant.attestation.verifier.checks.witness_checks import (
    SELF_WITNESSED,
    needs_self,
    witnessed,
)
from affiant.attestation.verifier.period.log.chain_rows import make_ruled
from affiant.attestation.verifier.period.log.run import Many, Run
from affiant.attestation.verifier.period.log.stamps import ENDINGS
from affiant.errors import AffiantError

__all__ = ["make_log_rows"]


def make_log_rows(run: Run) -> None:
    """``log.*``, ``chain.coverage``, ``wit.*`` and ``time.*``, in their order."""
    if run.log_error is not None:
        run.made("log.inclusion", lambda: _no_log(run))
    else:
        make_ruled(run, "log.inclusion", ("sig.receipts",), lambda: _included(run))
    run.made("log.consistency", lambda: _consistent(run))
    run.made("chain.coverage", lambda: _coverage(run))
    run.made("wit.quorum", lambda: _quorum(run))
    run.made("time.bracket", lambda: _times(run))
    for ending, kind in ENDINGS.items():
        run.made(kind.code, partial(_stamped, run, ending))


def _no_log(run: Run) -> Finding:
    assert run.log_error is not None
    raise run.log_error


def _included(run: Run) -> Finding:
    assert run.view is not None
    assert run.signers is not None
    case, first = run.whole(), run.passed
    for gateway in run.signers.gateways:
        accepted_log(case, run.party(run.signers.names[gateway.kid]))
    known = {each.keyset for each in run.signers.gateways}
    if any(each.session in first.judged and each.gks not in known for each in run.signers.sessions.values()):
        raise NotMade("the gateway that a session names is not in this bundle")
    text = (
        f"{first.placed} leaves in {run.view.newest.checkpoint.origin}, under a checkpoint of {run.view.size}"
    )
    if run.asked.trust.log is None:
        return Finding(f"{text}; the log is not pinned by the trust file", Tier.WARNING)
    return Finding(text)


def _consistent(run: Run) -> Finding:
    run.need("log.inclusion")
    if run.split.first is not None:
        raise Many(run.split)
    if run.undecided:
        raise NotMade(f"{run.undecided} checkpoints that cannot be compared with this tree")
    return Finding(f"{len(run.noted)} checkpoints, all of one tree")


def _coverage(run: Run) -> Finding:
    if run.asked.since is None and run.asked.until is None:
        raise NotMade("no range was asked for: say which with --from and --to")
    run.need("sig.receipts", "log.inclusion")
    return run.passed.coverage.finding(run.cases.erased, run.cases.pruned)


def _quorum(run: Run) -> Finding:
    if run.asked.trust.witnesses is None:
        raise NoPin("the trust file names no witnesses")
    run.need("log.inclusion")
    assert run.view is not None
    assert run.log is not None
    case = run.whole()
    names = sorted(witnessed(case, run.view.newest.note, run.log).times)
    if needs_self(case):
        return Finding(SELF_WITNESSED, Tier.WARNING)
    return Finding(f"the checkpoint is cosigned by {', '.join(names)}")


def _times(run: Run) -> Finding:
    if run.asked.trust.witnesses is None:
        raise NoPin("without witnesses there is no time but what signers assert")
    run.need("wit.quorum", "chain.contiguous")
    time_bounds = run.passed.time_bounds
    if time_bounds is None:
        assert run.unbacked is not None, "wit.quorum held"
        raise run.unbacked
    if time_bounds.broken.first is not None:
        raise Many(time_bounds.broken)
    assert run.log is not None
    case = run.whole()
    for each in run.noted:
        try:
            witnessed(case, each.note, run.log)
        except NotMade:
            continue
    return time_bounds.finding(case)


def _stamped(run: Run, ending: str) -> Finding:
    here = any(name.endswith(ending) for name in run.bundle.anchors)
    demand_asked(ENDINGS[ending], run.asked.trust, here=here)
    run.need("log.inclusion", "log.consistency")
    found = run.stamps[ending]
    if isinstance(found, AffiantError):
        raise found
    if run.holds("time.bracket") and found.empty.first is not None:
        raise Many(found.empty)
    if found.outside.first is not None:
        raise Many(found.outside)
    return found.finding()
