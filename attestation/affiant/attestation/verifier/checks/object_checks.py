"""Whether a bundle holds what its records and documents name by digest: without that, nothing else can be judged.

A bundle of which objects were taken away, or exchanged for others, contradicts nothing: every row that needs them is
*not made*. This row says so in one place. It asks about signers that are judged; of the sessions beside them a bundle
holds the gateway's records alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.errors import NotMade
from affiant.attestation.verdict.summary import Count
from affiant.attestation.verdict.verdict import Finding
from affiant.attestation.verifier.case.case import Case
from affiant.attestation.verifier.checks.evidence_checks import result_named
from affiant.attestation.verifier.checks.policy_checks import profiles_in
from affiant.errors import AffiantError

__all__ = ["check_objects"]

_SHOWN: Final = 4
_OF_ONE: Final = frozenset({"keyset of key", "attestation result", "approver's signature", "evidence"})
"""Sorts of which no two sessions name the same object; but several name a gateway's evidence."""


class _Named(NamedTuple):
    """An object as a record or a document names it. ``what``: of which sort it is."""

    what: str
    name: str


def check_objects(case: Case) -> Finding:
    """``bundle.objects``: every keyset, evidence, endorsement, attestation result, configuration, profile and
    approver's signature that records or documents name is here, or was named by a chain that is erased by order."""
    case.need("sig.receipts")
    named = dict.fromkeys(_of_signers(case))
    facts = dict.fromkeys(map(_facts_of, _session_records(case)))  # of many records the same
    named |= dict.fromkeys(_of_sessions(facts))
    named |= dict.fromkeys(_of_results(case, facts))
    here = _here(case)
    lacking = [each for each in named if each.name not in here[each.what]]
    if lacking:
        shown = ", ".join(f"{each.what} {each.name[:23]}" for each in lacking[:_SHOWN])
        more = f" and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
        raise NotMade(f"not in the bundle, though its records name them: {shown}{more}")
    gateways = {str(record.member("evd")) for party in case.gateways for record in party.records}
    shared = {f"{one.what} {one.name}" for one in named if one.what not in _OF_ONE or one.name in gateways}
    text = "objects that records and documents name, each in the bundle"
    return Finding.of(Count(len(named) - len(shared), text, shared))


def _of_signers(case: Case) -> Iterator[_Named]:
    """What keysets name, and their own records wherever they stand."""
    for party in case.judged:
        kept = [record for record in party.records if not _is_pruned(case, record)]
        if party.records and not kept:
            continue
        if party.role == "gateway":
            yield _Named("gateway's configuration", str(party.statement.policy))
        else:
            yield _Named("keyset", str(party.statement.gks))
        facts = dict.fromkeys(
            (record.member("evd"), record.member("gks"), record.kind == "boot" and record.member("col"))
            for record in kept
        )
        for evidence, keyset, collateral in facts:
            yield _Named("evidence", str(evidence))
            if keyset is not None:
                yield _Named("keyset", str(keyset))
            if isinstance(collateral, str):
                yield _Named("endorsements", collateral)


def _is_pruned(case: Case, record: VerifiedReceipt) -> bool:
    order = case.pruned.get(record.chn)
    return order is not None and record.seq <= order.seq


class _Facts(NamedTuple):
    """What one record of a session names: each None, or empty, where it has no such member."""

    chn: str
    evidence: object
    key: object
    profile: object
    results: tuple[str, ...]
    signature: object


def _facts_of(record: VerifiedReceipt) -> _Facts:
    agent, policy, results = record.member("agt"), record.member("pol"), record.member("att")
    evidence, key = (agent["evd"], agent["key"]) if isinstance(agent, dict) else (None, None)
    profile = policy["dig"] if isinstance(policy, dict) else None
    named = tuple(str(peer["ear"]) for peer in results.values()) if isinstance(results, dict) else ()
    return _Facts(record.chn, evidence, key, profile, named, record.member("apr", "sig"))


def _of_sessions(facts: Iterable[_Facts]) -> Iterator[_Named]:
    for each in facts:
        if each.evidence is not None:
            yield _Named("evidence", str(each.evidence))
            yield _Named("keyset of key", str(each.key))
        if each.profile is not None:
            yield _Named("profile", str(each.profile))
        for ear in each.results:
            yield _Named("attestation result", ear)
        if isinstance(each.signature, str) and each.signature.startswith("sha256:"):
            yield _Named("approver's signature", each.signature)


def _session_records(case: Case) -> Iterator[VerifiedReceipt]:
    """Of the sessions in question; where none of them is in focus, the gateway's alone."""
    for session in case.sessions:
        yield from session.records
    if not case.sessions:
        wanted = case.in_question
        for party in case.gateways:
            yield from (record for record in party.records if record.member("agt", "ses") in wanted)


def _of_results(case: Case, facts: Iterable[_Facts]) -> Iterator[_Named]:
    """The endorsements that results rest on; a result that is not its gateway's is refused elsewhere."""
    gateways = {chn: party for party in case.gateways for chn in party.statement.chn}
    found = dict.fromkeys((ear, each.chn) for each in facts for ear in each.results)
    for ear, chn in found:
        if chn in gateways:
            with suppress(AffiantError):
                yield _Named("endorsements", result_named(case, gateways[chn], ear)[1].col)


def _here(case: Case) -> Mapping[str, Container[str]]:
    """Sort of object -> what there is of it, as records name it."""
    bundle = case.bundle
    return {
        "keyset": {party.statement.keyset_digest for party in case.parties},
        "keyset of key": {party.statement.receipt_kid for party in case.parties},
        "profile": profiles_in(case),
        "evidence": _Linked(bundle.evidence),
        "endorsements": _Linked(bundle.endorsements),
        "attestation result": _Linked(bundle.results),
        "gateway's configuration": bundle.policies,
        "approver's signature": bundle.policies,
    }


class _Linked:
    """Objects by the 43 characters that records name them by."""

    def __init__(self, objects: Container[str]) -> None:
        self._objects = objects

    def __contains__(self, link: object) -> bool:
        return "sha256:" + from_b64u(str(link), size=32).hex() in self._objects
