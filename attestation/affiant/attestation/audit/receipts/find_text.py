"""What `affiant receipts find` prints. Everything in it may be hostile: escaped, bounded, on one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from affiant.attestation.audit.receipts.affected_records import Coverage, Found, Signer
from affiant.attestation.verdict.lines import one_line
from affiant.attestation.verdict.time_bounds import shown

__all__ = ["coverage_document", "coverage_lines", "found_document", "found_lines"]


def coverage_lines(coverage: Coverage) -> Iterator[str]:
    """What was searched, before what was found."""
    yield (
        f"searched: {coverage.receipts:,} receipts of {coverage.bundles:,} bundles, as they were judged when they were "
        f"indexed ({coverage.contraindicated:,} contraindicated)"
    )
    yield (
        f"evidence of {coverage.unproven:,} of {coverage.signers:,} signers is claimed or missing; "
        f"{coverage.profile_ids:,} receipts disclose their profile's id: by id only those are found"
    )


def found_lines(found: Found) -> Iterator[str]:
    """One record."""
    place = "" if found.session is None else f", session {found.session}"
    model = "" if found.model is None else f", model {found.model!r}"
    yield one_line(f"{found.receipt}  {shown(found.at)}  {found.kind}{place}{model}", limit=400)
    for signer in found.rests_on:
        yield one_line(f"    rests on the {signer.through}: {_rests(signer)}", limit=600)
    bundle = found.bundle
    level = bundle["level"] or "no level"
    simulated = ", SIMULATED" if bundle["simulated"] else ""
    refused = f", refused: {', '.join(bundle['refused'])}" if bundle["refused"] else ""
    yield one_line(
        f"    in {bundle['name']!r} {bundle['digest'][:23]}..., when indexed: tier {bundle['tier']}, {level}"
        f"{simulated}{refused}",
        limit=600,
    )


def _rests(signer: Signer) -> str:
    why = "" if signer.refusal is None else f" [{signer.refusal}]"
    parts = [f"{signer.evidence}{why}", "conditions hold" if signer.hit else ""]
    parts.append("" if signer.tcb_status is None else f"TCB {signer.tcb_status}")
    parts.append("" if signer.fmspc is None else f"FMSPC {signer.fmspc}")
    parts.append("" if signer.mrseam is None else f"MRSEAM {signer.mrseam[:16]}...")
    parts.append(", ".join(signer.advisories))
    parts.append(f"key {signer.kid}")
    return "; ".join(part for part in parts if part)


def coverage_document(coverage: Coverage) -> Mapping[str, object]:
    """The same for programs."""
    return {
        "bundles": coverage.bundles,
        "contraindicated": coverage.contraindicated,
        "receipts": coverage.receipts,
        "profile_id_disclosed": coverage.profile_ids,
        "signers": coverage.signers,
        "signers_unproven": coverage.unproven,
    }


def found_document(found: Found) -> Mapping[str, object]:
    """One record for programs."""
    return {
        "receipt": found.receipt,
        "rh": found.rh,
        "kind": found.kind,
        "role": found.role,
        "at": shown(found.at),
        "session": found.session,
        "profile": found.profile,
        "profile_id": found.profile_id,
        "model": found.model,
        "bundle": dict(found.bundle),
        "rests_on": [
            {name: getattr(signer, name) for name in Signer.__slots__}
            | {"advisories": list(signer.advisories)}
            for signer in found.rests_on
        ],
    }
