"""The rows of the log: accepted by the trust file, consistent, nothing missing from it, witnessed, anchored."""

from __future__ import annotations

from affiant.attestation.verdict.errors import NoPin, NotAsked, NotMade
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.checks.log_checks import accepted_log
from affiant.attestation.verifier.checks.witness_checks import needs_self, witnessed
from affiant.attestation.verifier.period.log.chain_rows import make_ruled
from affiant.attestation.verifier.period.log.run import Many, Run
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
    run.made("time.tsa", lambda: _anchored(run))
    run.made("time.sigstore", lambda: _published(run))


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
        text = (
            "witness: self. A witness in the operator's own domain detects faults, not a determined operator"
        )
        return Finding(text, Tier.WARNING)
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


def _published(run: Run) -> Finding:
    if run.asked.trust.sigstore_root is None:
        raise NotAsked("the trust file names no signer by sigstore")
    return _stamped(run, ".sigstore.json", "the bundle has no anchor by sigstore")


def _anchored(run: Run) -> Finding:
    if run.asked.trust.tsa_roots is None:
        raise NotAsked("the trust file names no timestamp authority")
    return _stamped(run, ".tsr", "the bundle has no timestamp token")


def _stamped(run: Run, ending: str, nothing: str) -> Finding:
    if not any(name.endswith(ending) for name in run.bundle.anchors):
        raise NotMade(nothing)
    run.need("log.inclusion", "log.consistency")
    found = run.stamps[ending]
    if isinstance(found, AffiantError):
        raise found
    if run.holds("time.bracket") and found.empty.first is not None:
        raise Many(found.empty)
    if found.outside.first is not None:
        raise Many(found.outside)
    return found.finding()
