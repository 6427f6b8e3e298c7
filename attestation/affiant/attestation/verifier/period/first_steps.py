"""The first steps: keysets, the log under its checkpoint, and every receipt once, verified by the worker pool."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final

from affiant.attestation.statements.statement import LogIdentity
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.verdict import Finding
from affiant.attestation.verifier.period import judging
from affiant.attestation.verifier.period.log.coverage import Coverage
from affiant.attestation.verifier.period.log.first_pass import FirstPass
from affiant.attestation.verifier.period.log.leaf_time_bounds import LeafTimeBounds, witnessing
from affiant.attestation.verifier.period.log.log_view import demand_one_tree, noted_at, open_log
from affiant.attestation.verifier.period.log.own_times import OwnTimes
from affiant.attestation.verifier.period.log.period_signers import Signers, read_signers
from affiant.attestation.verifier.period.log.record_traces import TracedRecords
from affiant.attestation.verifier.period.log.run import Run
from affiant.attestation.verifier.period.log.seen import Refused
from affiant.attestation.verifier.period.log.stamps import Stamps, read_stamps
from affiant.attestation.verifier.period.worker_pool import WorkerPool
from affiant.errors import AffiantError

__all__ = ["begin_pass", "bytes_of_receipts", "pass_through", "read_keysets", "read_log"]

_CHUNK: Final = 500


def read_keysets(run: Run) -> Finding:
    """``fmt.keysets``: who signs."""
    run.signers = read_signers(run.bundle.objects("keysets"))
    return Finding(f"{len(run.signers.by_kid)} keysets in their closed form")


def read_log(run: Run) -> None:
    """The tree under the checkpoint, or why there is none."""
    assert run.signers is not None
    try:
        run.log = _one_log(run.signers)
        run.view = open_log(run.bundle, run.log)
    except AffiantError as error:
        run.log_error = error
        return
    for size in run.bundle.checkpoint_sizes:
        try:
            found = noted_at(run.bundle, run.log, size)
            run.roots.append(found.checkpoint)
            demand_one_tree(run.view, found)
            run.noted.append(found)
        except NotMade:
            run.undecided += 1
        except AffiantError as error:
            run.split.add(error)
    run.noted.append(run.view.newest)
    run.roots.append(run.view.newest.checkpoint)


def bytes_of_receipts(run: Run) -> int:
    """Of all receipts, unpacked."""
    return sum(run.bundle.archive.members[name].size for name in run.bundle.shards)


def begin_pass(run: Run, *, own_times: bool = False) -> None:
    """Get ready to take every receipt once. ``own_times``: keep until when each session existed."""
    assert run.signers is not None
    sessions = run.signers.sessions
    only = run.asked.session
    judged = {name: each.kid for name, each in sessions.items() if only is None or name == only}
    _read_stamps(run)
    if run.asked.held_against:
        run.traced = TracedRecords(None if run.view is None else run.view.newest.checkpoint.origin)
    time_bounds = _time_bounds(run)
    stamps = [each for each in run.stamps.values() if isinstance(each, Stamps)]
    run.first = FirstPass(
        signers=run.signers,
        view=run.view,
        coverage=Coverage(
            _seconds(run.asked.since),
            _seconds(run.asked.until),
            0 if run.view is None else run.view.size,
        ),
        time_bounds=time_bounds,
        spill=run.spill,
        judged=judged,
        only=only,
        at=run.asked.at,
        tolerance=run.asked.trust.clock_tolerance_s,
        split=run.split,
        traced=run.traced,
        stamps=stamps,
        times=OwnTimes(time_bounds, stamps) if own_times else None,
    )


def pass_through(run: Run, workers: WorkerPool) -> None:
    """Every receipt once, in log order."""
    assert run.first is not None
    sent: deque[list[tuple[str, str]]] = deque()

    def chunks() -> Iterator[list[str]]:
        for shard in run.bundle.shards:
            numbered = ((f"{shard}:{n}", t) for n, t in enumerate(run.bundle.receipts_of(shard), 1))
            while piece := list(islice(numbered, _CHUNK)):
                sent.append(piece)
                yield [text for _, text in piece]

    done, total = 0, bytes_of_receipts(run)
    for found in workers.map(judging.look_at, chunks()):
        for (where, text), seen in zip(sent.popleft(), found, strict=True):
            done += len(text)
            if isinstance(seen, Refused):
                run.first.refuse(seen, where)
                continue
            run.first.take(seen, text)
            if len(run.shown) < run.asked.timeline:
                run.shown.append((seen.rh, text))
        run.asked.progress("receipts", done, total)
    run.first.finish()


def _time_bounds(run: Run) -> LeafTimeBounds | None:
    if run.view is None or run.log is None or run.asked.trust.witnesses is None:
        return None
    try:
        seen = witnessing(run.whole(), run.log, run.noted)
    except AffiantError as error:  # the row says why
        run.unbacked = error
        return None
    time_bounds = LeafTimeBounds(seen, run.asked.trust.clock_tolerance_s)
    assert run.signers is not None
    for chn, signer in run.signers.by_chain.items():
        if signer.cp is not None:
            time_bounds.state(chn, signer.cp)
    return time_bounds


def _read_stamps(run: Run) -> None:
    """The anchors of the kinds that the trust file names somebody for."""
    trust = run.asked.trust
    texts = {each.checkpoint.size: each.note.text for each in run.noted}
    for ending, named in ((".tsr", trust.tsa_roots), (".sigstore.json", trust.sigstore_root)):
        if named is None or run.view is None:
            continue
        try:
            found = read_stamps(
                run.bundle, ending, texts, trust, run.asked.verifiers.anchors, at=run.asked.at
            )
        except AffiantError as error:  # the row says so
            run.stamps[ending] = error
        else:
            if found is not None:
                run.stamps[ending] = found


def _one_log(signers: Signers) -> LogIdentity:
    """The log that every gateway here names."""
    found = {
        (each.log.origin, each.log.key.vkey()): each.log for each in signers.gateways if each.log is not None
    }
    if not found or any(each.log is None for each in signers.gateways):
        raise NotMade("a keyset of a gateway names no log")
    if len(found) > 1:
        raise NotMade("gateways of several logs, or log keys, in one archive: this version judges one")
    return next(iter(found.values()))


def _seconds(instant: datetime | None) -> int | None:
    return None if instant is None else int(instant.timestamp())
