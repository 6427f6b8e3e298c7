"""Receipts that a reconciliation may rest on: of bundles whose verdict is known, each signature verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.gateway_config import GatewayConfig, parse_gateway_config
from affiant.attestation.statements.statement import KeysetStatement, parse_statement
from affiant.attestation.verdict.outcome import Outcome
from affiant.attestation.verdict.verdict import State, Verdict
from affiant.attestation.verifier.case.case import Case
from affiant.errors import AffiantError, NotAuthenticError

__all__ = ["Records", "read_records"]


@dataclass(frozen=True, slots=True)
class Records:
    """One bundle's authentic records.

    Args:
        unverified: the bundle does not hold, and the reader asked to go on all the same.
        left_out: receipts that are not authentic; none unless ``unverified``.
    """

    verdict: Verdict
    unverified: bool
    left_out: int
    records: Sequence[VerifiedReceipt]
    configurations: Mapping[str, GatewayConfig]
    """Chain of a gateway -> its configuration, where the bundle carries it."""


def read_records(verdict: Verdict, case: Case | None, *, where: str, accept_unverified: bool) -> Records:
    """The authentic records of a bundle that was judged.

    Args:
        where: names the bundle in an error.
        accept_unverified: go on with a bundle that does not hold; what is not authentic by itself is left out even so.

    Raises:
        ``reconcile.unverified``: it is rejected or cannot be judged, or receipts are not authentic; or it is no
            bundle, which is rejected whatever was asked.
    """
    refused = next((check for check in verdict.checks if check.reason is not None), None)
    if case is None:
        raise NotAuthenticError(
            "not a bundle that can be read",
            where=where,
            found=None if refused is None else refused.reason,
            code="reconcile.unverified",
        )
    held = {check.code for check in verdict.checks if check.state is State.HELD}
    holds = verdict.outcome in (Outcome.HOLDS, Outcome.IN_PART)
    sound = "sig.receipts" in case.established & held and holds
    if not sound and not accept_unverified:
        raise NotAuthenticError(
            "the bundle does not hold, and no item can be followed into it",
            where=where,
            found=None if refused is None else f"{refused.code}: {refused.reason}",
            hint="`affiant verify` says what is wrong; --unverified goes on, and says so.",
            code="reconcile.unverified",
        )
    if "sig.receipts" in case.established:
        records, left_out = tuple(case.records), 0
    else:
        records, left_out = _one_by_one(case.bundle)
    statements = _statements(case.bundle)
    return Records(verdict, not sound, left_out, records, _configurations(case, statements))


def _one_by_one(bundle: Bundle) -> tuple[tuple[VerifiedReceipt, ...], int]:
    keys = {statement.receipt_kid: statement for statement in _statements(bundle)}
    records = []
    for text in bundle.receipts:
        try:
            receipt = parse_receipt(text)
            if (statement := keys.get(receipt.split.kid)) is not None:
                records.append(verify_receipt(receipt, statement))
        except AffiantError:
            continue
    return tuple(records), len(bundle.receipts) - len(records)


def _statements(bundle: Bundle) -> Sequence[KeysetStatement]:
    """Those in their closed form; what another one signed is not authentic."""
    found = []
    for raw in bundle.keysets.values():
        try:
            found.append(parse_statement(raw))
        except AffiantError:
            continue
    return tuple(found)


def _configurations(case: Case, statements: Iterable[KeysetStatement]) -> Mapping[str, GatewayConfig]:
    """By the digest that each gateway's keyset names; one that cannot be read says nothing about paths."""
    found: dict[str, GatewayConfig] = {}
    for statement in statements:
        raw = case.bundle.policies.get(str(statement.policy)) if statement.role == "gateway" else None
        if raw is None:
            continue
        try:
            config = parse_gateway_config(raw)
        except AffiantError:
            continue
        found |= dict.fromkeys(statement.chn, config)
    return found
