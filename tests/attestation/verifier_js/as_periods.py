"""Single bundles made into period archives, and what the first verifier says of an archive."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.attestation.log_builder import log_signer
from tests.attestation.period_builder import build
from tests.attestation.story import Story, leaf_of
from tests.attestation.verifier_js.conftest import Question
from tests.attestation.verifier_js.test_agreement import as_json

from affiant.attestation.bundle.bundle import Bundle, parse_bundle
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.records.receipt import Issued
from affiant.attestation.statements.statement import parse_statement
from affiant.attestation.tlog.checkpoint import parse_checkpoint
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.proof import LogProof, parse_log_proof
from affiant.attestation.verdict.errors import SessionUnknown
from affiant.attestation.verdict.trust_file import parse_trust_file
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.errors import AffiantError


def as_period(data: bytes, folder: Path) -> bytes | None:
    """The archive of what the bundle in ``data`` holds; None where nothing that an exporter reads stands in it.

    The log is made of the receipts in the order of their proofs, and its checkpoint is that of a proof, as it was
    signed: where receipts are missing or changed, its root is another one.
    """
    try:
        bundle = parse_bundle(data)
        records = [_issued(text) for text in bundle.receipts]
        proofs = _proofs(bundle)
        checkpoints = _checkpoints(bundle)
    except (AffiantError, ValueError, KeyError, TypeError):
        return None
    order = {rh: proof.index for rh, proof in proofs.items()}
    records.sort(
        key=lambda record: (order.get(record.rh, len(order)), record.payload["iat"], record.payload["seq"])
    )
    notes = {proof.note.to_bytes() for proof in proofs.values()}
    extra = {"log/checkpoint": note for note in sorted(notes)[:1]}
    stand_in = SimpleNamespace(
        gateway_records=records,
        bundle=lambda: bundle,
        config=SimpleNamespace(origin="log.example"),
        log_signer=log_signer(),
    )
    made = build(folder, cast("Story", stand_in), records=records, checkpoints=checkpoints, extra=extra)
    return made.read_bytes()


def _issued(text: str) -> Issued:
    jws, *disclosures = text.removesuffix("~").split("~")
    entry = leaf_of(jws)
    return Issued(jws, tuple(disclosures), {"iat": entry.iat, "seq": entry.seq})


def _proofs(bundle: Bundle) -> dict[str, LogProof]:
    return {rh: parse_log_proof(proof.encode()) for rh, proof in bundle.proofs.items()}


def _checkpoints(bundle: Bundle) -> dict[int, bytes]:
    found: dict[int, Any] = {}
    for raw in bundle.checkpoints.values():
        with suppress(AffiantError):
            found[parse_checkpoint(parse_note(raw).text).size] = raw
    return found


def period_pinning_its_log(question: Question, folder: Path) -> Question:
    """The same question under a trust file that pins the archive's log by its key, where it says ``attested``."""
    document = json.loads(question.trust)
    if document.get("log", [{}])[0].get("value") != "attested":
        return question
    (folder / "pinned.zip").write_bytes(question.bundle)
    try:
        with PeriodBundle(folder / "pinned.zip") as bundle:
            statements = [parse_statement(raw) for raw in dict(bundle.objects("keysets")).values()]
    except AffiantError:
        return question
    logs = sorted({statement.log.key.vkey() for statement in statements if statement.log is not None})
    document["log"] = [{"value": vkey} for vkey in logs] or document["log"]
    return replace(question, trust=json.dumps(document).encode())


def python_says_of_period(question: Question, folder: Path) -> dict[str, Any]:
    """The first verifier's verdict on an archive, as a reader of its JSON has it."""
    (folder / "asked.zip").write_bytes(question.bundle)
    try:
        verdict = verify_period(
            folder / "asked.zip",
            parse_trust_file(question.trust),
            verifiers=STANDARD_VERIFIERS,
            at=question.at,
            build="",
            since=question.since,
            until=question.until,
            request=question.request,
            response=question.response,
            session=question.session,
        )
    except SessionUnknown as error:
        return {"usage": error.code}
    return as_json(verdict)
